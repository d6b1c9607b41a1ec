// How many temporaries the functions of the advanced library need; plain C++, so that host code can size their buffers with the same
// numbers.
#pragma once

#include <cstdint>

namespace toprope {

inline constexpr uint32_t kPieceLanes = 64;  // the smallest piece a function works on: one repeat of float

// Float temporaries per element of a piece. A function on half needs kCastTemporaries more: its operands as float.
inline constexpr uint32_t kNoTemporaries = 0, kRoundTemporaries = 1, kSignTemporaries = 1, kTrigTemporaries = 4, kTanTemporaries = 4,
                          kArcTemporaries = 4, kHyperbolicTemporaries = 2, kErfTemporaries = 4, kPowerTemporaries = 4, kFmodTemporaries = 1,
                          kExpTemporaries = 2, kXorTemporaries = 1, kSigmoidTemporaries = 2, kTanhTemporaries = 2, kGeluTemporaries = 2,
                          kGatedTemporaries = 2, kQuantTemporaries = 2, kAxpyTemporaries = 1;

// Bytes of a buffer for pieces of `elements` elements; sources counts the operands that half functions convert (dst shares the first).
constexpr uint64_t temporary_bytes(uint64_t elements, uint32_t temporaries, uint32_t element_bytes, uint32_t sources = 1) {
    return elements * 4 * (temporaries + (element_bytes < 4 ? sources : 0));
}

}  // namespace toprope
