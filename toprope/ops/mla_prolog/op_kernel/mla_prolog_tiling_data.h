// What the host decides for a launch of mla_prolog. Lengths in elements.
#pragma once

#include <cstdint>

struct MlaPrologTilingData {
    uint32_t tokens;
    uint32_t hidden;      // columns of x
    uint32_t queryRank;   // columns of the compressed query
    uint32_t keyRank;     // columns of the compressed key and value
    uint32_t rope;        // columns that are rotated, of a key and of each head of a query
    uint32_t heads;       // of the query
    uint32_t headLength;  // columns of a head, the rotated ones last
    uint32_t cacheRows;
    float epsilon;
    uint32_t downColumns;  // columns of a tile of the products with x
    uint32_t upColumns;    // columns of a tile of the query
};
