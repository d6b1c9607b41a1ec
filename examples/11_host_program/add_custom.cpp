// z = x + y for any length: each block takes an equal share in tiles, tails are copied exact to the byte.
#include "kernel_operator.h"

constexpr uint32_t TILE = 2048;

extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t length) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inX, inY;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outZ;
    AscendC::GlobalTensor<float> xGm, yGm, zGm;
    const uint32_t share = (length + AscendC::GetBlockNum() - 1) / AscendC::GetBlockNum();
    const uint32_t begin = share * AscendC::GetBlockIdx();
    const uint32_t end = begin + share < length ? begin + share : length;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    zGm.SetGlobalBuffer((__gm__ float*)z);
    pipe.InitBuffer(inX, 2, TILE * sizeof(float));
    pipe.InitBuffer(inY, 2, TILE * sizeof(float));
    pipe.InitBuffer(outZ, 2, TILE * sizeof(float));
    for (uint32_t at = begin; at < end; at += TILE) {
        const uint32_t count = end - at < TILE ? end - at : TILE;
        const AscendC::DataCopyExtParams bytes{1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0};
        const AscendC::DataCopyPadExtParams<float> noPadding{false, 0, 0, 0};
        AscendC::LocalTensor<float> a = inX.AllocTensor<float>();
        AscendC::LocalTensor<float> b = inY.AllocTensor<float>();
        AscendC::DataCopyPad(a, xGm[at], bytes, noPadding);
        AscendC::DataCopyPad(b, yGm[at], bytes, noPadding);
        inX.EnQue(a);
        inY.EnQue(b);
        a = inX.DeQue<float>();
        b = inY.DeQue<float>();
        AscendC::LocalTensor<float> c = outZ.AllocTensor<float>();
        AscendC::Add(c, a, b, count);
        outZ.EnQue(c);
        inX.FreeTensor(a);
        inY.FreeTensor(b);
        c = outZ.DeQue<float>();
        AscendC::DataCopyPad(zGm[at], c, bytes);
        outZ.FreeTensor(c);
    }
}
