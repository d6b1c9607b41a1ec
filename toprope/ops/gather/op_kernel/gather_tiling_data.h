// What the host decides for a launch of gather. Rows are bytes: an element type does not matter to a copy.
#pragma once

#include <cstdint>

struct GatherTilingData {
    uint32_t tableRows;
    uint32_t rowBytes;
    uint32_t indices;
    uint32_t coreIndices;  // of a core, or of the cores that share them
    uint32_t parts;        // cores that share the same indices, each with its own part of every row
    uint32_t partBytes;    // of a row; a multiple of 32
    uint32_t pieceBytes;   // of a row that are moved at a time; a multiple of 32
    uint32_t batchRows;    // rows that are stored together
};
