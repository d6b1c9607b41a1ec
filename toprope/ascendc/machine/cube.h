// The cube unit's data layouts and its multiply. A fractal is 512 bytes: 16 rows of 32 bytes (k0 elements).
// L0A holds A as zZ (fractals row by row, rows inside), L0B holds B as nZ (fractals row by row, columns inside),
// L0C holds C as zN (fractals column by column, 16x16 elements, rows inside). Page: 矩阵计算分形介绍.
#pragma once

#include "vector.h"

namespace toprope {

inline constexpr uint32_t kFractalBytes = 512;
template <typename T>
inline constexpr uint32_t kK0 = 256 / kElementBits<T>;  // elements in 32 bytes

constexpr uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

// One element as the accumulator's type; 4-bit elements are two to a byte, low half first.
template <typename Acc, typename T>
Acc cube_element(const uint8_t* base, uint64_t index) {
    if constexpr (std::is_same_v<T, AscendC::int4b_t>) {
        const uint8_t byte = base[index / 2];
        return static_cast<Acc>(static_cast<int8_t>(index % 2 ? byte & 0xf0 : byte << 4) >> 4);
    } else {
        T value;
        std::memcpy(static_cast<void*>(&value), base + index * sizeof(T), sizeof(T));
        return static_cast<Acc>(static_cast<Lane<T>>(value));
    }
}

// `count` consecutive elements.
template <typename Acc, typename T>
void cube_elements(Acc* out, const uint8_t* base, uint64_t index, uint32_t count) {
    if constexpr (std::is_same_v<T, half> && std::is_same_v<Acc, float>)
        half_to_float_n(out, reinterpret_cast<const uint16_t*>(base) + index, count);
    else
        for (uint32_t i = 0; i < count; ++i) out[i] = cube_element<Acc, T>(base, index + i);
}

// C (+)= A x B in blocks of 16 x 16: C column of blocks by column of blocks (zN), A [mf][kf][16][k0], B [nf][kf * k0][16].
struct CubeProduct {
    uint32_t mf, kf, nf, k0, k;
    bool accumulate;
};
// In the runtime, where fused multiply-add is allowed: products of 16-bit floats are exact in float, so fusing does not change them.
void cube_product(float* c, const float* a, const float* b, const CubeProduct& p);
void cube_product(int32_t* c, const int32_t* a, const int32_t* b, const CubeProduct& p);

// Turns a square of 16-bit elements; `out` and `in` may not overlap.
void transpose_16x16(uint16_t* out, const uint16_t* in);

// Room for the converted operands of an Mmad (0: left, 1: right) and a widened result (2); grows to the largest asked for.
float* cube_scratch(int operand, size_t elements);

}  // namespace toprope
