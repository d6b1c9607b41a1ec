// c = layer_norm(x) x w in one launch: the vector cores normalise x into a workspace in GM, turn by turn; the cube cores multiply the rows
// of the turns that are there. A turn is a run of rows, shared by all vector cores: they wait for each other (flag ALL) and then each pair
// tells its cube core (flag READY). Each cube core has some columns of w, keeps part of them in L1 as in matmul, and takes rows of tiles in
// turn with the other cores of these columns. Nothing is handed back: the workspace holds all rows, and L2 keeps what was just written.
// `layer_norm_gemm_naive` does one after the other: a single turn, row by row, and products with one buffer everywhere.
#include "../../matmul/op_kernel/block_walk.h"
#include "../../matmul/op_kernel/cube_tiles.h"
#include "../../rows/row_norm.h"
#include "kernel_operator.h"
#include "layer_norm_gemm_tiling_data.h"

using namespace AscendC;

constexpr uint16_t READY = 0, ALL = 1;
constexpr uint32_t EVERYBODY = 0, PAIR = 2;  // who takes part in a flag: all cores of a type; a cube core and its vector cores

__aicore__ inline void HandOver() {
    CrossCoreWaitFlag(ALL);
    CrossCoreSetFlag<PAIR, PIPE_MTE2>(READY);  // not behind the stores of the next turn
}

template <bool many>
__aicore__ inline void Normalise(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR workspace, const LayerNormGemmTilingData& tiling) {
    const RowNormTilingData rows{tiling.m, tiling.k, tiling.epsilon, tiling.tileRows, tiling.buffers, 1, tiling.k, tiling.k};
    NormWholeRows<half, true, many> norm;
    norm.Open(x, gamma, beta, workspace, tiling.m, nullptr, nullptr, rows);
    const uint32_t cores = GetBlockNum() * 2, share = (tiling.turnRows + cores - 1) / cores;
    for (uint32_t row = 0; row < tiling.m; row += tiling.turnRows) {
        const uint32_t last = Least(row + tiling.turnRows, tiling.m), begin = Least(row + GetBlockIdx() * share, last);
        norm.Rows(begin, Least(begin + share, last), begin);
        CrossCoreSetFlag<EVERYBODY, PIPE_MTE3>(ALL);
        if (row > 0) HandOver();  // the turn before: nobody stands still for this one
    }
    HandOver();
}

template <uint32_t buffers, uint32_t steps, bool unitFlag, uint32_t kept>
__aicore__ inline void Multiply(GM_ADDR w, GM_ADDR c, GM_ADDR workspace, const LayerNormGemmTilingData& tiling) {
    BlockWalk walk(tiling.m, tiling.n, tiling.partsM, tiling.partsN, tiling.bandTiles);
    CubeTiles<buffers, steps, unitFlag, kept> tiles;
    tiles.Open(workspace, tiling.m, w, c, tiling.m, tiling.n, tiling.k);
    tiles.KeepEvery(tiling.keepEvery);
    uint32_t ready = 0;  // rows that are normalised
    while (walk.Next()) {
        for (; ready < walk.row + walk.height; ready += tiling.turnRows) CrossCoreWaitFlag(READY);
        tiles.Tile(walk.row, walk.row, walk.column, walk.height, walk.width, walk.sameColumns);
    }
    for (; ready < tiling.m; ready += tiling.turnRows) CrossCoreWaitFlag(READY);  // every flag that is set is waited for
    tiles.Close();
}

extern "C" __global__ __aicore__ void layer_norm_gemm(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR w, GM_ADDR c, GM_ADDR workspace,
                                                      GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(LayerNormGemmTilingData);
    GET_TILING_DATA(data, tiling);
    if (data.m == 0 || data.n == 0) return;
    GM_ADDR rows = GetUserWorkspace(workspace);
    if ASCEND_IS_AIV {
        if (TILING_KEY_IS(1))
            Normalise<true>(x, gamma, beta, rows, data);
        else if (TILING_KEY_IS(2))
            Normalise<false>(x, gamma, beta, rows, data);
    }
    if ASCEND_IS_AIC {
        Multiply<2, PACKET_STEPS, true, KEPT_STEPS>(w, c, rows, data);
    }
}

extern "C" __global__ __aicore__ void layer_norm_gemm_naive(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR w, GM_ADDR c, GM_ADDR workspace,
                                                            GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(LayerNormGemmTilingData);
    GET_TILING_DATA(data, tiling);
    if (data.m == 0 || data.n == 0) return;
    GM_ADDR rows = GetUserWorkspace(workspace);
    if ASCEND_IS_AIV {
        Normalise<false>(x, gamma, beta, rows, data);
    }
    if ASCEND_IS_AIC {
        Multiply<1, 1, false, 0>(w, c, rows, data);
    }
}
