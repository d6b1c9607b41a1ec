// In which order the cores of a product take the tiles of c, on the host: matmul and layer_norm_gemm.
#pragma once

#include "../../host/launch.h"
#include "../op_kernel/cube_tile_sizes.h"

namespace library {

// Whether two shapes are (m, k) and (k, n) with rows that the kernel can copy.
inline ge::graphStatus CheckProduct(const gert::Shape& a, const gert::Shape& b, const char* nameOfA, const char* nameOfB) {
    OPS_RULE(a.GetDimNum() == 2 && b.GetDimNum() == 2 && a.GetDim(1) == b.GetDim(0),
             "%s and %s do not go together; %s is (m, k) and %s is (k, n)", nameOfA, nameOfB, nameOfA, nameOfB);
    OPS_RULE(a.GetDim(1) <= MOST_ROW && b.GetDim(1) <= MOST_ROW,
             "k = %ld, n = %ld: rows of %s or %s are too long; at most %u elements in a row", a.GetDim(1), b.GetDim(1), nameOfA, nameOfB,
             MOST_ROW);
    OPS_RULE(a.GetDim(0) <= UINT32_MAX, "%s has %ld rows, too many to count in 32 bits; split it", nameOfA, a.GetDim(0));
    return ge::GRAPH_SUCCESS;
}

// Rows of tiles in a band: with `blocks` cores at work the block of c they cover is about square (tiles are twice as wide as high).
inline uint64_t BandTiles(uint64_t tilesM, uint64_t blocks) {
    return std::clamp<uint64_t>(static_cast<uint64_t>(std::nearbyint(std::sqrt(2.0 * static_cast<double>(blocks)))), 1,
                                std::max<uint64_t>(1, tilesM));
}

}  // namespace library
