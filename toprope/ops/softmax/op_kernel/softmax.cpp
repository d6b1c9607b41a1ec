// Softmax of every row of a matrix. `softmax_naive` is the formula, row by row, with the row's maximum and sum in scalars.
// `softmax` has a strategy for each kind of shape, chosen by the host through the tiling key:
//   1  many short rows     one instruction works on the same columns of up to 248 rows
//   2  rows that fit UB    one instruction works on a row
//   3  rows that do not    pieces with a running maximum and sum; when rows are fewer than cores, several cores share a row
// Row values stay in the vector unit: a reduction leaves one number per row, Brcb makes a 32-byte block of it, and a second Brcb a whole
// repeat of the block. Rows are padded with -inf to whole blocks: it changes no maximum and adds exp(-inf) = 0 to the sum.
#include "kernel_operator.h"
#include "softmax_tiling_data.h"

using namespace AscendC;

#ifndef DTYPE_X
#define DTYPE_X float
#endif

constexpr uint32_t LANES = 64, BLOCK = 8, GROUP_ROWS = 248;  // floats in a repeat and in a block; rows in one instruction (at most 255)
constexpr float LOWEST = -3.4028234e38f;
enum class Fold { max, sum };

template <Fold fold>
__aicore__ inline void Combine(const LocalTensor<float>& to, const LocalTensor<float>& a, const LocalTensor<float>& b, uint64_t mask,
                               uint8_t repeats, const BinaryRepeatParams& strides) {
    if constexpr (fold == Fold::max)
        Max(to, a, b, mask, repeats, strides);
    else
        Add(to, a, b, mask, repeats, strides);
}
template <Fold fold>
__aicore__ inline void Whole(const LocalTensor<float>& to, const LocalTensor<float>& from, uint32_t mask, uint32_t repeats,
                             uint32_t stride) {
    if constexpr (fold == Fold::max)
        WholeReduceMax(to, from, mask, repeats, 1, 1, stride, ReduceOrder::ORDER_ONLY_VALUE);
    else
        WholeReduceSum(to, from, mask, repeats, 1, 1, stride);
}
template <Fold fold>
__aicore__ inline void Blocks(const LocalTensor<float>& to, const LocalTensor<float>& from, uint32_t repeats) {
    if constexpr (fold == Fold::max)
        BlockReduceMax(to, from, repeats, LANES, 1, 1, 8);
    else
        BlockReduceSum(to, from, repeats, LANES, 1, 1, 8);
}

// What all strategies need: the tensors, two queues, and row values.
template <typename T>
class SoftmaxRows {
protected:
    __aicore__ inline void Open(GM_ADDR x, GM_ADDR y, const SoftmaxTilingData& tiling, uint32_t tile, uint32_t partial) {
        rows = tiling.rows;
        columns = tiling.columns;
        xGm.SetGlobalBuffer((__gm__ T*)x, static_cast<uint64_t>(rows) * columns);
        yGm.SetGlobalBuffer((__gm__ T*)y, static_cast<uint64_t>(rows) * columns);
        pipe.InitBuffer(inQueue, tiling.buffers, tile * sizeof(T));
        pipe.InitBuffer(outQueue, tiling.buffers, tile * sizeof(T));
        if constexpr (sizeof(T) == 2) pipe.InitBuffer(workBuffer, tile * sizeof(float));
        pipe.InitBuffer(partialBuffer, partial * sizeof(float));
        pipe.InitBuffer(valueBuffer, (GROUP_ROWS + BLOCK) * sizeof(float));
        pipe.InitBuffer(blockBuffer, GROUP_ROWS * BLOCK * sizeof(float));
        pipe.InitBuffer(laneBuffer, LANES * sizeof(float));
        Duplicate(partialBuffer.Get<float>(), 0.0f,
                  static_cast<int32_t>(partial));  // folds read whole repeats, also in a smaller last tile
        Duplicate(valueBuffer.Get<float>(), 1.0f, GROUP_ROWS + BLOCK);
    }

    __aicore__ static inline uint32_t Padded(uint32_t columns) {
        constexpr uint32_t each = 32 / sizeof(T);
        return (columns + each - 1) / each * each;
    }

    __aicore__ inline void Load(uint64_t offset, uint32_t count, uint32_t length) {
        LocalTensor<T> x = inQueue.template AllocTensor<T>();
        const DataCopyPadExtParams<T> padding{true, 0, static_cast<uint8_t>(Padded(length) - length), static_cast<T>(-__builtin_inff())};
        DataCopyPad(x, xGm[offset], {static_cast<uint16_t>(count), static_cast<uint32_t>(length * sizeof(T)), 0, 0, 0}, padding);
        inQueue.EnQue(x);
    }

    __aicore__ inline void Store(uint64_t offset, uint32_t count, uint32_t length) {
        LocalTensor<T> y = outQueue.template DeQue<T>();
        DataCopyPad(yGm[offset], y, {static_cast<uint16_t>(count), static_cast<uint32_t>(length * sizeof(T)), 0, 0, 0});
        outQueue.FreeTensor(y);
    }

    // The loaded tile as floats: itself, or converted into the work buffer.
    __aicore__ inline LocalTensor<float> AsFloat(const LocalTensor<T>& x, uint32_t count) {
        if constexpr (sizeof(T) == 4)
            return x;
        else {
            Cast(workBuffer.Get<float>(), x, RoundMode::CAST_NONE, count);
            return workBuffer.Get<float>();
        }
    }
    // Where results are computed: the output tile, or the work buffer.
    __aicore__ inline LocalTensor<float> Result(const LocalTensor<T>& y) {
        if constexpr (sizeof(T) == 4)
            return y;
        else
            return workBuffer.Get<float>();
    }
    __aicore__ inline void Finish(const LocalTensor<T>& y, uint32_t count) {
        if constexpr (sizeof(T) == 2) Cast(y, workBuffer.Get<float>(), RoundMode::CAST_RINT, count);
        outQueue.EnQue(y);
    }

    // One number out of `count` consecutive floats: blocks of eight fold at full speed, so whole repeats shrink by eight at a time.
    template <Fold fold>
    __aicore__ inline void One(const LocalTensor<float>& to, const LocalTensor<float>& row, uint32_t count) {
        LocalTensor<float> partial = partialBuffer.Get<float>(), from = row;
        for (; count > LANES; from = partial) {
            const uint32_t full = count / LANES, tail = count % LANES;
            for (uint32_t at = 0; at < full; at += GROUP_ROWS)
                Blocks<fold>(partial[at * BLOCK], from[at * LANES], full - at < GROUP_ROWS ? full - at : GROUP_ROWS);
            if (tail) Whole<fold>(partial[full * BLOCK], from[full * LANES], tail, 1, 8);
            count = full * BLOCK + (tail != 0);
        }
        Whole<fold>(to, from, count, 1, 8);
    }

    // to = from - value or from * value for `count` floats; `block` holds the value eight times. It is spread over a whole repeat first:
    // a source stride of 0 inside a repeat would ask one UB bank eight times.
    template <bool isSub>
    __aicore__ inline void Apply(const LocalTensor<float>& to, const LocalTensor<float>& from, const LocalTensor<float>& block,
                                 uint32_t count) {
        const LocalTensor<float> lanes = laneBuffer.Get<float>();
        Brcb(lanes, block, 1, {1, 8});
        const BinaryRepeatParams same(1, 1, 1, 8, 8, 0);
        for (uint32_t at = 0; at < count;) {
            const uint32_t left = count - at, repeats = left < LANES ? 1 : (left / LANES < 255 ? left / LANES : 255);
            const uint32_t mask = left < LANES ? left : LANES;
            if constexpr (isSub)
                Sub(to[at], from[at], lanes, mask, repeats, same);
            else
                Mul(to[at], from[at], lanes, mask, repeats, same);
            at += repeats * mask;
        }
    }

    __aicore__ inline void Spread(uint32_t count) {
        Brcb(blockBuffer.Get<float>(), valueBuffer.Get<float>(), (count + BLOCK - 1) / BLOCK, {1, 8});
    }
    __aicore__ inline void Invert(uint32_t count) {
        LocalTensor<float> ones = blockBuffer.Get<float>(), values = valueBuffer.Get<float>();  // the blocks are made anew after this
        Duplicate(ones, 1.0f, static_cast<int32_t>(count));
        Div(values, ones, values, static_cast<int32_t>(count));
    }

    TPipe pipe;
    TQue<TPosition::VECIN, 1> inQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> workBuffer, partialBuffer, valueBuffer, blockBuffer, laneBuffer;
    GlobalTensor<T> xGm, yGm;
    uint32_t rows = 0, columns = 0;
};

// Strategies 1 and 2: each core has a run of rows.
template <typename T, bool many>
class SoftmaxWholeRows : SoftmaxRows<T> {
    using Base = SoftmaxRows<T>;

public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const SoftmaxTilingData& tiling) {
        width = Base::Padded(tiling.columns);
        groupRows = tiling.tileRows < GROUP_ROWS ? (tiling.tileRows + BLOCK - 1) / BLOCK * BLOCK : GROUP_ROWS;
        Base::Open(x, y, tiling, tiling.tileRows * width,
                   many ? groupRows * (width < LANES ? BLOCK : LANES + BLOCK) : width / BLOCK + LANES);
        const uint32_t share = (Base::rows + GetBlockNum() - 1) / GetBlockNum(), begin = share * GetBlockIdx();
        const uint32_t end = begin + share < Base::rows ? begin + share : Base::rows;
        for (uint32_t row = begin; row < end; row += tiling.tileRows) {
            const uint32_t count = end - row < tiling.tileRows ? end - row : tiling.tileRows;
            const uint64_t offset = static_cast<uint64_t>(row) * Base::columns;
            Base::Load(offset, count, Base::columns);
            Compute(count);
            Base::Store(offset, count, Base::columns);
        }
    }

private:
    __aicore__ inline void Compute(uint32_t count) {
        LocalTensor<T> x = Base::inQueue.template DeQue<T>(), y = Base::outQueue.template AllocTensor<T>();
        const LocalTensor<float> from = Base::AsFloat(x, count * width), to = Base::Result(y);
        for (uint32_t row = 0; row < count; row += Step()) Shift(to[row * width], from[row * width], Rows(count - row));
        Base::inQueue.FreeTensor(x);
        Exp(to, to, static_cast<int32_t>(count * width));
        for (uint32_t row = 0; row < count; row += Step()) Scale(to[row * width], Rows(count - row));
        Base::Finish(y, count * width);
    }
    __aicore__ static inline uint32_t Step() { return many ? GROUP_ROWS : BLOCK; }
    __aicore__ static inline uint32_t Rows(uint32_t left) { return left < Step() ? left : Step(); }

    __aicore__ inline void Shift(const LocalTensor<float>& to, const LocalTensor<float>& from, uint32_t count) {
        Values<Fold::max>(from, count);
        Base::Spread(count);
        ApplyRows<true>(to, from, count);
    }
    __aicore__ inline void Scale(const LocalTensor<float>& to, uint32_t count) {
        Values<Fold::sum>(to, count);
        Base::Invert(count);
        Base::Spread(count);
        ApplyRows<false>(to, to, count);
    }

    // valueBuffer[r] = maximum or sum of row r.
    template <Fold fold>
    __aicore__ inline void Values(const LocalTensor<float>& from, uint32_t count) {
        LocalTensor<float> values = Base::valueBuffer.template Get<float>();
        if constexpr (!many) {
            for (uint32_t r = 0; r < count; r++) Base::template One<fold>(values[r], from[r * width], width);
        } else if (width < LANES) {
            const LocalTensor<float> partial = Base::partialBuffer.template Get<float>(), folded = width == BLOCK ? from : partial;
            BlockColumns<fold>(partial, from, count);
            const uint32_t full = count / BLOCK, tail = count % BLOCK;
            if (full) Blocks<fold>(values, folded, full);
            if (tail) Whole<fold>(values[full * BLOCK], folded[full * LANES], BLOCK, tail, 1);
        } else {
            const LocalTensor<float> partial = Base::partialBuffer.template Get<float>(), folded = partial[groupRows * LANES];
            Lanes<fold>(partial, from, count);
            Blocks<fold>(folded, width == LANES ? from : partial, count);
            Blocks<fold>(values, folded, (count + BLOCK - 1) / BLOCK);
        }
    }
    // Short rows: a repeat takes the same block of eight rows, so that all its lanes work. Calls use(first row, mask, repeats).
    template <typename Use>
    __aicore__ static inline void EightRows(uint32_t count, Use use) {
        const uint32_t full = count / BLOCK, tail = count % BLOCK;
        if (full) use(0u, static_cast<uint64_t>(LANES), static_cast<uint8_t>(full));
        if (tail) use(full * BLOCK, static_cast<uint64_t>(tail * BLOCK), static_cast<uint8_t>(1));
    }
    // Block r of `partial` = the blocks of row r folded into one; a row of one block is left where it is.
    template <Fold fold>
    __aicore__ inline void BlockColumns(const LocalTensor<float>& partial, const LocalTensor<float>& from, uint32_t count) {
        const uint8_t stride = static_cast<uint8_t>(width / BLOCK), step = static_cast<uint8_t>(width);
        for (uint32_t at = BLOCK; at < width; at += BLOCK)
            EightRows(count, [&](uint32_t row, uint64_t mask, uint8_t repeats) {
                const LocalTensor<float> to = partial[row * BLOCK], here = from[row * width];
                if (at == BLOCK)
                    Combine<fold>(to, here, here[at], mask, repeats, {1, stride, stride, 8, step, step});
                else
                    Combine<fold>(to, to, here[at], mask, repeats, {1, 1, stride, 8, 8, step});
            });
    }
    // Row r of `partial` = row r of `from`, folded to 64 columns.
    template <Fold fold>
    __aicore__ inline void Lanes(const LocalTensor<float>& partial, const LocalTensor<float>& from, uint32_t count) {
        const uint8_t stride = static_cast<uint8_t>(width / BLOCK);
        uint32_t at = 2 * LANES;
        if (width == LANES) return;
        if (width >= 2 * LANES)
            Combine<fold>(partial, from, from[LANES], LANES, count, {1, 1, 1, 8, stride, stride});
        else {
            Adds(partial, from, 0.0f, static_cast<uint64_t>(LANES), count, {1, 1, 8, stride});
            at = LANES;
        }
        for (; at < width; at += LANES)
            Combine<fold>(partial, partial, from[at], width - at < LANES ? width - at : LANES, count, {1, 1, 1, 8, 8, stride});
    }
    template <bool isSub>
    __aicore__ inline void ApplyRows(const LocalTensor<float>& to, const LocalTensor<float>& from, uint32_t count) {
        const LocalTensor<float> blocks = Base::blockBuffer.template Get<float>();
        if constexpr (!many) {
            for (uint32_t r = 0; r < count; r++) Base::template Apply<isSub>(to[r * width], from[r * width], blocks[r * BLOCK], width);
            return;
        }
        const uint8_t stride = static_cast<uint8_t>(width / BLOCK);
        if (width < LANES) {
            const uint8_t step = static_cast<uint8_t>(width);
            for (uint32_t at = 0; at < width; at += BLOCK)
                EightRows(count, [&](uint32_t row, uint64_t mask, uint8_t repeats) {
                    const uint32_t place = row * width + at;
                    if constexpr (isSub)
                        Sub(to[place], from[place], blocks[row * BLOCK], mask, repeats, {stride, stride, 1, step, step, 8});
                    else
                        Mul(to[place], from[place], blocks[row * BLOCK], mask, repeats, {stride, stride, 1, step, step, 8});
                });
            return;
        }
        const LocalTensor<float> lanes =
            Base::partialBuffer.template Get<float>();  // of each row a whole repeat; what was folded there has been used
        Brcb(lanes, blocks, count, {1, 8});
        const BinaryRepeatParams strides(1, 1, 1, stride, stride, 8);
        for (uint32_t at = 0; at < width; at += LANES) {
            const uint64_t mask = width - at < LANES ? width - at : LANES;
            if constexpr (isSub)
                Sub(to[at], from[at], lanes, mask, count, strides);
            else
                Mul(to[at], from[at], lanes, mask, count, strides);
        }
    }

    uint32_t width = 0, groupRows = 0;
};

// Strategy 3: core c works on part c % parts of rows c / parts, c / parts + teams, ...
template <typename T>
class SoftmaxPieces : SoftmaxRows<T> {
    using Base = SoftmaxRows<T>;

public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, const SoftmaxTilingData& tiling) {
        Base::Open(x, y, tiling, tiling.pieceColumns, tiling.pieceColumns / BLOCK + LANES);
        Base::pipe.InitBuffer(stateBuffer, 3 * BLOCK * sizeof(float));
        Base::pipe.InitBuffer(sendQueue, 1, 2 * BLOCK * sizeof(float));
        Base::pipe.InitBuffer(receiveQueue, 1, 2 * tiling.parts * BLOCK * sizeof(float));
        parts = tiling.parts;
        piece = tiling.pieceColumns;
        stateGm.SetGlobalBuffer((__gm__ float*)workspace);
        const uint32_t part = GetBlockIdx() % parts, team = GetBlockIdx() / parts, teams = GetBlockNum() / parts;
        begin = part * tiling.partColumns < Base::columns ? part * tiling.partColumns : Base::columns;
        end = begin + tiling.partColumns < Base::columns ? begin + tiling.partColumns : Base::columns;
        for (uint32_t row = team; row < Base::rows; row += teams) {
            Statistics(row);
            if (parts == 1)
                Write(row);
            else
                Send(row * parts + part);
        }
        if (parts == 1) return;
        SyncAll();
        for (uint32_t row = team; row < Base::rows; row += teams) {
            Receive(row);
            Write(row);
        }
    }

private:
    __aicore__ inline LocalTensor<float> Maximum() { return stateBuffer.Get<float>(); }
    __aicore__ inline LocalTensor<float> Total() { return stateBuffer.Get<float>()[BLOCK]; }
    __aicore__ inline LocalTensor<float> Factor() { return stateBuffer.Get<float>()[2 * BLOCK]; }

    // Running maximum and sum over the pieces; each is kept eight times, as a block.
    __aicore__ inline void Statistics(uint32_t row) {
        const LocalTensor<float> values = Base::valueBuffer.template Get<float>(), block = Base::blockBuffer.template Get<float>();
        Duplicate(Maximum(), LOWEST, static_cast<int32_t>(BLOCK));
        Duplicate(Total(), 0.0f, static_cast<int32_t>(BLOCK));
        for (uint32_t at = begin; at < end; at += piece) {
            const uint32_t count = end - at < piece ? end - at : piece, width = Base::Padded(count);
            Base::Load(static_cast<uint64_t>(row) * Base::columns + at, 1, count);
            LocalTensor<T> x = Base::inQueue.template DeQue<T>();
            const LocalTensor<float> from = Base::AsFloat(x, width);
            Base::template One<Fold::max>(values, from, width);
            Base::Spread(1);
            Max(block, block, Maximum(), static_cast<int32_t>(BLOCK));
            Sub(Factor(), Maximum(), block, static_cast<int32_t>(BLOCK));
            Exp(Factor(), Factor(), static_cast<int32_t>(BLOCK));
            Adds(Maximum(), block, 0.0f, static_cast<int32_t>(BLOCK));
            Base::template Apply<true>(from, from, Maximum(), width);
            Exp(from, from, static_cast<int32_t>(width));
            Base::template One<Fold::sum>(values, from, width);
            Base::inQueue.FreeTensor(x);
            Base::Spread(1);
            Mul(Total(), Total(), Factor(), static_cast<int32_t>(BLOCK));
            Add(Total(), Total(), block, static_cast<int32_t>(BLOCK));
        }
    }

    __aicore__ inline void Send(uint32_t slot) {
        LocalTensor<float> state = sendQueue.AllocTensor<float>();
        Adds(state, Maximum(), 0.0f, static_cast<int32_t>(2 * BLOCK));
        sendQueue.EnQue(state);
        state = sendQueue.DeQue<float>();
        DataCopy(stateGm[static_cast<uint64_t>(slot) * 2 * BLOCK], state, 2 * BLOCK);
        sendQueue.FreeTensor(state);
    }

    // Maximum and sum of the row out of those of its parts, all maxima in one half of the buffer and all sums in the other.
    __aicore__ inline void Receive(uint32_t row) {
        const LocalTensor<float> values = Base::valueBuffer.template Get<float>(), block = Base::blockBuffer.template Get<float>();
        LocalTensor<float> states = receiveQueue.AllocTensor<float>();
        const uint64_t slots = static_cast<uint64_t>(row) * parts * 2 * BLOCK;
        const DataCopyParams everySecond(parts, 1, 1, 0);
        DataCopy(states, stateGm[slots], everySecond);
        DataCopy(states[parts * BLOCK], stateGm[slots + BLOCK], everySecond);
        receiveQueue.EnQue(states);
        states = receiveQueue.DeQue<float>();
        const LocalTensor<float> sums = states[parts * BLOCK];
        const uint32_t count = parts * BLOCK;
        Base::template One<Fold::max>(values, states, count);
        Base::Spread(1);
        Adds(Maximum(), block, 0.0f, static_cast<int32_t>(BLOCK));
        Base::template Apply<true>(states, states, Maximum(), count);
        Exp(states, states, static_cast<int32_t>(count));
        Mul(sums, sums, states, static_cast<int32_t>(count));
        Base::template One<Fold::sum>(values, sums, count);
        receiveQueue.FreeTensor(states);
        Base::Spread(1);
        Muls(Total(), block, 1.0f / BLOCK, static_cast<int32_t>(BLOCK));  // each sum was there eight times; dividing by 8 is exact
    }

    __aicore__ inline void Write(uint32_t row) {
        Duplicate(Factor(), 1.0f, static_cast<int32_t>(BLOCK));
        Div(Total(), Factor(), Total(), static_cast<int32_t>(BLOCK));
        for (uint32_t at = begin; at < end; at += piece) {
            const uint32_t count = end - at < piece ? end - at : piece, width = Base::Padded(count);
            const uint64_t offset = static_cast<uint64_t>(row) * Base::columns + at;
            Base::Load(offset, 1, count);
            LocalTensor<T> x = Base::inQueue.template DeQue<T>(), y = Base::outQueue.template AllocTensor<T>();
            const LocalTensor<float> from = Base::AsFloat(x, width), to = Base::Result(y);
            Base::template Apply<true>(to, from, Maximum(), width);
            Base::inQueue.FreeTensor(x);
            Exp(to, to, static_cast<int32_t>(width));
            Base::template Apply<false>(to, to, Total(), width);
            Base::Finish(y, width);
            Base::Store(offset, 1, count);
        }
    }

    TBuf<TPosition::VECCALC> stateBuffer;
    TQue<TPosition::VECOUT, 1> sendQueue;
    TQue<TPosition::VECIN, 1> receiveQueue;
    GlobalTensor<float> stateGm;
    uint32_t parts = 1, piece = 0, begin = 0, end = 0;
};

extern "C" __global__ __aicore__ void softmax(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);  // vector cores only, with the flags that SyncAll needs
    REGISTER_TILING_DEFAULT(SoftmaxTilingData);
    GET_TILING_DATA(data, tiling);
    if (TILING_KEY_IS(1))
        SoftmaxWholeRows<DTYPE_X, true>().Run(x, y, data);
    else if (TILING_KEY_IS(2))
        SoftmaxWholeRows<DTYPE_X, false>().Run(x, y, data);
    else if (TILING_KEY_IS(3))
        SoftmaxPieces<DTYPE_X>().Run(x, y, workspace, data);
}

// The formula as it stands: three walks over each row, one buffer, maximum and sum in scalars.
template <typename T>
class SoftmaxNaive {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const SoftmaxTilingData& tiling) {
        const uint64_t size = static_cast<uint64_t>(tiling.rows) * tiling.columns;
        xGm.SetGlobalBuffer((__gm__ T*)x, size);
        yGm.SetGlobalBuffer((__gm__ T*)y, size);
        pipe.InitBuffer(inQueue, 1, PIECE * sizeof(T));
        pipe.InitBuffer(outQueue, 1, PIECE * sizeof(T));
        pipe.InitBuffer(floatBuffer, PIECE * sizeof(float));
        pipe.InitBuffer(reduceBuffer, PIECE * sizeof(float));
        pipe.InitBuffer(valueBuffer, BLOCK * sizeof(float));
        for (uint32_t row = GetBlockIdx(); row < tiling.rows; row += GetBlockNum())
            Row(static_cast<uint64_t>(row) * tiling.columns, tiling.columns);
    }

private:
    static constexpr uint32_t PIECE = 4096;

    __aicore__ inline void Row(uint64_t offset, uint32_t columns) {
        float maximum = LOWEST, sum = 0;
        for (uint32_t at = 0; at < columns; at += PIECE) {
            const uint32_t count = Load(offset + at, columns - at);
            ReduceMax(valueBuffer.Get<float>(), floatBuffer.Get<float>(), reduceBuffer.Get<float>(), static_cast<int32_t>(count));
            const float value = valueBuffer.Get<float>().GetValue(0);
            maximum = value > maximum ? value : maximum;
        }
        for (uint32_t at = 0; at < columns; at += PIECE) {
            const uint32_t count = Load(offset + at, columns - at);
            ShiftedExp(maximum, count);
            ReduceSum(valueBuffer.Get<float>(), floatBuffer.Get<float>(), reduceBuffer.Get<float>(), static_cast<int32_t>(count));
            sum += valueBuffer.Get<float>().GetValue(0);
        }
        for (uint32_t at = 0; at < columns; at += PIECE) {
            const uint32_t count = Load(offset + at, columns - at);
            ShiftedExp(maximum, count);
            LocalTensor<T> y = outQueue.template AllocTensor<T>();
            if constexpr (sizeof(T) == 4)
                Muls(y, floatBuffer.Get<float>(), 1.0f / sum, static_cast<int32_t>(count));
            else {
                Muls(floatBuffer.Get<float>(), floatBuffer.Get<float>(), 1.0f / sum, static_cast<int32_t>(count));
                Cast(y, floatBuffer.Get<float>(), RoundMode::CAST_RINT, count);
            }
            outQueue.EnQue(y);
            y = outQueue.template DeQue<T>();
            DataCopyPad(yGm[offset + at], y, {1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0});
            outQueue.FreeTensor(y);
        }
    }
    __aicore__ inline uint32_t Load(uint64_t offset, uint32_t left) {
        const uint32_t count = left < PIECE ? left : PIECE;
        LocalTensor<T> x = inQueue.template AllocTensor<T>();
        DataCopyPad(x, xGm[offset], {1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0}, {false, 0, 0, 0});
        inQueue.EnQue(x);
        x = inQueue.template DeQue<T>();
        if constexpr (sizeof(T) == 4)
            Adds(floatBuffer.Get<float>(), x, 0.0f, static_cast<int32_t>(count));
        else
            Cast(floatBuffer.Get<float>(), x, RoundMode::CAST_NONE, count);
        inQueue.FreeTensor(x);
        return count;
    }
    __aicore__ inline void ShiftedExp(float maximum, uint32_t count) {
        Adds(floatBuffer.Get<float>(), floatBuffer.Get<float>(), -maximum, static_cast<int32_t>(count));
        Exp(floatBuffer.Get<float>(), floatBuffer.Get<float>(), static_cast<int32_t>(count));
    }

    TPipe pipe;
    TQue<TPosition::VECIN, 1> inQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> floatBuffer, reduceBuffer, valueBuffer;
    GlobalTensor<T> xGm, yGm;
};

extern "C" __global__ __aicore__ void softmax_naive(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(SoftmaxTilingData);
    GET_TILING_DATA(data, tiling);
    SoftmaxNaive<DTYPE_X>().Run(x, y, data);
}
