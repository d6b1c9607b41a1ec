// C = A x B with the Matmul object, fp16 in and out, row-major matrices. CONFIG is its template (CFG_NORM or CFG_MDL); the tiling comes at
// run time, or with CONSTANT from SHAPE_*, SINGLE_*, BASE_*, STEP_KA and STEP_KB. Core i computes block i of the result, counted down the
// rows first.
#define ASCENDC_CUBE_ONLY
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

using Operand = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using Bias = MatmulType<TPosition::GM, CubeFormat::ND, float>;

#if CONSTANT
constexpr MatmulShapeParams kShape{SINGLE_M, SINGLE_N, SINGLE_K, BASE_M, BASE_N, BASE_K};
constexpr MatmulConfig kTemplate = GetMMConfig<MatmulConfigMode::CONFIG_MDL>(kShape);
constexpr static auto kConfig = GetMatmulApiTiling<Operand, Operand, Operand, Bias>(kTemplate);
#else
constexpr static auto kConfig = CONFIG;
#endif

extern "C" __global__ __aicore__ void matmul_object(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    if ASCEND_IS_AIV
        return;
#if CONSTANT
    TCubeTiling t;
    t.M = SHAPE_M, t.N = SHAPE_N, t.Ka = SINGLE_K, t.singleCoreM = SINGLE_M, t.singleCoreN = SINGLE_N;
#else
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
#endif
    const int32_t down = (t.M + t.singleCoreM - 1) / t.singleCoreM, row = GetBlockIdx() % down * t.singleCoreM,
                  column = GetBlockIdx() / down * t.singleCoreN;
    if (column >= t.N) return;
    TPipe pipe;
    Matmul<Operand, Operand, Operand, Bias, kConfig> product;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product, CONSTANT ? (TCubeTiling*)nullptr : &t);
    product.SetOrgShape(t.M, t.N, t.Ka);
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
