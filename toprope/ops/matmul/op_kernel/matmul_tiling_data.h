// What the host decides for a launch of matmul. Lengths in elements.
#pragma once

#include <cstdint>

struct MatmulTilingData {
    uint32_t m;
    uint32_t n;
    uint32_t k;
    uint32_t bandRows;  // rows of tiles that are worked off together, column by column; 1: tiles in reading order
};
