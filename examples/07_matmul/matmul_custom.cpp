// C = A x B on the cube, raw API: each block computes tiles of 128 x 256, K in steps of 64, two buffers in L1 and in L0.
#include "kernel_operator.h"

constexpr uint32_t BASE_M = 128, BASE_N = 256, BASE_K = 64, C0 = 16;

class KernelMatmul {
public:
    __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t m, uint32_t k, uint32_t n) {
        this->m = m;
        this->k = k;
        this->n = n;
        aGm.SetGlobalBuffer((__gm__ half*)a, m * k);
        bGm.SetGlobalBuffer((__gm__ half*)b, k * n);
        cGm.SetGlobalBuffer((__gm__ float*)c, m * n);
        pipe.InitBuffer(inA1, 2, BASE_M * BASE_K * sizeof(half));
        pipe.InitBuffer(inB1, 2, BASE_K * BASE_N * sizeof(half));
        pipe.InitBuffer(inA2, 2, BASE_M * BASE_K * sizeof(half));
        pipe.InitBuffer(inB2, 2, BASE_K * BASE_N * sizeof(half));
        pipe.InitBuffer(outCO1, 1, BASE_M * BASE_N * sizeof(float));
    }

    __aicore__ inline void Process() {
        const uint32_t tilesN = n / BASE_N, tiles = m / BASE_M * tilesN;
        for (uint32_t t = AscendC::GetBlockIdx(); t < tiles; t += AscendC::GetBlockNum()) {
            row = t / tilesN * BASE_M;
            column = t % tilesN * BASE_N;
            AscendC::LocalTensor<float> c = outCO1.AllocTensor<float>();
            for (uint32_t step = 0; step < k; step += BASE_K) {
                CopyIn(step);
                Split();
                Multiply(c, step == 0);
            }
            outCO1.EnQue(c);
            CopyOut();
        }
    }

private:
    __aicore__ inline void CopyIn(uint32_t step) {
        AscendC::LocalTensor<half> a = inA1.AllocTensor<half>();
        AscendC::LocalTensor<half> b = inB1.AllocTensor<half>();
        AscendC::Nd2NzParams nd2nz;
        nd2nz.ndNum = 1;
        nd2nz.nValue = BASE_M;
        nd2nz.dValue = BASE_K;
        nd2nz.srcDValue = k;
        nd2nz.dstNzC0Stride = BASE_M;
        nd2nz.dstNzNStride = 1;
        AscendC::DataCopy(a, aGm[row * k + step], nd2nz);
        nd2nz.nValue = BASE_K;
        nd2nz.dValue = BASE_N;
        nd2nz.srcDValue = n;
        nd2nz.dstNzC0Stride = BASE_K;
        AscendC::DataCopy(b, bGm[step * n + column], nd2nz);
        inA1.EnQue(a);
        inB1.EnQue(b);
    }

    __aicore__ inline void Split() {
        AscendC::LocalTensor<half> a1 = inA1.DeQue<half>();
        AscendC::LocalTensor<half> b1 = inB1.DeQue<half>();
        AscendC::LocalTensor<half> a2 = inA2.AllocTensor<half>();
        AscendC::LocalTensor<half> b2 = inB2.AllocTensor<half>();
        AscendC::LoadData2DParams load;
        load.repeatTimes = BASE_K / C0;
        load.srcStride = BASE_M / 16;
        for (uint32_t i = 0; i < BASE_M / 16; i++) AscendC::LoadData(a2[i * 16 * BASE_K], a1[i * 16 * C0], load);
        load.repeatTimes = BASE_N / 16;
        load.srcStride = BASE_K / 16;
        load.ifTranspose = true;
        for (uint32_t i = 0; i < BASE_K / 16; i++) AscendC::LoadData(b2[i * 16 * BASE_N], b1[i * 16 * C0], load);
        inA2.EnQue(a2);
        inB2.EnQue(b2);
        inA1.FreeTensor(a1);
        inB1.FreeTensor(b1);
    }

    __aicore__ inline void Multiply(const AscendC::LocalTensor<float>& c, bool first) {
        AscendC::LocalTensor<half> a = inA2.DeQue<half>();
        AscendC::LocalTensor<half> b = inB2.DeQue<half>();
        AscendC::MmadParams mmad;
        mmad.m = BASE_M;
        mmad.n = BASE_N;
        mmad.k = BASE_K;
        mmad.cmatrixInitVal = first;
        AscendC::Mmad(c, a, b, mmad);
        inA2.FreeTensor(a);
        inB2.FreeTensor(b);
    }

    __aicore__ inline void CopyOut() {
        AscendC::LocalTensor<float> c = outCO1.DeQue<float>();
        AscendC::FixpipeParamsV220 fixpipe;
        fixpipe.nSize = BASE_N;
        fixpipe.mSize = BASE_M;
        fixpipe.srcStride = BASE_M;
        fixpipe.dstStride = n;
        AscendC::Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(cGm[row * n + column], c, fixpipe);
        outCO1.FreeTensor(c);
    }

    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::A1, 2> inA1;
    AscendC::TQue<AscendC::TPosition::B1, 2> inB1;
    AscendC::TQue<AscendC::TPosition::A2, 2> inA2;
    AscendC::TQue<AscendC::TPosition::B2, 2> inB2;
    AscendC::TQue<AscendC::TPosition::CO1, 1> outCO1;
    AscendC::GlobalTensor<half> aGm, bGm;
    AscendC::GlobalTensor<float> cGm;
    uint32_t m = 0, k = 0, n = 0, row = 0, column = 0;
};

extern "C" __global__ __aicore__ void matmul_custom(GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t m, uint32_t k, uint32_t n) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    KernelMatmul op;
    op.Init(a, b, c, m, k, n);
    op.Process();
}
