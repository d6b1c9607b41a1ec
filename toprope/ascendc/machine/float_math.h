// Elementary functions of float without libm: branch-free, so that loops over them vectorise, and free of fused multiply-adds, so that
// every machine gives the same bits. Each is within 1 ulp of the true value, subnormals included; tests/ascendc/test_float_math.py measures
// it.
#pragma once

#include "formats.h"

namespace toprope {

inline float choose(bool condition, float yes, float no) { return condition ? yes : no; }

// 2^n for n in [-126, 127].
inline float power_of_two(int32_t n) { return bits_float(static_cast<uint32_t>(n + 127) << 23); }

// e^x. x = n ln2 + r with |r| <= ln2/2; e^r by a polynomial whose error (2^-28) is far below half an ulp.
inline float exp_float(float x) {
    const float clamped = choose(x > 89.0f, 89.0f, choose(x < -104.0f, -104.0f, x));
    const float shifted = clamped * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the rounded integer
    const float n = shifted - 12582912.0f;
    const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;  // ln2 in two parts; the first product is exact
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const float e = (p * (r * r) + r) + 1.0f;
    // Two factors, so that results below the normal range are rounded once, at the end.
    const auto whole = static_cast<int32_t>(n);
    const int32_t half = whole >> 1;
    const float result = (e * power_of_two(half)) * power_of_two(whole - half);
    return choose(x != x, x, result);
}

// ln x, evaluated in double. x = 2^n m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1) / (m + 1).
inline float log_float(float x) {
    const bool small = x < 1.17549435e-38f;
    const uint32_t bits = float_bits(choose(small, x * 8388608.0f, x));
    const int32_t n = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;
    const double m = bits_float(bits - (static_cast<uint32_t>(n) << 23));
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    p = p * z + 2.0;
    const double exponent = n - (small ? 23 : 0);
    const auto result = static_cast<float>(exponent * 0.693147180559945309417 + s * p);
    const float infinity = bits_float(0x7f800000u), nan = bits_float(0x7fc00000u);
    return choose(x > 0.0f && x < infinity, result, choose(x == 0.0f, -infinity, choose(x > 0.0f, infinity, choose(x != x, x, nan))));
}

inline float sqrt_float(float x) { return __builtin_sqrtf(x); }
inline float reciprocal_float(float x) { return 1.0f / x; }
// In double: 1/sqrt in float would round twice.
inline float rsqrt_float(float x) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))); }

// To the nearest integer, ties to even / away from zero.
inline float nearest_even(float x) { return __builtin_rintf(x); }
inline float nearest_away(float x) {
    const float t = __builtin_truncf(x), one = bits_float((float_bits(x) & 0x80000000u) | 0x3f800000u);
    return __builtin_fabsf(x - t) >= 0.5f ? t + one : t;
}

// The nearest integer of type I, ties to even, saturated; NaN gives 0. For results of at most 16 bits.
template <typename I>
inline I saturate_float(float x) {
    static_assert(sizeof(I) <= 2);
    constexpr float low = std::is_signed_v<I> ? -static_cast<float>(1u << (sizeof(I) * 8 - 1)) : 0.0f;
    constexpr float high = static_cast<float>((1u << (sizeof(I) * 8 - (std::is_signed_v<I> ? 1 : 0))) - 1);
    const float r = nearest_even(x);
    return static_cast<I>(static_cast<int32_t>(r != r ? 0.0f : (r < low ? low : (r > high ? high : r))));
}

}  // namespace toprope
