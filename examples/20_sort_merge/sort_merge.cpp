// values = x in descending order, indices = where they stood, by many cores: each sorts its part of at most 128 elements; then, in rounds,
// every fourth core merges four sorted lists that lie side by side in the workspace, until one list is left.
#include "kernel_operator.h"

constexpr uint32_t GROUP = 32;      // what one Sort32 repeat sorts
constexpr uint32_t MERGE_WAYS = 4;  // lists that one MrgSort takes
constexpr uint32_t PAIR = 2;        // a sorted element is a float and its index, as two floats

class KernelSortMerge {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR values, GM_ADDR indices, GM_ADDR workspace, uint32_t totalLength) {
        total = totalLength;
        part = total / AscendC::GetBlockNum();
        core = AscendC::GetBlockIdx();
        xGm.SetGlobalBuffer((__gm__ float*)x + core * part, part);
        valuesGm.SetGlobalBuffer((__gm__ float*)values, total);
        indicesGm.SetGlobalBuffer((__gm__ uint32_t*)indices, total);
        for (uint32_t half = 0; half < 2; ++half)
            listsGm[half].SetGlobalBuffer((__gm__ float*)workspace + half * total * PAIR, total * PAIR);
        pipe.InitBuffer(inQueue, 1, total * PAIR * sizeof(float));
        pipe.InitBuffer(outQueue, 1, total * PAIR * sizeof(float));
        pipe.InitBuffer(indexBuffer, part * sizeof(uint32_t));
        pipe.InitBuffer(groupBuffer, part * PAIR * sizeof(float));
    }

    __aicore__ inline void Process() {
        SortOwnPart();
        uint32_t lists = AscendC::GetBlockNum(), length = part, half = 0;
        while (lists > 1) {
            AscendC::SyncAll();
            if (core * MERGE_WAYS < lists) MergeLists(lists, length, half);
            lists = (lists + MERGE_WAYS - 1) / MERGE_WAYS;
            length *= MERGE_WAYS;
            half = 1 - half;
        }
        AscendC::PipeBarrier<PIPE_ALL>();  // core 0 reads back what it has just written
        if (core == 0) StoreResult(half);
    }

private:
    // `count` neighbours of `length` elements each, the last perhaps shorter, become one list of `elements`.
    __aicore__ inline void Merge(AscendC::LocalTensor<float>& to, AscendC::LocalTensor<float>& from, uint32_t count, uint32_t length,
                                 uint32_t elements) {
        uint16_t lengths[MERGE_WAYS] = {0, 0, 0, 0};
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t left = elements - i * length;
            lengths[i] = static_cast<uint16_t>(left < length ? left : length);
        }
        AscendC::MrgSort4Info info(lengths, false, static_cast<uint16_t>((1 << count) - 1), 1);
        const uint32_t step = length * PAIR;
        AscendC::MrgSort<float>(to, {from, from[count > 1 ? step : 0], from[count > 2 ? 2 * step : 0], from[count > 3 ? 3 * step : 0]},
                                info);
    }

    __aicore__ inline void SortOwnPart() {
        AscendC::LocalTensor<float> tile = inQueue.AllocTensor<float>();
        AscendC::DataCopy(tile, xGm, part);
        inQueue.EnQue(tile);
        tile = inQueue.DeQue<float>();
        AscendC::LocalTensor<int32_t> index = indexBuffer.Get<int32_t>();
        AscendC::CreateVecIndex(index, static_cast<int32_t>(core * part), part);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::LocalTensor<float> sorted = outQueue.AllocTensor<float>();
        const uint32_t groups = part / GROUP;
        AscendC::LocalTensor<float> lists = groups > 1 ? groupBuffer.Get<float>() : sorted;
        AscendC::Sort32(lists, tile, index.ReinterpretCast<uint32_t>(), groups);
        AscendC::PipeBarrier<PIPE_V>();
        if (groups > 1) Merge(sorted, lists, groups, GROUP, part);
        inQueue.FreeTensor(tile);
        outQueue.EnQue(sorted);
        sorted = outQueue.DeQue<float>();
        AscendC::DataCopy(listsGm[0][core * part * PAIR], sorted, part * PAIR);
        outQueue.FreeTensor(sorted);
    }

    __aicore__ inline void MergeLists(uint32_t lists, uint32_t length, uint32_t half) {
        const uint32_t first = core * MERGE_WAYS, begin = first * length, end = begin + MERGE_WAYS * length;
        const uint32_t elements = (end < total ? end : total) - begin;
        const uint32_t count = lists - first < MERGE_WAYS ? lists - first : MERGE_WAYS;
        AscendC::LocalTensor<float> from = inQueue.AllocTensor<float>();
        AscendC::DataCopy(from, listsGm[half][begin * PAIR], elements * PAIR);
        inQueue.EnQue(from);
        from = inQueue.DeQue<float>();
        AscendC::LocalTensor<float> to = outQueue.AllocTensor<float>();
        if (count > 1)
            Merge(to, from, count, length, elements);
        else
            AscendC::Adds(to, from, 0.0f, elements * PAIR);
        inQueue.FreeTensor(from);
        outQueue.EnQue(to);
        to = outQueue.DeQue<float>();
        AscendC::DataCopy(listsGm[1 - half][begin * PAIR], to, elements * PAIR);
        outQueue.FreeTensor(to);
    }

    // The list in the workspace as its values (every even word) and its indices (every odd one).
    __aicore__ inline void StoreResult(uint32_t half) {
        AscendC::LocalTensor<float> list = inQueue.AllocTensor<float>();
        AscendC::DataCopy(list, listsGm[half], total * PAIR);
        inQueue.EnQue(list);
        list = inQueue.DeQue<float>();
        AscendC::LocalTensor<float> result = outQueue.AllocTensor<float>();
        uint64_t kept = 0;
        const AscendC::GatherMaskParams shape{1, static_cast<uint16_t>(total * PAIR / 64), 8, 0};
        AscendC::GatherMask(result, list, 1, false, 0, shape, kept);
        AscendC::GatherMask(result[total], list, 2, false, 0, shape, kept);
        inQueue.FreeTensor(list);
        outQueue.EnQue(result);
        result = outQueue.DeQue<float>();
        AscendC::DataCopy(valuesGm, result, total);
        AscendC::DataCopy(indicesGm, result[total].ReinterpretCast<uint32_t>(), total);
        outQueue.FreeTensor(result);
    }

    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue;
    AscendC::TBuf<AscendC::TPosition::VECCALC> indexBuffer, groupBuffer;
    AscendC::GlobalTensor<float> xGm, valuesGm, listsGm[2];
    AscendC::GlobalTensor<uint32_t> indicesGm;
    uint32_t total = 0, part = 0, core = 0;
};

// totalLength / blocks is a multiple of 32 and at most 128.
extern "C" __global__ __aicore__ void sort_merge(GM_ADDR x, GM_ADDR values, GM_ADDR indices, GM_ADDR workspace, uint32_t totalLength) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);  // vector cores only, with the flags that SyncAll needs
    KernelSortMerge op;
    op.Init(x, values, indices, workspace, totalLength);
    op.Process();
}
