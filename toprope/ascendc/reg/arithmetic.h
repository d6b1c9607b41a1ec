// Arithmetic, logic, shifts and fused operations on registers. Pages: 基础API/Reg矢量计算/{基础算术,逻辑计算,复合计算}.
#pragma once

#include "../machine/float_math.h"
#include "../machine/cast.h"
#include "registers.h"

namespace toprope {

// Lanes of 16-bit floats compute in float and round once.
template <typename T>
Lane<T> lane_of(T x) {
    return static_cast<Lane<T>>(x);
}
template <typename T>
T from_lane(Lane<T> x) {
    return static_cast<T>(x);
}
// Integers wrap as on the chip.
template <typename T>
using Wrapping = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>,
                                    std::make_unsigned_t<std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, T, int>>, T>;
template <typename T>
auto wide_of(T x) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
        return static_cast<std::conditional_t<(sizeof(T) < 4), uint32_t, Wrapping<T>>>(x);
    else
        return x;
}
template <typename T>
T add_lanes(T a, T b) {
    return static_cast<T>(wide_of(a) + wide_of(b));
}
template <typename T>
T sub_lanes(T a, T b) {
    return static_cast<T>(wide_of(a) - wide_of(b));
}
template <typename T>
T mul_lanes(T a, T b) {
    return static_cast<T>(wide_of(a) * wide_of(b));
}
template <typename T>
T div_lanes(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return b == 0 ? static_cast<T>(-1) : (std::is_signed_v<T> && b == static_cast<T>(-1) ? sub_lanes(T{0}, a) : static_cast<T>(a / b));
    else
        return a / b;
}
// max(-0, +0) = +0, min(-0, +0) = -0; NaN wins.
template <typename T>
T max_lanes(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a != a ? a : (b != b ? b : (a > b || (a == b && !__builtin_signbit(a)) ? a : b));
    return a > b ? a : b;
}
template <typename T>
T min_lanes(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a != a ? a : (b != b ? b : (a < b || (a == b && __builtin_signbit(a)) ? a : b));
    return a < b ? a : b;
}
template <typename T>
T shift_left_lanes(T a, int64_t by) {
    constexpr int64_t bits = sizeof(T) * 8;
    using W = std::make_unsigned_t<T>;
    if (by >= bits) return 0;
    if constexpr (std::is_signed_v<T>) {  // the sign stays
        const W sign = static_cast<W>(W{1} << (bits - 1));
        return static_cast<T>((static_cast<W>(a) & sign) | (static_cast<W>(static_cast<W>(a) << by) & static_cast<W>(~sign)));
    }
    return static_cast<T>(static_cast<W>(a) << by);
}
template <typename T>
T shift_right_lanes(T a, int64_t by) {
    constexpr int64_t bits = sizeof(T) * 8;
    if (by >= bits) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> by);
}
// x * y + z, rounded once.
template <typename E>
E fused_lanes(E x, E y, E z) {
    if constexpr (std::is_integral_v<E>)
        return add_lanes(mul_lanes(x, y), z);
    else if constexpr (std::is_same_v<E, float>)
        return __builtin_fmaf(x, y, z);
    else  // the product of two 16-bit floats is exact in double
        return static_cast<E>(
            static_cast<float>(static_cast<double>(static_cast<float>(x)) * static_cast<float>(y) + static_cast<float>(z)));
}
// Subnormal numbers count as 0 unless the algorithm asked for keeps them.
inline float flushed(float x) { return __builtin_fabsf(x) < 1.17549435e-38f ? __builtin_copysignf(0.f, x) : x; }
template <typename T, typename F>
Lane<T> with_flush(bool keep, F f, Lane<T> x) {
    if constexpr (std::is_same_v<T, float>) {
        return keep ? f(x) : flushed(f(flushed(x)));
    } else {
        constexpr float least = 6.103515625e-05f;  // the smallest normal half
        const auto flush = [](float v) { return __builtin_fabsf(v) < least ? __builtin_copysignf(0.f, v) : v; };
        return keep ? f(x) : flush(f(flush(x)));
    }
}

}  // namespace toprope

namespace AscendC {
namespace Reg {
enum class DivAlgo {
    INTRINSIC = 0,
    DIFF_COMPENSATION,
    PRECISION_1ULP_FTZ_TRUE,
    PRECISION_0ULP_FTZ_TRUE,
    PRECISION_0ULP_FTZ_FALSE,
    PRECISION_1ULP_FTZ_FALSE
};
enum class ExpAlgo { INTRINSIC = 0, PRECISION_1ULP_FTZ_TRUE, PRECISION_1ULP_FTZ_FALSE };
enum class LnAlgo { INTRINSIC = 0, PRECISION_1ULP_FTZ_TRUE, PRECISION_1ULP_FTZ_FALSE };
enum class LogAlgo { INTRINSIC = 0, PRECISION_1ULP_FTZ_TRUE, PRECISION_1ULP_FTZ_FALSE };
enum class Log2Algo { INTRINSIC = 0, PRECISION_1ULP_FTZ_TRUE, PRECISION_1ULP_FTZ_FALSE };
enum class Log10Algo { INTRINSIC = 0, PRECISION_1ULP_FTZ_TRUE, PRECISION_1ULP_FTZ_FALSE };
enum class SqrtAlgo { INTRINSIC = 0, FAST_INVERSE, PRECISION_1ULP_FTZ_TRUE, PRECISION_0ULP_FTZ_FALSE, PRECISION_1ULP_FTZ_FALSE };
struct DivSpecificMode {
    MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
    bool precisionMode = false;
    DivAlgo algo = DivAlgo::INTRINSIC;
};
struct SqrtSpecificMode {
    MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
    bool precisionMode = false;
    SqrtAlgo algo = SqrtAlgo::INTRINSIC;
};
#define TOPROPE_REG_MODE(Name)                          \
    struct Name##SpecificMode {                         \
        MaskMergeMode mrgMode = MaskMergeMode::ZEROING; \
        Name##Algo algo = Name##Algo::INTRINSIC;        \
    };
TOPROPE_REG_MODE(Exp)
TOPROPE_REG_MODE(Ln)
TOPROPE_REG_MODE(Log)
TOPROPE_REG_MODE(Log2)
TOPROPE_REG_MODE(Log10)
#undef TOPROPE_REG_MODE
}  // namespace Reg
}  // namespace AscendC

namespace toprope {
// Whether a mode asks for an algorithm that keeps subnormal numbers.
template <auto mode>
constexpr bool keeps_subnormals() {
    if constexpr (std::is_same_v<decltype(mode), reg::MaskMergeMode>) {
        return false;
    } else {
        using A = decltype(mode->algo);
        if constexpr (std::is_same_v<A, reg::DivAlgo>)
            return mode->algo == A::PRECISION_0ULP_FTZ_FALSE || mode->algo == A::PRECISION_1ULP_FTZ_FALSE;
        else if constexpr (std::is_same_v<A, reg::SqrtAlgo>)
            return mode->algo == A::PRECISION_0ULP_FTZ_FALSE || mode->algo == A::PRECISION_1ULP_FTZ_FALSE;
        else
            return mode->algo == A::PRECISION_1ULP_FTZ_FALSE;
    }
}

template <typename T, typename R, typename F>
void reg_unary(const Op& op, R& dst, const R& src, const reg::MaskReg& mask, bool merge, Site site, F f) {
    record(op, site, 1, static_cast<uint32_t>(dtype_of<T>));
    require_defined(src, op, site);
    if (merge && !covers(mask, R::kStep)) require_defined(dst, op, site);
    const auto* in = reinterpret_cast<const T*>(src.bytes);
    reg_apply<T>(dst, mask, merge, [&](uint32_t i) { return from_lane<T>(f(lane_of(in[i]))); });
}
template <typename T, typename R, typename F>
void reg_binary(const Op& op, R& dst, const R& a, const R& b, const reg::MaskReg& mask, bool merge, Site site, F f) {
    record(op, site, 1, static_cast<uint32_t>(dtype_of<T>));
    require_defined(a, op, site);
    require_defined(b, op, site);
    if (merge && !covers(mask, R::kStep)) require_defined(dst, op, site);
    const auto *x = reinterpret_cast<const T*>(a.bytes), *y = reinterpret_cast<const T*>(b.bytes);
    reg_apply<T>(dst, mask, merge, [&](uint32_t i) { return from_lane<T>(f(lane_of(x[i]), lane_of(y[i]))); });
}

}  // namespace toprope

#define TOPROPE_REG_DTYPES(Name, E, ...)              \
    static_assert(toprope::is_one_of<E, __VA_ARGS__>, \
                  "Reg::" #Name ": this chip has no Reg::" #Name " for this element type (see `toprope api`)")

#define TOPROPE_REG_UNARY(Name, dtypes, cost, ...)                                                                  \
    namespace toprope {                                                                                             \
    inline constexpr Op kReg##Name{"Reg::" #Name, Pipe::v, Kind::compute, cost};                                    \
    }                                                                                                               \
    namespace AscendC {                                                                                             \
    namespace Reg {                                                                                                 \
    template <typename T = DefaultType, auto mode = MaskMergeMode::ZEROING, typename U, toprope::IfRegister<U> = 0> \
    void Name(U& dstReg, U& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {                    \
        using E = Element<T, U>;                                                                                    \
        TOPROPE_REG_DTYPES(Name, E, TOPROPE_UNPACK dtypes);                                                         \
        [[maybe_unused]] constexpr bool keep = toprope::keeps_subnormals<mode>();                                   \
        toprope::reg_unary<E>(toprope::kReg##Name, dstReg, srcReg, mask, toprope::reg_merges<mode>(), site,         \
                              [](toprope::Lane<E> x) -> toprope::Lane<E> { return __VA_ARGS__; });                  \
    }                                                                                                               \
    }                                                                                                               \
    }
#define TOPROPE_REG_BINARY(Name, dtypes, cost, ...)                                                                     \
    namespace toprope {                                                                                                 \
    inline constexpr Op kReg##Name{"Reg::" #Name, Pipe::v, Kind::compute, cost};                                        \
    }                                                                                                                   \
    namespace AscendC {                                                                                                 \
    namespace Reg {                                                                                                     \
    template <typename T = DefaultType, auto mode = MaskMergeMode::ZEROING, typename U, toprope::IfRegister<U> = 0>     \
    void Name(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {           \
        using E = Element<T, U>;                                                                                        \
        TOPROPE_REG_DTYPES(Name, E, TOPROPE_UNPACK dtypes);                                                             \
        [[maybe_unused]] constexpr bool keep = toprope::keeps_subnormals<mode>();                                       \
        toprope::reg_binary<E>(toprope::kReg##Name, dstReg, srcReg0, srcReg1, mask, toprope::reg_merges<mode>(), site,  \
                               [](toprope::Lane<E> x, toprope::Lane<E> y) -> toprope::Lane<E> { return __VA_ARGS__; }); \
    }                                                                                                                   \
    }                                                                                                                   \
    }
#define TOPROPE_REG_SCALAR(Name, dtypes, cost, ...)                                                                                      \
    namespace toprope {                                                                                                                  \
    inline constexpr Op kReg##Name{"Reg::" #Name, Pipe::v, Kind::compute, cost};                                                         \
    }                                                                                                                                    \
    namespace AscendC {                                                                                                                  \
    namespace Reg {                                                                                                                      \
    template <typename T = DefaultType, typename U, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, toprope::IfRegister<S> = 0> \
    void Name(S& dstReg, S& srcReg, U scalarValue, MaskReg& mask, toprope::Site site = toprope::Site::here()) {                          \
        using E = Element<T, S>;                                                                                                         \
        TOPROPE_REG_DTYPES(Name, E, TOPROPE_UNPACK dtypes);                                                                              \
        const toprope::Lane<E> y = toprope::lane_of(static_cast<E>(scalarValue));                                                        \
        toprope::reg_unary<E>(toprope::kReg##Name, dstReg, srcReg, mask, mode == MaskMergeMode::MERGING, site,                           \
                              [y](toprope::Lane<E> x) -> toprope::Lane<E> { return __VA_ARGS__; });                                      \
    }                                                                                                                                    \
    }                                                                                                                                    \
    }
#define TOPROPE_REG_INTEGERS int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t
#define TOPROPE_REG_ALL int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t
#define TOPROPE_REG_PRODUCTS int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t

//: Reg::Abs, Reg::Neg, Reg::Relu | the absolute value, the negative, the larger of src and 0 | int half float | 950 | 基础API/Reg矢量计算/基础算术/Abs.md
TOPROPE_REG_UNARY(Abs, (int8_t, int16_t, half, int32_t, float, int64_t), "reg_dual",
                  x < 0 ? toprope::sub_lanes(toprope::Lane<E>(0), x) : (x == 0 ? toprope::Lane<E>(0) : x))
TOPROPE_REG_UNARY(Neg, (int8_t, int16_t, half, int32_t, float, int64_t), "reg_dual",
                  std::is_floating_point_v<toprope::Lane<E>> ? static_cast<toprope::Lane<E>>(-x)
                                                             : toprope::sub_lanes(toprope::Lane<E>(0), x))
TOPROPE_REG_UNARY(Relu, (half, int32_t, float, int64_t), "reg_dual", x > 0 || x != x ? x : toprope::Lane<E>(0))
//: Reg::Exp, Reg::Ln, Reg::Log, Reg::Log2, Reg::Log10, Reg::Sqrt | elementary functions; subnormal numbers are 0 unless the algorithm keeps them | half float | 950 | 基础API/Reg矢量计算/基础算术/Exp.md
TOPROPE_REG_UNARY(Exp, (half, float), "reg_exp", toprope::with_flush<E>(keep, toprope::exp_float, x))
TOPROPE_REG_UNARY(Ln, (half, float), "reg_exp", toprope::with_flush<E>(keep, toprope::log_float, x))
TOPROPE_REG_UNARY(Log, (half, float), "reg_exp", toprope::with_flush<E>(keep, toprope::log_float, x))
TOPROPE_REG_UNARY(Log2, (half, float), "reg_exp",
                  toprope::with_flush<E>(keep, [](float v) { return static_cast<float>(toprope::log_float(v) * 1.4426950408889634); }, x))
TOPROPE_REG_UNARY(Log10, (half, float), "reg_exp",
                  toprope::with_flush<E>(keep, [](float v) { return static_cast<float>(toprope::log_float(v) * 0.4342944819032518); }, x))
TOPROPE_REG_UNARY(Sqrt, (half, float), "reg_exp", toprope::with_flush<E>(keep, toprope::sqrt_float, x))
//: Reg::Not, Reg::And, Reg::Or, Reg::Xor, Reg::Prelu, Reg::AbsSub | logic on bits, also of masks; src0 or src0 * src1 where it is not above 0; the distance | any | 950 | 基础API/Reg矢量计算/逻辑计算/Not.md
TOPROPE_REG_UNARY(Not, (int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float, int64_t, uint64_t), "reg_dual",
                  [](toprope::Lane<E> v) {
                      if constexpr (std::is_integral_v<E>)
                          return static_cast<E>(~v);
                      else if constexpr (std::is_same_v<E, float>)
                          return toprope::bits_float(~toprope::float_bits(v));
                      else
                          return toprope::half_to_float(static_cast<uint16_t>(~toprope::float_to_half(v)));
                  }(x))
//: Reg::Add, Reg::Sub, Reg::Mul, Reg::Div, Reg::Max, Reg::Min | by element; Add and Sub also with carry | int uint half bf16 float | 950 | 基础API/Reg矢量计算/基础算术/Add.md
TOPROPE_REG_BINARY(Add, (TOPROPE_REG_ALL), "reg_add", toprope::add_lanes(x, y))
TOPROPE_REG_BINARY(Sub, (TOPROPE_REG_ALL), "reg_add", toprope::sub_lanes(x, y))
TOPROPE_REG_BINARY(Mul, (TOPROPE_REG_PRODUCTS), "reg_add", toprope::mul_lanes(x, y))
TOPROPE_REG_BINARY(Max, (TOPROPE_REG_ALL), "reg_dual", toprope::max_lanes(x, y))
TOPROPE_REG_BINARY(Min, (TOPROPE_REG_ALL), "reg_dual", toprope::min_lanes(x, y))
TOPROPE_REG_BINARY(Div, (int16_t, uint16_t, half, int32_t, uint32_t, float, int64_t, uint64_t), "reg_exp",
                   [](toprope::Lane<E> a, toprope::Lane<E> b) {
                       if constexpr (std::is_same_v<E, float>)
                           return keep ? a / b : toprope::flushed(toprope::flushed(a) / toprope::flushed(b));
                       else
                           return toprope::div_lanes(a, b);
                   }(x, y))
TOPROPE_REG_BINARY(And, (bool, TOPROPE_REG_INTEGERS), "reg_dual", static_cast<E>(x& y))
TOPROPE_REG_BINARY(Or, (bool, TOPROPE_REG_INTEGERS), "reg_dual", static_cast<E>(x | y))
TOPROPE_REG_BINARY(Xor, (bool, TOPROPE_REG_INTEGERS), "reg_dual", static_cast<E>(x ^ y))
TOPROPE_REG_BINARY(Prelu, (half, float), "reg_dual", x > 0 ? x : x * y)
TOPROPE_REG_BINARY(AbsSub, (half, float, int64_t), "reg_dual",
                   [](toprope::Lane<E> d) { return d < 0 ? toprope::sub_lanes(toprope::Lane<E>(0), d) : d; }(toprope::sub_lanes(x, y)))
//: Reg::Adds, Reg::Muls, Reg::Maxs, Reg::Mins, Reg::LeakyRelu | with a number | int uint half bf16 float | 950 | 基础API/Reg矢量计算/基础算术/Adds.md
TOPROPE_REG_SCALAR(Adds, (TOPROPE_REG_ALL), "reg_add", toprope::add_lanes(x, y))
TOPROPE_REG_SCALAR(Muls, (TOPROPE_REG_PRODUCTS), "reg_add", toprope::mul_lanes(x, y))
TOPROPE_REG_SCALAR(Maxs, (TOPROPE_REG_ALL), "reg_dual", toprope::max_lanes(x, y))
TOPROPE_REG_SCALAR(Mins, (TOPROPE_REG_ALL), "reg_dual", toprope::min_lanes(x, y))
TOPROPE_REG_SCALAR(LeakyRelu, (half, float), "reg_dual", x > 0 ? x : x * y)
//: Reg::ShiftLefts, Reg::ShiftRights, Reg::ShiftLeft, Reg::ShiftRight | shifts by a number, or by element; signed ones keep their sign | int uint | 950 | 基础API/Reg矢量计算/逻辑计算/ShiftLefts.md
TOPROPE_REG_SCALAR(ShiftLefts, (TOPROPE_REG_INTEGERS), "reg_dual", toprope::shift_left_lanes(x, static_cast<int64_t>(y)))
TOPROPE_REG_SCALAR(ShiftRights, (TOPROPE_REG_INTEGERS), "reg_dual", toprope::shift_right_lanes(x, static_cast<int64_t>(y)))

namespace toprope {
inline constexpr Op kRegShiftLeft{"Reg::ShiftLeft", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegShiftRight{"Reg::ShiftRight", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegAddC{"Reg::AddC", Pipe::v, Kind::compute, "reg_add"};
inline constexpr Op kRegSubC{"Reg::SubC", Pipe::v, Kind::compute, "reg_add"};
inline constexpr Op kRegMull{"Reg::Mull", Pipe::v, Kind::compute, "reg_add"};
inline constexpr Op kRegMulAddDst{"Reg::MulAddDst", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegMulDstAdd{"Reg::MulDstAdd", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegAxpy{"Reg::Axpy", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegExpSub{"Reg::ExpSub", Pipe::v, Kind::compute, "reg_exp"};
inline constexpr Op kRegMulsCast{"Reg::MulsCast", Pipe::v, Kind::compute, "reg_dual"};

// Sum of two words and a carry under a mask; the carries become mask bits.
template <bool negate, typename E, typename U>
void reg_carry(const Op& op, reg::MaskReg& carry, U& dst, const U& a, const U& b, const reg::MaskReg* in, const reg::MaskReg& mask,
               Site site) {
    static_assert(is_one_of<E, int32_t, uint32_t>, "carries: int32_t and uint32_t");
    record(op, site, 1, static_cast<uint32_t>(dtype_of<E>));
    require_defined(a, op, site);
    require_defined(b, op, site);
    const auto *x = reinterpret_cast<const uint32_t*>(a.bytes), *y = reinterpret_cast<const uint32_t*>(b.bytes);
    reg::MaskReg out;
    uint32_t room[kRegisterLength / 4] = {};
    for (uint32_t i = 0; i < kRegisterLength / 4; ++i) {
        if (!mask.get(i * 4)) continue;
        const uint64_t first = in != nullptr ? in->get(i * 4) : (negate ? 1 : 0);
        const uint64_t sum = uint64_t{x[i]} + (negate ? static_cast<uint32_t>(~y[i]) : y[i]) + first;
        room[i] = static_cast<uint32_t>(sum);
        if (sum >> 32) out.set(i * 4);
    }
    std::memcpy(dst.bytes, room, sizeof room);
    dst.defined = true;
    carry = out;
}
}  // namespace toprope

namespace AscendC {
namespace Reg {

#define TOPROPE_REG_SHIFT(Name, function)                                                                                              \
    template <typename T = DefaultType, typename U = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V, \
              toprope::IfRegister<S> = 0>                                                                                              \
    void Name(S& dstReg, S& srcReg0, V& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {                          \
        using E = Element<T, S>;                                                                                                       \
        using B = Element<U, V>;                                                                                                       \
        static_assert(sizeof(E) == sizeof(B) && std::is_integral_v<E>, #Name ": whole numbers, shifts of the same width");             \
        toprope::record(toprope::kReg##Name, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));                                    \
        toprope::require_defined(srcReg0, toprope::kReg##Name, site);                                                                  \
        toprope::require_defined(srcReg1, toprope::kReg##Name, site);                                                                  \
        const auto* x = reinterpret_cast<const E*>(srcReg0.bytes);                                                                     \
        const auto* y = reinterpret_cast<const B*>(srcReg1.bytes);                                                                     \
        toprope::reg_apply<E>(dstReg, mask, mode == MaskMergeMode::MERGING,                                                            \
                              [&](uint32_t i) { return toprope::function(x[i], static_cast<int64_t>(y[i])); });                        \
    }
TOPROPE_REG_SHIFT(ShiftLeft, shift_left_lanes)
TOPROPE_REG_SHIFT(ShiftRight, shift_right_lanes)
#undef TOPROPE_REG_SHIFT

template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Add(MaskReg& carry, U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::reg_carry<false, Element<T, U>>(toprope::kRegAdd, carry, dstReg, srcReg0, srcReg1, nullptr, mask, site);
}
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Sub(MaskReg& carry, U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::reg_carry<true, Element<T, U>>(toprope::kRegSub, carry, dstReg, srcReg0, srcReg1, nullptr, mask, site);
}
//: Reg::AddC, Reg::SubC | with carry in and out | int32 uint32 | 950 | 基础API/Reg矢量计算/基础算术/AddC.md
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void AddC(MaskReg& carry, U& dstReg, U& srcReg0, U& srcReg1, MaskReg& carrySrc, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    const MaskReg in = carrySrc;
    toprope::reg_carry<false, Element<T, U>>(toprope::kRegAddC, carry, dstReg, srcReg0, srcReg1, &in, mask, site);
}
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void SubC(MaskReg& carry, U& dstReg, U& srcReg0, U& srcReg1, MaskReg& carrySrc, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    const MaskReg in = carrySrc;
    toprope::reg_carry<true, Element<T, U>>(toprope::kRegSubC, carry, dstReg, srcReg0, srcReg1, &in, mask, site);
}
//: Reg::Mull | low and high words of the product | int32 uint32 | 950 | 基础API/Reg矢量计算/基础算术/Mull.md
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Mull(U& dstReg0, U& dstReg1, U& srcReg0, U& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    TOPROPE_REG_DTYPES(Mull, E, int32_t, uint32_t);
    using W = std::conditional_t<std::is_signed_v<E>, int64_t, uint64_t>;
    toprope::record(toprope::kRegMull, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg0, toprope::kRegMull, site);
    toprope::require_defined(srcReg1, toprope::kRegMull, site);
    const U a = srcReg0, b = srcReg1;
    const auto product = [&](uint32_t i) { return W{a.data()[i]} * W{b.data()[i]}; };
    toprope::reg_apply<E>(dstReg0, mask, false, [&](uint32_t i) { return static_cast<E>(product(i)); });
    toprope::reg_apply<E>(dstReg1, mask, false, [&](uint32_t i) { return static_cast<E>(product(i) >> 32); });
}
//: Reg::MulAddDst, Reg::MulDstAdd, Reg::Axpy | src0 * src1 + dst, dst * src0 + src1, scalar * src + dst, rounded once | int uint half bf16 float | 950 | 基础API/Reg矢量计算/复合计算/MulAddDst.md
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U, toprope::IfRegister<U> = 0>
void MulAddDst(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    TOPROPE_REG_DTYPES(MulAddDst, E, TOPROPE_REG_PRODUCTS);
    toprope::require_defined(dstReg, toprope::kRegMulAddDst, site);
    const U old = dstReg;
    const auto* z = reinterpret_cast<const E*>(old.bytes);
    toprope::record(toprope::kRegMulAddDst, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg0, toprope::kRegMulAddDst, site);
    toprope::require_defined(srcReg1, toprope::kRegMulAddDst, site);
    const auto *x = reinterpret_cast<const E*>(srcReg0.bytes), *y = reinterpret_cast<const E*>(srcReg1.bytes);
    toprope::reg_apply<E>(dstReg, mask, mode == MaskMergeMode::MERGING,
                          [&](uint32_t i) { return toprope::fused_lanes<E>(x[i], y[i], z[i]); });
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U, toprope::IfRegister<U> = 0>
void MulDstAdd(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    TOPROPE_REG_DTYPES(MulDstAdd, E, half, bfloat16_t, float);
    toprope::require_defined(dstReg, toprope::kRegMulDstAdd, site);
    toprope::require_defined(srcReg0, toprope::kRegMulDstAdd, site);
    toprope::require_defined(srcReg1, toprope::kRegMulDstAdd, site);
    toprope::record(toprope::kRegMulDstAdd, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    const U old = dstReg;
    const auto *z = reinterpret_cast<const E*>(old.bytes), *x = reinterpret_cast<const E*>(srcReg0.bytes),
               *y = reinterpret_cast<const E*>(srcReg1.bytes);
    toprope::reg_apply<E>(dstReg, mask, mode == MaskMergeMode::MERGING,
                          [&](uint32_t i) { return toprope::fused_lanes<E>(z[i], x[i], y[i]); });
}
template <typename T = DefaultType, typename U, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, toprope::IfRegister<S> = 0>
void Axpy(S& dstReg, S& srcReg, const U scalarValue, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, S>;
    TOPROPE_REG_DTYPES(Axpy, E, half, float, int64_t, uint64_t);
    toprope::require_defined(dstReg, toprope::kRegAxpy, site);
    toprope::require_defined(srcReg, toprope::kRegAxpy, site);
    toprope::record(toprope::kRegAxpy, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    const S old = dstReg;
    const auto *z = reinterpret_cast<const E*>(old.bytes), *x = reinterpret_cast<const E*>(srcReg.bytes);
    const E y = static_cast<E>(scalarValue);
    toprope::reg_apply<E>(dstReg, mask, mode == MaskMergeMode::MERGING, [&](uint32_t i) { return toprope::fused_lanes<E>(x[i], y, z[i]); });
}
//: Reg::ExpSub | e to the power src0 - src1; halves widen to float | half float | 950 | 基础API/Reg矢量计算/复合计算/ExpSub.md
template <typename T = DefaultType, typename U = DefaultType, RegLayout layout = RegLayout::ZERO,
          MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V, toprope::IfRegister<S> = 0>
void ExpSub(S& dstReg, V& srcReg0, V& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<U, V>;
    TOPROPE_REG_DTYPES(ExpSub, E, half, float);
    toprope::require_defined(srcReg0, toprope::kRegExpSub, site);
    toprope::require_defined(srcReg1, toprope::kRegExpSub, site);
    toprope::record(toprope::kRegExpSub, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    constexpr uint32_t ratio = 4 / sizeof(E), first = layout == RegLayout::ONE ? 1 : 0;
    const auto *x = reinterpret_cast<const E*>(srcReg0.bytes), *y = reinterpret_cast<const E*>(srcReg1.bytes);
    float out[toprope::kRegisterLength / 4];
    for (uint32_t i = 0; i < toprope::kRegisterLength / 4; ++i) {
        const uint32_t from = i * ratio + (ratio == 2 ? first : 0);
        out[i] = mask.get(from * static_cast<uint32_t>(sizeof(E)))
                     ? toprope::with_flush<float>(false, toprope::exp_float, static_cast<float>(x[from]) - static_cast<float>(y[from]))
                     : 0.f;
    }
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
//: Reg::MulsCast | src * scalar, rounded to half with ties away from zero | float | 950 | 基础API/Reg矢量计算/复合计算/MulsCast.md
template <typename T0 = DefaultType, typename T1 = DefaultType, typename T2, RegLayout layout = RegLayout::ZERO, typename T3, typename T4,
          toprope::IfRegister<T3> = 0>
void MulsCast(T3& dstReg, T4& srcReg, T2 scalarValue, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::require_defined(srcReg, toprope::kRegMulsCast, site);
    toprope::record(toprope::kRegMulsCast, site, 1, static_cast<uint32_t>(toprope::Dtype::f32));
    const auto* x = reinterpret_cast<const float*>(srcReg.bytes);
    uint16_t out[toprope::kRegisterLength / 2] = {};
    for (uint32_t i = 0; i < toprope::kRegisterLength / 4; ++i) {
        if (!mask.get(i * 4)) continue;
        const float value = x[i] * static_cast<float>(scalarValue);
        toprope::cast_lanes(toprope::Dtype::f16, toprope::Dtype::f32, RoundMode::CAST_ROUND, &out[2 * i + (layout == RegLayout::ONE)],
                            &value, 1, 0);
    }
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}

}  // namespace Reg
}  // namespace AscendC
