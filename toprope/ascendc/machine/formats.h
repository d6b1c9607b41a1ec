// Number formats that C++ does not have: half, bfloat16_t, int4b_t. Conversions round to nearest even unless a mode says otherwise.
#pragma once

#include "platform.h"

namespace toprope {

inline constexpr uint32_t float_bits(float value) { return __builtin_bit_cast(uint32_t, value); }
inline constexpr float bits_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Exact for every input: subnormals, infinities, NaN payload (quietened).
inline constexpr float half_to_float(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0x1f) return bits_float(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
    if (exponent == 0) {
        const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-08f;  // 2^-24
        return bits_float(sign | float_bits(magnitude));
    }
    return bits_float(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

// Round to nearest, ties to even; overflow gives infinity, NaN stays NaN.
inline constexpr uint16_t float_to_half(float value) {
    const uint32_t bits = float_bits(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above
    if (magnitude < 0x38800000u) {                                               // below the smallest normal half
        // Adding 0.5 puts the half's last place at the float's last place, so the FPU does the rounding.
        const float rounded = bits_float(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (float_bits(rounded) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

inline constexpr float bfloat16_to_float(uint16_t b) { return bits_float(static_cast<uint32_t>(b) << 16); }

inline constexpr uint16_t float_to_bfloat16(float value) {
    const uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace toprope

// A 16-bit float whose scalar arithmetic goes through float, as the scalar unit's does.
#define TOPROPE_FLOAT16_TYPE(Name, decode, encode)                                    \
    struct Name {                                                                     \
        uint16_t bits;                                                                \
        Name() = default;                                                             \
        template <typename N, typename = std::enable_if_t<std::is_arithmetic_v<N>>>   \
        constexpr Name(N value) : bits(toprope::encode(static_cast<float>(value))) {} \
        constexpr operator float() const { return toprope::decode(bits); }            \
        static constexpr Name from_bits(uint16_t b) {                                 \
            Name r{0};                                                                \
            r.bits = b;                                                               \
            return r;                                                                 \
        }                                                                             \
        Name& operator+=(Name o) { return *this = Name(float(*this) + float(o)); }    \
        Name& operator-=(Name o) { return *this = Name(float(*this) - float(o)); }    \
        Name& operator*=(Name o) { return *this = Name(float(*this) * float(o)); }    \
        Name& operator/=(Name o) { return *this = Name(float(*this) / float(o)); }    \
    }

TOPROPE_FLOAT16_TYPE(half, half_to_float, float_to_half);
TOPROPE_FLOAT16_TYPE(bfloat16_t, bfloat16_to_float, float_to_bfloat16);
using float16_t = half;

namespace AscendC {
using ::bfloat16_t;
using ::half;

// Two 4-bit integers share a byte; the element type itself only marks tensors (tensor.h keeps the counts right).
struct int4b_t {
    int8_t storage;
};
}  // namespace AscendC
using AscendC::int4b_t;

namespace toprope {

// Element types as the trace stores them; toprope/trace.py holds the same order.
enum class Dtype : uint8_t { f32, f16, bf16, s8, u8, s16, u16, s32, u32, s64, u64, s4, b8, f64, none };

template <typename T>
struct DtypeOf {
    static constexpr Dtype value = Dtype::none;
};
template <>
struct DtypeOf<float> {
    static constexpr Dtype value = Dtype::f32;
};
template <>
struct DtypeOf<half> {
    static constexpr Dtype value = Dtype::f16;
};
template <>
struct DtypeOf<bfloat16_t> {
    static constexpr Dtype value = Dtype::bf16;
};
template <>
struct DtypeOf<int8_t> {
    static constexpr Dtype value = Dtype::s8;
};
template <>
struct DtypeOf<uint8_t> {
    static constexpr Dtype value = Dtype::u8;
};
template <>
struct DtypeOf<int16_t> {
    static constexpr Dtype value = Dtype::s16;
};
template <>
struct DtypeOf<uint16_t> {
    static constexpr Dtype value = Dtype::u16;
};
template <>
struct DtypeOf<int32_t> {
    static constexpr Dtype value = Dtype::s32;
};
template <>
struct DtypeOf<uint32_t> {
    static constexpr Dtype value = Dtype::u32;
};
template <>
struct DtypeOf<int64_t> {
    static constexpr Dtype value = Dtype::s64;
};
template <>
struct DtypeOf<uint64_t> {
    static constexpr Dtype value = Dtype::u64;
};
template <>
struct DtypeOf<AscendC::int4b_t> {
    static constexpr Dtype value = Dtype::s4;
};
template <>
struct DtypeOf<bool> {
    static constexpr Dtype value = Dtype::b8;
};
template <>
struct DtypeOf<double> {
    static constexpr Dtype value = Dtype::f64;
};
template <typename T>
inline constexpr Dtype dtype_of = DtypeOf<std::remove_cv_t<T>>::value;

inline constexpr const char* kDtypeNames[] = {"float",    "half",    "bfloat16_t", "int8_t",  "uint8_t", "int16_t", "uint16_t", "int32_t",
                                              "uint32_t", "int64_t", "uint64_t",   "int4b_t", "bool",    "double",  "(none)"};

template <typename T>
inline constexpr uint32_t kElementBits = std::is_same_v<T, AscendC::int4b_t> ? 4 : sizeof(T) * 8;
// Bytes of n elements; 4-bit elements are two to a byte.
template <typename T>
inline constexpr uint64_t bytes_of(uint64_t n) {
    if constexpr (kElementBits<T> % 8 == 0)
        return n * (kElementBits<T> / 8);  // wraps like an address: a negative offset stays a small negative distance
    else
        return (n * kElementBits<T> + 7) / 8;
}

template <typename T, typename... Ts>
inline constexpr bool is_one_of = (std::is_same_v<T, Ts> || ...);
template <typename T>
inline constexpr bool is_float16 = is_one_of<T, half, bfloat16_t>;
// The type in which one lane computes: 16-bit floats are exact in float for + - * / sqrt after one rounding (24 >= 2*11+2 bits).
template <typename T>
using Lane = std::conditional_t<is_float16<T>, float, T>;

// Bulk conversions, in the runtime so that they use the machine's own instructions.
void half_to_float_n(float* out, const uint16_t* in, size_t n);
void float_to_half_n(uint16_t* out, const float* in, size_t n);

}  // namespace toprope
