// How the advanced library is written: calls of the basic API over n elements, each after the one before has finished, with temporaries cut
// from the caller's buffer or, without one, from the UB behind everything InitBuffer has given out (page PopStackBuffer).
#pragma once

#include "../api/data_copy.h"
#include "../api/resource.h"
#include "../api/vector_binary.h"
#include "../api/vector_cast.h"
#include "../api/vector_fill.h"
#include "../api/vector_fused.h"
#include "../api/vector_gather.h"
#include "../api/vector_mask.h"
#include "../api/vector_reduce_all.h"
#include "../api/vector_scalar.h"
#include "../api/vector_unary.h"
#include "temporaries.h"

namespace toprope {

using FloatTensor = AscendC::LocalTensor<float>;

inline constexpr Op kOpScratch{"temporary space", Pipe::s, Kind::mark, "scalar"};

// Temporary UB of one call of a library function.
class Scratch {
public:
    Scratch(const char* who, const AscendC::LocalTensor<uint8_t>& buffer, Site site) : who_(who), site_(site), buffer_(buffer) {
        library_call(who, buffer.address(), buffer.length_bytes(), site);
    }
    Scratch(const char* who, Site site) : who_(who), site_(site) {
        library_call(who, 0, 0, site);
        if (self->pipe != nullptr) AscendC::PopStackBuffer<uint8_t, AscendC::TPosition::VECCALC>(buffer_);
    }
    // The next `elements` elements; after a report, an empty tensor when they do not fit.
    template <typename T>
    AscendC::LocalTensor<T> take(uint64_t elements) {
        const uint64_t bytes = (elements * sizeof(T) + 31) / 32 * 32;
        if (bytes > left()) {
            if (!short_)
                report("temporary-space-too-small", site_, &kOpScratch, "%s needs %llu bytes of temporary space more than the %u it has",
                       who_, static_cast<unsigned long long>(bytes - left()), buffer_.length_bytes());
            short_ = true;
            return {};
        }
        AscendC::LocalTensor<uint8_t> part = buffer_[used_];
        part.SetBufferLen(static_cast<uint32_t>(bytes));
        used_ += static_cast<uint32_t>(bytes);
        return part.template ReinterpretCast<T>();
    }
    uint32_t left() const { return buffer_.length_bytes() > used_ ? buffer_.length_bytes() - used_ : 0; }
    bool enough() const { return !short_; }

private:
    const char* who_;
    Site site_;
    AscendC::LocalTensor<uint8_t> buffer_;
    uint32_t used_ = 0;
    bool short_ = false;
};

// Round to nearest as each conversion names it: for half that is CAST_NONE on every chip.
template <typename U>
inline constexpr AscendC::RoundMode kNearest = std::is_same_v<U, half> ? AscendC::RoundMode::CAST_NONE : AscendC::RoundMode::CAST_RINT;

// Vector calls over n elements at one place in the user's source.
template <typename T>
struct Steps {
    using Tensor = AscendC::LocalTensor<T>;
    int32_t n;
    Site site;
    void wait() const { pipe_barrier(Pipe::v, site); }
    void add(const Tensor& d, const Tensor& a, const Tensor& b) const {
        AscendC::Add(d, a, b, n, site);
        wait();
    }
    void sub(const Tensor& d, const Tensor& a, const Tensor& b) const {
        AscendC::Sub(d, a, b, n, site);
        wait();
    }
    void mul(const Tensor& d, const Tensor& a, const Tensor& b) const {
        AscendC::Mul(d, a, b, n, site);
        wait();
    }
    void div(const Tensor& d, const Tensor& a, const Tensor& b) const {
        AscendC::Div(d, a, b, n, site);
        wait();
    }
    void max(const Tensor& d, const Tensor& a, const Tensor& b) const {
        AscendC::Max(d, a, b, n, site);
        wait();
    }
    void min(const Tensor& d, const Tensor& a, const Tensor& b) const {
        AscendC::Min(d, a, b, n, site);
        wait();
    }
    void add(const Tensor& d, const Tensor& a, T s) const {
        AscendC::Adds(d, a, s, n, site);
        wait();
    }
    void mul(const Tensor& d, const Tensor& a, T s) const {
        AscendC::Muls(d, a, s, n, site);
        wait();
    }
    void max(const Tensor& d, const Tensor& a, T s) const {
        AscendC::Maxs(d, a, s, n, site);
        wait();
    }
    void min(const Tensor& d, const Tensor& a, T s) const {
        AscendC::Mins(d, a, s, n, site);
        wait();
    }
    void clamp(const Tensor& d, const Tensor& a, T low, T high) const {
        max(d, a, low);
        min(d, d, high);
    }
    void exp(const Tensor& d, const Tensor& a) const {
        AscendC::Exp(d, a, n, site);
        wait();
    }
    void log(const Tensor& d, const Tensor& a) const {
        AscendC::Ln(d, a, n, site);
        wait();
    }
    void sqrt(const Tensor& d, const Tensor& a) const {
        AscendC::Sqrt(d, a, n, site);
        wait();
    }
    void abs(const Tensor& d, const Tensor& a) const {
        AscendC::Abs(d, a, n, site);
        wait();
    }
    void relu(const Tensor& d, const Tensor& a) const {
        AscendC::Relu(d, a, n, site);
        wait();
    }
    void fill(const Tensor& d, T s) const {
        AscendC::Duplicate(d, s, n, site);
        wait();
    }
    void copy(const Tensor& d, const Tensor& a) const {
        AscendC::Adds(d, a, T(0), n, site);
        wait();
    }
    // To whole numbers, inside float. Functions that need it take their steps as a template, so that only their use is an error elsewhere.
    void round(const Tensor& d, const Tensor& a, AscendC::RoundMode mode) const {
        static_assert(toprope::kChip.a2_types || sizeof(T) == 0,
                      "this function rounds inside float, for which toprope has no way on this chip yet");
        AscendC::Cast(d, a, mode, static_cast<uint32_t>(n), site);
        wait();
    }
    template <typename U>
    void cast(const Tensor& d, const AscendC::LocalTensor<U>& a, AscendC::RoundMode mode = AscendC::RoundMode::CAST_NONE) const {
        AscendC::Cast(d, a, mode, static_cast<uint32_t>(n), site);
        wait();
    }
    template <typename U>
    void cast_out(const AscendC::LocalTensor<U>& d, const Tensor& a, AscendC::RoundMode mode = kNearest<U>) const {
        AscendC::Cast(d, a, mode, static_cast<uint32_t>(n), site);
        wait();
    }
    // d = 1 / a, by a division (the reciprocal instruction is an approximation); ones is filled.
    void invert(const Tensor& d, const Tensor& a, const Tensor& ones) const {
        fill(ones, T(1));
        div(d, ones, a);
    }
    // d = c[0] + c[1] a + ... + c[k] a^k; d must not be a.
    template <int k>
    void polynomial(const Tensor& d, const Tensor& a, const T (&c)[k]) const {
        mul(d, a, c[k - 1]);
        for (int i = k - 2; i > 0; --i) {
            add(d, d, c[i]);
            mul(d, d, a);
        }
        add(d, d, c[0]);
    }
    // d = the sign of a as -1, 0 or 1, also for subnormal numbers.
    void sign(const Tensor& d, const Tensor& a) const {
        mul(d, a, T(1e38f));
        clamp(d, d, T(-1), T(1));
        mul(d, d, T(1e38f));
        clamp(d, d, T(-1), T(1));
    }
};

// Runs body(steps, y, x, t) over pieces of count elements that fit the scratch: y the result, x the sources, t `temporaries` float tensors.
// half is computed in float. A body writes y only in its last step that reads a source, so dst may be a source.
template <uint32_t temporaries, typename T, uint32_t sources, typename F>
void by_pieces(Scratch& scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T> (&src)[sources], uint32_t count,
               Site site, const F& body) {
    if (self->type == CoreType::aic || count == 0) return;
    constexpr bool converts = sizeof(T) < 4;
    constexpr uint32_t buffers = temporaries + (converts ? sources : 0);
    uint32_t piece = count;
    if constexpr (buffers > 0) {
        const uint32_t room = scratch.left() / (buffers * 4) / kPieceLanes * kPieceLanes;
        const uint32_t wanted = (count + kPieceLanes - 1) / kPieceLanes * kPieceLanes;
        piece = room == 0 ? kPieceLanes : room < wanted ? room : wanted;
    }
    AscendC::LocalTensor<float> t[temporaries + 1], x[sources], y;
    for (uint32_t i = 0; i < temporaries; ++i) t[i] = scratch.take<float>(piece);
    if constexpr (converts)
        for (uint32_t i = 0; i < sources; ++i) x[i] = scratch.take<float>(piece);
    if (!scratch.enough()) return;
    for (uint32_t begin = 0; begin < count; begin += piece) {
        const Steps<float> v{static_cast<int32_t>(count - begin < piece ? count - begin : piece), site};
        if constexpr (converts) {
            for (uint32_t i = 0; i < sources; ++i) v.cast(x[i], src[i][begin]);
            body(v, x[0], x, t);
            v.cast_out(dst[begin], x[0]);
        } else {
            for (uint32_t i = 0; i < sources; ++i) x[i] = src[i][begin];
            body(v, dst[begin], x, t);
        }
    }
}

struct OnlyAlgorithm {};
inline constexpr OnlyAlgorithm kOnlyAlgorithm{};

template <typename T>
inline constexpr bool kLibraryFloat = is_one_of<T, half, float>;

}  // namespace toprope

// The four forms of an element-wise library function: with or without temporary space, with or without a count.
// The last argument is the body over v (steps), y (result), x[] (sources), t[] (temporaries).
#define TOPROPE_LIB_UNARY(Name, meaning, temporaries, dtypes, extra, ...)                                                                  \
    namespace toprope {                                                                                                                    \
    struct Body##Name {                                                                                                                    \
        using Tensor = AscendC::LocalTensor<float>;                                                                                        \
        template <typename V>                                                                                                              \
        void operator()(const V& v, const Tensor& y, const Tensor* x, [[maybe_unused]] const Tensor* t) const __VA_ARGS__                  \
    };                                                                                                                                     \
    }                                                                                                                                      \
    namespace AscendC {                                                                                                                    \
    template <typename T, bool isReuseSource = false TOPROPE_UNWRAP extra>                                                                 \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount,  \
              toprope::Site site = toprope::Site::here()) {                                                                                \
        static_assert(toprope::is_one_of<T, TOPROPE_UNWRAP dtypes>,                                                                        \
                      #Name ": this chip has no " #Name " for this element type (see `toprope api " #Name "`)");                           \
        toprope::Scratch scratch(#Name, sharedTmpBuffer, site);                                                                            \
        toprope::by_pieces<toprope::temporaries>(scratch, dst, {src}, calCount, site, toprope::Body##Name{});                              \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false TOPROPE_UNWRAP extra>                                                                 \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,                           \
              toprope::Site site = toprope::Site::here()) {                                                                                \
        Name<T>(dst, src, sharedTmpBuffer, src.GetSize(), site);                                                                           \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false TOPROPE_UNWRAP extra>                                                                 \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t calCount, toprope::Site site = toprope::Site::here()) { \
        static_assert(toprope::is_one_of<T, TOPROPE_UNWRAP dtypes>,                                                                        \
                      #Name ": this chip has no " #Name " for this element type (see `toprope api " #Name "`)");                           \
        toprope::Scratch scratch(#Name, site);                                                                                             \
        toprope::by_pieces<toprope::temporaries>(scratch, dst, {src}, calCount, site, toprope::Body##Name{});                              \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false TOPROPE_UNWRAP extra>                                                                 \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, toprope::Site site = toprope::Site::here()) {                          \
        Name<T>(dst, src, src.GetSize(), site);                                                                                            \
    }                                                                                                                                      \
    }
#define TOPROPE_UNWRAP(...) __VA_ARGS__
// Choices of algorithm: accepted, without effect, because each function here has one algorithm.
#define TOPROPE_CONFIG , const auto& config = toprope::kOnlyAlgorithm

// The same with two sources.
#define TOPROPE_LIB_BINARY(Name, meaning, temporaries, dtypes, extra, ...)                                                        \
    namespace toprope {                                                                                                           \
    struct Body##Name {                                                                                                           \
        using Tensor = AscendC::LocalTensor<float>;                                                                               \
        template <typename V>                                                                                                     \
        void operator()(const V& v, const Tensor& y, const Tensor* x, [[maybe_unused]] const Tensor* t) const __VA_ARGS__         \
    };                                                                                                                            \
    }                                                                                                                             \
    namespace AscendC {                                                                                                           \
    template <typename T, bool isReuseSource = false TOPROPE_UNWRAP extra>                                                        \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                                  \
              const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount, toprope::Site site = toprope::Site::here()) { \
        static_assert(toprope::is_one_of<T, TOPROPE_UNWRAP dtypes>,                                                               \
                      #Name ": this chip has no " #Name " for this element type (see `toprope api " #Name "`)");                  \
        toprope::Scratch scratch(#Name, sharedTmpBuffer, site);                                                                   \
        toprope::by_pieces<toprope::temporaries>(scratch, dst, {src0, src1}, calCount, site, toprope::Body##Name{});              \
    }                                                                                                                             \
    template <typename T, bool isReuseSource = false TOPROPE_UNWRAP extra>                                                        \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                                  \
              const LocalTensor<uint8_t>& sharedTmpBuffer, toprope::Site site = toprope::Site::here()) {                          \
        Name<T>(dst, src0, src1, sharedTmpBuffer, src0.GetSize(), site);                                                          \
    }                                                                                                                             \
    template <typename T, bool isReuseSource = false TOPROPE_UNWRAP extra>                                                        \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const uint32_t calCount,         \
              toprope::Site site = toprope::Site::here()) {                                                                       \
        static_assert(toprope::is_one_of<T, TOPROPE_UNWRAP dtypes>,                                                               \
                      #Name ": this chip has no " #Name " for this element type (see `toprope api " #Name "`)");                  \
        toprope::Scratch scratch(#Name, site);                                                                                    \
        toprope::by_pieces<toprope::temporaries>(scratch, dst, {src0, src1}, calCount, site, toprope::Body##Name{});              \
    }                                                                                                                             \
    template <typename T, bool isReuseSource = false TOPROPE_UNWRAP extra>                                                        \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                                  \
              toprope::Site site = toprope::Site::here()) {                                                                       \
        Name<T>(dst, src0, src1, src0.GetSize(), site);                                                                           \
    }                                                                                                                             \
    }

// A function that exists with the caller's temporary space and without is written once, as a macro over these two pairs.
#define TOPROPE_TMP_ARGUMENT , const LocalTensor<uint8_t>& sharedTmpBuffer
#define TOPROPE_TMP_SCRATCH(name) toprope::Scratch(name, sharedTmpBuffer, site)
#define TOPROPE_REST_SCRATCH(name) toprope::Scratch(name, site)
