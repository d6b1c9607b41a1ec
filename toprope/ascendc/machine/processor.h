// What the processor that this is compiled for has: registers of floats, a fused multiply-add, conversions of half. For the runtime and
// other host code only: kernels do not pay for the compiler's own headers. Each branch gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif  // not arm_neon.h: its float16_t is another one than Ascend C's

namespace toprope {

// The widest register that a compiler keeps a vector type in; a wider type may pass through memory at every operation.
#if defined(__AVX512F__)
inline constexpr uint32_t kRegisterBytes = 64, kRegisters = 32;
typedef float RegisterFloats __attribute__((vector_size(64)));
typedef uint32_t RegisterWords __attribute__((vector_size(64)));
#elif defined(__AVX__)
inline constexpr uint32_t kRegisterBytes = 32, kRegisters = 16;
typedef float RegisterFloats __attribute__((vector_size(32)));
typedef uint32_t RegisterWords __attribute__((vector_size(32)));
#else
#if defined(__aarch64__)
inline constexpr uint32_t kRegisterBytes = 16, kRegisters = 32;
#else
inline constexpr uint32_t kRegisterBytes = 16, kRegisters = 16;
#endif
typedef float RegisterFloats __attribute__((vector_size(16)));
typedef uint32_t RegisterWords __attribute__((vector_size(16)));
#endif
inline constexpr uint32_t kRegisterFloats = kRegisterBytes / 4;

#if defined(__AVX512F__) || defined(__FMA__) || defined(__aarch64__)
inline constexpr bool kFusedMultiplyAdd = true;
#else
inline constexpr bool kFusedMultiplyAdd = false;
#endif

// a * b + c, rounded once. The product is exact in double; the sum is rounded to odd there, so that rounding it to float rounds once.
inline float fused(float a, float b, float c) {
    const double product = static_cast<double>(a) * b, wide = c, sum = product + wide;
    const double taken = sum - product, rest = (product - (sum - taken)) + (wide - taken);  // what the sum lost, exactly
    uint64_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    if ((rest > 0 || rest < 0) && (bits & 1) == 0) bits += (rest > 0) == (sum > 0) ? 1 : ~uint64_t{0};
    double odd;
    std::memcpy(&odd, &bits, sizeof odd);
    return static_cast<float>(odd);
}

// a * b + c in every lane, rounded once: by the processor's own instruction, whatever the compiler may contract.
inline RegisterFloats fused(RegisterFloats a, RegisterFloats b, RegisterFloats c) {
#if defined(__AVX512F__)
    return (RegisterFloats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (RegisterFloats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
    return c;
#else
    RegisterFloats out;
    for (uint32_t i = 0; i < kRegisterFloats; ++i) out[i] = fused(a[i], b[i], c[i]);
    return out;
#endif
}

inline RegisterWords fused(RegisterWords a, RegisterWords b, RegisterWords c) { return a * b + c; }  // wraps

// Eight halves at a time, where the processor converts them; the rest by the portable functions of formats.h.
#if defined(__F16C__)
inline constexpr bool kConvertsHalf = true;
inline void widen_halves(float* out, const uint16_t* in) { _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)in))); }
inline void narrow_halves(uint16_t* out, const float* in) { _mm_storeu_si128((__m128i*)out, _mm256_cvtps_ph(_mm256_loadu_ps(in), 0)); }
#elif defined(__aarch64__)
inline constexpr bool kConvertsHalf = true;
inline void widen_halves(float* out, const uint16_t* in) {
    for (int i = 0; i < 8; ++i) {
        __fp16 h;
        std::memcpy(&h, in + i, sizeof h);
        out[i] = h;
    }
}
inline void narrow_halves(uint16_t* out, const float* in) {
    for (int i = 0; i < 8; ++i) {
        const __fp16 h = in[i];
        std::memcpy(out + i, &h, sizeof h);
    }
}
#else
inline constexpr bool kConvertsHalf = false;
inline void widen_halves(float*, const uint16_t*) {}
inline void narrow_halves(uint16_t*, const float*) {}
#endif

}  // namespace toprope
