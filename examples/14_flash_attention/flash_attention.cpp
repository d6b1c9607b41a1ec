// out = softmax(q x k' * scale) x v, tile by tile with a running maximum and sum (flash attention). Each cube core owns 128 rows of q, its
// two vector cores 64 of them each. Scores, weights and partial results pass between the cores through GM, two places in turn.
//
//   cube    S(0)  S(1)   P(0) x V  S(2)   P(1) x V ...
//   vector        softmax(0)   softmax(1)   O(0)  softmax(2)  O(1) ...
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t ROWS = 128, COLUMNS = 128, DEPTH = 64, HALF_ROWS = ROWS / 2;
// Flags between the cores of a group; each is followed by that of the second place.
constexpr uint16_t SCORES_READY = 0, WEIGHTS_READY = 2, PARTIAL_READY = 4;

struct Workspace {
    __aicore__ inline void Init(GM_ADDR workspace, uint32_t block) {
        GM_ADDR mine = workspace + block * BYTES;
        scores.SetGlobalBuffer((__gm__ float*)mine, 2 * ROWS * COLUMNS);
        partial.SetGlobalBuffer((__gm__ float*)(mine + 2 * ROWS * COLUMNS * 4), 2 * ROWS * DEPTH);
        weights.SetGlobalBuffer((__gm__ half*)(mine + 2 * ROWS * (COLUMNS + DEPTH) * 4), 2 * ROWS * COLUMNS);
    }
    static constexpr uint32_t BYTES = 2 * ROWS * ((COLUMNS + DEPTH) * 4 + COLUMNS * 2);
    GlobalTensor<float> scores, partial;
    GlobalTensor<half> weights;
};

class Products {
public:
    __aicore__ inline void Init(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR workspace, uint32_t keys, TPipe* pipe) {
        tiles = keys / COLUMNS;
        qGm.SetGlobalBuffer((__gm__ half*)q + GetBlockIdx() * ROWS * DEPTH, ROWS * DEPTH);
        kGm.SetGlobalBuffer((__gm__ half*)k, keys * DEPTH);
        vGm.SetGlobalBuffer((__gm__ half*)v, keys * DEPTH);
        ws.Init(workspace, GetBlockIdx());
        pipe->InitBuffer(inQ, 1, ROWS * DEPTH * sizeof(half));
        pipe->InitBuffer(inKv, 2, COLUMNS * DEPTH * sizeof(half));
        pipe->InitBuffer(inP, 2, ROWS * COLUMNS * sizeof(half));
        pipe->InitBuffer(inA2, 2, ROWS * COLUMNS * sizeof(half));
        pipe->InitBuffer(inB2, 2, COLUMNS * DEPTH * sizeof(half));
        pipe->InitBuffer(outS, 1, ROWS * COLUMNS * sizeof(float));
        pipe->InitBuffer(outO, 1, ROWS * DEPTH * sizeof(float));
    }

    __aicore__ inline void Process() {
        LocalTensor<half> q = inQ.AllocTensor<half>();
        ToL1(q, qGm, ROWS, DEPTH);
        inQ.EnQue(q);
        q = inQ.DeQue<half>();
        Scores(q, 0);
        for (uint32_t tile = 0; tile < tiles; tile++) {
            if (tile + 1 < tiles) Scores(q, tile + 1);
            CrossCoreWaitFlag(WEIGHTS_READY + tile % 2);
            Weighted(tile);
        }
        inQ.FreeTensor(q);
    }

private:
    __aicore__ inline void ToL1(const LocalTensor<half>& to, const GlobalTensor<half>& from, uint32_t rows, uint32_t columns) {
        DataCopy(to, from, Nd2NzParams(1, rows, columns, 0, columns, rows, 1, 0));
    }

    // A of `rows` x `columns` from NZ in L1 into L0A.
    __aicore__ inline LocalTensor<half> ToL0A(const LocalTensor<half>& from, uint32_t rows, uint32_t columns) {
        LocalTensor<half> to = inA2.AllocTensor<half>();
        LoadData2DParams load;
        load.repeatTimes = columns / 16;
        load.srcStride = rows / 16;
        for (uint32_t i = 0; i < rows / 16; i++) {
            load.startIndex = i;
            LoadData(to[i * 16 * columns], from, load);
        }
        inA2.EnQue(to);
        return inA2.DeQue<half>();
    }

    // S = q x k': k lies in L1 with its keys as rows, which is what L0B wants of its transpose.
    __aicore__ inline void Scores(const LocalTensor<half>& q, uint32_t tile) {
        LocalTensor<half> k1 = inKv.AllocTensor<half>();
        ToL1(k1, kGm[tile * COLUMNS * DEPTH], COLUMNS, DEPTH);
        inKv.EnQue(k1);
        k1 = inKv.DeQue<half>();
        LocalTensor<half> b = inB2.AllocTensor<half>();
        LoadData2DParams load;
        load.repeatTimes = COLUMNS / 16 * (DEPTH / 16);
        load.srcStride = 1;
        LoadData(b, k1, load);
        inB2.EnQue(b);
        LocalTensor<half> a = ToL0A(q, ROWS, DEPTH);
        b = inB2.DeQue<half>();
        inKv.FreeTensor(k1);
        LocalTensor<float> s = outS.AllocTensor<float>();
        Multiply(s, a, b, COLUMNS, DEPTH);
        outS.EnQue(s);
        s = outS.DeQue<float>();
        Fixpipe<float, float, CFG_ROW_MAJOR>(ws.scores[tile % 2 * ROWS * COLUMNS], s,
                                             FixpipeParamsV220(COLUMNS, ROWS, ROWS, COLUMNS, false));
        outS.FreeTensor(s);
        Tell(SCORES_READY, tile);
    }

    __aicore__ inline void Weighted(uint32_t tile) {
        LocalTensor<half> v1 = inKv.AllocTensor<half>(), p1 = inP.AllocTensor<half>();
        ToL1(v1, vGm[tile * COLUMNS * DEPTH], COLUMNS, DEPTH);
        ToL1(p1, ws.weights[tile % 2 * ROWS * COLUMNS], ROWS, COLUMNS);
        inKv.EnQue(v1);
        inP.EnQue(p1);
        v1 = inKv.DeQue<half>();
        p1 = inP.DeQue<half>();
        LocalTensor<half> b = inB2.AllocTensor<half>();
        LoadData2DParams load;
        load.repeatTimes = DEPTH / 16;
        load.srcStride = COLUMNS / 16;
        load.ifTranspose = true;
        for (uint32_t i = 0; i < COLUMNS / 16; i++) {
            load.startIndex = i;
            LoadData(b[i * 16 * DEPTH], v1, load);
        }
        inB2.EnQue(b);
        LocalTensor<half> a = ToL0A(p1, ROWS, COLUMNS);
        b = inB2.DeQue<half>();
        inKv.FreeTensor(v1);
        inP.FreeTensor(p1);
        LocalTensor<float> o = outO.AllocTensor<float>();
        Multiply(o, a, b, DEPTH, COLUMNS);
        outO.EnQue(o);
        o = outO.DeQue<float>();
        Fixpipe<float, float, CFG_ROW_MAJOR>(ws.partial[tile % 2 * ROWS * DEPTH], o, FixpipeParamsV220(DEPTH, ROWS, ROWS, DEPTH, false));
        outO.FreeTensor(o);
        Tell(PARTIAL_READY, tile);
    }

    __aicore__ inline void Multiply(const LocalTensor<float>& c, LocalTensor<half>& a, LocalTensor<half>& b, uint32_t n, uint32_t k) {
        MmadParams mmad;
        mmad.m = ROWS;
        mmad.n = n;
        mmad.k = k;
        Mmad(c, a, b, mmad);
        inA2.FreeTensor(a);
        inB2.FreeTensor(b);
    }

    __aicore__ inline void Tell(uint16_t flag, uint32_t tile) { CrossCoreSetFlag<2, PIPE_FIX>(flag + tile % 2); }

    TQue<TPosition::A1, 1> inQ;
    TQue<TPosition::B1, 2> inKv;
    TQue<TPosition::A1, 2> inP;
    TQue<TPosition::A2, 2> inA2;
    TQue<TPosition::B2, 2> inB2;
    TQue<TPosition::CO1, 1> outS, outO;
    GlobalTensor<half> qGm, kGm, vGm;
    Workspace ws;
    uint32_t tiles = 0;
};

class OnlineSoftmax {
public:
    __aicore__ inline void Init(GM_ADDR out, GM_ADDR workspace, uint32_t keys, float scaleIn, TPipe* pipe) {
        tiles = keys / COLUMNS;
        scale = scaleIn;
        first = GetSubBlockIdx() * HALF_ROWS;
        const uint32_t block = GetBlockIdx() / 2;
        ws.Init(workspace, block);
        outGm.SetGlobalBuffer((__gm__ half*)out + (block * ROWS + first) * DEPTH, HALF_ROWS * DEPTH);
        pipe->InitBuffer(inS, 2, HALF_ROWS * COLUMNS * sizeof(float));
        pipe->InitBuffer(inO, 1, HALF_ROWS * DEPTH * sizeof(float));
        pipe->InitBuffer(outP, 2, HALF_ROWS * COLUMNS * sizeof(half));
        pipe->InitBuffer(sum, HALF_ROWS * DEPTH * sizeof(float));
        pipe->InitBuffer(scratch, HALF_ROWS * DEPTH * sizeof(float));
        pipe->InitBuffer(spread, HALF_ROWS * 32);
        pipe->InitBuffer(rows, 6 * HALF_ROWS * sizeof(float));
        acc = sum.Get<float>();
        tmp = scratch.Get<float>();
        column = spread.Get<float>();
        LocalTensor<float> r = rows.Get<float>();
        maximum = r;
        newMaximum = r[HALF_ROWS];
        total = r[2 * HALF_ROWS];
        current = r[3 * HALF_ROWS];
        shrink = r[4 * HALF_ROWS];  // two: the result of a tile is taken a step later
    }

    __aicore__ inline void Process() {
        Duplicate(acc, 0.0f, HALF_ROWS * DEPTH);
        Duplicate(maximum, -3.0e38f, HALF_ROWS);
        Duplicate(total, 0.0f, HALF_ROWS);
        for (uint32_t tile = 0; tile < tiles; tile++) {
            CrossCoreWaitFlag(SCORES_READY + tile % 2);
            Weights(tile);
            if (tile > 0) Accumulate(tile - 1);
        }
        Accumulate(tiles - 1);
        Finish();
    }

private:
    // Weights of one tile under the maximum so far, and how much everything before must shrink.
    __aicore__ inline void Weights(uint32_t tile) {
        LocalTensor<float> s = inS.AllocTensor<float>();
        DataCopy(s, ws.scores[(tile % 2 * ROWS + first) * COLUMNS], HALF_ROWS * COLUMNS);
        inS.EnQue(s);
        s = inS.DeQue<float>();
        LocalTensor<float> alpha = shrink[tile % 2 * HALF_ROWS];
        Muls(s, s, scale, HALF_ROWS * COLUMNS);
        Max(tmp, s, s[64], 64, HALF_ROWS, BinaryRepeatParams(1, 1, 1, 8, 16, 16));
        WholeReduceMax(newMaximum, tmp, 64, HALF_ROWS, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
        Max(newMaximum, newMaximum, maximum, HALF_ROWS);
        Sub(alpha, maximum, newMaximum, HALF_ROWS);
        Exp(alpha, alpha, HALF_ROWS);
        Adds(maximum, newMaximum, 0.0f, HALF_ROWS);
        Brcb(column, newMaximum, HALF_ROWS / 8, BrcbRepeatParams(1, 8));
        Sub(s, s, column, 64, HALF_ROWS, BinaryRepeatParams(1, 1, 0, 16, 16, 1));
        Sub(s[64], s[64], column, 64, HALF_ROWS, BinaryRepeatParams(1, 1, 0, 16, 16, 1));
        Exp(s, s, HALF_ROWS * COLUMNS);
        Add(tmp, s, s[64], 64, HALF_ROWS, BinaryRepeatParams(1, 1, 1, 8, 16, 16));
        WholeReduceSum(current, tmp, 64, HALF_ROWS, 1, 1, 8);
        Mul(total, total, alpha, HALF_ROWS);
        Add(total, total, current, HALF_ROWS);
        LocalTensor<half> p = outP.AllocTensor<half>();
        Cast(p, s, RoundMode::CAST_ROUND, HALF_ROWS * COLUMNS);
        outP.EnQue(p);
        inS.FreeTensor(s);
        p = outP.DeQue<half>();
        DataCopy(ws.weights[(tile % 2 * ROWS + first) * COLUMNS], p, HALF_ROWS * COLUMNS);
        outP.FreeTensor(p);
        CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY + tile % 2);
    }

    __aicore__ inline void Accumulate(uint32_t tile) {
        CrossCoreWaitFlag(PARTIAL_READY + tile % 2);
        LocalTensor<float> o = inO.AllocTensor<float>();
        DataCopy(o, ws.partial[(tile % 2 * ROWS + first) * DEPTH], HALF_ROWS * DEPTH);
        inO.EnQue(o);
        Brcb(column, shrink[tile % 2 * HALF_ROWS], HALF_ROWS / 8, BrcbRepeatParams(1, 8));
        Mul(acc, acc, column, 64, HALF_ROWS, BinaryRepeatParams(1, 1, 0, 8, 8, 1));
        o = inO.DeQue<float>();
        Add(acc, acc, o, HALF_ROWS * DEPTH);
        inO.FreeTensor(o);
    }

    __aicore__ inline void Finish() {
        Brcb(column, total, HALF_ROWS / 8, BrcbRepeatParams(1, 8));
        Div(acc, acc, column, 64, HALF_ROWS, BinaryRepeatParams(1, 1, 0, 8, 8, 1));
        LocalTensor<half> result = outP.AllocTensor<half>();
        Cast(result, acc, RoundMode::CAST_ROUND, HALF_ROWS * DEPTH);
        outP.EnQue(result);
        result = outP.DeQue<half>();
        DataCopy(outGm, result, HALF_ROWS * DEPTH);
        outP.FreeTensor(result);
    }

    TQue<TPosition::VECIN, 2> inS;
    TQue<TPosition::VECIN, 1> inO;
    TQue<TPosition::VECOUT, 2> outP;
    TBuf<TPosition::VECCALC> sum, scratch, spread, rows;
    LocalTensor<float> acc, tmp, column, maximum, newMaximum, total, current, shrink;
    GlobalTensor<half> outGm;
    Workspace ws;
    uint32_t tiles = 0, first = 0;
    float scale = 1;
};

extern "C" __global__ __aicore__ void flash_attention(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR out, GM_ADDR workspace, uint32_t keys,
                                                      float scale) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    TPipe pipe;
    if ASCEND_IS_AIC {
        Products op;
        op.Init(q, k, v, workspace, keys, &pipe);
        op.Process();
    }
    if ASCEND_IS_AIV {
        OnlineSoftmax op;
        op.Init(out, workspace, keys, scale, &pipe);
        op.Process();
    }
}
