// out = sum of x, by all cores: each adds up its part, leaves one number in the workspace, waits for the others; core 0 adds those up.
#include "kernel_operator.h"

constexpr uint32_t TILE_LENGTH = 8192;
constexpr uint32_t SLOT_LENGTH = 8;  // floats a core owns in the workspace: 32 bytes, the unit of a copy

class KernelReduceSum {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR out, GM_ADDR workspace, uint32_t totalLength) {
        const uint32_t cores = AscendC::GetBlockNum();
        const uint32_t coreLength = (totalLength + cores - 1) / cores;
        const uint32_t begin = coreLength * AscendC::GetBlockIdx();
        const uint32_t left = begin < totalLength ? totalLength - begin : 0;
        length = left < coreLength ? left : coreLength;
        xGm.SetGlobalBuffer((__gm__ float*)x + begin, length);
        outGm.SetGlobalBuffer((__gm__ float*)out, 1);
        partGm.SetGlobalBuffer((__gm__ float*)workspace, cores * SLOT_LENGTH);
        pipe.InitBuffer(inQueue, 2, TILE_LENGTH * sizeof(float));
        pipe.InitBuffer(outQueue, 1, SLOT_LENGTH * sizeof(float));
        pipe.InitBuffer(sumBuffer, TILE_LENGTH * sizeof(float));
        pipe.InitBuffer(workBuffer, TILE_LENGTH * sizeof(float));
    }

    __aicore__ inline void Process() {
        AddUpOwnPart();
        AscendC::SyncAll();
        if (AscendC::GetBlockIdx() == 0) AddUpParts();
    }

private:
    __aicore__ inline void AddUpOwnPart() {
        AscendC::LocalTensor<float> sum = sumBuffer.Get<float>();
        AscendC::Duplicate(sum, 0.0f, TILE_LENGTH);
        for (uint32_t begin = 0; begin < length; begin += TILE_LENGTH) {
            const uint32_t count = length - begin < TILE_LENGTH ? length - begin : TILE_LENGTH;
            AscendC::LocalTensor<float> tile = inQueue.AllocTensor<float>();
            AscendC::DataCopyPad(tile, xGm[begin], {1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0}, {false, 0, 0, 0});
            inQueue.EnQue(tile);
            tile = inQueue.DeQue<float>();
            AscendC::Add(sum, sum, tile, count);
            inQueue.FreeTensor(tile);
        }
        AscendC::LocalTensor<float> part = outQueue.AllocTensor<float>();
        AscendC::Duplicate(part, 0.0f, SLOT_LENGTH);
        AscendC::ReduceSum(part, sum, workBuffer.Get<float>(), TILE_LENGTH);
        outQueue.EnQue(part);
        part = outQueue.DeQue<float>();
        AscendC::DataCopy(partGm[AscendC::GetBlockIdx() * SLOT_LENGTH], part, SLOT_LENGTH);
        outQueue.FreeTensor(part);
    }

    __aicore__ inline void AddUpParts() {
        const uint32_t count = AscendC::GetBlockNum() * SLOT_LENGTH;
        AscendC::LocalTensor<float> parts = inQueue.AllocTensor<float>();
        AscendC::DataCopy(parts, partGm, count);
        inQueue.EnQue(parts);
        parts = inQueue.DeQue<float>();
        AscendC::LocalTensor<float> total = outQueue.AllocTensor<float>();
        AscendC::ReduceSum(total, parts, workBuffer.Get<float>(), count);
        inQueue.FreeTensor(parts);
        outQueue.EnQue(total);
        total = outQueue.DeQue<float>();
        AscendC::DataCopyPad(outGm, total, {1, static_cast<uint32_t>(sizeof(float)), 0, 0, 0});
        outQueue.FreeTensor(total);
    }

    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuffer, workBuffer;
    AscendC::GlobalTensor<float> xGm, outGm, partGm;
    uint32_t length = 0;
};

extern "C" __global__ __aicore__ void reduce_sum(GM_ADDR x, GM_ADDR out, GM_ADDR workspace, uint32_t totalLength) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);  // vector cores only, with the flags that SyncAll needs
    KernelReduceSum op;
    op.Init(x, out, workspace, totalLength);
    op.Process();
}
