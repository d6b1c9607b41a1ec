// z = x + y, tutorial style: three stages joined by queues, two buffers each so that copies and additions overlap.
#include "kernel_operator.h"

constexpr int32_t BUFFER_NUM = 2;
constexpr int32_t TILE_LENGTH = 2048;

class KernelAdd {
public:
    __aicore__ inline KernelAdd() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t totalLength) {
        blockLength = totalLength / AscendC::GetBlockNum();
        tileNum = blockLength / TILE_LENGTH;
        const uint32_t begin = blockLength * AscendC::GetBlockIdx();
        xGm.SetGlobalBuffer((__gm__ half*)x + begin, blockLength);
        yGm.SetGlobalBuffer((__gm__ half*)y + begin, blockLength);
        zGm.SetGlobalBuffer((__gm__ half*)z + begin, blockLength);
        pipe.InitBuffer(inQueueX, BUFFER_NUM, TILE_LENGTH * sizeof(half));
        pipe.InitBuffer(inQueueY, BUFFER_NUM, TILE_LENGTH * sizeof(half));
        pipe.InitBuffer(outQueueZ, BUFFER_NUM, TILE_LENGTH * sizeof(half));
    }

    __aicore__ inline void Process() {
        for (uint32_t i = 0; i < tileNum; i++) {
            CopyIn(i);
            Compute();
            CopyOut(i);
        }
    }

private:
    __aicore__ inline void CopyIn(uint32_t i) {
        AscendC::LocalTensor<half> x = inQueueX.AllocTensor<half>();
        AscendC::LocalTensor<half> y = inQueueY.AllocTensor<half>();
        AscendC::DataCopy(x, xGm[i * TILE_LENGTH], TILE_LENGTH);
        AscendC::DataCopy(y, yGm[i * TILE_LENGTH], TILE_LENGTH);
        inQueueX.EnQue(x);
        inQueueY.EnQue(y);
    }

    __aicore__ inline void Compute() {
        AscendC::LocalTensor<half> x = inQueueX.DeQue<half>();
        AscendC::LocalTensor<half> y = inQueueY.DeQue<half>();
        AscendC::LocalTensor<half> z = outQueueZ.AllocTensor<half>();
        AscendC::Add(z, x, y, TILE_LENGTH);
        outQueueZ.EnQue(z);
        inQueueX.FreeTensor(x);
        inQueueY.FreeTensor(y);
    }

    __aicore__ inline void CopyOut(uint32_t i) {
        AscendC::LocalTensor<half> z = outQueueZ.DeQue<half>();
        AscendC::DataCopy(zGm[i * TILE_LENGTH], z, TILE_LENGTH);
        outQueueZ.FreeTensor(z);
    }

    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, BUFFER_NUM> inQueueX, inQueueY;
    AscendC::TQue<AscendC::TPosition::VECOUT, BUFFER_NUM> outQueueZ;
    AscendC::GlobalTensor<half> xGm, yGm, zGm;
    uint32_t blockLength = 0, tileNum = 0;
};

extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t totalLength) {
    KernelAdd op;
    op.Init(x, y, z, totalLength);
    op.Process();
}
