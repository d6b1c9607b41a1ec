// Softmax of every row of a matrix. `softmax_naive` is the formula, row by row, with the row's maximum and sum in scalars.
// `softmax` has a strategy for each kind of shape, chosen by the host through the tiling key:
//   1  many short rows     one instruction works on the same columns of up to 248 rows
//   2  rows that fit UB    one instruction works on a row
//   3  rows that do not    pieces with a running maximum and sum; when rows are fewer than cores, several cores share a row
// Row values stay in the vector unit (../../rows/row_values.h). Rows are padded with -inf to whole blocks: it changes no maximum and
// adds exp(-inf) = 0 to the sum.
#include "../../rows/row_tiles.h"
#include "../../rows/row_values.h"
#include "kernel_operator.h"
#include "softmax_tiling_data.h"

using namespace AscendC;

#ifndef DTYPE_X
#define DTYPE_X float
#endif

constexpr float LOWEST = -3.4028234e38f;

// Strategies 1 and 2: each core has a run of rows.
template <typename T, bool many>
class SoftmaxWholeRows {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const SoftmaxTilingData& tiling) {
        const uint32_t rows = tiling.rows, columns = tiling.columns;
        if (rows == 0 || columns == 0) return;
        width = tiles.Padded(columns);
        tiles.Open(pipe, x, y, static_cast<uint64_t>(rows) * columns, tiling.tileRows * width, tiling.buffers, -__builtin_inff());
        values.Open(pipe, tiling.tileRows, width);
        const uint32_t share = (rows + GetBlockNum() - 1) / GetBlockNum(), begin = share * GetBlockIdx();
        const uint32_t end = begin + share < rows ? begin + share : rows;
        for (uint32_t row = begin; row < end; row += tiling.tileRows) {
            const uint32_t count = end - row < tiling.tileRows ? end - row : tiling.tileRows;
            const uint64_t offset = static_cast<uint64_t>(row) * columns;
            tiles.Load(offset, count, columns);
            Compute(count);
            tiles.Store(offset, count, columns);
        }
    }

private:
    __aicore__ inline void Compute(uint32_t count) {
        LocalTensor<T> x = tiles.inQueue.template DeQue<T>(), y = tiles.outQueue.template AllocTensor<T>();
        const LocalTensor<float> from = tiles.AsFloat(x, count * width), to = tiles.Result(y);
        for (uint32_t row = 0; row < count; row += values.Step()) Shift(to[row * width], from[row * width], values.Rows(count - row));
        tiles.inQueue.FreeTensor(x);
        Exp(to, to, static_cast<int32_t>(count * width));
        for (uint32_t row = 0; row < count; row += values.Step()) Scale(to[row * width], values.Rows(count - row));
        tiles.Finish(y, count * width);
    }
    __aicore__ inline void Shift(const LocalTensor<float>& to, const LocalTensor<float>& from, uint32_t count) {
        values.template Find<Fold::max>(from, count);
        values.Spread(count);
        values.template ApplyRows<true>(to, from, count);
    }
    __aicore__ inline void Scale(const LocalTensor<float>& to, uint32_t count) {
        values.template Find<Fold::sum>(to, count);
        values.Invert(count);
        values.Spread(count);
        values.template ApplyRows<false>(to, to, count);
    }

    TPipe pipe;
    RowTiles<T, 1> tiles;
    RowValues<many> values;
    uint32_t width = 0;
};

// Strategy 3: core c works on part c % parts of rows c / parts, c / parts + teams, ...
template <typename T>
class SoftmaxPieces {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, const SoftmaxTilingData& tiling) {
        rows = tiling.rows;
        columns = tiling.columns;
        tiles.Open(pipe, x, y, static_cast<uint64_t>(rows) * columns, tiling.pieceColumns, 2, -__builtin_inff());
        found.Open(pipe, 1, tiling.pieceColumns);
        pipe.InitBuffer(stateBuffer, 3 * BLOCK * sizeof(float));
        pipe.InitBuffer(sendQueue, 1, 2 * BLOCK * sizeof(float));
        pipe.InitBuffer(receiveQueue, 1, 2 * tiling.parts * BLOCK * sizeof(float));
        parts = tiling.parts;
        piece = tiling.pieceColumns;
        stateGm.SetGlobalBuffer((__gm__ float*)workspace);
        const uint32_t part = GetBlockIdx() % parts, team = GetBlockIdx() / parts, teams = GetBlockNum() / parts;
        begin = part * tiling.partColumns < columns ? part * tiling.partColumns : columns;
        end = begin + tiling.partColumns < columns ? begin + tiling.partColumns : columns;
        for (uint32_t row = team; row < rows; row += teams) {
            Statistics(row);
            if (parts == 1)
                Write(row);
            else
                Send(row * parts + part);
        }
        if (parts == 1) return;
        SyncAll();
        for (uint32_t row = team; row < rows; row += teams) {
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
        const LocalTensor<float> values = found.Values(), block = found.AsBlocks();
        Duplicate(Maximum(), LOWEST, static_cast<int32_t>(BLOCK));
        Duplicate(Total(), 0.0f, static_cast<int32_t>(BLOCK));
        for (uint32_t at = begin; at < end; at += piece) {
            const uint32_t count = end - at < piece ? end - at : piece, width = tiles.Padded(count);
            tiles.Load(static_cast<uint64_t>(row) * columns + at, 1, count);
            LocalTensor<T> x = tiles.inQueue.template DeQue<T>();
            const LocalTensor<float> from = tiles.AsFloat(x, width);
            found.template One<Fold::max>(values, from, width);
            found.Spread(1);
            Max(block, block, Maximum(), static_cast<int32_t>(BLOCK));
            Sub(Factor(), Maximum(), block, static_cast<int32_t>(BLOCK));
            Exp(Factor(), Factor(), static_cast<int32_t>(BLOCK));
            Adds(Maximum(), block, 0.0f, static_cast<int32_t>(BLOCK));
            found.template Apply<true>(from, from, Maximum(), width);
            Exp(from, from, static_cast<int32_t>(width));
            found.template One<Fold::sum>(values, from, width);
            tiles.inQueue.FreeTensor(x);
            found.Spread(1);
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
        const LocalTensor<float> values = found.Values(), block = found.AsBlocks();
        LocalTensor<float> states = receiveQueue.AllocTensor<float>();
        const uint64_t slots = static_cast<uint64_t>(row) * parts * 2 * BLOCK;
        const DataCopyParams everySecond(parts, 1, 1, 0);
        DataCopy(states, stateGm[slots], everySecond);
        DataCopy(states[parts * BLOCK], stateGm[slots + BLOCK], everySecond);
        receiveQueue.EnQue(states);
        states = receiveQueue.DeQue<float>();
        const LocalTensor<float> sums = states[parts * BLOCK];
        const uint32_t count = parts * BLOCK;
        found.template One<Fold::max>(values, states, count);
        found.Spread(1);
        Adds(Maximum(), block, 0.0f, static_cast<int32_t>(BLOCK));
        found.template Apply<true>(states, states, Maximum(), count);
        Exp(states, states, static_cast<int32_t>(count));
        Mul(sums, sums, states, static_cast<int32_t>(count));
        found.template One<Fold::sum>(values, sums, count);
        receiveQueue.FreeTensor(states);
        found.Spread(1);
        Muls(Total(), block, 1.0f / BLOCK, static_cast<int32_t>(BLOCK));  // each sum was there eight times; dividing by 8 is exact
    }

    __aicore__ inline void Write(uint32_t row) {
        Duplicate(Factor(), 1.0f, static_cast<int32_t>(BLOCK));
        Div(Total(), Factor(), Total(), static_cast<int32_t>(BLOCK));
        for (uint32_t at = begin; at < end; at += piece) {
            const uint32_t count = end - at < piece ? end - at : piece, width = tiles.Padded(count);
            const uint64_t offset = static_cast<uint64_t>(row) * columns + at;
            tiles.Load(offset, 1, count);
            LocalTensor<T> x = tiles.inQueue.template DeQue<T>(), y = tiles.outQueue.template AllocTensor<T>();
            const LocalTensor<float> from = tiles.AsFloat(x, width), to = tiles.Result(y);
            found.template Apply<true>(to, from, Maximum(), width);
            tiles.inQueue.FreeTensor(x);
            Exp(to, to, static_cast<int32_t>(width));
            found.template Apply<false>(to, to, Total(), width);
            tiles.Finish(y, width);
            tiles.Store(offset, 1, count);
        }
    }

    TPipe pipe;
    RowTiles<T, 1> tiles;
    RowValues<false> found;
    TBuf<TPosition::VECCALC> stateBuffer;
    TQue<TPosition::VECOUT, 1> sendQueue;
    TQue<TPosition::VECIN, 1> receiveQueue;
    GlobalTensor<float> stateGm;
    uint32_t rows = 0, columns = 0, parts = 1, piece = 0, begin = 0, end = 0;
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
        SoftmaxPieces<DTYPE_X>().Run(x, y, GetUserWorkspace(workspace), data);
}

// The formula as it stands: three walks over each row, one buffer, maximum and sum in scalars.
template <typename T>
class SoftmaxNaive {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const SoftmaxTilingData& tiling) {
        const uint64_t size = static_cast<uint64_t>(tiling.rows) * tiling.columns;
        if (size == 0) return;
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
