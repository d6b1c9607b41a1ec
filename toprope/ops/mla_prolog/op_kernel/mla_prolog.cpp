// What precedes latent attention, in one launch. With rms and rope as usual:
//   query  q = rope(rms(x w_dq) gamma_q w_uq)     rope on the last columns of each head
//   cache  kv[slot] = rms(x w_dkv) gamma_kv,  kr[slot] = rope(x w_kr)
// Cube and vector cores take turns: products with x (flag DOWN) - norm of the query (NORMED) - product with w_uq (UP) - rotation of the
// query. mla_prolog hands the query over first and does the cache while the cube works on w_uq; mla_prolog_naive does everything in order.
#include "../../matmul/op_kernel/cube_tiles.h"
#include "../../rows/row_norm.h"
#include "kernel_operator.h"
#include "mla_prolog_tiling_data.h"

using namespace AscendC;

constexpr uint16_t CUBES = 0, VECTORS = 1, DOWN = 2, NORMED = 3, UP = 4;
constexpr uint32_t EVERYBODY = 0, PAIR = 2;  // who takes part in a flag: all cores of a type; a cube core and its vector cores

// GM_ADDR may be a macro that ends in *: one name in each declaration.
struct MlaPrologTensors {
    GM_ADDR x;
    GM_ADDR downQuery;
    GM_ADDR upQuery;
    GM_ADDR downKey;
    GM_ADDR downRope;
    GM_ADDR gammaQuery;
    GM_ADDR gammaKey;
    GM_ADDR cosine;
    GM_ADDR sine;
    GM_ADDR slots;
    GM_ADDR query;
    GM_ADDR keyCache;
    GM_ADDR ropeCache;
    GM_ADDR workspace;
};

// The workspace: x w_dq, its norm, x w_dkv, x w_kr.
struct Workspace {
    __aicore__ inline Workspace(GM_ADDR start, const MlaPrologTilingData& t) {
        const uint64_t row = t.tokens * sizeof(half);
        rank = start;
        normed = rank + row * t.queryRank;
        key = normed + row * t.queryRank;
        rope = key + row * t.keyRank;
    }
    GM_ADDR rank;
    GM_ADDR normed;
    GM_ADDR key;
    GM_ADDR rope;
};

// Tiles of one product, shared by the cube cores; `before` tiles of other products were shared the same way.
template <typename Tiles>
__aicore__ inline uint32_t Product(Tiles& tiles, GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t m, uint32_t n, uint32_t k, uint32_t width,
                                   uint32_t before) {
    const uint32_t tilesN = (n + width - 1) / width, count = (m + TILE_M - 1) / TILE_M * tilesN;
    tiles.Take(a, m, b, c, m, n, k);
    tiles.BeginAt(tiles.Packets() * GetBlockIdx() / GetBlockNum());  // all cores read the same rows of a
    for (uint32_t t = 0; t < count; t++) {
        if ((before + t) % GetBlockNum() != GetBlockIdx()) continue;
        const uint32_t row = t / tilesN * TILE_M;
        tiles.Tile(row, row, t % tilesN * width, Least(TILE_M, m - row), width);
    }
    return before + count;
}

__aicore__ inline void TellVectors(uint16_t what) {
    CrossCoreSetFlag<EVERYBODY, PIPE_FIX>(CUBES);
    CrossCoreWaitFlag(CUBES);
    CrossCoreSetFlag<PAIR, PIPE_FIX>(what);
}

template <uint32_t buffers, uint32_t steps, bool unitFlag>
__aicore__ inline void Products(const MlaPrologTensors& g, const MlaPrologTilingData& t) {
    const Workspace w(g.workspace, t);
    CubeTiles<buffers, steps, unitFlag> tiles;
    tiles.Open(g.x, t.tokens, g.downQuery, w.rank, t.tokens, t.queryRank, t.hidden);
    uint32_t done = Product(tiles, g.x, g.downQuery, w.rank, t.tokens, t.queryRank, t.hidden, t.downColumns, 0);
    done = Product(tiles, g.x, g.downKey, w.key, t.tokens, t.keyRank, t.hidden, t.downColumns, done);
    Product(tiles, g.x, g.downRope, w.rope, t.tokens, t.rope, t.hidden, t.downColumns, done);
    TellVectors(DOWN);
    CrossCoreWaitFlag(NORMED);
    Product(tiles, w.normed, g.upQuery, g.query, t.tokens, t.heads * t.headLength, t.queryRank, t.upColumns, 0);
    TellVectors(UP);
    tiles.Close();
}

// Rows of x w_d, each to its own row of y: token by token, which are few for a core.
__aicore__ inline void Norm(GM_ADDR from, GM_ADDR gamma, GM_ADDR to, uint32_t columns, uint64_t toRows, GM_ADDR slots,
                            const MlaPrologTilingData& t) {
    const RowNormTilingData rows{t.tokens, columns, t.epsilon, 1, 2, 1, columns, columns};
    NormWholeRows<half, false, false> norm;
    norm.Open(from, gamma, nullptr, to, toRows, nullptr, nullptr, rows);
    GlobalTensor<int32_t> slotGm;
    slotGm.SetGlobalBuffer((__gm__ int32_t*)slots, t.tokens);
    for (uint32_t token = GetBlockIdx(); token < t.tokens; token += GetBlockNum() * 2)
        norm.Rows(token, token + 1, slots == nullptr ? token : static_cast<uint32_t>(slotGm.GetValue(token)));
}

// y = x cos + turn(x) sin, where turn exchanges the halves of a row and negates the first, for some rows of a token at a time.
class Rotation {
public:
    __aicore__ inline Rotation(const MlaPrologTensors& g, uint32_t tokens, uint32_t width, uint32_t count)
        : most(Least(Least(count, MOST_ROWS), ROOM / width)), length(width) {
        cosineGm.SetGlobalBuffer((__gm__ half*)g.cosine, static_cast<uint64_t>(tokens) * width);
        sineGm.SetGlobalBuffer((__gm__ half*)g.sine, static_cast<uint64_t>(tokens) * width);
        pipe.InitBuffer(inQueue, 2, (most + 2) * length * sizeof(half));
        pipe.InitBuffer(outQueue, 2, most * length * sizeof(half));
        pipe.InitBuffer(floatBuffer, (3 * most + 2) * length * sizeof(float));
    }
    // Up to `most` rows of `from` that begin `stride` elements apart, to rows of `to` as far apart.
    __aicore__ inline void Token(const GlobalTensor<half>& from, const GlobalTensor<half>& to, uint32_t token, uint32_t rows,
                                 uint32_t stride) {
        const uint32_t bytes = length * sizeof(half), gap = (stride - length) * sizeof(half), angle = rows * length;
        LocalTensor<half> x = inQueue.AllocTensor<half>();
        DataCopyPad(x, from, {static_cast<uint16_t>(rows), bytes, gap, 0, 0}, {false, 0, 0, 0});
        DataCopyPad(x[angle], cosineGm[static_cast<uint64_t>(token) * length], {1, bytes, 0, 0, 0}, {false, 0, 0, 0});
        DataCopyPad(x[angle + length], sineGm[static_cast<uint64_t>(token) * length], {1, bytes, 0, 0, 0}, {false, 0, 0, 0});
        inQueue.EnQue(x);
        x = inQueue.DeQue<half>();
        const LocalTensor<float> wide = floatBuffer.Get<float>(), turned = wide[angle + 2 * length], result = turned[angle];
        Cast(wide, x, RoundMode::CAST_NONE, angle + 2 * length);
        inQueue.FreeTensor(x);
        const uint32_t half_ = length / 2;
        const uint8_t step = static_cast<uint8_t>(length / BLOCK), repeats = static_cast<uint8_t>(rows);
        for (uint32_t at = 0; at < half_; at += LANES) {
            const uint64_t lanes = Least(LANES, half_ - at);
            Muls(turned[at], wide[half_ + at], -1.0f, lanes, repeats, {1, 1, step, step});
            Muls(turned[half_ + at], wide[at], 1.0f, lanes, repeats, {1, 1, step, step});
        }
        const BinaryRepeatParams same(1, 1, 1, step, step, 0);
        for (uint32_t at = 0; at < length; at += LANES) {
            const uint64_t lanes = Least(LANES, length - at);
            Mul(result[at], wide[at], wide[angle + at], lanes, repeats, same);
            Mul(turned[at], turned[at], wide[angle + length + at], lanes, repeats, same);
        }
        Add(result, result, turned, static_cast<int32_t>(angle));
        LocalTensor<half> y = outQueue.AllocTensor<half>();
        Cast(y, result, RoundMode::CAST_RINT, angle);
        outQueue.EnQue(y);
        y = outQueue.DeQue<half>();
        DataCopyPad(to, y, {static_cast<uint16_t>(rows), bytes, 0, gap, 0});
        outQueue.FreeTensor(y);
    }
    const uint32_t most;  // rows at a time

private:
    static constexpr uint32_t ROOM = 8192, MOST_ROWS = 255;  // elements of these rows, and repeats of an instruction

    TPipe pipe;
    TQue<TPosition::VECIN, 1> inQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> floatBuffer;
    GlobalTensor<half> cosineGm, sineGm;
    uint32_t length;
};

__aicore__ inline void RotateKeys(const MlaPrologTensors& g, const MlaPrologTilingData& t) {
    GlobalTensor<half> from, to;
    GlobalTensor<int32_t> slots;
    from.SetGlobalBuffer((__gm__ half*)Workspace(g.workspace, t).rope, static_cast<uint64_t>(t.tokens) * t.rope);
    to.SetGlobalBuffer((__gm__ half*)g.ropeCache, static_cast<uint64_t>(t.cacheRows) * t.rope);
    slots.SetGlobalBuffer((__gm__ int32_t*)g.slots, t.tokens);
    Rotation rotation(g, t.tokens, t.rope, 1);
    for (uint32_t token = GetBlockIdx(); token < t.tokens; token += GetBlockNum() * 2)
        rotation.Token(from[static_cast<uint64_t>(token) * t.rope], to[static_cast<uint64_t>(slots.GetValue(token)) * t.rope], token, 1,
                       t.rope);
}

__aicore__ inline void RotateQueries(const MlaPrologTensors& g, const MlaPrologTilingData& t) {
    const uint64_t row = static_cast<uint64_t>(t.heads) * t.headLength;
    GlobalTensor<half> query;
    query.SetGlobalBuffer((__gm__ half*)g.query, t.tokens * row);
    Rotation rotation(g, t.tokens, t.rope, t.heads);
    for (uint32_t token = GetBlockIdx(); token < t.tokens; token += GetBlockNum() * 2) {
        for (uint32_t head = 0; head < t.heads; head += rotation.most) {
            const GlobalTensor<half> rotated = query[token * row + static_cast<uint64_t>(head + 1) * t.headLength - t.rope];
            rotation.Token(rotated, rotated, token, Least(rotation.most, t.heads - head), t.headLength);
        }
    }
}

__aicore__ inline void TellCubes() {
    CrossCoreSetFlag<EVERYBODY, PIPE_MTE3>(VECTORS);
    CrossCoreWaitFlag(VECTORS);
    CrossCoreSetFlag<PAIR, PIPE_MTE3>(NORMED);
}

template <bool inOrder>
__aicore__ inline void Rows(const MlaPrologTensors& g, const MlaPrologTilingData& t) {
    const Workspace w(g.workspace, t);
    CrossCoreWaitFlag(DOWN);
    Norm(w.rank, g.gammaQuery, w.normed, t.queryRank, t.tokens, nullptr, t);
    if constexpr (!inOrder) TellCubes();
    PipeBarrier<PIPE_ALL>();  // each step has UB to itself
    Norm(w.key, g.gammaKey, g.keyCache, t.keyRank, t.cacheRows, g.slots, t);
    PipeBarrier<PIPE_ALL>();
    RotateKeys(g, t);
    if constexpr (inOrder) TellCubes();
    PipeBarrier<PIPE_ALL>();
    CrossCoreWaitFlag(UP);
    RotateQueries(g, t);
}

extern "C" __global__ __aicore__ void mla_prolog(GM_ADDR x, GM_ADDR downQuery, GM_ADDR upQuery, GM_ADDR downKey, GM_ADDR downRope,
                                                 GM_ADDR gammaQuery, GM_ADDR gammaKey, GM_ADDR cosine, GM_ADDR sine, GM_ADDR slots,
                                                 GM_ADDR query, GM_ADDR keyCache, GM_ADDR ropeCache, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(MlaPrologTilingData);
    GET_TILING_DATA(data, tiling);
    const MlaPrologTensors g{x,      downQuery, upQuery, downKey, downRope, gammaQuery, gammaKey,
                             cosine, sine,      slots,   query,   keyCache, ropeCache,  GetUserWorkspace(workspace)};
    if ASCEND_IS_AIV {
        Rows<false>(g, data);
    }
    if ASCEND_IS_AIC {
        Products<2, 4, true>(g, data);
    }
}

extern "C" __global__ __aicore__ void mla_prolog_naive(GM_ADDR x, GM_ADDR downQuery, GM_ADDR upQuery, GM_ADDR downKey, GM_ADDR downRope,
                                                       GM_ADDR gammaQuery, GM_ADDR gammaKey, GM_ADDR cosine, GM_ADDR sine, GM_ADDR slots,
                                                       GM_ADDR query, GM_ADDR keyCache, GM_ADDR ropeCache, GM_ADDR workspace,
                                                       GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(MlaPrologTilingData);
    GET_TILING_DATA(data, tiling);
    const MlaPrologTensors g{x,      downQuery, upQuery, downKey, downRope, gammaQuery, gammaKey,
                             cosine, sine,      slots,   query,   keyCache, ropeCache,  GetUserWorkspace(workspace)};
    if ASCEND_IS_AIV {
        Rows<true>(g, data);
    }
    if ASCEND_IS_AIC {
        Products<1, 1, false>(g, data);
    }
}
