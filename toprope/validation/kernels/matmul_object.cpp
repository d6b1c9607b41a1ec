// C = A x B with the Matmul object, fp16 in and out, row-major matrices, by the tiling it is handed. CONFIG is its template (CFG_NORM or
// CFG_MDL). Core i computes block i of SINGLE_M x SINGLE_N, counted down the rows first.
#define ASCENDC_CUBE_ONLY
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void matmul_object(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    if ASCEND_IS_AIV
        return;
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    using Operand = MatmulType<TPosition::GM, CubeFormat::ND, half>;
    Matmul<Operand, Operand, Operand, MatmulType<TPosition::GM, CubeFormat::ND, float>, CONFIG> product;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product, &t);
    const int32_t down = (t.M + t.singleCoreM - 1) / t.singleCoreM, row = GetBlockIdx() % down * t.singleCoreM,
                  column = GetBlockIdx() / down * t.singleCoreN;
    if (column >= t.N) return;
    GlobalTensor<half> left, right, result;
    left.SetGlobalBuffer((__gm__ half*)a);
    right.SetGlobalBuffer((__gm__ half*)b);
    result.SetGlobalBuffer((__gm__ half*)c);
    product.SetTensorA(left[(uint64_t)row * t.Ka]);
    product.SetTensorB(right[column]);
    product.SetTail(t.M - row < t.singleCoreM ? t.M - row : t.singleCoreM, t.N - column < t.singleCoreN ? t.N - column : t.singleCoreN);
    product.IterateAll(result[(uint64_t)row * t.N + column]);
    product.End();
}
