// COUNT products of fp16 matrices one after the other with one Matmul object, M x K by K x N, fp32 result; every core has an equal share.
#define ASCENDC_CUBE_ONLY
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

using Operand = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using Result = MatmulType<TPosition::GM, CubeFormat::ND, float>;

extern "C" __global__ __aicore__ void batched_matmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR tiling, uint32_t count) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    if ASCEND_IS_AIV
        return;
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    const uint64_t m = t.M, n = t.N, k = t.Ka;
    TPipe pipe;
    Matmul<Operand, Operand, Result, Result, CFG_NORM> product;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product, &t);
    const uint32_t share = (count + GetBlockNum() - 1) / GetBlockNum(), first = GetBlockIdx() * share;
    GlobalTensor<half> left, right;
    GlobalTensor<float> result;
    for (uint32_t i = first; i < first + share && i < count; ++i) {
        left.SetGlobalBuffer((__gm__ half*)a + i * m * k, m * k);
        right.SetGlobalBuffer((__gm__ half*)b + i * k * n, k * n);
        result.SetGlobalBuffer((__gm__ float*)c + i * m * n, m * n);
        product.SetTensorA(left, false);
        product.SetTensorB(right, false);
        product.IterateAll(result);
        product.End();
    }
}
