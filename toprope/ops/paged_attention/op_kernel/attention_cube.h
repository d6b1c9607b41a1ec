// The cube core: scores = query x keys of a task, and, when the vector cores have made weights of them, sums = weights x values.
// Keys of the next task are asked for before the weights of this one are waited for, and the values of this one before that: the load
// unit never stands still. Tokens go through L1 in slots of 256, two for keys and five for values.
#pragma once

#include "attention.h"

template <typename T>
class AttentionCube {
    static constexpr uint32_t SLOT = 256, STEP = 128, MOST_DIM = 128;                          // tokens of a slot of L1 and of a product
    static constexpr uint32_t KEY_SLOTS = 2, VALUE_SLOTS = 5, LEFT = KEY_SLOTS + VALUE_SLOTS;  // event of the left operands

public:
    __aicore__ inline void Run(Problem<T>& problem) {
        p = &problem;
        dim = p->t.headDim;
        pipe.InitBuffer(keys, KEY_SLOTS * SLOT * dim * sizeof(T));
        pipe.InitBuffer(values, VALUE_SLOTS * SLOT * dim * sizeof(T));
        pipe.InitBuffer(left, (FRACTAL * MOST_DIM + FRACTAL * TASK) * sizeof(T));
        pipe.InitBuffer(l0a, 2 * FRACTAL * STEP * sizeof(T));
        pipe.InitBuffer(l0b, 2 * STEP * MOST_DIM * sizeof(T));
        pipe.InitBuffer(l0c, (FRACTAL * TASK + FRACTAL * MOST_DIM) * sizeof(float));
        Free(true);
        Tasks<T> tasks(problem, GetBlockIdx());
        uint32_t i = tasks.number;
        Task now = tasks.Next(), next = {};
        if (now.tokens > 0) {
            Scores(i, now, next);
            LoadValues(i, now, 0, TASK);
        }
        for (; now.tokens > 0; i++, now = next) {
            next = tasks.Next();
            if (next.tokens > 0) Scores(i + 1, next, now);
            Sums(i, now, next);
        }
        Free(false);
    }

private:
    __aicore__ inline void Free(bool atStart) {
        for (uint32_t i = 0; i <= LEFT; i++) {
            if (atStart)
                SetFlag<HardEvent::MTE1_MTE2>(i);
            else
                WaitFlag<HardEvent::MTE1_MTE2>(i);
        }
        for (uint32_t i = 0; i < 2; i++) {
            if (atStart) {
                SetFlag<HardEvent::M_MTE1>(i);
                SetFlag<HardEvent::FIX_M>(i);
            } else {
                WaitFlag<HardEvent::M_MTE1>(i);
                WaitFlag<HardEvent::FIX_M>(i);
            }
        }
    }
    __aicore__ inline LocalTensor<T> Query() { return left.Get<T>(); }
    __aicore__ inline LocalTensor<T> Weights() { return left.Get<T>()[FRACTAL * MOST_DIM]; }

    // Up to 256 tokens of a head into a slot of L1, as many pages at a time as lie one behind the other in the cache; rows become columns
    // of fractals.
    __aicore__ inline void LoadSlot(const LocalTensor<T>& slot, const GlobalTensor<T>& cache, const Task& task, const uint32_t* numbers,
                                    uint32_t at, uint32_t count, uint32_t event) {
        WaitFlag<HardEvent::MTE1_MTE2>(event);
        const uint32_t size = p->t.pageTokens, first = task.first + at, step = p->t.kvHeads * dim, number = task.first / size;
        for (uint32_t done = 0; done < count;) {
            const uint32_t token = first + done, start = numbers[token / size - number];
            uint32_t run = size - token % size;
            while (done + run < count && numbers[(token + run) / size - number] == start + (token + run) / size - token / size) run += size;
            run = Least(run, count - done);
            DataCopy(slot[done * FRACTAL], cache[p->TokenAt(start, token, task.head)],
                     Nd2NzParams(1, run, dim, 0, step, RoundUp(count, FRACTAL), 1, 0));
            done += run;
        }
        SetFlag<HardEvent::MTE2_MTE1>(event);
    }
    // Numbers of the pages of a slot: read once, for the keys; the values are in the same pages, and so is the next head of a sequence.
    __aicore__ inline void ReadTable(uint32_t i, const Task& task, const Task& before, uint32_t at, uint32_t count) {
        const uint32_t size = p->t.pageTokens, number = task.first / size, page = (task.first + at) / size;
        const uint32_t wanted = (task.first + at + count + size - 1) / size - page;
        uint32_t* numbers = pages[i % 2] + (page - number);
        if (before.sequence != task.sequence || before.first > task.first || before.first + before.tokens < task.first + at + count)
            return p->Pages(task.sequence, page, wanted, numbers);
        const uint32_t* known = pages[(i + 1) % 2] + (page - before.first / size);
        for (uint32_t k = 0; k < wanted; k++) numbers[k] = known[k];
    }
    __aicore__ inline void LoadValues(uint32_t i, const Task& task, uint32_t from, uint32_t to) {
        for (uint32_t at = from; at < Least(to, task.tokens); at += SLOT) {
            LoadSlot(values.Get<T>()[nextSlot * SLOT * dim], p->valueGm, task, pages[i % 2], at, Least(SLOT, task.tokens - at),
                     KEY_SLOTS + nextSlot);
            nextSlot = (nextSlot + 1) % VALUE_SLOTS;
        }
    }

    // `before` has no tokens at the first task.
    __aicore__ inline void Scores(uint32_t i, const Task& task, const Task& before) {
        const LocalTensor<float> scores = l0c.Get<float>();
        WaitFlag<HardEvent::MTE1_MTE2>(LEFT);
        const uint64_t rows = (static_cast<uint64_t>(task.sequence) * p->t.heads + task.head * p->t.group) * dim;
        DataCopy(Query(), p->queryGm[rows], Nd2NzParams(1, p->t.group, dim, 0, dim, FRACTAL, 1, 0));
        SetFlag<HardEvent::MTE2_MTE1>(LEFT);
        WaitFlag<HardEvent::MTE2_MTE1>(LEFT);
        WaitFlag<HardEvent::FIX_M>(0);
        for (uint32_t at = 0; at < task.tokens; at += SLOT) {
            const uint32_t count = Least(SLOT, task.tokens - at), whole = RoundUp(count, FRACTAL);
            const LocalTensor<T> slot = keys.Get<T>()[keySlot * SLOT * dim];
            ReadTable(i, task, before, at, count);
            LoadSlot(slot, p->keyGm, task, pages[i % 2], at, count, keySlot);
            WaitFlag<HardEvent::MTE2_MTE1>(keySlot);
            for (uint32_t step = 0; step < count; step += STEP) {
                const uint32_t columns = Least(STEP, count - step), fractals = RoundUp(columns, FRACTAL) / FRACTAL;
                WaitFlag<HardEvent::M_MTE1>(half_);
                LoadData(A(), Query(), LoadData2DParams(0, dim / FRACTAL, 1, 0, 0, false, 0));
                for (uint32_t k = 0; k < dim / FRACTAL; k++)  // a key is a column of the right operand as it lies
                    LoadData(B()[k * fractals * FRACTAL * FRACTAL], slot,
                             LoadData2DParams(static_cast<uint16_t>((k * whole + step) / FRACTAL), static_cast<uint8_t>(fractals), 1, 0, 0,
                                              false, 0));
                Multiply(scores[(at + step) * FRACTAL], columns, dim, true);
            }
            SetFlag<HardEvent::MTE1_MTE2>(keySlot);
            keySlot = (keySlot + 1) % KEY_SLOTS;
        }
        SetFlag<HardEvent::MTE1_MTE2>(LEFT);
        Store(p->scoreGm[p->Exchange(GetBlockIdx(), i)], scores, task.tokens, TASK, 0);
        CrossCoreSetFlag<2, PIPE_FIX>(SCORES_READY);
    }

    // `next` has no tokens after the last task.
    __aicore__ inline void Sums(uint32_t i, const Task& task, const Task& next) {
        const LocalTensor<float> sums = l0c.Get<float>()[FRACTAL * TASK];
        WaitFlag<HardEvent::MTE1_MTE2>(LEFT);
        CrossCoreWaitFlag<2, PIPE_MTE2>(WEIGHTS_READY);
        DataCopy(Weights(), p->weightGm[p->Exchange(GetBlockIdx(), i)], Nd2NzParams(1, p->t.group, task.tokens, 0, TASK, FRACTAL, 1, 0));
        SetFlag<HardEvent::MTE2_MTE1>(LEFT);
        WaitFlag<HardEvent::MTE2_MTE1>(LEFT);
        WaitFlag<HardEvent::FIX_M>(1);
        LoadValues(i + 1, next, 0, SLOT);  // the values of the next task, a slot ahead of those that are used up
        for (uint32_t at = 0; at < task.tokens; at += SLOT) {
            const uint32_t s = valueSlot;
            const uint32_t count = Least(SLOT, task.tokens - at);
            WaitFlag<HardEvent::MTE2_MTE1>(KEY_SLOTS + s);
            for (uint32_t step = 0; step < count; step += STEP) {
                const uint32_t depth = Least(STEP, count - step), whole = RoundUp(depth, FRACTAL);
                WaitFlag<HardEvent::M_MTE1>(half_);
                LoadData(A(), Weights()[(at + step) * FRACTAL],
                         LoadData2DParams(0, static_cast<uint8_t>(whole / FRACTAL), 1, 0, 0, false, 0));
                LoadData3DParamsV2<T> turned;  // a value is a row of the right operand, which wants columns
                turned.l1H = 1;
                turned.l1W = RoundUp(count, FRACTAL);
                turned.channelSize = dim;
                turned.kExtension = dim;
                turned.mExtension = whole;
                turned.mStartPt = step;
                turned.enTranspose = true;
                LoadData(B(), values.Get<T>()[s * SLOT * dim], turned);
                Multiply(sums, dim, depth, at + step == 0);
                PipeBarrier<PIPE_M>();  // the next product adds to fractals still on their way
            }
            SetFlag<HardEvent::MTE1_MTE2>(KEY_SLOTS + s);
            valueSlot = (valueSlot + 1) % VALUE_SLOTS;
            LoadValues(i + 1, next, at + SLOT, at + 2 * SLOT);
        }
        LoadValues(i + 1, next, RoundUp(task.tokens, SLOT) + SLOT, TASK);
        SetFlag<HardEvent::MTE1_MTE2>(LEFT);
        Store(p->sumGm[static_cast<uint64_t>(i) * p->t.group * dim], sums, dim, dim, 1);
    }

    __aicore__ inline LocalTensor<T> A() { return l0a.Get<T>()[half_ * FRACTAL * STEP]; }
    __aicore__ inline LocalTensor<T> B() { return l0b.Get<T>()[half_ * STEP * MOST_DIM]; }
    __aicore__ inline void Multiply(const LocalTensor<float>& to, uint32_t n, uint32_t k, bool first) {
        SetFlag<HardEvent::MTE1_M>(half_);
        WaitFlag<HardEvent::MTE1_M>(half_);
        MmadParams product;
        product.m = FRACTAL;  // rows past the group are not stored
        product.n = n;
        product.k = k;
        product.cmatrixInitVal = first;
        Mmad(to, A(), B(), product);
        SetFlag<HardEvent::M_MTE1>(half_);
        half_ = 1 - half_;
    }
    __aicore__ inline void Store(const GlobalTensor<float>& to, const LocalTensor<float>& from, uint32_t columns, uint32_t stride,
                                 uint32_t event) {
        SetFlag<HardEvent::M_FIX>(event);
        WaitFlag<HardEvent::M_FIX>(event);
        Fixpipe(to, from, FixpipeParamsV220(columns, p->t.group, FRACTAL, stride, false));
        SetFlag<HardEvent::FIX_M>(event);
    }

    Problem<T>* p = nullptr;
    TPipe pipe;
    TBuf<TPosition::A1> left;
    TBuf<TPosition::B1> keys, values;
    TBuf<TPosition::A2> l0a;
    TBuf<TPosition::B2> l0b;
    TBuf<TPosition::CO1> l0c;
    uint32_t pages[2][TASK / FRACTAL + 1] = {};  // of the task whose keys are loaded, and of the one before
    uint32_t dim = 0, keySlot = 0, nextSlot = 0, valueSlot = 0, half_ = 0;
};
