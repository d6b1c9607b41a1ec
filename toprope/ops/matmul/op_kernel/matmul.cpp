// c = a x b in half, sums in float, with the raw cube API: a ladder of six kernels, each with one idea more than the one before.
//   matmul_naive     one buffer everywhere: load, split, multiply and store wait for each other
//   matmul_buffered  two buffers in L1 and in L0: copies and products overlap
//   matmul_packets   four steps of K per copy of A, copies of B far ahead: fewer, longer rows
//   matmul_blocks    each core has a block of C, all blocks alike; cores that share rows of A or columns of B begin at different K
//   matmul_kept      part of B stays in L1 while the core goes down its column of tiles: fewer bytes come than the cube can use
//   matmul           unit flag: the store of a tile follows the cube fractal by fractal, and the next tile starts behind it
#include "block_walk.h"
#include "cube_tiles.h"
#include "kernel_operator.h"
#include "matmul_tiling_data.h"

using namespace AscendC;

// The rungs that hand out tiles in reading order, one after the other.
template <uint32_t buffers, uint32_t steps>
__aicore__ inline void RunTiles(GM_ADDR a, GM_ADDR b, GM_ADDR c, const MatmulTilingData& tiling) {
    const uint32_t m = tiling.m, n = tiling.n;
    CubeTiles<buffers, steps, false> tiles;
    tiles.Open(a, m, b, c, m, n, tiling.k);
    const uint32_t tilesM = (m + TILE_M - 1) / TILE_M, tilesN = (n + TILE_N - 1) / TILE_N;
    for (uint32_t t = GetBlockIdx(); t < tilesM * tilesN; t += GetBlockNum()) {
        const uint32_t row = t / tilesN * TILE_M;
        tiles.Tile(row, row, t % tilesN * TILE_N, Least(TILE_M, m - row));
    }
    tiles.Close();
}

// The rungs that give each core a block of C.
template <bool unitFlag, uint32_t kept>
__aicore__ inline void RunBlocks(GM_ADDR a, GM_ADDR b, GM_ADDR c, const MatmulTilingData& tiling) {
    BlockWalk walk(tiling.m, tiling.n, tiling.partsM, tiling.partsN, tiling.bandTiles);
    CubeTiles<2, PACKET_STEPS, unitFlag, kept> tiles;
    tiles.Open(a, tiling.m, b, c, tiling.m, tiling.n, tiling.k);
    tiles.BeginAt(PartBegin(tiles.Packets(), tiling.partsN, walk.Across()) + PartBegin(tiles.Packets(), tiling.partsM, walk.Down()));
    tiles.KeepEvery(tiling.keepEvery);
    while (walk.Next()) tiles.Tile(walk.row, walk.row, walk.column, walk.height, walk.width, walk.sameColumns);
    tiles.Close();
}

extern "C" __global__ __aicore__ void matmul_naive(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunTiles<1, 1>(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_buffered(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunTiles<2, 1>(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_packets(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunTiles<2, PACKET_STEPS>(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_blocks(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunBlocks<false, 0>(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_kept(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunBlocks<false, KEPT_STEPS>(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunBlocks<true, KEPT_STEPS>(a, b, c, data);
}
