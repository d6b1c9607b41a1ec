// Sixteen floats as one value, in as many registers as the processor needs for them: one of AVX-512, two of AVX, four of SSE or NEON.
// (A vector type that is wider than a register would pass through memory at every operation.) Every lane is computed alike on each.
#pragma once

#include <cstdint>
#include <cstring>

namespace toprope {

constexpr int kLanes = 16;

// A register and what is computed lane by lane; `Half` holds as many 16-bit numbers.
#if defined(__AVX512F__)
constexpr int kRegisterLanes = 16, kRegisters = 32;
#elif defined(__AVX__)
constexpr int kRegisterLanes = 8, kRegisters = 16;
#elif defined(__aarch64__)
constexpr int kRegisterLanes = 4, kRegisters = 32;
#else
constexpr int kRegisterLanes = 4, kRegisters = 16;
#endif
typedef float Register __attribute__((vector_size(4 * kRegisterLanes)));
typedef std::int32_t IntRegister __attribute__((vector_size(4 * kRegisterLanes)));
typedef std::uint32_t WordRegister __attribute__((vector_size(4 * kRegisterLanes)));
typedef std::uint16_t HalfRegister __attribute__((vector_size(2 * kRegisterLanes)));

#define TOPROPE_INLINE inline __attribute__((always_inline))

// From and to memory of any alignment. Through memcpy, GCC moves a register that is wider than 16 bytes in pieces over the stack.
template <class V>
struct __attribute__((packed, may_alias)) Unaligned {
    V value;
};
template <class V>
TOPROPE_INLINE V load_register(const void* from) {
    return static_cast<const Unaligned<V>*>(from)->value;
}
template <class V>
TOPROPE_INLINE void store_register(void* to, V value) {
    static_cast<Unaligned<V>*>(to)->value = value;
}

// Storage of a bfloat16 number: the upper half of a float.
struct Bf16 {
    std::uint16_t bits;
};

TOPROPE_INLINE float to_float(float x) { return x; }
TOPROPE_INLINE float to_float(Bf16 x) {
    const std::uint32_t word = static_cast<std::uint32_t>(x.bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

TOPROPE_INLINE void store(float* to, float x) { *to = x; }
TOPROPE_INLINE void store(Bf16* to, float x) {  // round to nearest, ties to even; a NaN stays a NaN
    std::uint32_t word;
    std::memcpy(&word, &x, sizeof word);
    if ((word & 0x7fffffffu) > 0x7f800000u) {
        to->bits = 0x7fc0;
        return;
    }
    to->bits = static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

TOPROPE_INLINE Register load_part(const float* from) { return load_register<Register>(from); }
TOPROPE_INLINE Register load_part(const Bf16* from) {
    return (Register)(__builtin_convertvector(load_register<HalfRegister>(from), WordRegister) << 16);  // same bits
}
TOPROPE_INLINE void store_part(float* to, Register x) { store_register(to, x); }
TOPROPE_INLINE void store_part(Bf16* to, Register x) {
    const WordRegister word = (WordRegister)x, rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    const WordRegister bits = (WordRegister)((word & 0x7fffffffu) > 0x7f800000u);
    store_register(to, __builtin_convertvector((bits & 0x7fc0u) | (~bits & rounded), HalfRegister));
}
TOPROPE_INLINE Register choose(IntRegister condition, Register yes, Register no) { return condition ? yes : no; }

// Two values of half the width, treated as one.
template <class V>
struct Pair {
    V low, high;
};
template <class V>
constexpr int kLanesOf = sizeof(V) / 4;
#define TOPROPE_PAIRWISE(op)                                                     \
    template <class V>                                                           \
    TOPROPE_INLINE auto operator op(const Pair<V>& a, const Pair<V>& b) {        \
        return Pair<decltype(a.low op b.low)>{a.low op b.low, a.high op b.high}; \
    }                                                                            \
    template <class V, class S>                                                  \
    TOPROPE_INLINE auto operator op(const Pair<V>& a, S b) {                     \
        return Pair<decltype(a.low op b)>{a.low op b, a.high op b};              \
    }
TOPROPE_PAIRWISE(+)
TOPROPE_PAIRWISE(-)
TOPROPE_PAIRWISE(*)
TOPROPE_PAIRWISE(/)
#undef TOPROPE_PAIRWISE
template <class V>
TOPROPE_INLINE Pair<V> operator-(const Pair<V>& a) {
    return {-a.low, -a.high};
}
template <class V>
TOPROPE_INLINE Pair<V>& operator+=(Pair<V>& a, const Pair<V>& b) {
    a.low += b.low;
    a.high += b.high;
    return a;
}
// Sixteen lanes made of registers of `lanes` lanes.
template <class V, int lanes>
struct Sixteen {
    using Type = Pair<typename Sixteen<V, lanes * 2>::Type>;
};
template <class V>
struct Sixteen<V, kLanes> {
    using Type = V;
};
using Floats = typename Sixteen<Register, kRegisterLanes>::Type;

template <class V, class T>
TOPROPE_INLINE void read(V& x, const T* from) {
    x = load_part(from);
}
template <class V, class T>
TOPROPE_INLINE void read(Pair<V>& x, const T* from) {
    read(x.low, from);
    read(x.high, from + kLanesOf<V>);
}
template <class T>
TOPROPE_INLINE Floats load(const T* from) {
    Floats x;
    read(x, from);
    return x;
}
template <class T>
TOPROPE_INLINE void store(T* to, Register x) {
    store_part(to, x);
}
template <class T, class V>
TOPROPE_INLINE void store(T* to, const Pair<V>& x) {
    store(to, x.low);
    store(to + kLanesOf<V>, x.high);
}

TOPROPE_INLINE Floats splat(float x) { return Floats{} + x; }

// Lanes [0, count) of x, `other` in those behind.
TOPROPE_INLINE Register first_lanes(Register x, std::int32_t count, float other, int from) {
    IntRegister lane;
    for (int i = 0; i < kRegisterLanes; ++i) lane[i] = from + i;
    return choose(lane < count, x, Register{} + other);
}
template <class V>
TOPROPE_INLINE Pair<V> first_lanes(const Pair<V>& x, std::int32_t count, float other, int from) {
    return {first_lanes(x.low, count, other, from), first_lanes(x.high, count, other, from + kLanesOf<V>)};
}

TOPROPE_INLINE Register larger(Register a, Register b) { return a > b ? a : b; }
template <class V>
TOPROPE_INLINE Pair<V> larger(const Pair<V>& a, const Pair<V>& b) {
    return {larger(a.low, b.low), larger(a.high, b.high)};
}

// Halves against halves in a fixed order, so the result does not depend on the width of a register.
TOPROPE_INLINE float highest(Register x) {
    float lanes[kRegisterLanes];
    store(lanes, x);
    for (int width = kRegisterLanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
    return lanes[0];
}
TOPROPE_INLINE float total(Register x) {
    float lanes[kRegisterLanes];
    store(lanes, x);
    for (int width = kRegisterLanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    return lanes[0];
}
template <class V>
TOPROPE_INLINE float highest(const Pair<V>& x) {
    return highest(larger(x.low, x.high));
}
template <class V>
TOPROPE_INLINE float total(const Pair<V>& x) {
    return total(x.low + x.high);
}

// e**x within 2 units in the last place: 2**n times a polynomial on [-ln2/2, ln2/2]. Below -87 the answer is e**-87.
TOPROPE_INLINE Register exponential(Register x) {
    x = larger(x, Register{} - 87.0f);
    x = choose(x < 88.0f, x, Register{} + 88.0f);
    const Register shifted = x * 1.44269504f + 12582912.0f;  // adding 1.5 * 2**23 rounds to the nearest integer
    const Register n = shifted - 12582912.0f;
    Register r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    Register p = Register{} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const IntRegister exponent = (__builtin_convertvector(n, IntRegister) + 127) << 23;
    return p * (Register)exponent;
}
template <class V>
TOPROPE_INLINE Pair<V> exponential(const Pair<V>& x) {
    return {exponential(x.low), exponential(x.high)};
}
TOPROPE_INLINE float exponential(float x) { return exponential(Register{} + x)[0]; }

}  // namespace toprope
