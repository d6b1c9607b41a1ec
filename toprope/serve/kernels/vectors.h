// Sixteen floats as one value. The compiler maps it to AVX-512, to two AVX registers or to four SSE/NEON ones.
#pragma once

#include <cstdint>
#include <cstring>

namespace toprope {

constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef std::int32_t Ints __attribute__((vector_size(64)));
typedef std::uint32_t Words __attribute__((vector_size(64)));
typedef std::uint16_t Halves __attribute__((vector_size(32)));

// Storage of a bfloat16 number: the upper half of a float.
struct Bf16 {
    std::uint16_t bits;
};

inline float to_float(float x) { return x; }
inline float to_float(Bf16 x) {
    const std::uint32_t word = static_cast<std::uint32_t>(x.bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

inline void store(float* to, float x) { *to = x; }
inline void store(Bf16* to, float x) {  // round to nearest, ties to even; a NaN stays a NaN
    std::uint32_t word;
    std::memcpy(&word, &x, sizeof word);
    if ((word & 0x7fffffffu) > 0x7f800000u) {
        to->bits = 0x7fc0;
        return;
    }
    to->bits = static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

inline Floats load(const float* from) {
    Floats x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
inline Floats load(const Bf16* from) {
    Halves h;
    std::memcpy(&h, from, sizeof h);
    const Words words = __builtin_convertvector(h, Words) << 16;
    return (Floats)words;  // same bits
}

inline void store(float* to, Floats x) { std::memcpy(to, &x, sizeof x); }
inline void store(Bf16* to, Floats x) {
    for (int i = 0; i < kLanes; ++i) store(to + i, x[i]);
}

inline Floats splat(float x) { return Floats{} + x; }
inline Floats max(Floats a, Floats b) { return a > b ? a : b; }

inline float highest(Floats x) {
    float lanes[kLanes];
    store(lanes, x);
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
    return lanes[0];
}

// Added pairwise in a fixed order, so the result does not depend on how the compiler vectorises.
inline float total(Floats x) {
    float lanes[kLanes];
    store(lanes, x);
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    return lanes[0];
}

// e**x within 2 units in the last place: 2**n times a polynomial on [-ln2/2, ln2/2]. Below -87 the answer is e**-87.
inline Floats exponential(Floats x) {
    x = max(x, splat(-87.0f));
    x = x < 88.0f ? x : splat(88.0f);
    const Floats shifted = x * 1.44269504f + 12582912.0f;  // adding 1.5 * 2**23 rounds to the nearest integer
    const Floats n = shifted - 12582912.0f;
    Floats r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    Floats p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const Ints exponent = (__builtin_convertvector(n, Ints) + 127) << 23;
    return p * (Floats)exponent;
}

}  // namespace toprope
