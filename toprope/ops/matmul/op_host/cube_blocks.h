// How the cores share the tiles of a product, on the host: matmul and layer_norm_gemm.
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

// Of Ascend 910B: products of a cube in a cycle, cycles until one starts; bytes in a cycle from L2 into L1 with change of layout.
constexpr double PRODUCTS_A_CYCLE = 4096, PRODUCT_START = 9, BYTES_A_CYCLE = 89;

// partsN blocks of columns for partsM cores each. A core takes bandTiles of its rows of tiles column by column and keeps every keepEvery-th
// 64 of K of B in L1 meanwhile (0: none).
struct Blocks {
    uint32_t partsM, partsN, bandTiles, keepEvery;
    double cycles;  // of the slowest core: those of its cube or of its copies into L1
};

// With partsM x partsN cores, and bands of about `bandRows` rows of c for all cores together.
inline Blocks BlocksOf(uint64_t m, uint64_t n, uint64_t k, uint64_t partsM, uint64_t partsN, uint64_t bandRows) {
    const uint64_t high = CeilDiv(CeilDiv(m, UNIT_M), partsM) * UNIT_M, wide = std::min(CeilDiv(CeilDiv(n, UNIT_N), partsN) * UNIT_N, n);
    const uint64_t tilesM = CeilDiv(high, TILE_M), tilesN = CeilDiv(wide, TILE_N), steps = CeilDiv(k, STEP_K);
    const uint64_t bands = CeilDiv(tilesM, std::max<uint64_t>(1, bandRows / TILE_M / partsM)), band = CeilDiv(tilesM, bands);
    // What is kept pays from the second tile of the same columns on, and needs more than one packet of K.
    const uint64_t fresh = tilesN == 1 ? 1 : bands;
    const uint64_t every = fresh < tilesM && k > PACKET_STEPS * STEP_K ? CeilDiv(steps, KEPT_STEPS) : 0;
    const double kept = every == 0 ? 0 : static_cast<double>(CeilDiv(steps, every)) / static_cast<double>(steps);
    const double rows = static_cast<double>(high * tilesN + wide * tilesM) - static_cast<double>(wide * (tilesM - fresh)) * kept;
    const double cube = static_cast<double>(high * wide * STEP_K) / PRODUCTS_A_CYCLE + static_cast<double>(tilesM * tilesN) * PRODUCT_START;
    const double cycles = static_cast<double>(steps) * std::max(cube, rows * STEP_K * sizeof(uint16_t) / BYTES_A_CYCLE);
    return {static_cast<uint32_t>(partsM), static_cast<uint32_t>(partsN), static_cast<uint32_t>(band), static_cast<uint32_t>(every),
            cycles};
}

// The fastest blocks for up to `cores` cores.
inline Blocks ChooseBlocks(uint64_t m, uint64_t n, uint64_t k, uint64_t cores, uint64_t bandRows) {
    Blocks best = BlocksOf(m, n, k, 1, std::min(cores, CeilDiv(n, UNIT_N)), bandRows);
    for (uint64_t partsM = 2; partsM <= std::min(cores, CeilDiv(m, UNIT_M)); partsM++) {
        const Blocks other = BlocksOf(m, n, k, partsM, std::min(cores / partsM, CeilDiv(n, UNIT_N)), bandRows);
        if (other.cycles < best.cycles) best = other;
    }
    return best;
}

}  // namespace library
