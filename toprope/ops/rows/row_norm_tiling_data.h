// What the host decides for a launch of layer_norm or rms_norm. Lengths in elements.
#pragma once

#include <cstdint>

struct RowNormTilingData {
    uint32_t rows;
    uint32_t columns;
    float epsilon;
    uint32_t tileRows;      // rows copied together (whole rows)
    uint32_t buffers;       // buffers per queue: 2, or 1 where a long row leaves no room for two
    uint32_t parts;         // cores that share a row (pieces)
    uint32_t partColumns;   // columns of a row that one of them does
    uint32_t pieceColumns;  // columns it holds at a time
};
