// Layer norm over the last axes: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, mean and rstd beside it.
// How a shape is worked on, chosen by the host through the tiling key (../../rows/row_norm.h):
//   1  many short rows     one instruction works on the same columns of up to 248 rows
//   2  rows that fit UB    one instruction works on a row
//   3  rows that do not    in pieces; when rows are fewer than cores, several cores share a row
// `layer_norm_naive` is the formula, row by row.
#include "../../rows/row_norm.h"
#include "../../rows/row_norm_naive.h"
#include "kernel_operator.h"

#ifndef DTYPE_X
#define DTYPE_X float
#endif

extern "C" __global__ __aicore__ void layer_norm(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                                 GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);  // vector cores only, with the flags that SyncAll needs
    REGISTER_TILING_DEFAULT(RowNormTilingData);
    GET_TILING_DATA(data, tiling);
    if (TILING_KEY_IS(1))
        NormWholeRows<DTYPE_X, true, true>().Run(x, gamma, beta, y, mean, rstd, data);
    else if (TILING_KEY_IS(2))
        NormWholeRows<DTYPE_X, true, false>().Run(x, gamma, beta, y, mean, rstd, data);
    else if (TILING_KEY_IS(3))
        NormPieces<DTYPE_X, true>().Run(x, gamma, beta, y, mean, rstd, AscendC::GetUserWorkspace(workspace), data);
}

extern "C" __global__ __aicore__ void layer_norm_naive(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                                       GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(RowNormTilingData);
    GET_TILING_DATA(data, tiling);
    NormNaive<DTYPE_X, true>().Run(x, gamma, beta, y, mean, rstd, data);
}
