// What the host decides for a launch of matmul. Lengths in elements.
#pragma once

#include <cstdint>

struct MatmulTilingData {
    uint32_t m;
    uint32_t n;
    uint32_t k;
    uint32_t partsM;     // blocks of C: so many cores share columns and take rows of tiles in turn,
    uint32_t partsN;     // and so many blocks of columns lie side by side
    uint32_t bandTiles;  // rows of tiles of a core that are worked off together, column by column
    uint32_t keepEvery;  // of 64 of K each, every so-many-th of B stays in L1 for the tiles below; 0: none
};
