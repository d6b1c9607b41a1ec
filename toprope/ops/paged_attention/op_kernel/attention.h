// What the cube core, the vector cores and the naive kernel of paged_attention share: the tensors, the schedule and the workspace.
#pragma once

#include "kernel_operator.h"
#include "paged_attention_tiling_data.h"

using namespace AscendC;

using Tiling = PagedAttentionTilingData;
using Floats = LocalTensor<float>;

constexpr uint32_t LANES = 64, BLOCK = 8, FRACTAL = 16;  // floats of a repeat and of a block; rows of a fractal
constexpr uint32_t STATE = 2 * BLOCK;                    // floats of a row's maximum and sum, eight times each
constexpr float NONE = -__builtin_inff();
constexpr uint16_t SCORES_READY = 0, WEIGHTS_READY = 1;  // flags between the cube core and its two vector cores

__aicore__ inline uint32_t RoundUp(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }
__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

struct Task {
    uint32_t sequence, head, first, tokens;
};

template <typename T>
struct Problem {
    __aicore__ inline void Open(GM_ADDR q, GM_ADDR keys, GM_ADDR values, GM_ADDR table, GM_ADDR lengths, GM_ADDR out, GM_ADDR workspace,
                                const Tiling& tiling) {
        t = tiling;
        const uint64_t cache = static_cast<uint64_t>(t.pages) * t.pageTokens * t.kvHeads * t.headDim;
        const uint64_t rows = static_cast<uint64_t>(t.batch) * t.heads, cores = GetBlockNum();
        queryGm.SetGlobalBuffer((__gm__ T*)q, rows * t.headDim);
        keyGm.SetGlobalBuffer((__gm__ T*)keys, cache);
        valueGm.SetGlobalBuffer((__gm__ T*)values, cache);
        tableGm.SetGlobalBuffer((__gm__ int32_t*)table, static_cast<uint64_t>(t.batch) * t.tableWidth);
        pairGm.SetGlobalBuffer((__gm__ uint64_t*)table, static_cast<uint64_t>(t.batch) * t.tableWidth / 2);
        lengthGm.SetGlobalBuffer((__gm__ int32_t*)lengths, t.batch);
        outGm.SetGlobalBuffer((__gm__ T*)out, rows * t.headDim);
        __gm__ float* at = (__gm__ float*)workspace;
        const uint64_t tasks = t.firstTask[cores], scores = 2 * cores * t.group * TASK, sums = tasks * t.group * t.headDim;
        scoreGm.SetGlobalBuffer(at, scores);
        weightGm.SetGlobalBuffer((__gm__ T*)(at + scores), scores);
        sumGm.SetGlobalBuffer(at + 2 * scores, sums);
        stateGm.SetGlobalBuffer(at + 2 * scores + sums, tasks * t.group * STATE);
    }
    __aicore__ inline uint32_t Page(uint32_t sequence, uint32_t number) {
        return tableGm.GetValue(static_cast<uint64_t>(sequence) * t.tableWidth + number);
    }
    // Numbers of the pages [from, from + count) of a sequence, two with each access: the way to GM is what takes the time.
    __aicore__ inline void Pages(uint32_t sequence, uint32_t from, uint32_t count, uint32_t* numbers) {
        uint64_t at = static_cast<uint64_t>(sequence) * t.tableWidth + from;
        const uint64_t end = at + count;
        if (at % 2 == 1 && at < end) *numbers++ = tableGm.GetValue(at++);
        for (; at + 2 <= end; at += 2) {
            const uint64_t both = pairGm.GetValue(at / 2);
            *numbers++ = static_cast<uint32_t>(both);
            *numbers++ = static_cast<uint32_t>(both >> 32);
        }
        if (at < end) *numbers = tableGm.GetValue(at);
    }
    // Where a token of a page lies in the cache.
    __aicore__ inline uint64_t TokenAt(uint32_t page, uint32_t token, uint32_t head) const {
        return ((static_cast<uint64_t>(page) * t.pageTokens + token % t.pageTokens) * t.kvHeads + head) * t.headDim;
    }
    // A task's place in the scores and weights of its core: two, used in turn.
    __aicore__ inline uint64_t Exchange(uint32_t core, uint32_t task) const {
        return (2 * core + task % 2) * static_cast<uint64_t>(t.group) * TASK;
    }

    GlobalTensor<T> queryGm, keyGm, valueGm, outGm, weightGm;
    GlobalTensor<int32_t> tableGm, lengthGm;
    GlobalTensor<uint64_t> pairGm;  // the table, two entries at a time
    GlobalTensor<float> scoreGm, sumGm, stateGm;
    Tiling t;
};

// The tasks of one AI core, in order.
template <typename T>
class Tasks {
public:
    __aicore__ inline Tasks(Problem<T>& problem, uint32_t core)
        : number(problem.t.firstTask[core]), end(problem.t.firstTask[core + 1]), p(problem), token(p.t.firstToken[core]) {
        head = p.t.firstHead[core];
        lastHead = p.t.firstHead[core + 1];
        lastToken = p.t.firstToken[core + 1];
    }
    // The task `number`, which becomes the next one's; without tokens when there are no more.
    __aicore__ inline Task Next() {
        if (number == end) return {};
        while (token >= Limit()) {
            head++;
            token = 0;
        }
        const Task task{head / p.t.kvHeads, head % p.t.kvHeads, token, Least(TASK, Limit() - token)};
        token += task.tokens;
        number++;
        return task;
    }
    uint32_t number;
    const uint32_t end;

private:
    // Where the head ends, or the core's part of it.
    __aicore__ inline uint32_t Limit() {
        if (head == lastHead) return lastToken;
        if (sequence != head / p.t.kvHeads) length = p.lengthGm.GetValue(sequence = head / p.t.kvHeads);
        return length;
    }

    Problem<T>& p;
    uint32_t head = 0, token = 0, lastHead = 0, lastToken = 0, sequence = ~0u, length = 0;
};
