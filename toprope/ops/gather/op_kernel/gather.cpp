// y[i] = table[indices[i]], row by row.
// `gather_naive` fetches an index, loads its row, stores it, and waits at each step.
// `gather` has two strategies, chosen by the host through the tiling key:
//   1  rows come from GM: the loads of a batch of rows are in flight together and the batch leaves with one store, while the next one loads
//   2  the table fits into UB: every core holds all of it, and one vector instruction picks eight 32-byte blocks a repeat
#include "kernel_operator.h"
#include "gather_tiling_data.h"

using namespace AscendC;

constexpr uint32_t INDEX_TILE = 2040;  // indices held at a time: 255 repeats of eight
constexpr uint32_t BLOCK_BYTES = 32;
constexpr uint32_t BATCH_ROWS = 1024;  // at most

// The indices of this core, a tile at a time, read by the scalar unit or by the vector unit.
class Indices {
public:
    __aicore__ inline void Open(TPipe& pipe, GM_ADDR indices, const GatherTilingData& tiling) {
        const uint32_t team = GetBlockIdx() / tiling.parts;
        begin = team * tiling.coreIndices < tiling.indices ? team * tiling.coreIndices : tiling.indices;
        end = begin + tiling.coreIndices < tiling.indices ? begin + tiling.coreIndices : tiling.indices;
        gm.SetGlobalBuffer((__gm__ int32_t*)indices, tiling.indices);
        pipe.InitBuffer(queue, 1, INDEX_TILE * sizeof(int32_t));
    }
    __aicore__ inline LocalTensor<int32_t> Load(uint32_t at, uint32_t count) {
        LocalTensor<int32_t> tile = queue.AllocTensor<int32_t>();
        DataCopyPad(tile, gm[at], {1, static_cast<uint32_t>(count * sizeof(int32_t)), 0, 0, 0},
                    {true, 0, static_cast<uint8_t>((8 - count % 8) % 8), 0});
        queue.EnQue(tile);
        return queue.DeQue<int32_t>();
    }
    __aicore__ inline void Free(LocalTensor<int32_t>& tile) { queue.FreeTensor(tile); }
    uint32_t begin = 0, end = 0;

private:
    TQue<TPosition::VECIN, 1> queue;
    GlobalTensor<int32_t> gm;
};

// Strategy 1, and with one buffer and batches of one row the naive version.
template <int buffers>
class GatherRows {
public:
    __aicore__ inline void Run(GM_ADDR table, GM_ADDR indices, GM_ADDR y, const GatherTilingData& tiling) {
        rowBytes = tiling.rowBytes;
        if (rowBytes == 0 || tiling.indices == 0) return;
        tableGm.SetGlobalBuffer((__gm__ uint8_t*)table, static_cast<uint64_t>(tiling.tableRows) * rowBytes);
        yGm.SetGlobalBuffer((__gm__ uint8_t*)y, static_cast<uint64_t>(tiling.indices) * rowBytes);
        list.Open(pipe, indices, tiling);
        const uint32_t padded = (tiling.pieceBytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
        pipe.InitBuffer(rows, buffers, tiling.batchRows * padded);
        const uint32_t part = GetBlockIdx() % tiling.parts * tiling.partBytes;
        const uint32_t partEnd = part + tiling.partBytes < rowBytes ? part + tiling.partBytes : rowBytes;
        for (uint32_t at = list.begin; at < list.end; at += INDEX_TILE) {
            const uint32_t count = list.end - at < INDEX_TILE ? list.end - at : INDEX_TILE;
            LocalTensor<int32_t> tile = list.Load(at, count);
            Order<HardEvent::MTE2_S>();  // the scalar unit reads what a copy brought
            for (uint32_t from = part; from < partEnd; from += tiling.pieceBytes) {
                const uint32_t bytes = partEnd - from < tiling.pieceBytes ? partEnd - from : tiling.pieceBytes;
                for (uint32_t first = 0; first < count; first += tiling.batchRows)
                    Batch(tile[0], first, count - first < tiling.batchRows ? count - first : tiling.batchRows, at, from, bytes);
            }
            Order<HardEvent::S_MTE2>();  // and the next copy waits until it has
            list.Free(tile);
        }
    }

private:
    __aicore__ inline void Batch(const LocalTensor<int32_t>& tile, uint32_t first, uint32_t count, uint32_t at, uint32_t from,
                                 uint32_t bytes) {
        const uint32_t padded = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
        LocalTensor<uint8_t> batch = rows.template AllocTensor<uint8_t>();
        Seen seen[SEEN] = {};
        bool copies = false;
        for (uint32_t r = 0; r < count; r++) {
            const int32_t number = tile.GetValue(first + r);
            Seen& last = seen[static_cast<uint32_t>(number) % SEEN];
            const bool again = last.known && last.number == number;
            if (!again) {
                last = {number, r, true};
                DataCopyPad(batch[r * padded], tableGm[static_cast<uint64_t>(number) * rowBytes + from], {1, bytes, 0, 0, 0},
                            {false, 0, 0, 0});
            }
            source[r] = again ? last.row : r;
            copies |= again;
        }
        rows.EnQue(batch);
        batch = rows.template DeQue<uint8_t>();
        if (copies) CopyAgain(batch, count, padded);
        const uint64_t to = static_cast<uint64_t>(at + first) * rowBytes + from;
        if (bytes == rowBytes && bytes == padded)
            DataCopyPad(yGm[to], batch, {1, count * bytes, 0, 0, 0});
        else
            DataCopyPad(yGm[to], batch, {static_cast<uint16_t>(count), bytes, 0, rowBytes - bytes, 0});
        rows.FreeTensor(batch);
    }
    // Rows that the batch already has are copied inside UB: cores that all ask L2 for one row would wait for each other.
    __aicore__ inline void CopyAgain(const LocalTensor<uint8_t>& batch, uint32_t count, uint32_t padded) {
        const LocalTensor<int32_t> words = batch.ReinterpretCast<int32_t>();
        const uint32_t rowWords = padded / sizeof(int32_t);
        Order<HardEvent::MTE2_V>();
        for (uint32_t r = 0; r < count; r++)
            if (source[r] != r) Adds(words[r * rowWords], words[source[r] * rowWords], 0, static_cast<int32_t>(rowWords));
        Order<HardEvent::V_MTE3>();
    }
    template <HardEvent event>
    __aicore__ inline void Order() {
        const auto id = GetTPipePtr()->FetchEventID(event);
        SetFlag<event>(id);
        WaitFlag<event>(id);
    }

    static constexpr uint32_t SEEN = 16;  // indices that are remembered, by their last digits
    struct Seen {
        int32_t number;
        uint32_t row;
        bool known;
    };

    TPipe pipe;
    Indices list;
    uint32_t source[BATCH_ROWS] = {};                       // the row of the batch that each row is like: itself, or an earlier one
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> rows;  // copied in and out again: no vector instruction in between
    GlobalTensor<uint8_t> tableGm, yGm;
    uint32_t rowBytes = 0;
};

// Strategy 2: rows are whole 32-byte blocks; block k of every row of a batch is picked by one instruction.
class GatherResident {
public:
    __aicore__ inline void Run(GM_ADDR table, GM_ADDR indices, GM_ADDR y, const GatherTilingData& tiling) {
        const uint32_t tableWords = tiling.tableRows * tiling.rowBytes / 4, rowWords = tiling.rowBytes / 4, blocks = rowWords / 8;
        GlobalTensor<uint32_t> tableGm, yGm;
        tableGm.SetGlobalBuffer((__gm__ uint32_t*)table, tableWords);
        yGm.SetGlobalBuffer((__gm__ uint32_t*)y, static_cast<uint64_t>(tiling.indices) * rowWords);
        list.Open(pipe, indices, tiling);
        pipe.InitBuffer(tableQueue, 1, tableWords * 4);
        pipe.InitBuffer(rows, 2, tiling.batchRows * tiling.rowBytes);
        pipe.InitBuffer(offsetBuffer, INDEX_TILE * 4);
        LocalTensor<uint32_t> all = tableQueue.AllocTensor<uint32_t>();
        DataCopy(all, tableGm, tableWords);
        tableQueue.EnQue(all);
        all = tableQueue.DeQue<uint32_t>();
        const LocalTensor<int32_t> offsets = offsetBuffer.Get<int32_t>();
        for (uint32_t at = list.begin; at < list.end; at += tiling.batchRows) {
            const uint32_t count = list.end - at < tiling.batchRows ? list.end - at : tiling.batchRows, repeats = (count + 7) / 8;
            LocalTensor<int32_t> tile = list.Load(at, count);
            Muls(offsets, tile, static_cast<int32_t>(tiling.rowBytes), static_cast<int32_t>(repeats * 8));
            list.Free(tile);
            LocalTensor<uint32_t> batch = rows.AllocTensor<uint32_t>();
            for (uint32_t k = 0; k < blocks; k++) {
                if (k > 0) Adds(offsets, offsets, static_cast<int32_t>(BLOCK_BYTES), static_cast<int32_t>(repeats * 8));
                Gatherb(batch[k * 8], all, offsets.ReinterpretCast<uint32_t>(), static_cast<uint8_t>(repeats),
                        {static_cast<uint8_t>(blocks), static_cast<uint8_t>(8 * blocks)});
            }
            rows.EnQue(batch);
            batch = rows.DeQue<uint32_t>();
            DataCopy(yGm[static_cast<uint64_t>(at) * rowWords], batch, count * rowWords);
            rows.FreeTensor(batch);
        }
        tableQueue.FreeTensor(all);
    }

private:
    TPipe pipe;
    Indices list;
    TQue<TPosition::VECIN, 1> tableQueue;
    TQue<TPosition::VECOUT, 1> rows;
    TBuf<TPosition::VECCALC> offsetBuffer;
};

extern "C" __global__ __aicore__ void gather(GM_ADDR table, GM_ADDR indices, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(GatherTilingData);
    GET_TILING_DATA(data, tiling);
    if (TILING_KEY_IS(1))
        GatherRows<2>().Run(table, indices, y, data);
    else if (TILING_KEY_IS(2))
        GatherResident().Run(table, indices, y, data);
}

extern "C" __global__ __aicore__ void gather_naive(GM_ADDR table, GM_ADDR indices, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(GatherTilingData);
    GET_TILING_DATA(data, tiling);
    GatherRows<1>().Run(table, indices, y, data);
}
