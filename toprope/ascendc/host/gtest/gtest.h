// The part of GoogleTest's interface that kernel unit tests use, so that they compile without it. Tests are listed and run one by one
// by toprope/compat/unit_tests.py through the functions at the end.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace testing {

class Message {
public:
    template <typename T>
    Message& operator<<(const T& value) {
        text_ << value;
        return *this;
    }
    Message& operator<<(std::ostream& (*manipulator)(std::ostream&)) {
        text_ << manipulator;
        return *this;
    }
    std::string str() const { return text_.str(); }

private:
    std::ostringstream text_;
};

struct Outcome {
    int failures = 0, expectations = 0;
    bool skipped = false;
    std::string first;  // what failed first
};
inline Outcome outcome;

// Takes the message of a failed expectation: `Sink(...) = Message() << ...` is an expression of type void.
struct Sink {
    const char* file;
    int line;
    std::string what;
    bool skip = false;
    void operator=(const Message& message) const {
        if (skip) {
            outcome.skipped = true;
            return;
        }
        const std::string text = what + " " + message.str();
        if (outcome.failures++ == 0) outcome.first = std::string(file) + ":" + std::to_string(line) + ": " + text;
        std::printf("%s:%d: failure: %s\n", file, line, text.c_str());
    }
};

// " (3, 4)": the two sides of a failed comparison, where they can be written.
template <typename T>
auto written(std::ostringstream& out, const T& value, int) -> decltype(static_cast<void>(out << value)) {
    out << value;
}
template <typename T>
void written(std::ostringstream& out, const T& list, long) {
    if constexpr (std::is_class_v<T>)
        out << "...";
    else
        out << static_cast<int64_t>(list);
}
template <typename T>
void written(std::ostringstream& out, const std::vector<T>& list, int) {
    for (const auto& each : list) written(out, each, 0), out << " ";
}
template <typename A, typename B>
std::string sides(const A& a, const B& b) {
    std::ostringstream out;
    out << " (", written(out, a, 0), out << ", ", written(out, b, 0), out << ")";
    return out.str();
}

class Test {
public:
    virtual ~Test() = default;
    static void SetUpTestCase() {}
    static void TearDownTestCase() {}
    static void SetUpTestSuite() {}
    static void TearDownTestSuite() {}
    virtual void TestBody() = 0;
    void toprope_run() {
        SetUp();
        if (!outcome.skipped) TestBody();
        TearDown();
    }

protected:
    virtual void SetUp() {}
    virtual void TearDown() {}
};
class Environment {
public:
    virtual ~Environment() = default;
    virtual void SetUp() {}
    virtual void TearDown() {}
};

template <typename T>
class WithParamInterface {
public:
    using ParamType = T;
    static const T& GetParam() { return *parameter(); }
    static const T*& parameter() {
        static const T* current = nullptr;
        return current;
    }
};
template <typename T>
class TestWithParam : public Test, public WithParamInterface<T> {};
template <typename T>
struct TestParamInfo {
    T param;
    size_t index;
};

struct Registered {
    std::string name;
    std::function<void()> run;
};
inline std::vector<Registered>& registered() {
    static std::vector<Registered> tests;
    return tests;
}
// TEST_P bodies wait here for their INSTANTIATE_TEST_SUITE_P, which may come before or after.
template <typename Suite>
std::vector<std::pair<std::string, std::function<void()>>>& parametrised() {
    static std::vector<std::pair<std::string, std::function<void()>>> bodies;
    return bodies;
}
inline bool add(const std::string& name, std::function<void()> run) {
    registered().push_back({name, std::move(run)});
    return true;
}
template <typename T>
std::vector<T> Values(T first) {
    return {first};
}
template <typename T, typename... More>
std::vector<std::common_type_t<T, More...>> Values(T first, More... more) {
    return {first, more...};
}
template <typename C>
auto ValuesIn(const C& container) {
    return std::vector<std::decay_t<decltype(*std::begin(container))>>(std::begin(container), std::end(container));
}
template <typename Suite, typename V>
bool instantiate(const std::string& prefix, const std::vector<V>& values) {
    using P = typename Suite::ParamType;
    static std::vector<std::vector<P>> kept;
    kept.push_back(std::vector<P>(values.begin(), values.end()));
    const size_t set = kept.size() - 1;
    for (size_t i = 0; i < values.size(); ++i)
        add(prefix + "/" + std::to_string(i), [set, i] {
            Suite::parameter() = &kept[set][i];
            for (auto& body : parametrised<Suite>()) body.second();
        });
    return true;
}
inline void InitGoogleTest(int*, char**) {}
inline Environment* AddGlobalTestEnvironment(Environment* environment) { return environment; }
inline bool almost_equal(double a, double b, double ulp) {
    return a == b || std::fabs(a - b) <= 4 * ulp * std::fmax(std::fabs(a), std::fabs(b));
}

}  // namespace testing

#define TOPROPE_TEST_CLASS(suite, name, parent)                    \
    class suite##_##name##_Test : public parent {                  \
    public:                                                        \
        void TestBody() override;                                  \
        static void all() {                                        \
            SetUpTestCase();                                       \
            SetUpTestSuite();                                      \
            {                                                      \
                suite##_##name##_Test test;                        \
                static_cast<::testing::Test&>(test).toprope_run(); \
            }                                                      \
            TearDownTestCase();                                    \
            TearDownTestSuite();                                   \
        }                                                          \
    };
#define TOPROPE_TEST(suite, name, parent)                                                                    \
    TOPROPE_TEST_CLASS(suite, name, parent)                                                                  \
    static const bool suite##_##name##_added = ::testing::add(#suite "." #name, suite##_##name##_Test::all); \
    void suite##_##name##_Test::TestBody()
#define TEST(suite, name) TOPROPE_TEST(suite, name, ::testing::Test)
#define TEST_F(suite, name) TOPROPE_TEST(suite, name, suite)
#define TEST_P(suite, name)                                                                                                              \
    TOPROPE_TEST_CLASS(suite, name, suite)                                                                                               \
    static const bool suite##_##name##_added = (::testing::parametrised<suite>().emplace_back(#name, suite##_##name##_Test::all), true); \
    void suite##_##name##_Test::TestBody()
#define INSTANTIATE_TEST_SUITE_P(prefix, suite, values, ...) \
    static const bool prefix##_##suite##_made = ::testing::instantiate<suite>(#prefix "/" #suite, values)
#define INSTANTIATE_TEST_CASE_P INSTANTIATE_TEST_SUITE_P

#define TOPROPE_EXPECT(condition, text)               \
    if (++::testing::outcome.expectations; condition) \
        ;                                             \
    else                                              \
        ::testing::Sink{__FILE__, __LINE__, text} = ::testing::Message()
#define TOPROPE_ASSERT(condition, text)               \
    if (++::testing::outcome.expectations; condition) \
        ;                                             \
    else                                              \
        return ::testing::Sink{__FILE__, __LINE__, text} = ::testing::Message()
#define EXPECT_TRUE(a) TOPROPE_EXPECT(static_cast<bool>(a), #a)
#define EXPECT_FALSE(a) TOPROPE_EXPECT(!static_cast<bool>(a), "!(" #a ")")
#define EXPECT_EQ(a, b) TOPROPE_EXPECT((a) == (b), #a " == " #b + ::testing::sides(a, b))
#define EXPECT_NE(a, b) TOPROPE_EXPECT((a) != (b), #a " != " #b)
#define EXPECT_LT(a, b) TOPROPE_EXPECT((a) < (b), #a " < " #b)
#define EXPECT_LE(a, b) TOPROPE_EXPECT((a) <= (b), #a " <= " #b)
#define EXPECT_GT(a, b) TOPROPE_EXPECT((a) > (b), #a " > " #b)
#define EXPECT_GE(a, b) TOPROPE_EXPECT((a) >= (b), #a " >= " #b)
#define EXPECT_NEAR(a, b, error) TOPROPE_EXPECT(std::fabs(static_cast<double>(a) - static_cast<double>(b)) <= (error), #a " near " #b)
#define EXPECT_FLOAT_EQ(a, b) TOPROPE_EXPECT(::testing::almost_equal(a, b, 1.2e-7), #a " == " #b)
#define EXPECT_DOUBLE_EQ(a, b) TOPROPE_EXPECT(::testing::almost_equal(a, b, 2.3e-16), #a " == " #b)
#define EXPECT_STREQ(a, b) TOPROPE_EXPECT(std::strcmp(a, b) == 0, #a " == " #b)
#define ASSERT_TRUE(a) TOPROPE_ASSERT(static_cast<bool>(a), #a)
#define ASSERT_FALSE(a) TOPROPE_ASSERT(!static_cast<bool>(a), "!(" #a ")")
#define ASSERT_EQ(a, b) TOPROPE_ASSERT((a) == (b), #a " == " #b + ::testing::sides(a, b))
#define ASSERT_NE(a, b) TOPROPE_ASSERT((a) != (b), #a " != " #b)
#define ASSERT_LT(a, b) TOPROPE_ASSERT((a) < (b), #a " < " #b)
#define ASSERT_LE(a, b) TOPROPE_ASSERT((a) <= (b), #a " <= " #b)
#define ASSERT_GT(a, b) TOPROPE_ASSERT((a) > (b), #a " > " #b)
#define ASSERT_GE(a, b) TOPROPE_ASSERT((a) >= (b), #a " >= " #b)
#define ASSERT_NEAR(a, b, error) TOPROPE_ASSERT(std::fabs(static_cast<double>(a) - static_cast<double>(b)) <= (error), #a " near " #b)
#define ASSERT_FLOAT_EQ(a, b) TOPROPE_ASSERT(::testing::almost_equal(a, b, 1.2e-7), #a " == " #b)
#define ADD_FAILURE() ::testing::Sink{__FILE__, __LINE__, "failure"} = ::testing::Message()
#define FAIL() return ADD_FAILURE()
#define SUCCEED() static_cast<void>(0)
#define GTEST_SKIP() return ::testing::Sink{__FILE__, __LINE__, "", true} = ::testing::Message()
#define RUN_ALL_TESTS() 0

extern "C" {
__attribute__((used)) inline int toprope_test_count() { return static_cast<int>(::testing::registered().size()); }
__attribute__((used)) inline const char* toprope_test_name(int i) { return ::testing::registered()[i].name.c_str(); }
__attribute__((used)) inline const char* toprope_test_message() { return ::testing::outcome.first.c_str(); }
__attribute__((used)) inline int toprope_test_expectations() { return ::testing::outcome.expectations; }
// 0 passed, 1 failed, 2 skipped.
__attribute__((used)) inline int toprope_test_run(int i) {
    ::testing::outcome = {};
    ::testing::registered()[i].run();
    std::fflush(stdout);
    return ::testing::outcome.failures > 0 ? 1 : ::testing::outcome.skipped ? 2 : 0;
}
}
