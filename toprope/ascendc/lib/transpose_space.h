// Shapes of Transpose and TransData, and the temporary space that they take: what the pages' algorithms put there. Plain C++, for host
// code too.
#pragma once

#include <cstdint>

namespace toprope {

constexpr uint64_t padded_to_16(uint64_t n) { return (n + 15) / 16 * 16; }

struct HeadShape {
    uint32_t b, n, s, h;
};
struct VolumeShape {
    uint32_t n, c, d, h, w;
};

// Bytes. Types 1 and 2 keep the S/16 squares of a column of squares, types 3 to 6 keep them twice; type 7 turns in place.
constexpr uint64_t transpose_space(uint32_t type, uint64_t s, uint32_t element_bytes) {
    const uint64_t squares = padded_to_16(s) * 16 * element_bytes;
    return type == 1 || type == 2 ? squares : type >= 3 && type <= 6 ? 2 * squares : 0;
}
// Bytes: sixteen channels of a plane of hw elements of 16 bits.
constexpr uint64_t trans_data_space(uint64_t hw) { return padded_to_16(hw) * 16 * 2; }

}  // namespace toprope
