// z = x + y on a matrix of fp16 rows, in the ways of the published tuning series: one tile at a time by the scalar unit (MODE 0), by the
// vector unit with the store behind the next load (1), and with two sets of buffers (2). TILE elements are moved at a time; BYPASS keeps
// the inputs out of L2.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kBytes = TILE * sizeof(half);

struct Tile {
    LocalTensor<half> x, y, z;
    __aicore__ inline explicit Tile(uint32_t base)
        : x(TPosition::VECIN, base, TILE), y(TPosition::VECIN, base + kBytes, TILE), z(TPosition::VECOUT, base + 2 * kBytes, TILE) {}
};

struct Part {  // the rows of one core: the first cores take one more when they do not divide evenly
    uint64_t begin, count;
    __aicore__ inline Part(uint32_t rows, uint32_t columns) {
        const uint32_t cores = GetBlockNum(), core = GetBlockIdx(), share = rows / cores, more = rows % cores;
        begin = uint64_t{core * share + (core < more ? core : more)} * columns;
        count = uint64_t{share + (core < more ? 1 : 0)} * columns;
    }
};

struct Matrices {
    GlobalTensor<half> x, y, z;
    __aicore__ inline Matrices(GM_ADDR x_, GM_ADDR y_, GM_ADDR z_, const Part& part) {
        x.SetGlobalBuffer((__gm__ half*)x_ + part.begin, part.count);
        y.SetGlobalBuffer((__gm__ half*)y_ + part.begin, part.count);
        z.SetGlobalBuffer((__gm__ half*)z_ + part.begin, part.count);
        if (BYPASS) {
            x.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
            y.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
        }
    }
};

__aicore__ inline void AddTile(const Tile& tile, uint32_t length) {
    if (MODE != 0) {
        Add(tile.z, tile.x, tile.y, length);
        return;
    }
    SetFlag<HardEvent::MTE2_S>(0);
    WaitFlag<HardEvent::MTE2_S>(0);
    for (uint32_t i = 0; i < length; ++i) tile.z.SetValue(i, (half)((float)tile.x.GetValue(i) + (float)tile.y.GetValue(i)));
    SetFlag<HardEvent::S_MTE3>(0);
    WaitFlag<HardEvent::S_MTE3>(0);
}

__aicore__ inline void OneBuffer(const Matrices& gm, const Part& part) {
    const Tile tile(0);
    SetFlag<HardEvent::V_MTE2>(0);
    SetFlag<HardEvent::MTE3_V>(0);
    for (uint64_t at = 0; at < part.count; at += TILE) {
        const uint32_t length = part.count - at < TILE ? part.count - at : TILE;
        WaitFlag<HardEvent::V_MTE2>(0);
        DataCopy(tile.x, gm.x[at], length);
        DataCopy(tile.y, gm.y[at], length);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE3_V>(0);
        AddTile(tile, length);
        SetFlag<HardEvent::V_MTE2>(0);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(gm.z[at], tile.z, length);
        SetFlag<HardEvent::MTE3_V>(0);
    }
    WaitFlag<HardEvent::V_MTE2>(0);
    WaitFlag<HardEvent::MTE3_V>(0);
}

__aicore__ inline void TwoBuffers(const Matrices& gm, const Part& part) {
    const Tile tiles[2] = {Tile(0), Tile(3 * kBytes)};
    for (int id = 0; id < 2; ++id) {
        SetFlag<HardEvent::V_MTE2>(id);
        SetFlag<HardEvent::MTE3_V>(id);
    }
    int id = 0;
    for (uint64_t at = 0; at < part.count; at += TILE, id ^= 1) {
        const uint32_t length = part.count - at < TILE ? part.count - at : TILE;
        const Tile& tile = tiles[id];
        WaitFlag<HardEvent::V_MTE2>(id);
        DataCopy(tile.x, gm.x[at], length);
        DataCopy(tile.y, gm.y[at], length);
        SetFlag<HardEvent::MTE2_V>(id);
        WaitFlag<HardEvent::MTE2_V>(id);
        WaitFlag<HardEvent::MTE3_V>(id);
        AddTile(tile, length);
        SetFlag<HardEvent::V_MTE2>(id);
        SetFlag<HardEvent::V_MTE3>(id);
        WaitFlag<HardEvent::V_MTE3>(id);
        DataCopy(gm.z[at], tile.z, length);
        SetFlag<HardEvent::MTE3_V>(id);
    }
    for (id = 0; id < 2; ++id) {
        WaitFlag<HardEvent::V_MTE2>(id);
        WaitFlag<HardEvent::MTE3_V>(id);
    }
}

extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t rows, uint32_t columns) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const Part part(rows, columns);
    const Matrices gm(x, y, z, part);
    if (MODE == 2)
        TwoBuffers(gm, part);
    else
        OneBuffer(gm, part);
}
