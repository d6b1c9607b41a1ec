// A vector core: makes weights of the scores of half of the query heads, and at the end joins the tasks of a head.
#pragma once

#include "attention.h"

template <typename T>
class AttentionVector {
public:
    __aicore__ inline void Run(Problem<T>& problem) {
        p = &problem;
        group = p->t.group;
        dim = p->t.headDim;
        const uint32_t half_ = (group + 1) / 2, core = GetBlockIdx() / 2;
        firstRow = GetSubBlockIdx() * half_;
        rows = firstRow < group ? Least(half_, group - firstRow) : 0;
        pipe.InitBuffer(scoreQueue, 2, half_ * TASK * sizeof(float));
        pipe.InitBuffer(weightQueue, 2, half_ * TASK * sizeof(T));
        pipe.InitBuffer(stateQueue, 2, half_ * STATE * sizeof(float));
        pipe.InitBuffer(partialBuffer, BLOCK * 2 * LANES * sizeof(float));
        pipe.InitBuffer(valueBuffer, BLOCK * sizeof(float));
        pipe.InitBuffer(blockBuffer, 2 * BLOCK * BLOCK * sizeof(float));
        pipe.InitBuffer(laneBuffer, BLOCK * LANES * sizeof(float));
        values = valueBuffer.Get<float>();
        partial = partialBuffer.Get<float>();
        maxima = blockBuffer.Get<float>();
        sums = maxima[BLOCK * BLOCK];
        lanes = laneBuffer.Get<float>();
        Duplicate(values, 0.0f, BLOCK);
        for (uint32_t i = p->FirstTask(core), end = p->FirstTask(core + 1); i < end; i++) {
            CrossCoreWaitFlag<2, PIPE_MTE2>(SCORES_READY);
            if (rows > 0) Weigh(i, p->Exchange(core, i) + firstRow * TASK);
            CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY);
        }
    }

private:
    __aicore__ inline void Weigh(uint32_t i, uint64_t at) {
        const uint32_t tokens = p->At(i).tokens, width = RoundUp(tokens, LANES);
        Load(at, tokens);
        const Floats s = scoreQueue.template DeQue<float>();
        const LocalTensor<T> w = weightQueue.template AllocTensor<T>();
        if (width > tokens) {  // what no token fills weighs nothing
            const uint64_t mask[2] = {~0ull << (LANES - (width - tokens)), 0};
            Duplicate(s[width - LANES], NONE, mask, static_cast<uint8_t>(rows), 1, TASK / BLOCK);
        }
        for (uint32_t r = 0; r < rows; r++) Muls(s[r * TASK], s[r * TASK], p->t.scale, static_cast<int32_t>(width));
        Fold<true>(s, width);
        Brcb(maxima, values, 1, {1, 8});
        Brcb(lanes, maxima, static_cast<uint8_t>(rows), {1, 8});
        const uint8_t repeats = static_cast<uint8_t>(width / LANES);
        for (uint32_t r = 0; r < rows; r++) Sub(s[r * TASK], s[r * TASK], lanes[r * LANES], LANES, repeats, {1, 1, 1, 8, 8, 0});
        for (uint32_t r = 0; r < rows; r++) Exp(s[r * TASK], s[r * TASK], static_cast<int32_t>(width));
        for (uint32_t r = 0; r < rows; r++) Cast(w[r * TASK], s[r * TASK], RoundMode::CAST_RINT, width);
        weightQueue.EnQue(w);
        StoreWeights(at, tokens);
        Fold<false>(s, width);
        Brcb(sums, values, 1, {1, 8});
        scoreQueue.FreeTensor(s);
        StoreState(i);
    }
    __aicore__ inline void Load(uint64_t at, uint32_t tokens) {
        const Floats s = scoreQueue.template AllocTensor<float>();
        const uint32_t gap = (TASK - RoundUp(tokens, BLOCK)) / BLOCK;
        DataCopyPad(s, p->scoreGm[at],
                    {static_cast<uint16_t>(rows), static_cast<uint32_t>(tokens * sizeof(float)),
                     static_cast<uint32_t>((TASK - tokens) * sizeof(float)), gap, 0},
                    {true, 0, static_cast<uint8_t>(RoundUp(tokens, BLOCK) - tokens), NONE});
        scoreQueue.EnQue(s);
    }
    __aicore__ inline void StoreWeights(uint64_t at, uint32_t tokens) {
        const LocalTensor<T> w = weightQueue.template DeQue<T>();
        DataCopyPad(p->weightGm[at], w,
                    {static_cast<uint16_t>(rows), static_cast<uint32_t>(tokens * sizeof(T)), (TASK - RoundUp(tokens, FRACTAL)) / FRACTAL,
                     static_cast<uint32_t>((TASK - tokens) * sizeof(T)), 0});
        weightQueue.FreeTensor(w);
    }
    __aicore__ inline void StoreState(uint32_t i) {
        Floats state = stateQueue.template AllocTensor<float>();
        Adds(state, maxima, 0.0f, static_cast<uint64_t>(BLOCK), static_cast<uint8_t>(rows), {1, 1, 2, 1});
        Adds(state[BLOCK], sums, 0.0f, static_cast<uint64_t>(BLOCK), static_cast<uint8_t>(rows), {1, 1, 2, 1});
        stateQueue.EnQue(state);
        state = stateQueue.template DeQue<float>();
        DataCopy(p->stateGm[(static_cast<uint64_t>(i) * group + firstRow) * STATE], state, rows * STATE);
        stateQueue.FreeTensor(state);
    }
    // values[r] = maximum or sum of row r: blocks of eight first, then two halves of 64, then one number.
    template <bool isMax>
    __aicore__ inline void Fold(const Floats& s, uint32_t width) {
        Duplicate(partial, isMax ? NONE : 0.0f, static_cast<int32_t>(rows * 2 * LANES));
        const int32_t repeats = static_cast<int32_t>(width / LANES);
        for (uint32_t r = 0; r < rows; r++) {
            if constexpr (isMax)
                BlockReduceMax(partial[r * 2 * LANES], s[r * TASK], repeats, LANES, 1, 1, 8);
            else
                BlockReduceSum(partial[r * 2 * LANES], s[r * TASK], repeats, LANES, 1, 1, 8);
        }
        if constexpr (isMax) {
            Max(partial, partial, partial[LANES], LANES, static_cast<uint8_t>(rows), {1, 1, 1, 16, 16, 16});
            WholeReduceMax(values, partial, LANES, static_cast<int32_t>(rows), 1, 1, 16, ReduceOrder::ORDER_ONLY_VALUE);
        } else {
            Add(partial, partial, partial[LANES], LANES, static_cast<uint8_t>(rows), {1, 1, 1, 16, 16, 16});
            WholeReduceSum(values, partial, LANES, static_cast<int32_t>(rows), 1, 1, 16);
        }
    }

    Problem<T>* p = nullptr;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> scoreQueue;
    TQue<TPosition::VECOUT, 1> weightQueue, stateQueue;
    TBuf<TPosition::VECCALC> partialBuffer, valueBuffer, blockBuffer, laneBuffer;
    Floats values, partial, maxima, sums, lanes;
    uint32_t group = 0, dim = 0, firstRow = 0, rows = 0;
};

// Joins the tasks of each sequence and head: their sums, weighted by how far their maxima lie below the largest.
template <typename T>
class AttentionJoin {
public:
    __aicore__ inline void Run(Problem<T>& problem) {
        p = &problem;
        group = p->t.group;
        dim = p->t.headDim;
        const uint32_t whole = RoundUp(group, BLOCK);
        pipe.InitBuffer(sumQueue, 2, group * dim * sizeof(float));
        pipe.InitBuffer(stateQueue, 2, group * STATE * sizeof(float));
        pipe.InitBuffer(outQueue, 2, group * dim * sizeof(T));
        pipe.InitBuffer(room, (5 * whole * BLOCK + whole * LANES + group * dim) * sizeof(float));
        maximum = room.Get<float>();
        total = maximum[whole * BLOCK];
        largest = total[whole * BLOCK];
        older = largest[whole * BLOCK];
        newer = older[whole * BLOCK];
        lanes = newer[whole * BLOCK];
        result = lanes[whole * LANES];
        for (uint32_t head = GetBlockIdx(), all = p->t.batch * p->t.kvHeads; head < all; head += 2 * GetBlockNum()) {
            const uint32_t begin = p->FirstOfHead(head), end = p->FirstOfHead(head + 1);
            const int32_t blocks = static_cast<int32_t>(group * BLOCK);
            Duplicate(maximum, -3.4028234e38f, blocks);
            Duplicate(total, p->lengthGm.GetValue(head / p->t.kvHeads) > 0 ? 0.0f : 1.0f, blocks);  // without tokens: zeros
            Duplicate(result, 0.0f, static_cast<int32_t>(group * dim));
            for (uint32_t i = begin; i < end; i++) Take(i);
            Write(head);
        }
    }

private:
    __aicore__ inline void Take(uint32_t i) {
        const int32_t blocks = static_cast<int32_t>(group * BLOCK);
        Floats part = sumQueue.template AllocTensor<float>(), state = stateQueue.template AllocTensor<float>();
        DataCopy(state, p->stateGm[static_cast<uint64_t>(i) * group * STATE], group * STATE);
        stateQueue.EnQue(state);
        DataCopy(part, p->sumGm[static_cast<uint64_t>(i) * group * dim], group * dim);
        sumQueue.EnQue(part);
        state = stateQueue.template DeQue<float>();
        const uint8_t repeats = static_cast<uint8_t>(group);
        Max(largest, maximum, state, static_cast<uint64_t>(BLOCK), repeats, {1, 1, 1, 1, 1, 2});
        Sub(older, maximum, largest, blocks);
        Exp(older, older, blocks);
        Sub(newer, state, largest, static_cast<uint64_t>(BLOCK), repeats, {1, 1, 1, 1, 2, 1});
        Exp(newer, newer, blocks);
        Adds(maximum, largest, 0.0f, blocks);
        Mul(total, total, older, blocks);
        Mul(largest, state[BLOCK], newer, static_cast<uint64_t>(BLOCK), repeats, {1, 1, 1, 1, 2, 1});
        Add(total, total, largest, blocks);
        stateQueue.FreeTensor(state);
        part = sumQueue.template DeQue<float>();
        Scale(result, older);
        Scale(part, newer);
        Add(result, result, part, static_cast<int32_t>(group * dim));
        sumQueue.FreeTensor(part);
    }
    // Every row times its block.
    __aicore__ inline void Scale(const Floats& all, const Floats& blocks) {
        const uint8_t stride = static_cast<uint8_t>(dim / BLOCK);
        Brcb(lanes, blocks, static_cast<uint8_t>(group), {1, 8});
        for (uint32_t at = 0; at < dim; at += LANES)
            Mul(all[at], all[at], lanes, static_cast<uint64_t>(LANES), static_cast<uint8_t>(group), {1, 1, 1, stride, stride, 8});
    }
    __aicore__ inline void Write(uint32_t head) {
        Duplicate(newer, 1.0f, static_cast<int32_t>(group * BLOCK));
        Div(newer, newer, total, static_cast<int32_t>(group * BLOCK));
        Scale(result, newer);
        LocalTensor<T> out = outQueue.template AllocTensor<T>();
        Cast(out, result, RoundMode::CAST_RINT, group * dim);
        outQueue.EnQue(out);
        out = outQueue.template DeQue<T>();
        DataCopy(p->outGm[static_cast<uint64_t>(head) * group * dim], out, group * dim);
        outQueue.FreeTensor(out);
    }

    Problem<T>* p = nullptr;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> sumQueue, stateQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> room;
    Floats maximum, total, largest, older, newer, lanes, result;
    uint32_t group = 0, dim = 0;
};
