// What the host decides for a launch of softmax. Lengths in elements.
#pragma once

#include <cstdint>

struct SoftmaxTilingData {
    uint32_t rows;
    uint32_t columns;
    uint32_t tileRows;      // rows copied together (strategies 1 and 2)
    uint32_t buffers;       // buffers per queue: 2, or 1 where a long row leaves no room for two
    uint32_t parts;         // cores that share a row (strategy 3)
    uint32_t partColumns;   // columns of a row that one of them does
    uint32_t pieceColumns;  // columns it holds at a time
};
