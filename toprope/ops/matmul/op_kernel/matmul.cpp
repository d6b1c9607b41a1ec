// c = a x b in half, sums in float, with the raw cube API: a ladder of five kernels, each with one idea more than the one before.
//   matmul_naive     one buffer everywhere: load, split, multiply and store wait for each other
//   matmul_buffered  two buffers in L1 and in L0: copies and products overlap
//   matmul_packets   four steps of K per copy into L1: fewer, longer copies
//   matmul_banded    the tiles in work at one time form a block of C, so that cores share rows of A and columns of B in L2
//   matmul           unit flag: the store of a tile follows the cube fractal by fractal, and the next tile starts behind it
#include "cube_tiles.h"
#include "kernel_operator.h"
#include "matmul_tiling_data.h"

using namespace AscendC;

template <uint32_t buffers, uint32_t steps, bool unitFlag>
__aicore__ inline void RunMatmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, const MatmulTilingData& tiling) {
    const uint32_t m = tiling.m, n = tiling.n;
    CubeTiles<buffers, steps, unitFlag> tiles;
    tiles.Open(a, m, b, c, m, n, tiling.k);
    const uint32_t tilesM = (m + TILE_M - 1) / TILE_M, tilesN = (n + TILE_N - 1) / TILE_N;
    for (uint32_t t = GetBlockIdx(); t < tilesM * tilesN; t += GetBlockNum()) {
        const uint32_t band = t / (tiling.bandRows * tilesN), place = t % (tiling.bandRows * tilesN);
        const uint32_t bandRows = Least(tiling.bandRows, tilesM - band * tiling.bandRows);
        const uint32_t row = (band * tiling.bandRows + place % bandRows) * TILE_M;
        tiles.Tile(row, row, place / bandRows * TILE_N, Least(TILE_M, m - row));
    }
    tiles.Close();
}

extern "C" __global__ __aicore__ void matmul_naive(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunMatmul<1, 1, false>(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_buffered(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunMatmul<2, 1, false>(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_packets(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunMatmul<2, 4, false>(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_banded(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunMatmul<2, 4, false>(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    RunMatmul<2, 4, true>(a, b, c, data);
}
