// Layer norm (centred) and RMS norm of rows: y = (x - mean) * rstd * gamma + beta, without mean and beta when not centred; rstd is
// 1 / sqrt(variance + epsilon). The variance is the mean of the squares of x - mean, in UB, not the difference of two large sums.
//   NormWholeRows  rows that fit UB: statistics, scale and weights in one visit
//   NormPieces     rows that do not: each piece has its mean and squares, which are merged (Chan's formula); cores may share a row
#pragma once

#include "row_norm_tiling_data.h"
#include "row_tiles.h"
#include "row_values.h"

// gamma and beta as floats in UB: for short rows each block eight times, so that a repeat can take one block of eight rows.
template <typename T, bool centred>
class NormWeights {
    using Floats = AscendC::LocalTensor<float>;

public:
    __aicore__ inline void Open(AscendC::TPipe& pipe, GM_ADDR gamma, GM_ADDR beta, uint32_t columns, uint32_t room) {
        gammaGm.SetGlobalBuffer((__gm__ T*)gamma, columns);
        if constexpr (centred) betaGm.SetGlobalBuffer((__gm__ T*)beta, columns);
        pipe.InitBuffer(floatBuffer, (centred ? 2 : 1) * room * sizeof(float));
        half = room;
    }
    __aicore__ inline Floats Gamma() { return floatBuffer.Get<float>(); }
    __aicore__ inline Floats Beta() { return floatBuffer.Get<float>()[half]; }

    // Columns [at, at + count) into Gamma() and Beta(), through the input queue of `tiles`.
    template <typename Tiles>
    __aicore__ inline void Load(Tiles& tiles, uint32_t at, uint32_t count) {
        Fetch(tiles, gammaGm[at], Gamma(), count);
        if constexpr (centred) Fetch(tiles, betaGm[at], Beta(), count);
    }
    // Each block of `width` floats eight times, in place: from the last to the first.
    __aicore__ inline void Repeat(uint32_t width) {
        for (uint32_t block = width / BLOCK; block-- > 0;) {
            Spread(Gamma(), block);
            if constexpr (centred) Spread(Beta(), block);
        }
    }

private:
    __aicore__ static inline void Spread(const Floats& to, uint32_t block) {
        const uint32_t done = block == 0 ? BLOCK : 0;  // the first block is where it belongs
        AscendC::Copy(to[block * LANES + done], to[block * BLOCK], LANES - done, 1, {1, 0, 8, 8});
    }
    template <typename Tiles>
    __aicore__ inline void Fetch(Tiles& tiles, const AscendC::GlobalTensor<T>& from, const Floats& to, uint32_t count) {
        tiles.Load(tiles.inQueue, from, 1, count, 0.0f);
        AscendC::LocalTensor<T> loaded = tiles.inQueue.template DeQue<T>();
        const uint32_t width = tiles.Padded(count);
        if constexpr (sizeof(T) == 2)
            AscendC::Cast(to, loaded, AscendC::RoundMode::CAST_NONE, width);
        else
            AscendC::Adds(to, loaded, 0.0f, static_cast<int32_t>(width));
        tiles.inQueue.FreeTensor(loaded);
    }

    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuffer;
    AscendC::GlobalTensor<T> gammaGm, betaGm;
    uint32_t half = 0;
};

// The lanes of a row's last block that lie behind its columns, as a mask for a block in each of eight rows.
__aicore__ inline uint64_t PaddingMask(uint32_t columns) {
    const uint64_t lanes = columns % BLOCK ? 0xFFu << (columns % BLOCK) & 0xFFu : 0;
    return lanes * 0x0101010101010101ull;
}

template <typename T, bool centred, bool many>
class NormWholeRows {
    using Floats = AscendC::LocalTensor<float>;

public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                               const RowNormTilingData& tiling) {
        const uint32_t rows = tiling.rows;
        const uint32_t share = (rows + AscendC::GetBlockNum() - 1) / AscendC::GetBlockNum(), begin = share * AscendC::GetBlockIdx();
        const uint32_t end = begin + share < rows ? begin + share : rows;
        if (begin >= end) return;
        Open(x, gamma, beta, y, rows, mean, rstd, tiling);
        Rows(begin, end, begin);
    }

    // x has tiling.rows rows and y yRows; without rstd, neither mean nor rstd is stored.
    __aicore__ inline void Open(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, uint64_t yRows, GM_ADDR mean, GM_ADDR rstd,
                                const RowNormTilingData& tiling) {
        columns = tiling.columns;
        epsilon = tiling.epsilon;
        tileRows = tiling.tileRows;
        width = tiles.Padded(columns);
        const uint64_t most = yRows > tiling.rows ? yRows : tiling.rows;
        tiles.Open(pipe, x, y, most * columns, tileRows * width, tiling.buffers, 0.0f);
        values.Open(pipe, tileRows, width);
        weights.Open(pipe, gamma, beta, columns, many && width < LANES ? width * BLOCK : width);
        sideRows = (tileRows + BLOCK - 1) / BLOCK * BLOCK;
        sides = rstd != nullptr;
        if (sides) {
            pipe.InitBuffer(sideQueue, 2, (centred ? 2 : 1) * sideRows * sizeof(float));
            if constexpr (centred) meanGm.SetGlobalBuffer((__gm__ float*)mean, tiling.rows);
            rstdGm.SetGlobalBuffer((__gm__ float*)rstd, tiling.rows);
        }
        weights.Load(tiles, 0, columns);
        if (many && width < LANES) weights.Repeat(width);
    }

    // Rows [begin, end) of x into the rows of y that begin at yRow.
    __aicore__ inline void Rows(uint32_t begin, uint32_t end, uint64_t yRow) {
        for (uint32_t row = begin; row < end; row += tileRows) {
            const uint32_t count = end - row < tileRows ? end - row : tileRows;
            tiles.Load(static_cast<uint64_t>(row) * columns, count, columns);
            Compute(count);
            tiles.Store((yRow + row - begin) * columns, count, columns);
            if (sides) StoreSides(row, count);
        }
    }

private:
    __aicore__ inline void Compute(uint32_t count) {
        AscendC::LocalTensor<T> x = tiles.inQueue.template DeQue<T>(), y = tiles.outQueue.template AllocTensor<T>();
        const Floats from = tiles.AsFloat(x, count * width), to = tiles.Result(y);
        Floats side = to;
        if (sides) side = sideQueue.template AllocTensor<float>();
        for (uint32_t row = 0; row < count; row += values.Step())
            Group(to[row * width], from[row * width], side[row], values.Rows(count - row));
        if (sides) sideQueue.EnQue(side);
        tiles.inQueue.FreeTensor(x);
        tiles.Finish(y, count * width);
    }

    __aicore__ inline void Group(const Floats& to, const Floats& from, const Floats& side, uint32_t count) {
        const int32_t rows = static_cast<int32_t>(count), size = static_cast<int32_t>(count * width);
        const Floats numbers = values.Values();
        const float part = 1.0f / static_cast<float>(columns);
        if constexpr (centred) {
            values.template Find<Fold::sum>(from, count);
            // divided, not multiplied by an inexact 1 / columns: a row of one value has exactly that mean
            AscendC::Duplicate(values.AsBlocks(), static_cast<float>(columns), rows);
            AscendC::Div(numbers, numbers, values.AsBlocks(), rows);
            if (sides) AscendC::Adds(side, numbers, 0.0f, rows);
            values.Spread(count);
            values.template ApplyRows<true>(to, from, count);
            ClearPadding(to, count);
            AscendC::Mul(from, to, to, size);  // x is not needed any more
            values.template Find<Fold::sum>(from, count);
        } else {
            AscendC::Mul(to, from, from, size);
            values.template Find<Fold::sum>(to, count);
        }
        AscendC::Muls(numbers, numbers, part, rows);
        AscendC::Adds(numbers, numbers, epsilon, rows);
        AscendC::Sqrt(numbers, numbers, rows);
        values.Invert(count);
        if (sides) AscendC::Adds(side[centred ? sideRows : 0], numbers, 0.0f, rows);
        values.Spread(count);
        values.template ApplyRows<false>(to, centred ? to : from, count);
        Weigh(to, count);
    }

    // Padding holds minus the mean now; its square must not count.
    __aicore__ inline void ClearPadding(const Floats& to, uint32_t count) {
        if (columns == width) return;
        const uint64_t all = PaddingMask(columns);
        const Floats last = to[(columns - 1) / BLOCK * BLOCK];
        const uint32_t behind = width - (columns + BLOCK - 1) / BLOCK * BLOCK;  // half types are padded to 16: perhaps a whole block more
        if constexpr (!many) {
            for (uint32_t r = 0; r < count; r++) {
                Clear(last[r * width], all & 0xFF, 1, 1, 8);
                if (behind) Clear(to[r * width + width - BLOCK], 0xFF, 1, 1, 8);
            }
        } else if (width < LANES) {
            RowValues<many>::EightRows(count, [&](uint32_t row, uint64_t mask, uint8_t repeats) {
                const uint64_t rows = mask == LANES ? ~0ull : (1ull << mask) - 1;
                Clear(last[row * width], all & rows, repeats, static_cast<uint16_t>(width / BLOCK), static_cast<uint8_t>(width));
                if (behind)
                    Clear(to[row * width + width - BLOCK], rows, repeats, static_cast<uint16_t>(width / BLOCK),
                          static_cast<uint8_t>(width));
            });
        } else {
            Clear(last, all & 0xFF, static_cast<uint8_t>(count), 1, static_cast<uint8_t>(width / BLOCK));
            if (behind) Clear(to[width - BLOCK], 0xFF, static_cast<uint8_t>(count), 1, static_cast<uint8_t>(width / BLOCK));
        }
    }
    __aicore__ inline void Clear(const Floats& to, uint64_t lanes, uint8_t repeats, uint16_t blockStride, uint8_t repeatStride) {
        uint64_t mask[2] = {lanes, 0};
        if (lanes) AscendC::Duplicate(to, 0.0f, mask, repeats, blockStride, repeatStride);
    }

    // to = to * gamma + beta, column by column.
    __aicore__ inline void Weigh(const Floats& to, uint32_t count) {
        const Floats gamma = weights.Gamma(), beta = weights.Beta();
        if constexpr (!many) {
            for (uint32_t r = 0; r < count; r++) {
                AscendC::Mul(to[r * width], to[r * width], gamma, static_cast<int32_t>(width));
                if constexpr (centred) AscendC::Add(to[r * width], to[r * width], beta, static_cast<int32_t>(width));
            }
            return;
        }
        const uint8_t stride = static_cast<uint8_t>(width / BLOCK);
        if (width < LANES) {
            const uint8_t step = static_cast<uint8_t>(width);
            for (uint32_t at = 0; at < width; at += BLOCK)
                RowValues<many>::EightRows(count, [&](uint32_t row, uint64_t mask, uint8_t repeats) {
                    const Floats here = to[row * width + at];
                    const AscendC::BinaryRepeatParams strides(stride, stride, 1, step, step, 0);
                    AscendC::Mul(here, here, gamma[at * BLOCK], mask, repeats, strides);
                    if constexpr (centred) AscendC::Add(here, here, beta[at * BLOCK], mask, repeats, strides);
                });
            return;
        }
        const AscendC::BinaryRepeatParams strides(1, 1, 1, stride, stride, 0);
        for (uint32_t at = 0; at < width; at += LANES) {
            const uint64_t mask = width - at < LANES ? width - at : LANES;
            AscendC::Mul(to[at], to[at], gamma[at], mask, count, strides);
            if constexpr (centred) AscendC::Add(to[at], to[at], beta[at], mask, count, strides);
        }
    }

    __aicore__ inline void StoreSides(uint32_t row, uint32_t count) {
        Floats side = sideQueue.template DeQue<float>();
        const AscendC::DataCopyExtParams bytes{1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0};
        if constexpr (centred) AscendC::DataCopyPad(meanGm[row], side, bytes);
        AscendC::DataCopyPad(rstdGm[row], side[centred ? sideRows : 0], bytes);
        sideQueue.FreeTensor(side);
    }

    AscendC::TPipe pipe;
    RowTiles<T, 2> tiles;
    RowValues<many> values;
    NormWeights<T, centred> weights;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> sideQueue;
    AscendC::GlobalTensor<float> meanGm, rstdGm;
    uint32_t columns = 0, width = 0, tileRows = 0, sideRows = 0;
    float epsilon = 0;
    bool sides = false;
};

// Core c works on part c % parts of rows c / parts, c / parts + teams, ... Mean and squares are kept eight times each, as blocks.
template <typename T, bool centred>
class NormPieces {
    using Floats = AscendC::LocalTensor<float>;

public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd, GM_ADDR workspace,
                               const RowNormTilingData& tiling) {
        rows = tiling.rows;
        columns = tiling.columns;
        epsilon = tiling.epsilon;
        parts = tiling.parts;
        partColumns = tiling.partColumns;
        piece = tiling.pieceColumns;
        tiles.Open(pipe, x, y, static_cast<uint64_t>(rows) * columns, piece, 2, 0.0f);
        found.Open(pipe, 1, piece);
        weights.Open(pipe, gamma, beta, columns, piece);
        pipe.InitBuffer(stateBuffer, 5 * BLOCK * sizeof(float));
        pipe.InitBuffer(sendQueue, 1, 2 * BLOCK * sizeof(float));
        pipe.InitBuffer(receiveQueue, 1, 2 * parts * BLOCK * sizeof(float));
        pipe.InitBuffer(mergeBuffer, 2 * parts * BLOCK * sizeof(float));
        stateGm.SetGlobalBuffer((__gm__ float*)workspace);
        if constexpr (centred) meanGm.SetGlobalBuffer((__gm__ float*)mean, rows);
        rstdGm.SetGlobalBuffer((__gm__ float*)rstd, rows);
        const uint32_t part = AscendC::GetBlockIdx() % parts, team = AscendC::GetBlockIdx() / parts;
        const uint32_t teams = AscendC::GetBlockNum() / parts;
        begin = Start(part);
        end = Start(part + 1);
        for (uint32_t row = team; row < rows; row += teams) {
            Statistics(row);
            if (parts == 1)
                Write(row, part);
            else
                Send(row * parts + part);
        }
        if (parts == 1) return;
        AscendC::SyncAll();
        for (uint32_t row = team; row < rows; row += teams) {
            Receive(row);
            Write(row, part);
        }
    }

private:
    __aicore__ inline Floats State(uint32_t which) { return stateBuffer.Get<float>()[which * BLOCK]; }
    __aicore__ inline Floats Mean() { return State(0); }
    __aicore__ inline Floats Squares() { return State(1); }
    __aicore__ inline uint32_t Start(uint32_t part) { return part * partColumns < columns ? part * partColumns : columns; }

    // Mean and squares of `seen` columns and those, (mean, squares), of `more` others become those of all.
    __aicore__ inline void Merge(uint32_t seen, const Floats& mean, const Floats& squares, uint32_t more) {
        constexpr int32_t one = BLOCK;
        if (seen == 0) {
            AscendC::Adds(Squares(), squares, 0.0f, one);
            if constexpr (centred) AscendC::Adds(Mean(), mean, 0.0f, one);
            return;
        }
        AscendC::Add(Squares(), Squares(), squares, one);
        if constexpr (centred) {
            const float part = static_cast<float>(more) / static_cast<float>(seen + more);
            const Floats distance = State(4), square = State(3);
            AscendC::Sub(distance, mean, Mean(), one);
            AscendC::Mul(square, distance, distance, one);
            AscendC::Muls(square, square, part * static_cast<float>(seen), one);
            AscendC::Add(Squares(), Squares(), square, one);
            AscendC::Muls(distance, distance, part, one);
            AscendC::Add(Mean(), Mean(), distance, one);
        }
    }

    __aicore__ inline void Statistics(uint32_t row) {
        const Floats values = found.Values(), block = found.AsBlocks();
        AscendC::Duplicate(Mean(), 0.0f, static_cast<int32_t>(2 * BLOCK));  // a part may be empty, and rms norm has no mean
        for (uint32_t at = begin; at < end; at += piece) {
            const uint32_t count = end - at < piece ? end - at : piece, width = tiles.Padded(count);
            tiles.Load(static_cast<uint64_t>(row) * columns + at, 1, count);
            AscendC::LocalTensor<T> x = tiles.inQueue.template DeQue<T>();
            const Floats from = tiles.AsFloat(x, width);
            if constexpr (centred) {
                found.template One<Fold::sum>(values, from, width);
                found.Spread(1);
                AscendC::Duplicate(State(2), static_cast<float>(count), static_cast<int32_t>(BLOCK));
                AscendC::Div(State(2), block, State(2), static_cast<int32_t>(BLOCK));
                found.template Apply<true>(from, from, State(2), width);
                AscendC::Mul(from, from, from, static_cast<int32_t>(count));  // not the padding, which is cut off below
            } else {
                AscendC::Mul(from, from, from, static_cast<int32_t>(count));
            }
            found.template One<Fold::sum>(values, from, count);
            found.Spread(1);
            tiles.inQueue.FreeTensor(x);
            Merge(at - begin, State(2), block, count);
        }
    }

    __aicore__ inline void Send(uint32_t slot) {
        Floats state = sendQueue.AllocTensor<float>();
        AscendC::Adds(state, Mean(), 0.0f, static_cast<int32_t>(2 * BLOCK));
        sendQueue.EnQue(state);
        state = sendQueue.DeQue<float>();
        AscendC::DataCopy(stateGm[static_cast<uint64_t>(slot) * 2 * BLOCK], state, 2 * BLOCK);
        sendQueue.FreeTensor(state);
    }
    __aicore__ inline void Receive(uint32_t row) {
        Floats states = receiveQueue.AllocTensor<float>();
        AscendC::DataCopy(states, stateGm[static_cast<uint64_t>(row) * parts * 2 * BLOCK], parts * 2 * BLOCK);
        receiveQueue.EnQue(states);
        states = receiveQueue.DeQue<float>();
        MergeAll(states, (columns + partColumns - 1) / partColumns);
        receiveQueue.FreeTensor(states);
    }

    // Mean and squares of all columns from those of the parts, (mean, squares), in few instructions whatever their number: distances
    // from the first mean, so that a row of one value has exactly that mean, and from the mean of all.
    __aicore__ inline void MergeAll(const Floats& states, uint32_t count) {
        const Floats distance = mergeBuffer.Get<float>(), sum = distance[parts * BLOCK], shift = State(3);
        const int32_t size = static_cast<int32_t>(count * BLOCK);
        const uint8_t repeats = static_cast<uint8_t>(count);
        if constexpr (centred) {
            AscendC::Sub(distance, states, states, BLOCK, repeats, {1, 1, 1, 1, 2, 0});
            Weighted(sum, distance, count);
            Sum(sum, count);
            AscendC::Muls(shift, sum, 1.0f / static_cast<float>(columns), static_cast<int32_t>(BLOCK));
            AscendC::Add(Mean(), states, shift, static_cast<int32_t>(BLOCK));
            AscendC::Sub(distance, distance, shift, BLOCK, repeats, {1, 1, 1, 1, 1, 0});
            AscendC::Mul(distance, distance, distance, size);
            Weighted(sum, distance, count);
            AscendC::Add(sum, sum, states[BLOCK], BLOCK, repeats, {1, 1, 1, 1, 1, 2});
        } else {
            AscendC::Duplicate(Mean(), 0.0f, static_cast<int32_t>(BLOCK));
            AscendC::Adds(sum, states[BLOCK], 0.0f, BLOCK, repeats, {1, 1, 1, 2});
        }
        Sum(sum, count);
        AscendC::Adds(Squares(), sum, 0.0f, static_cast<int32_t>(BLOCK));
    }
    // Each part's block times the columns of the part: the last one may be shorter.
    __aicore__ inline void Weighted(const Floats& to, const Floats& from, uint32_t count) {
        const uint32_t last = (count - 1) * BLOCK;
        if (last) AscendC::Muls(to, from, static_cast<float>(partColumns), static_cast<int32_t>(last));
        AscendC::Muls(to[last], from[last], static_cast<float>(columns - (count - 1) * partColumns), static_cast<int32_t>(BLOCK));
    }
    // The sum of `count` blocks, in the first: the upper half is added to the lower one until one is left.
    __aicore__ inline void Sum(const Floats& blocks, uint32_t count) {
        while (count > 1) {
            const uint32_t half = (count + 1) / 2;
            AscendC::Add(blocks, blocks, blocks[half * BLOCK], static_cast<int32_t>((count - half) * BLOCK));
            count = half;
        }
    }

    __aicore__ inline void Write(uint32_t row, uint32_t part) {
        constexpr int32_t one = BLOCK;
        const Floats rstd = State(2), ones = State(3);
        AscendC::Muls(rstd, Squares(), 1.0f / static_cast<float>(columns), one);
        AscendC::Adds(rstd, rstd, epsilon, one);
        AscendC::Sqrt(rstd, rstd, one);
        AscendC::Duplicate(ones, 1.0f, one);
        AscendC::Div(rstd, ones, rstd, one);
        if (part == 0) WriteSides(row);
        for (uint32_t at = begin; at < end; at += piece) {
            const uint32_t count = end - at < piece ? end - at : piece, width = tiles.Padded(count);
            const uint64_t offset = static_cast<uint64_t>(row) * columns + at;
            weights.Load(tiles, at, count);
            tiles.Load(offset, 1, count);
            AscendC::LocalTensor<T> x = tiles.inQueue.template DeQue<T>(), y = tiles.outQueue.template AllocTensor<T>();
            const Floats from = tiles.AsFloat(x, width), to = tiles.Result(y);
            if constexpr (centred) {
                found.template Apply<true>(to, from, Mean(), width);
                found.template Apply<false>(to, to, rstd, width);
            } else {
                found.template Apply<false>(to, from, rstd, width);
            }
            tiles.inQueue.FreeTensor(x);
            AscendC::Mul(to, to, weights.Gamma(), static_cast<int32_t>(width));
            if constexpr (centred) AscendC::Add(to, to, weights.Beta(), static_cast<int32_t>(width));
            tiles.Finish(y, width);
            tiles.Store(offset, 1, count);
        }
    }
    __aicore__ inline void WriteSides(uint32_t row) {
        Floats side = sendQueue.AllocTensor<float>();
        AscendC::Adds(side, Mean(), 0.0f, static_cast<int32_t>(BLOCK));
        AscendC::Adds(side[BLOCK], State(2), 0.0f, static_cast<int32_t>(BLOCK));
        sendQueue.EnQue(side);
        side = sendQueue.DeQue<float>();
        const AscendC::DataCopyExtParams bytes{1, sizeof(float), 0, 0, 0};
        if constexpr (centred) AscendC::DataCopyPad(meanGm[row], side, bytes);
        AscendC::DataCopyPad(rstdGm[row], side[BLOCK], bytes);
        sendQueue.FreeTensor(side);
    }

    AscendC::TPipe pipe;
    RowTiles<T, 2> tiles;
    RowValues<false> found;
    NormWeights<T, centred> weights;
    AscendC::TBuf<AscendC::TPosition::VECCALC> stateBuffer, mergeBuffer;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> sendQueue;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> receiveQueue;
    AscendC::GlobalTensor<float> stateGm, meanGm, rstdGm;
    uint32_t rows = 0, columns = 0, parts = 1, partColumns = 0, piece = 0, begin = 0, end = 0;
    float epsilon = 0;
};
