// What the host decides for a launch of layer_norm_gemm. Lengths in elements.
#pragma once

#include <cstdint>

struct LayerNormGemmTilingData {
    uint32_t m;  // rows of x and c
    uint32_t k;  // columns of x, rows of w
    uint32_t n;  // columns of w and c
    float epsilon;
    uint32_t tileRows;   // rows a vector core normalises at a time
    uint32_t buffers;    // buffers per queue of the vector cores
    uint32_t turnRows;   // rows handed over at a time
    uint32_t partsM;     // cube cores that share columns of c and take its rows of tiles in turn
    uint32_t partsN;     // blocks of columns, side by side
    uint32_t bandTiles;  // rows of tiles of a cube core that are worked off together, column by column
    uint32_t keepEvery;  // of 64 of k each, every so-many-th of w stays in L1; 0: none
};
