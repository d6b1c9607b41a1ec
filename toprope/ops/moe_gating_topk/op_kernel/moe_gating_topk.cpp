// The k best experts of every token, with their weights. Three kernels in one source:
//   moe_gating_topk, key 1   several rows at a time on every core
//   moe_gating_topk, key 2   a row is shared by several cores, which merge what each has found in a butterfly
//   moe_gating_topk_naive    row by row, k times the largest
#include "gate_select.h"

#ifndef DTYPE_X
#define DTYPE_X float
#endif

// Key 1: a run of rows on every core, several at a time; the stores of a tile leave while the next one is worked on.
template <typename T>
class GateWholeRows : GateSelect<T> {
    using Base = GateRows<T>;
    using Pick = GateSelect<T>;
    using Base::t, Base::scores, Base::choice, Base::values, Pick::best, Pick::places, Pick::weights;

public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR bias, GM_ADDR y, GM_ADDR indices, const Tiling& tiling) {
        Base::OpenRows(x, bias, y, indices, tiling, 2);
        Pick::OpenSelect();
        OpenValues();
        Base::LoadBias(0, t.experts);
        const uint64_t begin = static_cast<uint64_t>(t.coreRows) * GetBlockIdx();
        const uint64_t end = begin + t.coreRows < t.rows ? begin + t.coreRows : t.rows;
        if (begin < end) Load(begin, end);
        for (uint64_t row = begin; row < end; row += t.tileRows) {
            if (row + t.tileRows < end) Load(row + t.tileRows, end);  // asked for before the queue of the vector unit is full
            Compute(Count(row, end));
            Base::Store(row, Count(row, end));
        }
    }

private:
    __aicore__ inline uint32_t Count(uint64_t row, uint64_t end) const {
        return end - row < t.tileRows ? static_cast<uint32_t>(end - row) : t.tileRows;
    }
    __aicore__ inline void Load(uint64_t row, uint64_t end) { Base::Load(row, Count(row, end), 0, t.experts); }
    __aicore__ inline void OpenValues() {
        const uint32_t rows = RoundUp(t.tileRows, BLOCK);
        byteOffsets = Base::IntRoom(rows * t.keep);
        starts = Base::IntRoom(rows * t.keep);
        for (uint32_t r = 0; r < t.tileRows; r++) Duplicate(starts[r * t.keep], Int(r * t.width * sizeof(float)), Int(t.keep));
        if (t.groups == 1 || t.experts / t.groups == t.groupWidth) return;
        expertOf = Base::IntRoom(t.width);  // the expert at each place of a row whose groups are padded
        CreateVecIndex(expertOf, 0, t.width);
        for (uint32_t g = 1; g < t.groups; g++)
            Adds(expertOf[g * t.groupWidth], expertOf[g * t.groupWidth], -Int(g * (t.groupWidth - t.experts / t.groups)),
                 Int(t.groupWidth));
    }

    __aicore__ inline void Compute(uint32_t count) {
        LocalTensor<T> tile = Base::xQueue.template DeQue<T>();
        const Floats from = Base::AsFloats(tile, count);
        if (t.biased) {
            if (t.sigmoid)
                Base::Sigmoid(scores, from, choice, Int(count * t.width));
            else
                Softmax(from, count);
            Base::AddBias(count);
        }
        if (t.groups > 1) {
            Base::Raise(t.biased ? choice : from, count);
            Pick::Exclude(count);
        }
        Pick::Select(t.biased || t.groups > 1 ? choice : from, count);
        if (!t.biased && !t.sigmoid) Softmax(from, count);
        Base::xQueue.FreeTensor(tile);
        Weigh(count);
        WriteIndices(count);
    }
    // With a bias its sum divides all scores; without one, the choice is by x itself, and only the chosen scores are divided later.
    __aicore__ inline void Softmax(const Floats& from, uint32_t count) {
        if (t.biased || t.groups > 1)
            Base::template Fold<true>(from, count);
        else
            WholeReduceMax(values, best, t.keep, Int(count), 1, 1, Int(t.keep / BLOCK), ReduceOrder::ORDER_ONLY_VALUE);
        Base::Spread(count);
        Base::template Apply<true>(scores, from, count);
        Exp(scores, scores, Int(count * t.width));
        Base::template Fold<false>(scores, count);
        Base::Invert(count);
        Base::Spread(count);
        if (t.biased) Base::template Apply<false>(scores, scores, count);
    }
    // The scores of the chosen experts, out.
    __aicore__ inline void Weigh(uint32_t count) {
        const int32_t size = Int(count * t.keep);
        if (t.sigmoid && !t.biased)
            Base::Sigmoid(weights, best, Pick::ones, size);
        else {
            Muls(byteOffsets, places, Int(sizeof(float)), size);
            Add(byteOffsets, byteOffsets, starts, size);
            Gather(weights, scores, AsBits(byteOffsets), 0, static_cast<uint32_t>(size));
            if (!t.biased) Pick::ScaleRows(count);
        }
        Pick::Finish(count);
    }
    __aicore__ inline void WriteIndices(uint32_t count) {
        const int32_t size = Int(count * t.keep);
        LocalTensor<int32_t> index = Base::indexQueue.template AllocTensor<int32_t>();
        if (t.groups > 1 && t.experts / t.groups != t.groupWidth) {
            Muls(places, places, Int(sizeof(int32_t)), size);
            Gather(index, expertOf, AsBits(places), 0, static_cast<uint32_t>(size));
        } else
            Adds(index, places, 0, size);
        Base::indexQueue.EnQue(index);
    }

    Ints byteOffsets, starts, expertOf;
};

// Key 2: `parts` cores share a row. Each finds the best of its experts; then in every round a core takes in the lists of the three whose
// number differs from its own in one digit of base four. After log4(parts) rounds the first core of a row has the whole row's list.
// Maximum and sum of the softmax travel with the lists.
template <typename T>
class GateShared : GateSelect<T> {
    using Base = GateRows<T>;
    using Pick = GateSelect<T>;
    using Base::t, Base::scores, Base::values, Base::blocks, Pick::entries, Pick::best, Pick::weights, Pick::ones;

public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR bias, GM_ADDR y, GM_ADDR indices, GM_ADDR workspace, const Tiling& tiling) {
        me = GetBlockIdx() % tiling.parts;
        first = me * tiling.partExperts;
        length = first + tiling.partExperts < tiling.experts ? tiling.partExperts : tiling.experts - first;
        Base::OpenRows(x, bias, y, indices, tiling, 2);
        Pick::OpenSelect(first);
        state = 2 * t.keep;
        packet = state + 2 * BLOCK;
        listGm.SetGlobalBuffer((__gm__ float*)workspace);
        Base::pipe.InitBuffer(sendQueue, 1, packet * sizeof(float));
        Base::pipe.InitBuffer(receiveQueue, 1, 4 * packet * sizeof(float));
        own = Base::Room(packet);
        const uint32_t team = GetBlockIdx() / t.parts, teams = GetBlockNum() / t.parts;
        for (uint32_t i = 0; i < t.coreRows; i++) {  // all cores meet in every round, whether they have a row or not
            const uint64_t row = team + static_cast<uint64_t>(i) * teams;
            const bool mine = row < t.rows;
            if (mine) Local(row);
            for (uint32_t apart = 1; apart < t.parts; apart *= 4) Round(apart, mine);
            if (mine && me == 0) Write(row);
        }
    }

private:
    __aicore__ inline Floats Maximum(const Floats& list) const { return list[state]; }
    __aicore__ inline Floats Sum(const Floats& list) const { return list[state + BLOCK]; }
    __aicore__ static inline void Move(const Floats& to, const Floats& from, uint32_t count) {
        Adds(to.ReinterpretCast<int32_t>(), from.ReinterpretCast<int32_t>(), 0, Int(count));  // as whole numbers: bits stay as they are
    }

    // The list of this core's experts: entries, then maximum and sum, eight times each.
    __aicore__ inline void Local(uint64_t row) {
        Base::Load(row, 1, first, length);
        LocalTensor<T> tile = Base::xQueue.template DeQue<T>();
        const Floats from = Base::AsFloats(tile, 1);
        Move(own, Pick::Find(from, 1), state);
        if (!t.sigmoid) {
            Base::template Fold<true>(from, 1);
            Base::Spread(1);
            Move(Maximum(own), blocks, BLOCK);
            Base::template Apply<true>(scores, from, 1);
            Exp(scores, scores, Int(t.width));
            Base::template Fold<false>(scores, 1);
            Base::Spread(1);
            Move(Sum(own), blocks, BLOCK);
        } else
            Duplicate(Maximum(own), 0.0f, Int(2 * BLOCK));
        Base::xQueue.FreeTensor(tile);
    }

    // Own list to GM, those of the four back, merged into the own one.
    __aicore__ inline void Round(uint32_t apart, bool mine) {
        const uint32_t team = GetBlockIdx() - me, from = me / (4 * apart) * (4 * apart) + me % apart;
        const uint64_t half = round++ % 2 * GetBlockNum();  // a list may be read until the next meeting
        if (mine) {
            const Floats list = sendQueue.template AllocTensor<float>();
            Move(list, own, packet);
            sendQueue.EnQue(list);
            const Floats out = sendQueue.template DeQue<float>();
            DataCopy(listGm[(half + GetBlockIdx()) * packet], out, packet);
            sendQueue.FreeTensor(out);
        }
        SyncAll();
        if (!mine) return;
        uint32_t lists = 0;
        const Floats all = receiveQueue.template AllocTensor<float>();
        for (; lists < 4 && from + lists * apart < t.parts; lists++)
            DataCopy(all[lists * packet], listGm[(half + team + from + lists * apart) * packet], packet);
        receiveQueue.EnQue(all);
        const Floats in = receiveQueue.template DeQue<float>();
        if (lists > 1) {
            const uint16_t l = static_cast<uint16_t>(t.keep), lengths[4] = {l, l, l, l};
            MrgSort(entries, {in, in[packet], in[(lists > 2 ? 2 : 0) * packet], in[(lists > 3 ? 3 : 0) * packet]},
                    MrgSort4Info(lengths, false, static_cast<uint16_t>((1 << lists) - 1), 1));
            Move(own, entries, state);
            if (!t.sigmoid) Join(in, lists);
        }
        receiveQueue.FreeTensor(in);
    }
    __aicore__ inline void Join(const Floats& in, uint32_t lists) {
        for (uint32_t i = 0; i < lists; i++) Max(Maximum(own), Maximum(own), Maximum(in[i * packet]), Int(BLOCK));
        Duplicate(Sum(own), 0.0f, Int(BLOCK));
        for (uint32_t i = 0; i < lists; i++) {
            const Floats maximum = Maximum(in[i * packet]), sum = Sum(in[i * packet]);
            Sub(maximum, maximum, Maximum(own), Int(BLOCK));
            Exp(maximum, maximum, Int(BLOCK));
            Mul(sum, sum, maximum, Int(BLOCK));
            Add(Sum(own), Sum(own), sum, Int(BLOCK));
        }
    }
    __aicore__ inline void Write(uint64_t row) {
        const int32_t size = Int(t.keep);
        Pick::Part(own, 1);
        if (t.sigmoid)
            Base::Sigmoid(weights, best, ones, size);
        else
            for (uint32_t at = 0; at < t.keep; at += BLOCK) {
                Sub(weights[at], best[at], Maximum(own), Int(BLOCK));
                Exp(weights[at], weights[at], Int(BLOCK));
                Div(weights[at], weights[at], Sum(own), Int(BLOCK));
            }
        Pick::Finish(1);
        LocalTensor<int32_t> index = Base::indexQueue.template AllocTensor<int32_t>();
        Adds(index, Pick::places, 0, size);
        Base::indexQueue.EnQue(index);
        Base::Store(row, 1);
    }

    TQue<TPosition::VECOUT, 1> sendQueue;
    TQue<TPosition::VECIN, 1> receiveQueue;
    GlobalTensor<float> listGm;
    Floats own;
    uint32_t me = 0, first = 0, length = 0, state = 0, packet = 0, round = 0;
};

extern "C" __global__ __aicore__ void moe_gating_topk(GM_ADDR x, GM_ADDR bias, GM_ADDR y, GM_ADDR expert_idx, GM_ADDR workspace,
                                                      GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);  // vector cores only, with the flags that SyncAll needs
    REGISTER_TILING_DEFAULT(MoeGatingTopkTilingData);
    GET_TILING_DATA(data, tiling);
    if (TILING_KEY_IS(1))
        GateWholeRows<DTYPE_X>().Run(x, bias, y, expert_idx, data);
    else if (TILING_KEY_IS(2))
        GateShared<DTYPE_X>().Run(x, bias, y, expert_idx, GetUserWorkspace(workspace), data);
}

// Row by row: scores, the groups one after the other, and k times the largest of what is left.
template <typename T>
class GateNaive : GateRows<T> {
    using Base = GateRows<T>;
    using Base::t, Base::scores, Base::choice, Base::values;

public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR bias, GM_ADDR y, GM_ADDR indices, const Tiling& tiling) {
        Base::OpenRows(x, bias, y, indices, tiling, 1);
        if (scores.GetSize() == 0) scores = Base::Room(t.width);
        if (choice.GetSize() == 0) choice = Base::Room(t.width);
        work = Base::Room(t.width);
        result = Base::Room(BLOCK);
        weights = Base::Room(t.keep);
        Base::LoadBias(0, t.experts);
        for (uint64_t row = GetBlockIdx(); row < t.rows; row += GetBlockNum()) {
            Base::Load(row, 1, 0, t.experts);
            Row();
            Base::Store(row, 1);
        }
    }

private:
    __aicore__ inline void Row() {
        LocalTensor<T> tile = Base::xQueue.template DeQue<T>();
        const Floats from = Base::AsFloats(tile, 1);
        const int32_t width = Int(t.width);
        if (t.sigmoid)
            Base::Sigmoid(scores, from, work, width);
        else {
            ReduceMax(result, from, work, width);
            Order<HardEvent::V_S>();
            Adds(scores, from, -result.GetValue(0), width);
            Exp(scores, scores, width);
            ReduceSum(result, scores, work, width);
            Order<HardEvent::V_S>();
            Muls(scores, scores, 1.0f / result.GetValue(0), width);
        }
        if (t.biased) Add(choice, scores, Base::biasRow, width);
        Base::Raise(t.biased ? choice : from, 1);
        Base::xQueue.FreeTensor(tile);
        if (t.groups > 1) ExcludeGroups();
        PickOneByOne();
    }
    // The largest of `length` elements of the choice from `at` on, and where it is.
    __aicore__ inline float Largest(uint32_t at, uint32_t length, uint32_t& place) {
        ReduceMax(result, choice[at], work, Int(length), true);
        Order<HardEvent::V_S>();
        place = at + AsBits(result).GetValue(1);
        return result.GetValue(0);
    }
    __aicore__ inline void Put(uint32_t place, float value) {
        choice.SetValue(place, value);
        Order<HardEvent::S_V>();
    }
    __aicore__ inline void ExcludeGroups() {
        float sum[SORTED];
        bool kept[SORTED];
        for (uint32_t g = 0; g < t.groups; g++) {
            uint32_t place = 0, next = 0;
            kept[g] = false;
            sum[g] = Largest(g * t.groupWidth, t.groupWidth, place);
            if (!t.topTwo) continue;
            const float largest = sum[g];
            Put(place, NONE);
            sum[g] += Largest(g * t.groupWidth, t.groupWidth, next);
            Put(place, largest);
        }
        for (uint32_t i = 0; i < t.keptGroups; i++) {
            uint32_t lead = t.groups;
            for (uint32_t g = 0; g < t.groups; g++)
                if (!kept[g] && (lead == t.groups || sum[g] > sum[lead] || (sum[g] != sum[g] && sum[lead] == sum[lead]))) lead = g;
            kept[lead] = true;
        }
        for (uint32_t g = 0; g < t.groups; g++)
            if (!kept[g]) Duplicate(choice[g * t.groupWidth], NONE, Int(t.groupWidth));
    }
    __aicore__ inline void PickOneByOne() {
        LocalTensor<int32_t> index = Base::indexQueue.template AllocTensor<int32_t>();
        LocalTensor<T> y = Base::yQueue.template AllocTensor<T>();
        float sum = 0;
        for (uint32_t i = 0; i < t.k; i++) {
            uint32_t place = 0;
            Largest(0, t.width, place);
            index.SetValue(i, Int(t.groups > 1 ? place - place / t.groupWidth * (t.groupWidth - t.experts / t.groups) : place));
            const float score = scores.GetValue(place);
            sum += score;
            weights.SetValue(i, score);
            Put(place, NONE);
        }
        const float factor = t.renorm ? t.scale / (sum + t.epsilon) : t.scale;
        if constexpr (sizeof(T) == 4)
            Muls(y, weights, factor, Int(t.k));
        else {
            Muls(weights, weights, factor, Int(t.k));
            Cast(y, weights, RoundMode::CAST_RINT, t.k);
        }
        Order<HardEvent::V_S>();
        Base::yQueue.EnQue(y);
        Order<HardEvent::S_MTE3>();
        Base::indexQueue.EnQue(index);
    }

    Floats work, result, weights;
};

extern "C" __global__ __aicore__ void moe_gating_topk_naive(GM_ADDR x, GM_ADDR bias, GM_ADDR y, GM_ADDR expert_idx, GM_ADDR workspace,
                                                            GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(MoeGatingTopkTilingData);
    GET_TILING_DATA(data, tiling);
    GateNaive<DTYPE_X>().Run(x, bias, y, expert_idx, data);
}
