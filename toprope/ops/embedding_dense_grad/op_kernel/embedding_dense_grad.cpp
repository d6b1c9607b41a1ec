// The gradient of an embedding: row i of grad is added to row indices[i] of the result, whose other rows are 0.
//   embedding_dense_grad, key 1  rows in the order of grad, with atomic additions: the order of a sum is that in which cores arrive
//   embedding_dense_grad, key 2  sorted indices: rows of one index are summed in UB, in an order that depends on the indices only
//   embedding_dense_grad, key 3  the same, after a sort on the chip
//   embedding_dense_grad_naive   atomic additions, a row at a time
// Cores get equal runs of the (sorted) indices, however often one of them occurs. A run of equal indices that crosses from core to core
// leaves a part on each; when all are there, the core on which the run begins adds the parts in order.
#include "kernel_operator.h"
#include "embedding_dense_grad_tiling_data.h"
#include "index_sort.h"

using namespace AscendC;

#ifndef DTYPE_GRAD
#define DTYPE_GRAD float
#endif

using Tiling = EmbeddingDenseGradTilingData;
using Floats = LocalTensor<float>;
using Ints = LocalTensor<int32_t>;

constexpr uint32_t INDEX_TILE = 1024, BLOCK = 8, ZERO_FLOATS = 8192;

__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }
__aicore__ inline uint32_t RoundUp(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

// Tensors, the core's share, and the steps that all kernels take. `entries`: the indices are what IndexSort made of them.
template <typename T, bool entries = false>
class GradRows {
protected:
    __aicore__ inline void Open(GM_ADDR grad, GM_ADDR indices, GM_ADDR positions, GM_ADDR y, GM_ADDR workspace, const Tiling& tiling) {
        t = tiling;
        const uint64_t all = static_cast<uint64_t>(t.weights) * t.columns;
        gradGm.SetGlobalBuffer((__gm__ T*)grad, static_cast<uint64_t>(t.count) * t.columns);
        indexGm.SetGlobalBuffer((__gm__ int32_t*)indices, static_cast<uint64_t>(t.count) * (entries ? 2 : 1));
        positionGm.SetGlobalBuffer((__gm__ int32_t*)positions, t.count);
        yGm.SetGlobalBuffer((__gm__ float*)y, all);
        countGm.SetGlobalBuffer((__gm__ float*)workspace, t.weights);
        begin = Least(GetBlockIdx() / t.parts * t.coreCount, t.count);
        end = Least(begin + t.coreCount, t.count);
        firstColumn = Least(GetBlockIdx() % t.parts * t.partColumns, t.columns);
        endColumn = Least(firstColumn + t.partColumns, t.columns);
        pipe.InitBuffer(indexBuffer, 2 * INDEX_TILE * sizeof(int32_t));
        index = indexBuffer.Get<int32_t>();
        position = index[INDEX_TILE];
    }
    template <HardEvent event>
    __aicore__ inline void Order() {
        const auto id = GetTPipePtr()->FetchEventID(event);
        SetFlag<event>(id);
        WaitFlag<event>(id);
    }
    // Zeros everywhere, an equal part of each of `to`'s elements from every core.
    __aicore__ inline void Clear(const GlobalTensor<float>& to, uint64_t elements, const Floats& zeros) {
        const uint64_t part = (elements + GetBlockNum() * LINE - 1) / (GetBlockNum() * LINE) * LINE, from = part * GetBlockIdx();
        for (uint64_t at = from; at < elements && at < from + part; at += ZERO_FLOATS) {
            const uint64_t left = (from + part < elements ? from + part : elements) - at;
            const uint32_t n = left < ZERO_FLOATS ? static_cast<uint32_t>(left) : ZERO_FLOATS;
            DataCopyPad(to[at], zeros, {1, static_cast<uint32_t>(n * sizeof(float)), 0, 0, 0});
        }
    }
    // Indices (and positions) of up to INDEX_TILE elements, for the scalar unit.
    __aicore__ inline uint32_t LoadIndices(uint32_t at) {
        const uint32_t n = Least(INDEX_TILE, end - at);
        const DataCopyExtParams bytes{1, static_cast<uint32_t>(n * sizeof(int32_t) * (entries ? 2 : 1)), 0, 0, 0};
        Order<HardEvent::S_MTE2>();
        DataCopyPad(index, indexGm[entries ? 2ull * at : at], bytes, {false, 0, 0, 0});
        if (!entries && t.sorted) DataCopyPad(position, positionGm[at], bytes, {false, 0, 0, 0});
        Order<HardEvent::MTE2_S>();
        return n;
    }
    // Index i of all, of the loaded ones, and the row of grad that belongs to it.
    __aicore__ inline int32_t IndexAt(uint64_t i) { return entries ? indexGm.GetValue(2 * i) - INDEX_KEY : indexGm.GetValue(i); }
    __aicore__ inline int32_t Number(uint32_t i) { return entries ? index.GetValue(2 * i) - INDEX_KEY : index.GetValue(i); }
    __aicore__ inline uint64_t Row(uint32_t at, uint32_t i) {
        if constexpr (entries) return index.GetValue(2 * i + 1);
        return t.sorted ? position.GetValue(i) : at + i;
    }
    __aicore__ inline bool Counts(int32_t number) const { return number != t.paddingIndex; }

    // How often each index occurs: ones are added to a table in the workspace.
    __aicore__ inline void CountIndices(const Floats& one) {
        Duplicate(one, 1.0f, BLOCK);
        Order<HardEvent::V_MTE3>();
        SetAtomicAdd<float>();
        for (uint32_t at = begin; at < end; at += INDEX_TILE)
            for (uint32_t i = 0, n = LoadIndices(at); i < n; i++) DataCopyPad(countGm[index.GetValue(i)], one, {1, sizeof(float), 0, 0, 0});
        SetAtomicNone();
    }

    static constexpr uint64_t LINE = 128;  // floats of a line of L2: cores begin on whole ones
    TPipe pipe;
    TBuf<TPosition::VECCALC> indexBuffer;
    GlobalTensor<T> gradGm;
    GlobalTensor<int32_t> indexGm, positionGm;
    GlobalTensor<float> yGm, countGm;
    Ints index, position;
    Tiling t;
    uint32_t begin = 0, end = 0, firstColumn = 0, endColumn = 0;
};

// Key 1 with two buffers, and the naive kernel with one buffer of one row.
template <typename T, int buffers>
class GradAtomic : GradRows<T> {
    using Base = GradRows<T>;
    using Base::t, Base::index, Base::begin, Base::end;

public:
    __aicore__ inline void Run(GM_ADDR grad, GM_ADDR indices, GM_ADDR positions, GM_ADDR y, GM_ADDR workspace, const Tiling& tiling) {
        Base::Open(grad, indices, positions, y, workspace, tiling);
        width = RoundUp(t.piece, 32 / sizeof(T));
        Base::pipe.InitBuffer(inQueue, buffers, t.batchRows * width * sizeof(T));
        Base::pipe.InitBuffer(outQueue, buffers, t.batchRows * width * sizeof(float));
        resident = t.weights <= ZERO_FLOATS;
        if (t.scaled && !resident) Base::pipe.InitBuffer(countQueue, 1, t.batchRows * BLOCK * sizeof(float));
        Base::pipe.InitBuffer(zeroBuffer, (ZERO_FLOATS + BLOCK) * sizeof(float));
        const Floats zeros = zeroBuffer.Get<float>();
        Duplicate(zeros, 0.0f, static_cast<int32_t>(ZERO_FLOATS));
        Base::template Order<HardEvent::V_MTE3>();
        Base::Clear(Base::yGm, static_cast<uint64_t>(t.weights) * t.columns, zeros);
        if (t.scaled) {  // cores that share rows count a row once
            Base::Clear(Base::countGm, t.weights, zeros);
            SyncAll();
            if (Base::firstColumn == 0) Base::CountIndices(zeros[ZERO_FLOATS]);
        }
        SyncAll();
        counts = zeros;  // they are no longer wanted
        if (t.scaled && resident) {
            Base::template Order<HardEvent::MTE3_MTE2>();
            DataCopyPad(counts, Base::countGm, {1, static_cast<uint32_t>(t.weights * sizeof(float)), 0, 0, 0}, {false, 0, 0, 0});
            Base::template Order<HardEvent::MTE2_S>();
        }
        for (uint32_t column = Base::firstColumn; column < Base::endColumn; column += t.piece)
            for (uint32_t at = begin; at < end; at += INDEX_TILE) {
                const uint32_t n = Base::LoadIndices(at);
                for (uint32_t i = 0; i < n; i += t.batchRows) Batch(at, i, Least(t.batchRows, n - i), column);
            }
    }

private:
    __aicore__ inline void Batch(uint32_t at, uint32_t first, uint32_t rows, uint32_t column) {
        const uint32_t columns = Least(t.piece, Base::endColumn - column);
        LocalTensor<T> tile = inQueue.template AllocTensor<T>();
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t together = 1;  // rows of grad that lie one behind the other are one copy
            if (!t.sorted) together = rows;
            DataCopyPad(
                tile[r * width], Base::gradGm[Base::Row(at, first + r) * t.columns + column],
                {static_cast<uint16_t>(together), static_cast<uint32_t>(columns * sizeof(T)),
                 static_cast<uint32_t>((t.columns - columns) * sizeof(T)), (width - RoundUp(columns, 32 / sizeof(T))) * sizeof(T) / 32, 0},
                {false, 0, 0, 0});
            r += together - 1;
        }
        inQueue.EnQue(tile);
        tile = inQueue.template DeQue<T>();
        Floats sums = outQueue.template AllocTensor<float>();
        for (uint32_t r = 0; r < (columns == width ? 1 : rows); r++) {
            const uint32_t n = columns == width ? rows * width : columns;
            if constexpr (sizeof(T) == 2)
                Cast(sums[r * width], tile[r * width], RoundMode::CAST_NONE, n);
            else
                Adds(sums[r * width], tile[r * width], 0.0f, static_cast<int32_t>(n));
        }
        inQueue.FreeTensor(tile);
        if (t.scaled) Divide(sums, first, rows, columns);
        outQueue.EnQue(sums);
        sums = outQueue.template DeQue<float>();
        SetAtomicAdd<float>();
        for (uint32_t r = 0; r < rows; r++) {
            const int32_t number = index.GetValue(first + r);
            if (Base::Counts(number))
                DataCopyPad(Base::yGm[static_cast<uint64_t>(number) * t.columns + column], sums[r * width],
                            {1, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0});
        }
        SetAtomicNone();
        outQueue.FreeTensor(sums);
    }
    // Every row by how often its index occurs. Copies of four bytes from near places wait for each other: a table that fits comes whole.
    __aicore__ inline void Divide(const Floats& sums, uint32_t first, uint32_t rows, uint32_t columns) {
        if (resident) {
            for (uint32_t r = 0; r < rows; r++) Divide(sums[r * width], counts.GetValue(index.GetValue(first + r)), columns);
            return;
        }
        Floats often = countQueue.template AllocTensor<float>();
        for (uint32_t r = 0; r < rows; r++)
            DataCopyPad(often[r * BLOCK], Base::countGm[index.GetValue(first + r)], {1, sizeof(float), 0, 0, 0}, {false, 0, 0, 0});
        countQueue.EnQue(often);
        often = countQueue.template DeQue<float>();
        Base::template Order<HardEvent::MTE2_S>();
        for (uint32_t r = 0; r < rows; r++) Divide(sums[r * width], often.GetValue(r * BLOCK), columns);
        Base::template Order<HardEvent::S_MTE2>();
        countQueue.FreeTensor(often);
    }
    __aicore__ inline void Divide(const Floats& row, float often, uint32_t columns) {
        if (often > 1.0f) Muls(row, row, 1.0f / often, static_cast<int32_t>(columns));
    }

    TQue<TPosition::VECIN, 1> inQueue, countQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> zeroBuffer;
    Floats counts;          // of every row of the table, if they fit
    bool resident = false;  // they do
    uint32_t width = 0;
};

// Keys 2 and 3. Runs of equal indices are folded in place in UB, all that end in a batch are stored together; one that goes on is kept
// open.
template <typename T, bool entries>
class GradSorted : GradRows<T, entries> {
    using Base = GradRows<T, entries>;
    using Base::t, Base::begin, Base::end;
    static constexpr uint32_t MOST_ROWS = 256;

public:
    __aicore__ inline void Run(GM_ADDR grad, GM_ADDR indices, GM_ADDR positions, GM_ADDR y, GM_ADDR workspace, const Tiling& tiling) {
        Base::Open(grad, indices, positions, y, workspace, tiling);
        width = RoundUp(t.piece, 32 / sizeof(T));
        partGm.SetGlobalBuffer((__gm__ float*)workspace);
        Base::pipe.InitBuffer(inQueue, 2, t.batchRows * width * sizeof(T));
        Base::pipe.InitBuffer(outQueue, 2, t.batchRows * width * sizeof(float));
        Base::pipe.InitBuffer(partQueue, 1, (width + BLOCK) * sizeof(float));
        Base::pipe.InitBuffer(openBuffer, (width + 2 * BLOCK) * sizeof(float));
        Base::pipe.InitBuffer(zeroBuffer, ZERO_FLOATS * sizeof(float));
        open = openBuffer.Get<float>();
        partRows = open[width];
        const Floats zeros = zeroBuffer.Get<float>();
        Duplicate(zeros, 0.0f, static_cast<int32_t>(ZERO_FLOATS));
        Duplicate(open, 0.0f, static_cast<int32_t>(width));
        Base::template Order<HardEvent::V_MTE3>();
        Base::Clear(Base::yGm, static_cast<uint64_t>(t.weights) * t.columns, zeros);
        if (begin < end) {
            before = begin > 0 ? Base::IndexAt(begin - 1) : -1;
            after = end < t.count ? Base::IndexAt(end) : -1;
        }
        SyncAll();
        for (uint32_t at = 0; at < t.partColumns; at += t.piece) {  // as often on all cores: they meet
            const uint32_t column = Least(Base::firstColumn + at, Base::endColumn);
            columns = Least(t.piece, Base::endColumn - column);
            if (columns > 0) Sum(column);
            SyncAll();
            if (columns > 0) Join(column);
            SyncAll();  // the parts may be written anew
        }
    }

private:
    enum Place : uint32_t { BEGUN_BEFORE, GOES_ON, RESULT };  // where a run goes: it is a part in the workspace, or whole

    __aicore__ inline GlobalTensor<float> Part(uint32_t core, uint32_t place) { return partGm[(2ull * core + place) * (width + BLOCK)]; }

    __aicore__ inline void Sum(uint32_t column) {
        openRows = 0;
        for (uint32_t at = begin; at < end; at += INDEX_TILE) {
            const uint32_t n = Base::LoadIndices(at);
            const int32_t next = at + n < end ? Base::IndexAt(at + n) : -1;
            for (uint32_t i = 0; i < n; i += t.batchRows) {
                const uint32_t rows = Least(t.batchRows, n - i);
                Batch(at, i, rows, column, i + rows < n ? Base::Number(i + rows) : next);
            }
        }
    }
    __aicore__ inline void Batch(uint32_t at, uint32_t from, uint32_t rows, uint32_t column, int32_t next) {
        Load(at, from, rows, column);
        const Floats sums = outQueue.template AllocTensor<float>();
        Widen(sums, rows);
        uint32_t starts[MOST_ROWS], places[MOST_ROWS], ended = 0;
        for (uint32_t r = 0, run = 1; r < rows; r += run) {
            const int32_t number = Base::Number(from + r);
            for (run = 1; r + run < rows && Base::Number(from + r + run) == number; run++) {
            }
            const Floats row = sums[r * width];
            FoldRows(row, run);
            if (openRows > 0) Add(row, row, open, static_cast<int32_t>(columns));  // only the first run of a batch finds one open
            const uint32_t total = openRows + run;
            openRows = r + run == rows && next == number ? total : 0;
            if (openRows > 0) {
                Adds(open, row, 0.0f, static_cast<int32_t>(columns));
                break;
            }
            const bool atBegin = at + from + r + run - total == begin, atEnd = at + from + r + run == end;
            places[ended] = atBegin && number == before ? BEGUN_BEFORE : (atEnd && number == after ? GOES_ON : RESULT);
            if (places[ended] != RESULT)
                Duplicate(partRows[places[ended] * BLOCK], static_cast<float>(total), static_cast<int32_t>(BLOCK));
            else if (t.scaled && total > 1)
                Muls(row, row, 1.0f / static_cast<float>(total), static_cast<int32_t>(columns));
            starts[ended++] = r;
        }
        outQueue.EnQue(sums);
        Store(outQueue.template DeQue<float>(), from, column, starts, places, ended);
    }
    __aicore__ inline void Load(uint32_t at, uint32_t from, uint32_t rows, uint32_t column) {
        const LocalTensor<T> tile = inQueue.template AllocTensor<T>();
        for (uint32_t r = 0; r < rows; r++)
            DataCopyPad(tile[r * width], Base::gradGm[Base::Row(at, from + r) * t.columns + column],
                        {1, static_cast<uint32_t>(columns * sizeof(T)), 0, 0, 0}, {false, 0, 0, 0});
        inQueue.EnQue(tile);
    }
    __aicore__ inline void Widen(const Floats& sums, uint32_t rows) {
        const LocalTensor<T> tile = inQueue.template DeQue<T>();
        for (uint32_t r = 0; r < (columns == width ? 1 : rows); r++) {
            const uint32_t n = columns == width ? rows * width : columns;
            if constexpr (sizeof(T) == 2)
                Cast(sums[r * width], tile[r * width], RoundMode::CAST_NONE, n);
            else
                Adds(sums[r * width], tile[r * width], 0.0f, static_cast<int32_t>(n));
        }
        inQueue.FreeTensor(tile);
    }
    // The sum of `rows` rows in the first one: the upper half is added to the lower one until one is left.
    __aicore__ inline void FoldRows(const Floats& row, uint32_t rows) {
        for (uint32_t half_ = rows / 2; rows > 1; rows -= half_, half_ = rows / 2) {
            if (columns == width)
                Add(row, row, row[(rows - half_) * width], static_cast<int32_t>(half_ * width));
            else
                for (uint32_t r = 0; r < half_; r++)
                    Add(row[r * width], row[r * width], row[(rows - half_ + r) * width], static_cast<int32_t>(columns));
        }
    }
    __aicore__ inline void Store(const Floats& sums, uint32_t from, uint32_t column, const uint32_t* starts, const uint32_t* places,
                                 uint32_t ended) {
        const DataCopyExtParams bytes{1, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0};
        for (uint32_t i = 0; i < ended; i++) {
            const int32_t number = Base::Number(from + starts[i]);
            const Floats row = sums[starts[i] * width];
            if (places[i] != RESULT) {
                DataCopyPad(Part(GetBlockIdx(), places[i]), row, bytes);
                DataCopy(Part(GetBlockIdx(), places[i])[width], partRows[places[i] * BLOCK], BLOCK);
            } else if (Base::Counts(number))
                DataCopyPad(Base::yGm[static_cast<uint64_t>(number) * t.columns + column], row, bytes);
        }
        outQueue.FreeTensor(sums);
    }

    // The core on which a run begins adds what the cores after it have of it, in order.
    __aicore__ inline void Join(uint32_t column) {
        if (begin == end || after < 0 || Base::IndexAt(end - 1) != after) return;
        if (before == after) return;  // it began on an earlier core
        const Floats sum = outQueue.template AllocTensor<float>();
        uint32_t rows = 0;
        for (uint32_t core = GetBlockIdx(); core == GetBlockIdx() || IsFirst(core, after); core += t.parts) {
            Floats part = partQueue.template AllocTensor<float>();
            const GlobalTensor<float> from = Part(core, core == GetBlockIdx() ? GOES_ON : BEGUN_BEFORE);
            DataCopyPad(part, from, {1, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0}, {false, 0, 0, 0});
            DataCopy(part[width], from[width], BLOCK);
            partQueue.EnQue(part);
            part = partQueue.template DeQue<float>();
            if (rows == 0)
                Adds(sum, part, 0.0f, static_cast<int32_t>(columns));
            else
                Add(sum, sum, part, static_cast<int32_t>(columns));
            Base::template Order<HardEvent::MTE2_S>();
            rows += static_cast<uint32_t>(part.GetValue(width));
            Base::template Order<HardEvent::S_MTE2>();
            partQueue.FreeTensor(part);
        }
        if (t.scaled) Muls(sum, sum, 1.0f / static_cast<float>(rows), static_cast<int32_t>(columns));
        outQueue.EnQue(sum);
        const Floats out = outQueue.template DeQue<float>();
        if (Base::Counts(after))
            DataCopyPad(Base::yGm[static_cast<uint64_t>(after) * t.columns + column], out,
                        {1, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0});
        outQueue.FreeTensor(out);
    }
    __aicore__ inline bool IsFirst(uint32_t core, int32_t number) {
        const uint32_t at = core / t.parts * t.coreCount;
        return at < t.count && Base::IndexAt(at) == number;
    }

    TQue<TPosition::VECIN, 1> inQueue, partQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> openBuffer, zeroBuffer;
    GlobalTensor<float> partGm;
    Floats open, partRows;
    int32_t before = -1, after = -1;
    uint32_t width = 0, columns = 0, openRows = 0;
};

extern "C" __global__ __aicore__ void embedding_dense_grad(GM_ADDR grad, GM_ADDR indices, GM_ADDR positions, GM_ADDR y, GM_ADDR workspace,
                                                           GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);  // vector cores only, with the flags that SyncAll needs
    REGISTER_TILING_DEFAULT(EmbeddingDenseGradTilingData);
    GET_TILING_DATA(data, tiling);
    if (data.columns == 0) return;
    GM_ADDR room = GetUserWorkspace(workspace);
    if (TILING_KEY_IS(1))
        GradAtomic<DTYPE_GRAD, 2>().Run(grad, indices, positions, y, room, data);
    else if (TILING_KEY_IS(2))
        GradSorted<DTYPE_GRAD, false>().Run(grad, indices, positions, y, room, data);
    else if (TILING_KEY_IS(3)) {
        GM_ADDR entries = IndexSort().Run(indices, room, data.count, data.runLength);
        GradSorted<DTYPE_GRAD, true>().Run(grad, entries, positions, y, room + 4ull * data.count * sizeof(int32_t), data);
    }
}

extern "C" __global__ __aicore__ void embedding_dense_grad_naive(GM_ADDR grad, GM_ADDR indices, GM_ADDR positions, GM_ADDR y,
                                                                 GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(EmbeddingDenseGradTilingData);
    GET_TILING_DATA(data, tiling);
    if (data.columns == 0) return;
    GM_ADDR room = GetUserWorkspace(workspace);
    GradAtomic<DTYPE_GRAD, 1>().Run(grad, indices, positions, y, room, data);
}
