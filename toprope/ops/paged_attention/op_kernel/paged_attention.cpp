// Attention of one new token of every sequence over a cache of keys and values that lies in pages.
//   paged_attention        cube and vector cores together; long sequences are divided among cores, and their parts joined at the end
//   paged_attention_naive  vector cores only, one query head of one sequence each, page by page
#include "attention_cube.h"
#include "attention_vector.h"

#ifndef DTYPE_QUERY
#define DTYPE_QUERY half
#endif

extern "C" __global__ __aicore__ void paged_attention(GM_ADDR query, GM_ADDR key_cache, GM_ADDR value_cache, GM_ADDR block_table,
                                                      GM_ADDR context_lens, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(PagedAttentionTilingData);
    GET_TILING_DATA(data, tiling);
    if (data.batch == 0) return;
    Problem<DTYPE_QUERY> problem;
    problem.Open(query, key_cache, value_cache, block_table, context_lens, out, GetUserWorkspace(workspace), data);
    if ASCEND_IS_AIC {
        AttentionCube<DTYPE_QUERY>().Run(problem);
        SyncAll<false>();
    }
    if ASCEND_IS_AIV {
        AttentionVector<DTYPE_QUERY>().Run(problem);
        AttentionJoin<DTYPE_QUERY> join(problem);
        SyncAll<false>();
        join.Run();
    }
}

// A query head of a sequence on each vector core: keys and values a few tokens at a time, with a running maximum and sum.
template <typename T>
class AttentionNaive {
    static constexpr uint32_t TOKENS = 64;

public:
    __aicore__ inline void Run(Problem<T>& problem) {
        p = &problem;
        dim = p->t.headDim;
        pipe.InitBuffer(inQueue, 1, TOKENS * dim * sizeof(T));
        pipe.InitBuffer(outQueue, 1, dim * sizeof(T));
        pipe.InitBuffer(room, (2 * dim + 2 * TOKENS * dim + TOKENS * LANES + TOKENS * BLOCK + 3 * TOKENS) * sizeof(float));
        q = room.Get<float>();
        sum = q[dim];
        rows = sum[dim];
        products = rows[TOKENS * dim];
        lanes = products[TOKENS * dim];
        blocks = lanes[TOKENS * LANES];
        scores = blocks[TOKENS * BLOCK];
        work = scores[TOKENS];
        one = work[TOKENS];
        for (uint32_t i = GetBlockIdx(), all = p->t.batch * p->t.heads; i < all; i += 2 * GetBlockNum())
            Head(i / p->t.heads, i % p->t.heads, p->lengthGm.GetValue(i / p->t.heads));
    }

private:
    template <HardEvent event>
    __aicore__ inline void Order() {
        const auto id = GetTPipePtr()->FetchEventID(event);
        SetFlag<event>(id);
        WaitFlag<event>(id);
    }
    __aicore__ inline void Head(uint32_t sequence, uint32_t head, uint32_t length) {
        const uint64_t row = (static_cast<uint64_t>(sequence) * p->t.heads + head) * dim;
        Load(q, p->queryGm[row], 1, dim);
        Duplicate(sum, 0.0f, static_cast<int32_t>(dim));
        float maximum = -3.4028234e38f, total = 0;
        for (uint32_t at = 0; at < length;) {
            const uint32_t count = Least(Least(TOKENS, length - at), p->t.pageTokens - at % p->t.pageTokens);
            const uint64_t place = p->TokenAt(p->Page(sequence, at / p->t.pageTokens), at, head / p->t.group);
            Scores(place, count);
            ReduceMax(one, scores, work, static_cast<int32_t>(count));
            Order<HardEvent::V_S>();
            const float largest = one.GetValue(0) > maximum ? one.GetValue(0) : maximum;
            Duplicate(one, maximum - largest, 1);
            Exp(one, one, 1);
            Adds(scores, scores, -largest, static_cast<int32_t>(count));
            Exp(scores, scores, static_cast<int32_t>(count));
            Order<HardEvent::V_S>();
            const float older = one.GetValue(0);
            ReduceSum(one, scores, work, static_cast<int32_t>(count));
            Order<HardEvent::V_S>();
            total = total * older + one.GetValue(0);
            maximum = largest;
            Muls(sum, sum, older, static_cast<int32_t>(dim));
            AddValues(place, count);
            at += count;
        }
        if (length > 0) Muls(sum, sum, 1.0f / total, static_cast<int32_t>(dim));
        LocalTensor<T> out = outQueue.template AllocTensor<T>();
        Cast(out, sum, RoundMode::CAST_RINT, dim);
        outQueue.EnQue(out);
        out = outQueue.template DeQue<T>();
        DataCopy(p->outGm[row], out, dim);
        outQueue.FreeTensor(out);
    }
    __aicore__ inline void Load(const Floats& to, const GlobalTensor<T>& from, uint32_t count, uint32_t stride) {
        LocalTensor<T> tile = inQueue.template AllocTensor<T>();
        DataCopyPad(
            tile, from,
            {static_cast<uint16_t>(count), static_cast<uint32_t>(dim * sizeof(T)), static_cast<uint32_t>((stride - dim) * sizeof(T)), 0, 0},
            {false, 0, 0, 0});
        inQueue.EnQue(tile);
        tile = inQueue.template DeQue<T>();
        Cast(to, tile, RoundMode::CAST_NONE, count * dim);
        inQueue.FreeTensor(tile);
    }
    __aicore__ inline void Scores(uint64_t place, uint32_t count) {
        const uint8_t stride = static_cast<uint8_t>(dim / BLOCK), repeats = static_cast<uint8_t>(count);
        Load(rows, p->keyGm[place], count, p->t.kvHeads * dim);
        for (uint32_t at = 0; at < dim; at += LANES)
            Mul(products[at], rows[at], q[at], static_cast<uint64_t>(LANES), repeats, {1, 1, 1, stride, stride, 0});
        for (uint32_t at = LANES; at < dim; at += LANES)
            Add(products, products, products[at], static_cast<uint64_t>(LANES), repeats, {1, 1, 1, stride, stride, stride});
        Duplicate(scores, NONE, TOKENS);
        WholeReduceSum(scores, products, LANES, static_cast<int32_t>(count), 1, 1, stride);
        Muls(scores, scores, p->t.scale, static_cast<int32_t>(count));
    }
    __aicore__ inline void AddValues(uint64_t place, uint32_t count) {
        const uint8_t stride = static_cast<uint8_t>(dim / BLOCK), repeats = static_cast<uint8_t>(count);
        Load(rows, p->valueGm[place], count, p->t.kvHeads * dim);
        Brcb(blocks, scores, static_cast<uint8_t>(RoundUp(count, BLOCK) / BLOCK), {1, 8});
        Brcb(lanes, blocks, repeats, {1, 8});
        for (uint32_t at = 0; at < dim; at += LANES)
            Mul(rows[at], rows[at], lanes, static_cast<uint64_t>(LANES), repeats, {1, 1, 1, stride, stride, 8});
        for (uint32_t r = 0; r < count; r++) Add(sum, sum, rows[r * dim], static_cast<int32_t>(dim));
    }

    Problem<T>* p = nullptr;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> inQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> room;
    Floats q, sum, rows, products, lanes, blocks, scores, work, one;
    uint32_t dim = 0;
};

extern "C" __global__ __aicore__ void paged_attention_naive(GM_ADDR query, GM_ADDR key_cache, GM_ADDR value_cache, GM_ADDR block_table,
                                                            GM_ADDR context_lens, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(PagedAttentionTilingData);
    GET_TILING_DATA(data, tiling);
    if (data.batch == 0) return;
    Problem<DTYPE_QUERY> problem;
    problem.Open(query, key_cache, value_cache, block_table, context_lens, out, GetUserWorkspace(workspace), data);
    if ASCEND_IS_AIV {
        AttentionNaive<DTYPE_QUERY>().Run(problem);
    }
}
