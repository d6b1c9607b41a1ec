// How many temporaries the functions of the advanced library need; plain C++, so that host code can size their buffers with the same
// numbers.
#pragma once

#include <cstdint>

namespace toprope {

inline constexpr uint32_t kPieceLanes = 64;  // the smallest piece a function works on: one repeat of float

// Float temporaries per element of a piece. A function on half needs one more for each operand that it converts.
inline constexpr uint32_t kNoTemporaries = 0, kRoundTemporaries = 1, kSignTemporaries = 1, kTrigTemporaries = 4, kTanTemporaries = 4,
                          kArcTemporaries = 4, kHyperbolicTemporaries = 2, kErfTemporaries = 4, kPowerTemporaries = 4, kFmodTemporaries = 1,
                          kExpTemporaries = 3, kSigmoidTemporaries = 2, kTanhTemporaries = 2, kGeluTemporaries = 2, kGatedTemporaries = 2,
                          kGammaTemporaries = 6, kBatchNormTemporaries = 3;

// Bytes of a buffer for pieces of `elements` elements; sources counts the operands that half functions convert (dst shares the first).
constexpr uint64_t temporary_bytes(uint64_t elements, uint32_t temporaries, uint32_t element_bytes, uint32_t sources = 1) {
    return elements * 4 * (temporaries + (element_bytes < 4 ? sources : 0));
}

// Bytes that a row-wise function keeps for `rows` rows of `width` floats (a multiple of 8): partial results of a reduction, packed row
// values, `block_tensors` row values as blocks and `data_tensors` copies of the rows.
constexpr uint64_t row_scratch_bytes(uint32_t rows, uint32_t width, uint32_t block_tensors, uint32_t data_tensors) {
    const uint32_t long_row = (width / 64 + 8) / 8 * 8, padded = (rows + 7) / 8 * 8, partials = rows * 64 > long_row ? rows * 64 : long_row;
    return (uint64_t{partials} + padded + uint64_t{padded} * 8 * block_tensors + uint64_t{rows} * width * data_tensors) * 4;
}
// Row values and copies of the rows that each function needs.
struct RowTemporaries {
    uint32_t block_tensors, data_tensors;
};
constexpr RowTemporaries softmax_temporaries(uint32_t element_bytes) { return {2, element_bytes < 4 ? 1u : 0u}; }
constexpr RowTemporaries flash_temporaries(uint32_t element_bytes) { return {3, element_bytes < 4 ? 1u : 0u}; }
inline constexpr RowTemporaries kPasaTemporaries{4, 1}, kSoftmaxGradTemporaries{1, 2}, kLayerNormTemporaries{2, 2},
    kRmsNormTemporaries{1, 2}, kStatisticsTemporaries{3, 2}, kNormGradTemporaries{4, 3};

// TopK of rows of `inner` elements: entries of eight bytes twice, the values, and their places twice.
constexpr uint64_t topk_bytes(uint32_t inner, uint32_t element_bytes) {
    return uint64_t{inner} * (8 + 8 + 4 + 4) + (uint64_t{inner} * element_bytes + 31) / 32 * 32;
}

}  // namespace toprope

namespace AscendC {

enum class TopKMode { TOPK_NORMAL = 0, TOPK_NSMALL = 1 };
enum class ReducePattern { AR = 0, RA = 1 };

}  // namespace AscendC
