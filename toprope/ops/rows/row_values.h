// One number for each row of a tile in UB: found by folding (sum, maximum), applied to the row (minus, times), never seen by the scalar
// unit. A reduction leaves one number per row, Brcb makes a 32-byte block of it, and a second Brcb a whole repeat of the block: a source
// stride of 0 inside a repeat would do the same with less code and ask one UB bank eight times.
//   many = true   rows up to 2,040 floats: an instruction works on the same columns of up to GROUP_ROWS rows; below 64 columns a repeat
//                 takes one block of eight rows, so that no lane is idle
//   many = false  longer rows: an instruction works on a row, and a fold shrinks it eightfold at full speed
// Rows have `width` floats, a multiple of 8; what is in the padding takes part in folds.
#pragma once

#include "kernel_operator.h"

constexpr uint32_t LANES = 64, BLOCK = 8, GROUP_ROWS = 248;  // floats in a repeat and in a block; rows in one instruction (at most 255)
enum class Fold { max, sum };

template <Fold fold>
__aicore__ inline void Combine(const AscendC::LocalTensor<float>& to, const AscendC::LocalTensor<float>& a,
                               const AscendC::LocalTensor<float>& b, uint64_t mask, uint8_t repeats,
                               const AscendC::BinaryRepeatParams& strides) {
    if constexpr (fold == Fold::max)
        AscendC::Max(to, a, b, mask, repeats, strides);
    else
        AscendC::Add(to, a, b, mask, repeats, strides);
}
template <Fold fold>
__aicore__ inline void Whole(const AscendC::LocalTensor<float>& to, const AscendC::LocalTensor<float>& from, uint32_t mask,
                             uint32_t repeats, uint32_t stride) {
    if constexpr (fold == Fold::max)
        AscendC::WholeReduceMax(to, from, mask, repeats, 1, 1, stride, AscendC::ReduceOrder::ORDER_ONLY_VALUE);
    else
        AscendC::WholeReduceSum(to, from, mask, repeats, 1, 1, stride);
}
template <Fold fold>
__aicore__ inline void Blocks(const AscendC::LocalTensor<float>& to, const AscendC::LocalTensor<float>& from, uint32_t repeats) {
    if constexpr (fold == Fold::max)
        AscendC::BlockReduceMax(to, from, repeats, LANES, 1, 1, 8);
    else
        AscendC::BlockReduceSum(to, from, repeats, LANES, 1, 1, 8);
}

template <bool many>
class RowValues {
    using Floats = AscendC::LocalTensor<float>;

public:
    // Room for tiles of `rows` rows.
    __aicore__ inline void Open(AscendC::TPipe& pipe, uint32_t rows, uint32_t rowWidth) {
        width = rowWidth;
        groupRows = rows < GROUP_ROWS ? (rows + BLOCK - 1) / BLOCK * BLOCK : GROUP_ROWS;
        const uint32_t partial = many ? groupRows * (width < LANES ? BLOCK : LANES + BLOCK) : width / BLOCK + LANES;
        pipe.InitBuffer(partialBuffer, partial * sizeof(float));
        pipe.InitBuffer(valueBuffer, (GROUP_ROWS + BLOCK) * sizeof(float));
        pipe.InitBuffer(blockBuffer, GROUP_ROWS * BLOCK * sizeof(float));
        pipe.InitBuffer(laneBuffer, LANES * sizeof(float));
        // folds and Brcb read whole repeats, also in a smaller last tile
        AscendC::Duplicate(partialBuffer.Get<float>(), 0.0f, static_cast<int32_t>(partial));
        AscendC::Duplicate(valueBuffer.Get<float>(), 1.0f, GROUP_ROWS + BLOCK);
    }

    // Rows that go together; a tile of more is taken in steps.
    __aicore__ static inline uint32_t Step() { return many ? GROUP_ROWS : BLOCK; }
    __aicore__ static inline uint32_t Rows(uint32_t left) { return left < Step() ? left : Step(); }

    // The numbers themselves: one for each row, or each eight times as a block.
    __aicore__ inline Floats Values() { return valueBuffer.Get<float>(); }
    __aicore__ inline Floats AsBlocks() { return blockBuffer.Get<float>(); }

    // Values()[r] = maximum or sum of row r of `from`, for `count` rows, at most Step().
    template <Fold fold>
    __aicore__ inline void Find(const Floats& from, uint32_t count) {
        const Floats values = Values(), partial = partialBuffer.Get<float>();
        if constexpr (!many) {
            for (uint32_t r = 0; r < count; r++) One<fold>(values[r], from[r * width], width);
        } else if (width < LANES) {
            const Floats folded = width == BLOCK ? from : partial;
            BlockColumns<fold>(partial, from, count);
            const uint32_t full = count / BLOCK, tail = count % BLOCK;
            if (full) Blocks<fold>(values, folded, full);
            if (tail) Whole<fold>(values[full * BLOCK], folded[full * LANES], BLOCK, tail, 1);
        } else {
            const Floats folded = partial[groupRows * LANES];
            Lanes<fold>(partial, from, count);
            Blocks<fold>(folded, width == LANES ? from : partial, count);
            Blocks<fold>(values, folded, (count + BLOCK - 1) / BLOCK);
        }
    }
    // AsBlocks() from Values().
    __aicore__ inline void Spread(uint32_t count) { AscendC::Brcb(AsBlocks(), Values(), (count + BLOCK - 1) / BLOCK, {1, 8}); }
    // Values() = 1 / Values(). The blocks have to be made anew after this.
    __aicore__ inline void Invert(uint32_t count) {
        const Floats ones = AsBlocks();
        AscendC::Duplicate(ones, 1.0f, static_cast<int32_t>(count));
        AscendC::Div(Values(), ones, Values(), static_cast<int32_t>(count));
    }

    // Row r of `to` = row r of `from` minus or times number r, as it is in AsBlocks().
    template <bool isSub>
    __aicore__ inline void ApplyRows(const Floats& to, const Floats& from, uint32_t count) {
        const Floats blocks = AsBlocks();
        if constexpr (!many) {
            for (uint32_t r = 0; r < count; r++) Apply<isSub>(to[r * width], from[r * width], blocks[r * BLOCK], width);
            return;
        }
        const uint8_t stride = static_cast<uint8_t>(width / BLOCK);
        if (width < LANES) {
            const uint8_t step = static_cast<uint8_t>(width);
            for (uint32_t at = 0; at < width; at += BLOCK)
                EightRows(count, [&](uint32_t row, uint64_t mask, uint8_t repeats) {
                    const uint32_t place = row * width + at;
                    if constexpr (isSub)
                        AscendC::Sub(to[place], from[place], blocks[row * BLOCK], mask, repeats, {stride, stride, 1, step, step, 8});
                    else
                        AscendC::Mul(to[place], from[place], blocks[row * BLOCK], mask, repeats, {stride, stride, 1, step, step, 8});
                });
            return;
        }
        const Floats lanes = partialBuffer.Get<float>();  // of each row a whole repeat; what was folded there has been used
        AscendC::Brcb(lanes, blocks, count, {1, 8});
        const AscendC::BinaryRepeatParams strides(1, 1, 1, stride, stride, 8);
        for (uint32_t at = 0; at < width; at += LANES) {
            const uint64_t mask = width - at < LANES ? width - at : LANES;
            if constexpr (isSub)
                AscendC::Sub(to[at], from[at], lanes, mask, count, strides);
            else
                AscendC::Mul(to[at], from[at], lanes, mask, count, strides);
        }
    }

    // One number out of `count` consecutive floats: blocks of eight fold at full speed, so whole repeats shrink by eight at a time.
    template <Fold fold>
    __aicore__ inline void One(const Floats& to, const Floats& row, uint32_t count) {
        Floats partial = partialBuffer.Get<float>(), from = row;
        for (; count > LANES; from = partial) {
            const uint32_t full = count / LANES, tail = count % LANES;
            for (uint32_t at = 0; at < full; at += GROUP_ROWS)
                Blocks<fold>(partial[at * BLOCK], from[at * LANES], full - at < GROUP_ROWS ? full - at : GROUP_ROWS);
            if (tail) Whole<fold>(partial[full * BLOCK], from[full * LANES], tail, 1, 8);
            count = full * BLOCK + (tail != 0);
        }
        Whole<fold>(to, from, count, 1, 8);
    }

    // to = from minus or times one value for `count` floats; `block` holds the value eight times.
    template <bool isSub>
    __aicore__ inline void Apply(const Floats& to, const Floats& from, const Floats& block, uint32_t count) {
        const Floats lanes = laneBuffer.Get<float>();
        AscendC::Brcb(lanes, block, 1, {1, 8});
        const AscendC::BinaryRepeatParams same(1, 1, 1, 8, 8, 0);
        for (uint32_t at = 0; at < count;) {
            const uint32_t left = count - at, repeats = left < LANES ? 1 : (left / LANES < 255 ? left / LANES : 255);
            const uint32_t mask = left < LANES ? left : LANES;
            if constexpr (isSub)
                AscendC::Sub(to[at], from[at], lanes, mask, repeats, same);
            else
                AscendC::Mul(to[at], from[at], lanes, mask, repeats, same);
            at += repeats * mask;
        }
    }

    // Short rows: a repeat takes the same block of eight rows, so that all its lanes work. Calls use(first row, mask, repeats).
    template <typename Use>
    __aicore__ static inline void EightRows(uint32_t count, Use use) {
        const uint32_t full = count / BLOCK, tail = count % BLOCK;
        if (full) use(0u, static_cast<uint64_t>(LANES), static_cast<uint8_t>(full));
        if (tail) use(full * BLOCK, static_cast<uint64_t>(tail * BLOCK), static_cast<uint8_t>(1));
    }

private:
    // Block r of `partial` = the blocks of row r folded into one; a row of one block is left where it is.
    template <Fold fold>
    __aicore__ inline void BlockColumns(const Floats& partial, const Floats& from, uint32_t count) {
        const uint8_t stride = static_cast<uint8_t>(width / BLOCK), step = static_cast<uint8_t>(width);
        for (uint32_t at = BLOCK; at < width; at += BLOCK)
            EightRows(count, [&](uint32_t row, uint64_t mask, uint8_t repeats) {
                const Floats to = partial[row * BLOCK], here = from[row * width];
                if (at == BLOCK)
                    Combine<fold>(to, here, here[at], mask, repeats, {1, stride, stride, 8, step, step});
                else
                    Combine<fold>(to, to, here[at], mask, repeats, {1, 1, stride, 8, 8, step});
            });
    }
    // Row r of `partial` = row r of `from`, folded to 64 columns.
    template <Fold fold>
    __aicore__ inline void Lanes(const Floats& partial, const Floats& from, uint32_t count) {
        const uint8_t stride = static_cast<uint8_t>(width / BLOCK);
        uint32_t at = 2 * LANES;
        if (width == LANES) return;
        if (width >= 2 * LANES)
            Combine<fold>(partial, from, from[LANES], LANES, count, {1, 1, 1, 8, stride, stride});
        else {
            AscendC::Adds(partial, from, 0.0f, static_cast<uint64_t>(LANES), count, {1, 1, 8, stride});
            at = LANES;
        }
        for (; at < width; at += LANES)
            Combine<fold>(partial, partial, from[at], width - at < LANES ? width - at : LANES, count, {1, 1, 1, 8, 8, stride});
    }

    AscendC::TBuf<AscendC::TPosition::VECCALC> partialBuffer, valueBuffer, blockBuffer, laneBuffer;
    uint32_t width = 0, groupRows = 0;
};
