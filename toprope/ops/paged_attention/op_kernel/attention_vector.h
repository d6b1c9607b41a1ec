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
        Tasks<T> tasks(problem, core);
        for (uint32_t i = tasks.number; i < tasks.end; i++) {
            const uint32_t tokens = tasks.Next().tokens;
            CrossCoreWaitFlag<2, PIPE_MTE2>(SCORES_READY);
            if (rows > 0) Weigh(i, p->Exchange(core, i) + firstRow * TASK, tokens);
            CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY);
        }
    }

private:
    __aicore__ inline void Weigh(uint32_t i, uint64_t at, uint32_t tokens) {
        const uint32_t width = RoundUp(tokens, LANES);
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
    static constexpr uint32_t AHEAD = 16;  // heads that are found before the last sums are there

public:
    __aicore__ inline explicit AttentionJoin(Problem<T>& problem) : p(&problem), all(problem.t.batch * problem.t.kvHeads) {
        for (uint32_t k = 0, head = GetBlockIdx(); k < AHEAD && head < all; k++, head += 2 * GetBlockNum()) places[k] = Find(head);
    }
    __aicore__ inline void Run() {
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
        for (uint32_t k = 0, head = GetBlockIdx(); head < all; k++, head += 2 * GetBlockNum()) {
            const Place place = k < AHEAD ? places[k] : Find(head);
            const int32_t blocks = static_cast<int32_t>(group * BLOCK);
            Duplicate(maximum, -3.4028234e38f, blocks);
            Duplicate(total, place.length > 0 ? 0.0f : 1.0f, blocks);  // without tokens: zeros
            Duplicate(result, 0.0f, static_cast<int32_t>(group * dim));
            for (uint32_t i = place.begin; i < place.end; i++) Take(i);
            Write(head);
        }
    }

private:
    // The tasks of a head, and how many tokens they are.
    struct Place {
        uint32_t begin, end, length;
    };
    __aicore__ inline Place Find(uint32_t head) {
        const uint32_t length = Length(head / p->t.kvHeads), begin = FirstTask(head);
        return {begin, begin + CountTasks(head, length), length};
    }
    __aicore__ inline uint32_t Length(uint32_t sequence) { return p->lengthGm.GetValue(sequence); }
    __aicore__ static inline uint32_t Cut(uint32_t tokens) { return (tokens + TASK - 1) / TASK; }
    // The number of a head's first task: the core that has it has whole heads before it, except for the one with which it begins.
    __aicore__ inline uint32_t FirstTask(uint32_t head) {
        core = 0;
        while (core + 1 < GetBlockNum() &&
               (p->t.firstHead[core + 1] < head || (p->t.firstHead[core + 1] == head && p->t.firstToken[core + 1] == 0)))
            core++;
        uint32_t number = p->t.firstTask[core], at = p->t.firstHead[core];
        if (at < head) number += Cut(Length(at / p->t.kvHeads) - p->t.firstToken[core]);
        for (at++; at < head;) {  // sequence by sequence: their heads have as many tasks each
            const uint32_t sequence = at / p->t.kvHeads, same = Least(head, (sequence + 1) * p->t.kvHeads) - at;
            number += same * Cut(Length(sequence));
            at += same;
        }
        return number;
    }
    // From the core that FirstTask found on.
    __aicore__ inline uint32_t CountTasks(uint32_t head, uint32_t length) {
        uint32_t count = 0;
        for (uint32_t at = 0; at < length; core++) {
            const uint32_t to = core + 1 < GetBlockNum() && p->t.firstHead[core + 1] == head ? p->t.firstToken[core + 1] : length;
            count += Cut(to - at);
            at = to;
        }
        return count;
    }
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

    Problem<T>* p;
    const uint32_t all;  // heads of the cache, of all sequences
    TPipe pipe;
    TQue<TPosition::VECIN, 1> sumQueue, stateQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> room;
    Floats maximum, total, largest, older, newer, lanes, result;
    Place places[AHEAD] = {};
    uint32_t group = 0, dim = 0, core = 0;
};
