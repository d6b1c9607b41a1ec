// What the host decides for a launch of cast_scale_bias. Lengths in elements.
#pragma once

#include <cstdint>

struct CastScaleBiasTilingData {
    uint32_t rows;
    uint32_t columns;
    uint32_t coreRows;     // of a core, or of the cores that share them
    uint32_t parts;        // cores that share rows
    uint32_t partColumns;  // columns of each
    uint32_t piece;        // columns at a time
    uint32_t tileRows;     // rows at a time
};
