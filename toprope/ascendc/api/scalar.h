// The scalar unit: bit counting, scalar conversions, control register, limits of types.
// Pages: 标量计算/*.md, 特殊寄存器访问/*.md, 工具接口/NumericLimits工具类/*.md.
#pragma once

#include "vector_mask.h"
#include "../machine/vector.h"
#include "registers.h"

namespace toprope {

inline constexpr Op kOpNop{"Nop", Pipe::s, Kind::scalar, "scalar"};
inline constexpr Op kOpControl{"SetCtrlSpr", Pipe::s, Kind::state, "set_state"};

inline constexpr int kSaturationBit = 48;  // CTRL[48]: 0 = inf becomes the largest number and NaN 0; 1 = both stay
// CTRL. The vector unit looks at its own copy of the saturation bit.
inline uint64_t control_register() {
    return (special_register(kRegControl) & ~(1ull << kSaturationBit)) | uint64_t{self->registers[kRegSaturate] == 0} << kSaturationBit;
}
inline void write_control_register(uint64_t value) {
    special_register(kRegControl) = value;
    self->registers[kRegSaturate] = (value >> kSaturationBit & 1) == 0;
}

// A float rounded to an integer value; the vector conversions do the same on whole tensors.
inline float round_scalar(float v, AscendC::RoundMode mode) {
    switch (mode) {
        case AscendC::RoundMode::CAST_FLOOR:
            return __builtin_floorf(v);
        case AscendC::RoundMode::CAST_CEIL:
            return __builtin_ceilf(v);
        case AscendC::RoundMode::CAST_ROUND:
            return __builtin_roundf(v);
        case AscendC::RoundMode::CAST_TRUNC:
            return __builtin_truncf(v);
        default:
            return __builtin_rintf(v);
    }
}
inline int32_t saturate_s32(float v) {
    if (v != v) return 0;
    if (v >= 2147483648.0f) return 2147483647;
    if (v <= -2147483648.0f) return -2147483647 - 1;
    return static_cast<int32_t>(v);
}
// Round to odd: truncate, and set the last bit if anything was cut off.
inline half half_to_odd(float v) {
    const half nearest(v);
    const float back = nearest;
    if (back == v || v != v) return nearest;
    const bool overflow = (nearest.bits & 0x7fff) == 0x7c00;
    const float magnitude = v < 0 ? -v : v, back_magnitude = back < 0 ? -back : back;
    uint16_t bits = overflow ? static_cast<uint16_t>((nearest.bits & 0x8000) | 0x7bff) : nearest.bits;
    if (!overflow && back_magnitude > magnitude) --bits;
    return half::from_bits(static_cast<uint16_t>(bits | 1));
}

}  // namespace toprope

namespace AscendC {

//: GetBitCount | how many bits of a 64-bit number are countValue | uint64 | A2 A3 310P 910 | 标量计算/GetBitCount.md
template <int countValue>
int64_t GetBitCount(uint64_t valueIn) {
    static_assert(countValue == 0 || countValue == 1, "GetBitCount: countValue is 0 or 1");
    return __builtin_popcountll(countValue == 1 ? valueIn : ~valueIn);
}
//: CountLeadingZero | zeros above the highest one of a 64-bit number; 64 for zero | uint64 | A2 A3 310P 910 | 标量计算/CountLeadingZero.md
inline int64_t CountLeadingZero(uint64_t valueIn) { return valueIn == 0 ? 64 : __builtin_clzll(valueIn); }
//: CountBitsCntSameAsSignBit | bits below the sign bit that equal it, up to the first that does not; -1 for 0 and -1 | int64 | A2 A3 310P 910 | 标量计算/CountBitsCntSameAsSignBit.md
inline int64_t CountBitsCntSameAsSignBit(int64_t valueIn) { return valueIn == 0 || valueIn == -1 ? -1 : __builtin_clrsbll(valueIn); }
//: GetSFFValue | position of the lowest bit that is countValue, or -1 | uint64 | A2 A3 310P 910 | 标量计算/GetSFFValue.md
template <int countValue>
int64_t GetSFFValue(uint64_t valueIn) {
    static_assert(countValue == 0 || countValue == 1, "GetSFFValue: countValue is 0 or 1");
    return __builtin_ffsll(static_cast<long long>(countValue == 1 ? valueIn : ~valueIn)) - 1;
}
//: ScalarGetCountOfValue | how many bits of a 64-bit number are countValue | uint64 | A2 A3 310P 910 | 标量计算/GetBitCount.md
template <int countValue>
int64_t ScalarGetCountOfValue(uint64_t valueIn) {
    return GetBitCount<countValue>(valueIn);
}
//: ScalarCountLeadingZero | zeros above the highest one of a 64-bit number; 64 for zero | uint64 | A2 A3 310P 910 | 标量计算/CountLeadingZero.md
inline int64_t ScalarCountLeadingZero(uint64_t valueIn) { return CountLeadingZero(valueIn); }
//: ScalarGetSFFValue | position of the lowest bit that is countValue, or -1 | uint64 | A2 A3 310P 910 | 标量计算/GetSFFValue.md
template <int countValue>
int64_t ScalarGetSFFValue(uint64_t valueIn) {
    return GetSFFValue<countValue>(valueIn);
}
//: CeilDivision | num1 / num2 rounded up; 0 if num2 is 0 | int32 | A2 A3 310P 910 | 标量计算/CeilDivision.md
inline constexpr int32_t CeilDivision(int32_t num1, int32_t num2) { return num2 == 0 ? 0 : (num1 + num2 - 1) / num2; }

//: ScalarCast | a float as int32 in a rounding mode, or as half rounded to odd | float to int32, half | A2 A3 310P | 标量计算/Cast（float转half-int32_t）.md
template <typename T, typename U, RoundMode roundMode>
U ScalarCast(T valueIn) {
    static_assert(std::is_same_v<T, float> && toprope::is_one_of<U, half, int32_t>, "ScalarCast converts float to half or int32_t");
    if constexpr (std::is_same_v<U, half>) {
        static_assert(roundMode == RoundMode::CAST_ODD, "ScalarCast: float to half has CAST_ODD only");
        return toprope::half_to_odd(valueIn);
    } else {
        static_assert(roundMode == RoundMode::CAST_ROUND || roundMode == RoundMode::CAST_CEIL || roundMode == RoundMode::CAST_FLOOR ||
                          roundMode == RoundMode::CAST_RINT,
                      "ScalarCast: float to int32_t has CAST_ROUND, CAST_CEIL, CAST_FLOOR and CAST_RINT");
        return toprope::saturate_s32(toprope::round_scalar(valueIn, roundMode));
    }
}
template <typename T, typename U, RoundMode roundMode>
U Cast(T valueIn) {
    return ScalarCast<T, U, roundMode>(valueIn);
}
//: ToFloat | a bfloat16 as float | bfloat16 | A2 A3 | 标量计算/Cast（多类型转float）.md
inline float ToFloat(const bfloat16_t& bVal) { return static_cast<float>(bVal); }
//: ToBfloat16 | a float as bfloat16, rounded to nearest even | float | A2 A3 | 标量计算/Cast（float转bfloat16_t）.md
inline bfloat16_t ToBfloat16(const float& fVal) { return bfloat16_t(fVal); }
inline float Cast(const bfloat16_t& bVal) { return static_cast<float>(bVal); }
inline bfloat16_t Cast(const float& fVal) { return bfloat16_t(fVal); }

//: Nop | waits count cycles on the scalar unit | any | A2 A3 310P | 标量计算/Nop.md
template <int count = 1>
void Nop(toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpNop, site, count, 0);
}

//: SetCtrlSpr | sets bits of the control register | int64 | A2 A3 | 特殊寄存器访问/SetCtrlSpr(ISASI).md
template <int8_t startBit, int8_t endBit>
void SetCtrlSpr(int64_t value, toprope::Site site = toprope::Site::here()) {
    static_assert(0 <= startBit && startBit <= endBit && endBit < 64, "SetCtrlSpr: 0 <= startBit <= endBit < 64");
    constexpr uint64_t mask = (endBit - startBit == 63 ? ~0ull : (1ull << (endBit - startBit + 1)) - 1) << startBit;
    toprope::record(toprope::kOpControl, site, 1, startBit);
    toprope::write_control_register((toprope::control_register() & ~mask) | (static_cast<uint64_t>(value) << startBit & mask));
}
//: GetCtrlSpr | reads bits of the control register | int64 | A2 A3 | 特殊寄存器访问/GetCtrlSpr(ISASI).md
template <int8_t startBit, int8_t endBit>
int64_t GetCtrlSpr() {
    static_assert(0 <= startBit && startBit <= endBit && endBit < 64, "GetCtrlSpr: 0 <= startBit <= endBit < 64");
    constexpr uint64_t mask = endBit - startBit == 63 ? ~0ull : (1ull << (endBit - startBit + 1)) - 1;
    return static_cast<int64_t>(toprope::control_register() >> startBit & mask);
}
//: ResetCtrlSpr | clears bits of the control register | any | A2 A3 | 特殊寄存器访问/ResetCtrlSpr(ISASI).md
template <int8_t startBit, int8_t endBit>
void ResetCtrlSpr(toprope::Site site = toprope::Site::here()) {
    SetCtrlSpr<startBit, endBit>(0, site);
}

enum class SaturationMode { FLOAT = 0, CAST };
//: SetSaturationFlag | whether inf and NaN are replaced by the largest number and 0 (FLOAT) | any | A2 A3 | 特殊寄存器访问/SetSaturationFlag(ISASI).md
template <SaturationMode mode>
void SetSaturationFlag(bool enableSat, toprope::Site site = toprope::Site::here()) {
    constexpr int8_t bit = mode == SaturationMode::FLOAT ? toprope::kSaturationBit : 59;
    SetCtrlSpr<bit, bit>(enableSat ? 0 : 1, site);
}
//: GetSaturationFlag | whether saturation is on | any | A2 A3 | 特殊寄存器访问/GetSaturationFlag(ISASI).md
template <SaturationMode mode>
bool GetSaturationFlag() {
    constexpr int8_t bit = mode == SaturationMode::FLOAT ? toprope::kSaturationBit : 59;
    return GetCtrlSpr<bit, bit>() == 0;
}

// One limit: as a scalar, and as a whole tensor of it.
#define TOPROPE_LIMIT(Name, ...)                             \
    static constexpr T Name() { return __VA_ARGS__; }        \
    template <class Tensor>                                  \
    static void Name(const Tensor& dst, uint32_t count) {    \
        Duplicate(dst, Name(), static_cast<int32_t>(count)); \
    }

//: NumericLimits | smallest, largest and special values of an element type, as scalar or filled into a tensor | int8 to int64, half, bfloat16, float | A2 A3 310P | 工具接口/NumericLimits工具类/简介.md
template <typename U>
struct NumericLimits {
    static_assert(std::is_integral_v<U>, "NumericLimits: integers, half, bfloat16_t and float");
    using T = U;
    TOPROPE_LIMIT(Max, static_cast<T>(std::is_signed_v<T> ? (1ull << (sizeof(T) * 8 - 1)) - 1 : ~0ull >> (64 - sizeof(T) * 8)))
    TOPROPE_LIMIT(Min, std::is_signed_v<T> ? static_cast<T>(-Max() - 1) : T{0})
    TOPROPE_LIMIT(Lowest, Min())
};
#define TOPROPE_FLOAT_LIMITS(Type, from, max, lowest, min, infinity, negative_infinity, quiet, signaling, denormal) \
    template <>                                                                                                     \
    struct NumericLimits<Type> {                                                                                    \
        using T = Type;                                                                                             \
        TOPROPE_LIMIT(Max, from(max))                                                                               \
        TOPROPE_LIMIT(Lowest, from(lowest))                                                                         \
        TOPROPE_LIMIT(Min, from(min))                                                                               \
        TOPROPE_LIMIT(Infinity, from(infinity))                                                                     \
        TOPROPE_LIMIT(NegativeInfinity, from(negative_infinity))                                                    \
        TOPROPE_LIMIT(QuietNaN, from(quiet))                                                                        \
        TOPROPE_LIMIT(SignalingNaN, from(signaling))                                                                \
        TOPROPE_LIMIT(DeNormMin, from(denormal))                                                                    \
    };
TOPROPE_FLOAT_LIMITS(float, toprope::bits_float, 0x7f7fffffu, 0xff7fffffu, 0x00800000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7fa00000u,
                     1u)
TOPROPE_FLOAT_LIMITS(half, half::from_bits, 0x7bff, 0xfbff, 0x0400, 0x7c00, 0xfc00, 0x7e00, 0x7d00, 1)
TOPROPE_FLOAT_LIMITS(bfloat16_t, bfloat16_t::from_bits, 0x7f7f, 0xff7f, 0x0080, 0x7f80, 0xff80, 0x7fc0, 0x7fa0, 1)
#undef TOPROPE_FLOAT_LIMITS
#undef TOPROPE_LIMIT

// The older spellings that operators still use.
struct AscendCUtils {
    static void SetOverflow(uint64_t bit, toprope::Site site = toprope::Site::here()) {
        SetCtrlSpr<toprope::kSaturationBit, toprope::kSaturationBit>(static_cast<int64_t>(bit), site);
    }
    template <typename T, bool isSetMask = true>
    static void SetMask(uint64_t maskHigh, uint64_t maskLow, toprope::Site site = toprope::Site::here()) {
        if constexpr (isSetMask) SetVectorMask<T>(maskHigh, maskLow, site);
    }
    template <typename T, bool isSetMask = true>
    static void SetMask(int32_t len, toprope::Site site = toprope::Site::here()) {
        if constexpr (isSetMask) SetVectorMask<T>(len, site);
    }
    template <typename T>
    static void SetMaskCount(toprope::Site site = toprope::Site::here()) {
        AscendC::SetMaskCount(site);
    }
    template <typename T>
    static void SetMaskNorm(toprope::Site site = toprope::Site::here()) {
        AscendC::SetMaskNorm(site);
    }
    // Elements that the last GatherMask kept.
    static int64_t GetRsvdCnt() { return static_cast<int64_t>(toprope::special_register(toprope::kRegGathered)); }
    static constexpr int32_t GetC0Count(int32_t elementBytes) { return 32 / elementBytes; }
    static constexpr int32_t GetBitSize(int32_t bytes) { return bytes * 8; }
};

}  // namespace AscendC
