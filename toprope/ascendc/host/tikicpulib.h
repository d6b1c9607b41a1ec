// The vendor's interface for running kernels inside a unit test, on this library's runtime: GmAlloc, ICPU_RUN_KF and the settings around
// them. The launch itself is made by toprope/compat/unit_tests.py, which sets the hook below.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernel_operator.h"
#include "securec.h"

enum class KernelMode { MIX_MODE = 0, AIC_MODE, AIV_MODE, MIX_AIC_1_1 };

namespace toprope {
namespace unit_test {

// One launch as the hook gets it: entry and its argument values, in this process's memory.
struct Call {
    void (*entry)(void**);
    const char* name;
    uint64_t blocks;
    void** arguments;
    uint64_t argument_count;
    uint64_t tiling_key;
    int mode;
    void* kernel;     // the kernel as the test gave it: a variable that holds a function's address, or a closure
    int is_function;  // the former
};
using Hook = void (*)(const Call*);
inline Hook hook = nullptr;
inline uint64_t tiling_key = 0;
inline KernelMode mode = KernelMode::MIX_MODE;
// Live GmAlloc blocks: address -> bytes. Page size of the alignment is more than any GM access needs.
inline std::map<uint8_t*, uint64_t>& blocks() {
    static std::map<uint8_t*, uint64_t> live;
    return live;
}

template <typename F>
struct Callable;  // what is stored of a kernel given by pointer or as a closure
inline void* current = nullptr;

template <typename... P, size_t... I>
void call_pointer(void (*kernel)(P...), void** values, std::index_sequence<I...>) {
    kernel(*static_cast<std::decay_t<P>*>(values[I])...);
}
template <typename F, typename... P>
struct Entry {
    static void run(void** values) { call(values, std::index_sequence_for<P...>{}); }
    template <size_t... I>
    static void call(void** values, std::index_sequence<I...>) {
        (*static_cast<F*>(current))(*static_cast<std::decay_t<P>*>(values[I])...);
    }
};
// Every kind of launch in the test, in the order of its source: the same test built for the other core type has the same list.
inline std::vector<void (*)(void**)>& launchers() {
    static std::vector<void (*)(void**)> all;
    return all;
}
inline uint64_t add_launcher(void (*run)(void**)) {
    launchers().push_back(run);
    return launchers().size();
}
template <typename E>
struct Listed {
    static inline const uint64_t number = add_launcher(E::run);
};
template <typename P, typename A>
std::decay_t<P> converted(A&& value) {
    if constexpr (std::is_pointer_v<std::decay_t<P>> && std::is_pointer_v<std::decay_t<A>>)
        return (std::decay_t<P>)(value);
    else
        return static_cast<std::decay_t<P>>(value);
}
template <typename F, typename... P, typename... A>
void launch(F& kernel, const char* name, uint64_t block_count, std::tuple<P...>*, A&&... values) {
    static_assert(sizeof...(P) == sizeof...(A), "ICPU_RUN_KF: the kernel takes another number of arguments");
    std::tuple<std::decay_t<P>...> kept(converted<P>(std::forward<A>(values))...);
    std::vector<void*> addresses;
    std::apply([&](auto&... each) { (addresses.push_back(&each), ...); }, kept);
    current = const_cast<void*>(static_cast<const void*>(&kernel));
    const Call call{Entry<F, P...>::run,    name,    block_count,         addresses.data(), addresses.size(), tiling_key,
                    static_cast<int>(mode), current, std::is_pointer_v<F>};
    if (hook == nullptr) {
        // A program of its own, not a test that toprope runs: going on would leave the outputs as they were, unnoticed.
        std::fflush(stdout);
        std::fprintf(stderr,
                     "toprope: ICPU_RUN_KF(%s) was not carried out: it runs in unit tests only\n"
                     "cure: launch it with <<<>>> or ACLRT_LAUNCH_KERNEL, or run the kernel itself: toprope run FILE.cpp:%s ARGUMENTS\n",
                     name, name);
        std::exit(3);
    }
    if (Listed<Entry<F, P...>>::number > 0) hook(&call);
}
template <typename... P, typename... A>
void run(const char* name, uint64_t block_count, void (*kernel)(P...), A&&... values) {
    launch(kernel, name, block_count, static_cast<std::tuple<P...>*>(nullptr), std::forward<A>(values)...);
}
template <typename F, typename R, typename... P, typename... A>
void run_closure(const char* name, uint64_t block_count, F& kernel, R (F::*)(P...) const, A&&... values) {
    launch(kernel, name, block_count, static_cast<std::tuple<P...>*>(nullptr), std::forward<A>(values)...);
}
template <typename F, typename... A, std::enable_if_t<std::is_class_v<F>, int> = 0>
void run(const char* name, uint64_t block_count, F kernel, A&&... values) {
    run_closure(name, block_count, kernel, &F::operator(), std::forward<A>(values)...);
}

}  // namespace unit_test
}  // namespace toprope

namespace toprope {
namespace unit_test {

// What the scripts that a test calls have said, because many tests do not look.
struct Scripts {
    int compared = 0, compare_failed = 0, generate_failed = 0;
};
inline Scripts scripts;
inline int shell(const char* command) {
    std::FILE* pipe = popen((std::string(command) + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return -1;
    std::string said;
    char line[512];
    while (std::fgets(line, sizeof line, pipe) != nullptr) said += line;
    const int status = pclose(pipe);
    std::printf("%s\n%s", command, said.c_str());
    const bool script = std::strstr(command, ".py") != nullptr;
    const bool compares = script && (std::strstr(command, "compare") != nullptr || std::strstr(command, "verify") != nullptr);
    if (compares) {
        ++scripts.compared;
        bool failed = status != 0;
        for (const char* word : {"FAILED", "Failed", "failed", "False", "Error"}) failed = failed || said.find(word) != std::string::npos;
        scripts.compare_failed += failed;
    } else if (script && status != 0) {
        ++scripts.generate_failed;
    }
    return status;
}

}  // namespace unit_test
}  // namespace toprope

#ifdef TOPROPE_HOST_PROGRAM
namespace toprope {
namespace unit_test {

// The device of a program that launches with ICPU_RUN_KF alone and so never asks for one; given back when the program ends.
struct Device {
    static void share(void* at, size_t bytes) {
        ready(nullptr);
        void* device = nullptr;
        aclrtHostRegister(at, bytes, ACL_HOST_REGISTER_MAPPED, &device);
    }
    static void ready(const char* kernel) {
        if (kernel != nullptr && tiling_key != 0) {
            std::fflush(stdout);
            std::fprintf(stderr,
                         "toprope: ICPU_RUN_KF(%s) was not carried out: tiling key %llu is set, which only unit tests pass on\n"
                         "cure: run the kernel itself: toprope run FILE.cpp:%s ARGUMENTS --tiling-key %llu\n",
                         kernel, static_cast<unsigned long long>(tiling_key), kernel, static_cast<unsigned long long>(tiling_key));
            std::exit(3);
        }
        static Device once;
    }
    Device() : own(aclInit(nullptr) == ACL_SUCCESS) {
        blocks();  // made first, so that it is there when this ends
        int32_t device = -1;
        if (aclrtGetDevice(&device) != ACL_SUCCESS) aclrtSetDevice(0);
    }
    ~Device() {
        for (const auto& [at, bytes] : blocks()) aclrtHostUnregister(at);
        if (own) aclFinalize();
    }
    bool own;
};

}  // namespace unit_test
}  // namespace toprope
#endif

// Stands before the C library's function for the test that is linked with it.
extern "C" __attribute__((weak)) int system(const char* command) { return toprope::unit_test::shell(command); }

namespace AscendC {

// Zeroed memory that kernels may use as GM, of exactly this size for the checks.
inline void* GmAlloc(size_t size) {
    const size_t rounded = (size + 511) / 512 * 512 + 512;
    auto* at = static_cast<uint8_t*>(std::aligned_alloc(512, rounded));
    std::memset(at, 0, rounded);
    const size_t bytes = size == 0 ? 1 : size;
#ifdef TOPROPE_HOST_PROGRAM
    toprope::unit_test::Device::share(at, bytes);
#endif
    toprope::unit_test::blocks()[at] = bytes;
    return at;
}
inline void GmFree(void* at) {
    if (toprope::unit_test::blocks().erase(static_cast<uint8_t*>(at)) == 0) return;
#ifdef TOPROPE_HOST_PROGRAM
    aclrtHostUnregister(at);
#endif
    std::free(at);
}
inline void SetKernelMode(KernelMode value) { toprope::unit_test::mode = value; }

}  // namespace AscendC

#ifdef TOPROPE_HOST_PROGRAM
// In a program with a main of its own the launch goes to the device library, which waits for its end: the macro is synchronous.
#define ICPU_RUN_KF(kernel, blocks, ...)                                                                \
    (toprope::unit_test::Device::ready(#kernel),                                                        \
     ::toprope::program::configured<kernel>(__FILE__, __LINE__, blocks, nullptr, nullptr)(__VA_ARGS__), \
     static_cast<void>(aclrtSynchronizeDevice()))
#else
#define ICPU_RUN_KF(kernel, blocks, ...) toprope::unit_test::run(#kernel, blocks, kernel, ##__VA_ARGS__)
#endif
#define ICPU_SET_TILING_KEY(key) (toprope::unit_test::tiling_key = static_cast<uint64_t>(key))

extern "C" {
__attribute__((used)) inline void toprope_set_hook(toprope::unit_test::Hook hook) { toprope::unit_test::hook = hook; }
__attribute__((used)) inline void toprope_set_mode(int mode) { toprope::unit_test::mode = static_cast<KernelMode>(mode); }
// For the build of the other core type: the launcher at the place that `entry` has in this build's list, and the kernel it calls.
__attribute__((used)) inline uint64_t toprope_launcher_place(void* entry) {
    const auto& all = toprope::unit_test::launchers();
    for (uint64_t i = 0; i < all.size(); ++i)
        if (reinterpret_cast<void*>(all[i]) == entry) return i;
    return all.size();
}
__attribute__((used)) inline void* toprope_launcher_at(uint64_t place, void* kernel) {
    const auto& all = toprope::unit_test::launchers();
    toprope::unit_test::current = kernel;
    return place < all.size() ? reinterpret_cast<void*>(all[place]) : nullptr;
}
__attribute__((used)) inline void toprope_scripts(int* three) {
    three[0] = toprope::unit_test::scripts.compared;
    three[1] = toprope::unit_test::scripts.compare_failed;
    three[2] = toprope::unit_test::scripts.generate_failed;
}
__attribute__((used)) inline uint64_t toprope_gm_blocks(uint8_t** at, uint64_t* bytes, uint64_t room) {
    uint64_t n = 0;
    for (const auto& block : toprope::unit_test::blocks())
        if (n < room) at[n] = block.first, bytes[n++] = block.second;
    return n;
}
}
