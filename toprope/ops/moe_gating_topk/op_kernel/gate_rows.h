// What all kernels of moe_gating_topk share: buffers, loads and stores, and steps that work on all rows of a tile at once.
#pragma once

#include "kernel_operator.h"
#include "moe_gating_topk_tiling_data.h"

using namespace AscendC;

using Tiling = MoeGatingTopkTilingData;
using Floats = LocalTensor<float>;
using Ints = LocalTensor<int32_t>;

constexpr uint32_t LANES = 64, BLOCK = 8, SORTED = 32;  // elements of a repeat, of a block and of what Sort32 sorts
constexpr float LOWEST = -3.4028234e38f, NONE = -__builtin_inff();
constexpr uint32_t ENTRY = 8, INDEX = 4;  // bytes of a sorted entry, and where its index is in it

template <HardEvent event>
__aicore__ inline void Order() {
    const auto id = GetTPipePtr()->FetchEventID(event);
    SetFlag<event>(id);
    WaitFlag<event>(id);
}
__aicore__ inline uint32_t RoundUp(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }
__aicore__ inline LocalTensor<uint32_t> AsBits(const Floats& t) { return t.ReinterpretCast<uint32_t>(); }
__aicore__ inline LocalTensor<uint32_t> AsBits(const Ints& t) { return t.ReinterpretCast<uint32_t>(); }
__aicore__ inline int32_t Int(uint32_t value) { return static_cast<int32_t>(value); }

// Buffers and steps that all three kernels share. R = tileRows rows of `width` floats.
template <typename T>
class GateRows {
protected:
    __aicore__ inline void OpenRows(GM_ADDR x, GM_ADDR bias, GM_ADDR y, GM_ADDR indices, const Tiling& tiling, int buffers) {
        t = tiling;
        R = t.tileRows;
        const uint64_t all = static_cast<uint64_t>(t.rows);
        xGm.SetGlobalBuffer((__gm__ T*)x, all * t.experts);
        biasGm.SetGlobalBuffer((__gm__ float*)bias, t.experts);
        yGm.SetGlobalBuffer((__gm__ T*)y, all * t.k);
        indexGm.SetGlobalBuffer((__gm__ int32_t*)indices, all * t.k);
        values = Room(RoundUp(R, BLOCK));
        blocks = Room(RoundUp(R, BLOCK) * BLOCK);
        lanes = Room(R * LANES);  // all that a step reads lies before what it writes: its calls then do not wait for each other
        pipe.InitBuffer(xQueue, buffers, R * t.width * sizeof(T));
        pipe.InitBuffer(yQueue, buffers, R * t.keep * sizeof(T));
        pipe.InitBuffer(indexQueue, buffers, R * t.keep * sizeof(int32_t));
        if constexpr (sizeof(T) == 2) wide = Room(R * t.width);
        if (!t.sigmoid || t.biased) scores = Room(R * t.width);
        if (t.biased || t.groups > 1) choice = Room(R * t.width);
        if (t.biased) biasRow = Room(t.width);
        partial = Room(R * t.width / BLOCK + LANES);
        Duplicate(values, 1.0f, Int(RoundUp(R, BLOCK)));
        for (int b = 0; b < buffers && Padded(); b++) {  // what no copy fills is never chosen
            LocalTensor<T> tile = xQueue.template AllocTensor<T>();
            Duplicate(tile, static_cast<T>(NONE), Int(R * t.width));
            xQueue.FreeTensor(tile);
        }
    }
    __aicore__ inline Floats Room(uint32_t floats) {
        TBuf<TPosition::VECCALC>& buffer = rooms[used++];
        pipe.InitBuffer(buffer, RoundUp(floats, BLOCK) * sizeof(float));
        return buffer.Get<float>();
    }
    __aicore__ inline Ints IntRoom(uint32_t ints) { return Room(ints).template ReinterpretCast<int32_t>(); }
    __aicore__ inline bool Padded() const { return t.groups * t.groupWidth != t.width || t.experts != t.groups * t.groupWidth; }

    // `count` rows (or, of a shared row, its `part`) from GM, groups apart.
    __aicore__ inline void Load(uint64_t row, uint32_t count, uint32_t from, uint32_t length) {
        LocalTensor<T> tile = xQueue.template AllocTensor<T>();
        CopyGroups<T>(tile, xGm[row * t.experts + from], count, length, t.width);
        xQueue.EnQue(tile);
    }
    template <typename U>
    __aicore__ inline void CopyGroups(const LocalTensor<U>& to, const GlobalTensor<U>& from, uint32_t count, uint32_t length,
                                      uint32_t width) {
        constexpr uint32_t each = 32 / sizeof(U);
        const uint32_t group = length / t.groups, padded = RoundUp(group, each);
        const uint32_t gap = (t.groups > 1 ? t.groupWidth : width) - padded;
        const DataCopyPadExtParams<U> filled{true, 0, static_cast<uint8_t>(padded - group), static_cast<U>(NONE)};
        const DataCopyExtParams groupsOfRow{static_cast<uint16_t>(t.groups), static_cast<uint32_t>(group * sizeof(U)), 0, gap / each, 0};
        if (t.groups > 1 && t.groups * t.groupWidth != width) {  // rows are further apart than groups
            for (uint32_t r = 0; r < count; r++) DataCopyPad(to[r * width], from[r * length], groupsOfRow, filled);
        } else if (gap == 0 && padded == group)
            DataCopyPad(to, from, {1, static_cast<uint32_t>(count * length * sizeof(U)), 0, 0, 0}, filled);
        else
            DataCopyPad(to, from, {static_cast<uint16_t>(count * t.groups), static_cast<uint32_t>(group * sizeof(U)), 0, gap / each, 0},
                        filled);
    }
    __aicore__ inline void LoadBias(uint32_t from, uint32_t length) {
        if (!t.biased) return;
        Duplicate(biasRow, NONE, Int(t.width));
        Order<HardEvent::V_MTE2>();
        CopyGroups<float>(biasRow, biasGm[from], 1, length, t.width);
        Order<HardEvent::MTE2_V>();
    }
    __aicore__ inline Floats AsFloats(const LocalTensor<T>& tile, uint32_t count) {
        if constexpr (sizeof(T) == 4)
            return tile;
        else {
            Cast(wide, tile, RoundMode::CAST_NONE, count * t.width);
            return wide;
        }
    }

    // values[r] = maximum or sum of row r: eight become one at full speed until a row fits into a repeat.
    template <bool isMax>
    __aicore__ inline void Fold(const Floats& from, uint32_t count) {
        Floats now = from;
        uint32_t width = t.width;
        for (; width > LANES; width /= BLOCK, now = partial) {
            const int32_t repeats = Int(count * width / LANES);
            if constexpr (isMax)
                BlockReduceMax(partial, now, repeats, LANES, 1, 1, 8);
            else
                BlockReduceSum(partial, now, repeats, LANES, 1, 1, 8);
        }
        if constexpr (isMax)
            WholeReduceMax(values, now, width, Int(count), 1, 1, Int(width / BLOCK), ReduceOrder::ORDER_ONLY_VALUE);
        else
            WholeReduceSum(values, now, width, Int(count), 1, 1, Int(width / BLOCK));
    }
    __aicore__ inline void Invert(uint32_t count) {
        Duplicate(blocks, 1.0f, Int(count));  // the blocks are made anew after this
        Div(values, blocks, values, Int(count));
    }
    __aicore__ inline void Spread(uint32_t count) { Brcb(blocks, values, static_cast<uint8_t>(RoundUp(count, BLOCK) / BLOCK), {1, 8}); }
    // to = from - value or from * value of each row; Spread comes first.
    template <bool isSub>
    __aicore__ inline void Apply(const Floats& to, const Floats& from, uint32_t count) {
        Brcb(lanes, blocks, static_cast<uint8_t>(count), {1, 8});
        const uint8_t stride = static_cast<uint8_t>(t.width / BLOCK);
        const bool byColumn = t.width <= 2 * LANES;
        const uint32_t calls = byColumn ? RoundUp(t.width, LANES) / LANES : count;
        for (uint32_t i = 0; i < calls; i++) {
            const uint32_t at = byColumn ? i * LANES : i * t.width, one = byColumn ? 0 : i * LANES;
            const uint64_t mask = t.width < LANES ? t.width : LANES;
            const uint8_t repeats = static_cast<uint8_t>(byColumn ? count : t.width / LANES);
            const BinaryRepeatParams strides(1, 1, 1, byColumn ? stride : 8, byColumn ? stride : 8, byColumn ? 8 : 0);
            if constexpr (isSub)
                Sub(to[at], from[at], lanes[one], mask, repeats, strides);
            else
                Mul(to[at], from[at], lanes[one], mask, repeats, strides);
        }
    }
    // to = 1 / (1 + exp(-from))
    __aicore__ inline void Sigmoid(const Floats& to, const Floats& from, const Floats& ones, int32_t count) {
        Muls(to, from, -1.0f, count);
        Exp(to, to, count);
        Adds(to, to, 1.0f, count);
        Duplicate(ones, 1.0f, count);
        Div(to, ones, to, count);
    }
    __aicore__ inline void AddBias(uint32_t count) {
        for (uint32_t r = 0; r < count; r++) Add(choice[r * t.width], scores[r * t.width], biasRow, Int(t.width));
    }
    // Experts are at least LOWEST, so that padding and whatever is taken out later lie below all of them.
    __aicore__ inline void Raise(const Floats& from, uint32_t count) {
        Maxs(choice, from, LOWEST, Int(count * t.width));
        const uint32_t group = t.experts / t.groups, gap = t.groupWidth - group, end = t.groups * t.groupWidth;
        const uint64_t mask[2] = {(~0ull << (SORTED - gap)) & 0xffffffffull, 0};
        for (uint32_t r = 0; r < count; r++) {
            if (gap > 0 && t.groups > 1)
                Duplicate(choice[r * t.width + t.groupWidth - SORTED], NONE, mask, t.groups, 1, static_cast<uint8_t>(t.groupWidth / BLOCK));
            if (end < t.width) Duplicate(choice[r * t.width + RoundUp(end, BLOCK)], NONE, Int(t.width - RoundUp(end, BLOCK)));
        }
    }
    __aicore__ inline void Store(uint64_t row, uint32_t count) {
        LocalTensor<T> y = yQueue.template DeQue<T>();
        LocalTensor<int32_t> index = indexQueue.template DeQue<int32_t>();
        StoreRows<T>(yGm[row * t.k], y, count);
        StoreRows<int32_t>(indexGm[row * t.k], index, count);
        yQueue.FreeTensor(y);
        indexQueue.FreeTensor(index);
    }
    template <typename U>
    __aicore__ inline void StoreRows(const GlobalTensor<U>& to, const LocalTensor<U>& from, uint32_t count) {
        constexpr uint32_t each = 32 / sizeof(U);
        if (t.keep == t.k)
            DataCopyPad(to, from, {1, static_cast<uint32_t>(count * t.k * sizeof(U)), 0, 0, 0});
        else
            DataCopyPad(to, from,
                        {static_cast<uint16_t>(count), static_cast<uint32_t>(t.k * sizeof(U)), (t.keep - RoundUp(t.k, each)) / each, 0, 0});
    }

    TPipe pipe;
    TQue<TPosition::VECIN, 2> xQueue;
    TQue<TPosition::VECOUT, 1> yQueue, indexQueue;
    GlobalTensor<T> xGm, yGm;
    GlobalTensor<float> biasGm;
    GlobalTensor<int32_t> indexGm;
    Floats wide, scores, choice, biasRow, partial, values, blocks, lanes;
    Tiling t;
    uint32_t R = 0;

private:
    TBuf<TPosition::VECCALC> rooms[40];
    uint32_t used = 0;
};
