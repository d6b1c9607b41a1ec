// Loops of the instructions that write or read one bit per lane: Compare and Select.
#pragma once

#include "vector.h"

namespace toprope {

// What a comparison works on. `bits` receives lane 0 of repeat 0 in its lowest bit; `scalar` (bits of the element) replaces the second
// source if set.
struct CompareContext {
    Dtype dtype;
    AscendC::CMPMODE mode;
    bool has_scalar;
    uint32_t scalar;
    uint8_t* bits;
};
void compare_body(const void* context, void* dst, const void* const* src, size_t n, uint64_t first);

// Bit 1 takes the first source, bit 0 the second or the scalar. `period` != 0: the same bits serve every `period` lanes.
struct SelectContext {
    uint32_t element_bytes, period;
    bool has_scalar;
    uint32_t scalar;
    const uint8_t* bits;
};
void select_body(const void* context, void* dst, const void* const* src, size_t n, uint64_t first);

template <typename T>
uint32_t scalar_bits(T value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}

}  // namespace toprope
