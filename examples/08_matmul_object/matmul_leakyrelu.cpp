// C = LeakyRelu(A x B + bias): the cube core multiplies through a Matmul object, the two vector cores take the result block by block,
// apply the activation and store it. Every vector core owns a part of C (singleCoreM x singleCoreN of the tiling).
#include "kernel_operator.h"
#include "kernel_tiling/kernel_tiling.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

class MatmulLeakyRelu {
public:
    __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, const TCubeTiling& t, TPipe* pipe) {
        tiling = t;
        aGm.SetGlobalBuffer((__gm__ half*)a, t.M * t.Ka);
        bGm.SetGlobalBuffer((__gm__ half*)b, t.Kb * t.N);
        biasGm.SetGlobalBuffer((__gm__ float*)bias, t.N);
        cGm.SetGlobalBuffer((__gm__ float*)c, t.M * t.N);
        pipe->InitBuffer(out, 2, t.baseM * t.baseN * sizeof(float));
        const int32_t coresM = t.M / t.singleCoreM, core = GetBlockIdx();
        row = core % coresM * t.singleCoreM;
        column = core / coresM * t.singleCoreN;
    }

    __aicore__ inline void Process() {
        matmul.SetTensorA(aGm[row * tiling.Ka]);
        matmul.SetTensorB(bGm[column]);
        matmul.SetBias(biasGm[column]);
        const int32_t blocksM = tiling.singleCoreM / tiling.baseM;
        for (int32_t block = 0; matmul.Iterate<true>(); block++) {
            LocalTensor<float> c = out.AllocTensor<float>();
            matmul.GetTensorC<true>(c, false, true);
            LeakyRelu(c, c, 0.001f, tiling.baseM * tiling.baseN);
            out.EnQue(c);
            CopyOut(block % blocksM * tiling.baseM, block / blocksM * tiling.baseN);
        }
        matmul.End();
    }

    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
           MatmulType<TPosition::VECIN, CubeFormat::ND, float>, MatmulType<TPosition::GM, CubeFormat::ND, float>>
        matmul;

private:
    __aicore__ inline void CopyOut(uint32_t m, uint32_t n) {
        LocalTensor<float> c = out.DeQue<float>();
        DataCopyParams rows(tiling.baseM, tiling.baseN * sizeof(float) / 32, 0, (tiling.N - tiling.baseN) * sizeof(float) / 32);
        DataCopy(cGm[(row + m) * tiling.N + column + n], c, rows);
        out.FreeTensor(c);
    }

    TQue<TPosition::VECOUT, 2> out;
    GlobalTensor<half> aGm, bGm;
    GlobalTensor<float> biasGm, cGm;
    TCubeTiling tiling;
    uint32_t row = 0, column = 0;
};

extern "C" __global__ __aicore__ void matmul_leakyrelu(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR tilingGm) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, tiling, tilingGm);
    TPipe pipe;
    MatmulLeakyRelu op;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), op.matmul, &tiling);
    op.Init(a, b, bias, c, tiling, &pipe);
    op.Process();
}
