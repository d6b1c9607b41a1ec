// z = x + y for any length: the host's tiling says who does what, DataCopyPad copies tails exact to the byte.
#include "add_tiling_data.h"
#include "kernel_operator.h"

template <typename T>
class KernelAdd {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, const AddTilingData& tiling) {
        const uint32_t begin = tiling.coreLength * AscendC::GetBlockIdx();
        const uint32_t left = begin < tiling.totalLength ? tiling.totalLength - begin : 0;
        length = left < tiling.coreLength ? left : tiling.coreLength;
        tileLength = tiling.tileLength;
        xGm.SetGlobalBuffer((__gm__ T*)x + begin, length);
        yGm.SetGlobalBuffer((__gm__ T*)y + begin, length);
        zGm.SetGlobalBuffer((__gm__ T*)z + begin, length);
        pipe.InitBuffer(inQueueX, 2, tileLength * sizeof(T));
        pipe.InitBuffer(inQueueY, 2, tileLength * sizeof(T));
        pipe.InitBuffer(outQueueZ, 2, tileLength * sizeof(T));
    }

    __aicore__ inline void Process() {
        for (uint32_t begin = 0; begin < length; begin += tileLength) {
            const uint32_t count = length - begin < tileLength ? length - begin : tileLength;
            CopyIn(begin, count);
            Compute(count);
            CopyOut(begin, count);
        }
    }

private:
    __aicore__ inline AscendC::DataCopyExtParams Bytes(uint32_t count) { return {1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0}; }

    __aicore__ inline void CopyIn(uint32_t begin, uint32_t count) {
        AscendC::LocalTensor<T> x = inQueueX.template AllocTensor<T>();
        AscendC::LocalTensor<T> y = inQueueY.template AllocTensor<T>();
        const AscendC::DataCopyPadExtParams<T> noPadding{false, 0, 0, 0};
        AscendC::DataCopyPad(x, xGm[begin], Bytes(count), noPadding);
        AscendC::DataCopyPad(y, yGm[begin], Bytes(count), noPadding);
        inQueueX.EnQue(x);
        inQueueY.EnQue(y);
    }

    __aicore__ inline void Compute(uint32_t count) {
        AscendC::LocalTensor<T> x = inQueueX.template DeQue<T>();
        AscendC::LocalTensor<T> y = inQueueY.template DeQue<T>();
        AscendC::LocalTensor<T> z = outQueueZ.template AllocTensor<T>();
        AscendC::Add(z, x, y, count);
        outQueueZ.EnQue(z);
        inQueueX.FreeTensor(x);
        inQueueY.FreeTensor(y);
    }

    __aicore__ inline void CopyOut(uint32_t begin, uint32_t count) {
        AscendC::LocalTensor<T> z = outQueueZ.template DeQue<T>();
        AscendC::DataCopyPad(zGm[begin], z, Bytes(count));
        outQueueZ.FreeTensor(z);
    }

    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX, inQueueY;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueZ;
    AscendC::GlobalTensor<T> xGm, yGm, zGm;
    uint32_t length = 0, tileLength = 0;
};

// A build for an operator names the types of its tensors: -DDTYPE_X=float.
#ifndef DTYPE_X
#define DTYPE_X half
#endif

extern "C" __global__ __aicore__ void add_tiling(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(AddTilingData);
    GET_TILING_DATA(tilingData, tiling);
    KernelAdd<DTYPE_X> op;
    op.Init(x, y, z, tilingData);
    op.Process();
}
