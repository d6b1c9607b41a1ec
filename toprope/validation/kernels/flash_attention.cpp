// out = softmax(q x k' / sqrt(128)) x v for one head of 128, fp16 in, fp32 out, in four stages that run ahead of each other through queues
// in GM:
//
//   scores    cube     q x k'                                  fp32 -> queue
//   weights   vector   exp of a tile under the running maximum  fp16 -> queue
//   partial   cube     weights x v                              fp32 -> queue
//   result    vector   shrink what was summed, add the partial
//
// A cube core and its two vector cores own 128 queries; keys come in tiles of TILE, products in pieces of 128. Scores and weights of AHEAD
// tiles are made before the first partial; from then on the cores take a tile of scores or weights and one of partials in turn. Each queue
// holds QUEUE tiles; who reads one tells so every PERIOD tiles.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t ROWS = 128, HEAD = 128, PIECE = 128, PIECES = TILE / PIECE, SQUARE = 128 * 128;
constexpr uint32_t HALF_ROWS = ROWS / 2, SLICE = HALF_ROWS / PIECES, CHUNKS = TILE / 64;
constexpr uint16_t kScores = 0, kWeights = 2, kPartial = 4;  // ready; the next flag says that places are free again

// One queue between the cube core and its vector cores: the flags of both directions.
template <uint16_t FLAG, pipe_t WRITES>
struct Queue {
    __aicore__ inline void BeforeWrite(uint32_t tile) const {
        if (tile >= QUEUE && tile % PERIOD == 0) CrossCoreWaitFlag(FLAG + 1);
    }
    __aicore__ inline void AfterWrite() const { CrossCoreSetFlag<2, WRITES>(FLAG); }
    __aicore__ inline void BeforeRead() const { CrossCoreWaitFlag(FLAG); }
    __aicore__ inline void AfterRead(uint32_t tile) const {
        if (tile % PERIOD == PERIOD - 1) CrossCoreSetFlag<2, PIPE_MTE2>(FLAG + 1);
    }
    // What readers told and nobody waited for.
    __aicore__ inline void Drain(uint32_t tiles) const {
        const uint32_t told = tiles / PERIOD, waited = tiles > QUEUE ? (tiles - 1) / PERIOD - QUEUE / PERIOD + 1 : 0;
        for (uint32_t i = waited; i < told; ++i) CrossCoreWaitFlag(FLAG + 1);
    }
};

struct Queues {
    __aicore__ inline void Init(GM_ADDR workspace) {
        constexpr uint64_t bytes = (uint64_t)QUEUE * ROWS * (TILE * 6 + HEAD * 4);
        GM_ADDR mine = workspace + (GetBlockIdx() / GetSubBlockNum()) * bytes;
        scores.SetGlobalBuffer((__gm__ float*)mine);
        partial.SetGlobalBuffer((__gm__ float*)(mine + QUEUE * ROWS * TILE * 4));
        weights.SetGlobalBuffer((__gm__ half*)(mine + QUEUE * ROWS * (TILE + HEAD) * 4));
    }
    GlobalTensor<float> scores, partial;
    GlobalTensor<half> weights;
    Queue<kScores, PIPE_FIX> scoresQueue;
    Queue<kWeights, PIPE_MTE3> weightsQueue;
    Queue<kPartial, PIPE_FIX> partialQueue;
};

class Cube {
public:
    __aicore__ inline Cube(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR workspace, uint32_t tiles) : tiles_(tiles) {
        q_.SetGlobalBuffer((__gm__ half*)q);
        k_.SetGlobalBuffer((__gm__ half*)k);
        v_.SetGlobalBuffer((__gm__ half*)v);
        queues_.Init(workspace);
        for (int id = 0; id < 4; ++id) SetFlag<HardEvent::MTE1_MTE2>(id);
        for (int id = 0; id < 2; ++id) SetFlag<HardEvent::M_MTE1>(id);
    }
    __aicore__ inline ~Cube() {
        for (int id = 0; id < 4; ++id) WaitFlag<HardEvent::MTE1_MTE2>(id);
        for (int id = 0; id < 2; ++id) WaitFlag<HardEvent::M_MTE1>(id);
    }
    __aicore__ inline void Run(uint32_t block) {
        for (uint32_t tile = 0; tile < AHEAD && tile < tiles_; ++tile)
            for (uint32_t piece = 0; piece < PIECES; ++piece) Scores(block, tile, piece);
        for (uint32_t tile = 0; tile < tiles_; ++tile)
            for (uint32_t piece = 0; piece < PIECES; ++piece) {
                if (tile + AHEAD < tiles_) Scores(block, tile + AHEAD, piece);
                Partial(tile, piece);
            }
        queues_.scoresQueue.Drain(tiles_);
        queues_.partialQueue.Drain(tiles_);
    }

private:
    __aicore__ inline void Scores(uint32_t block, uint32_t tile, uint32_t piece) {
        if (piece == 0) queues_.scoresQueue.BeforeWrite(tile);
        WaitFlag<HardEvent::MTE1_MTE2>(k_side_);
        if (tile == 0 && piece == 0) ToL1(InL1(0), q_[(uint64_t)block * SQUARE]);
        ToL1(InL1(1 + k_side_), k_[(uint64_t)(tile * PIECES + piece) * SQUARE]);
        SetFlag<HardEvent::MTE2_MTE1>(0);
        WaitFlag<HardEvent::MTE2_MTE1>(0);
        Multiply(InL1(0), InL1(1 + k_side_), false, 0, true, true);
        SetFlag<HardEvent::MTE1_MTE2>(k_side_);
        k_side_ ^= 1;
        Store(queues_.scores[((uint64_t)tile % QUEUE * PIECES + piece) * SQUARE], 0);
        if (piece + 1 == PIECES) queues_.scoresQueue.AfterWrite();
    }
    __aicore__ inline void Partial(uint32_t tile, uint32_t piece) {
        WaitFlag<HardEvent::MTE1_MTE2>(2 + v_side_);
        ToL1(InL1(3 + v_side_), v_[(uint64_t)(tile * PIECES + piece) * SQUARE]);
        if (piece == 0) queues_.weightsQueue.BeforeRead();
        ToL1(InL1(5 + v_side_), queues_.weights[((uint64_t)tile % QUEUE * PIECES + piece) * SQUARE]);
        if (piece + 1 == PIECES) queues_.weightsQueue.AfterRead(tile);
        SetFlag<HardEvent::MTE2_MTE1>(1);
        WaitFlag<HardEvent::MTE2_MTE1>(1);
        Multiply(InL1(5 + v_side_), InL1(3 + v_side_), true, 1, piece == 0, piece + 1 == PIECES);
        SetFlag<HardEvent::MTE1_MTE2>(2 + v_side_);
        v_side_ ^= 1;
        if (piece + 1 < PIECES) return;
        queues_.partialQueue.BeforeWrite(tile);
        Store(queues_.partial[(uint64_t)tile % QUEUE * SQUARE], 1);
        queues_.partialQueue.AfterWrite();
    }

    __aicore__ inline static LocalTensor<half> InL1(uint32_t place) {
        return LocalTensor<half>(TPosition::A1, place * SQUARE * sizeof(half), SQUARE);
    }
    __aicore__ inline static LocalTensor<float> InL0C(uint32_t place) {
        return LocalTensor<float>(TPosition::CO1, place * SQUARE * sizeof(float), SQUARE);
    }
    __aicore__ inline static void ToL1(const LocalTensor<half>& to, const GlobalTensor<half>& from) {
        DataCopy(to, from, Nd2NzParams{1, 128, 128, 0, 128, 128, 1, 0});
    }
    // A square times a square, the right one as N x K unless its rows are K already. The unit flag hands the sum on to the store.
    __aicore__ inline void Multiply(const LocalTensor<half>& left, const LocalTensor<half>& right, bool rows_are_k, uint32_t sum,
                                    bool first, bool last) {
        const LocalTensor<half> a(TPosition::A2, l0_ * 32768, SQUARE), b(TPosition::B2, l0_ * 32768, SQUARE);
        WaitFlag<HardEvent::M_MTE1>(l0_);
        LoadData3DParamsV2<half> load;
        load.l1H = 1;
        load.l1W = load.channelSize = load.kExtension = load.mExtension = 128;
        LoadData(a, left, load);
        if (rows_are_k) {
            load.enTranspose = true;
            LoadData(b, right, load);
        } else {
            LoadData2DParams whole;
            whole.repeatTimes = 64;
            whole.srcStride = 1;
            LoadData(b, right, whole);
        }
        SetFlag<HardEvent::MTE1_M>(l0_);
        WaitFlag<HardEvent::MTE1_M>(l0_);
        MmadParams product;
        product.m = product.n = product.k = 128;
        product.cmatrixInitVal = first;
        product.unitFlag = last ? 3 : 2;
        Mmad(InL0C(sum), a, b, product);
        SetFlag<HardEvent::M_MTE1>(l0_);
        l0_ ^= 1;
    }
    __aicore__ inline static void Store(const GlobalTensor<float>& to, uint32_t sum) {
        FixpipeParamsV220 store(128, 128, 128, 128, false);
        store.unitFlag = 3;
        Fixpipe<float, float, CFG_ROW_MAJOR>(to, InL0C(sum), store);
    }

    GlobalTensor<half> q_, k_, v_;
    Queues queues_;
    uint32_t tiles_, k_side_ = 0, v_side_ = 0, l0_ = 0;
};

class Vector {
public:
    __aicore__ inline Vector(GM_ADDR out, GM_ADDR workspace, uint32_t tiles) : tiles_(tiles), first_(GetSubBlockIdx() * HALF_ROWS) {
        out_.SetGlobalBuffer((__gm__ float*)out);
        queues_.Init(workspace);
        uint32_t address = 0;
        result_ = Place<float>(address, HALF_ROWS * HEAD);
        for (int i = 0; i < 2; ++i) {
            in_[i] = Place<float>(address, HALF_ROWS * HEAD);
            exp_[i] = Place<half>(address, SLICE * TILE);
            folded_[i] = Place<float>(address, SLICE * TILE / 8);
        }
        column_ = Place<float>(address, HALF_ROWS * 8);
        local_ = Place<float>(address, HALF_ROWS);
        maximum_ = Place<float>(address, HALF_ROWS);
        total_ = Place<float>(address, HALF_ROWS);
        shrink_ = Place<float>(address, QUEUE * HALF_ROWS);
        for (int id = 0; id < 2; ++id) {
            SetFlag<HardEvent::V_MTE2>(id);
            SetFlag<HardEvent::MTE3_V>(id);
        }
    }
    __aicore__ inline ~Vector() {
        for (int id = 0; id < 2; ++id) {
            WaitFlag<HardEvent::V_MTE2>(id);
            WaitFlag<HardEvent::MTE3_V>(id);
        }
    }
    __aicore__ inline void Run(uint32_t block) {
        for (uint32_t tile = 0; tile < AHEAD && tile < tiles_; ++tile)
            for (uint32_t slice = 0; slice < PIECES; ++slice) Weights(tile, slice);
        for (uint32_t tile = 0; tile < tiles_; ++tile) {
            if (tile + AHEAD < tiles_)
                for (uint32_t slice = 0; slice < PIECES; ++slice) Weights(tile + AHEAD, slice);
            Result(block, tile);
        }
        queues_.weightsQueue.Drain(tiles_);
    }

private:
    // SLICE rows of a tile: exp under the maximum so far, and by how much all before must shrink.
    __aicore__ inline void Weights(uint32_t tile, uint32_t slice) {
        const uint32_t row = slice * SLICE;
        const uint64_t from = (uint64_t)tile % QUEUE * PIECES * SQUARE + (first_ + row) * PIECE;
        const LocalTensor<float> x = in_[side_];
        WaitFlag<HardEvent::V_MTE2>(side_);
        if (slice == 0) queues_.scoresQueue.BeforeRead();
        for (uint32_t piece = 0; piece < PIECES; ++piece)
            DataCopy(x[piece * PIECE], queues_.scores[from + piece * SQUARE], DataCopyParams(SLICE, PIECE / 8, 0, (TILE - PIECE) / 8));
        if (slice + 1 == PIECES) queues_.scoresQueue.AfterRead(tile);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE3_V>(side_);
        Softmax(x, tile, row);
        SetFlag<HardEvent::V_MTE2>(side_);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        if (slice == 0) queues_.weightsQueue.BeforeWrite(tile);
        for (uint32_t piece = 0; piece < PIECES; ++piece)
            DataCopy(queues_.weights[from + piece * SQUARE], exp_[side_][piece * PIECE],
                     DataCopyParams(SLICE, PIECE / 16, (TILE - PIECE) / 16, 0));
        if (slice + 1 == PIECES) queues_.weightsQueue.AfterWrite();
        SetFlag<HardEvent::MTE3_V>(side_);
        side_ ^= 1;
    }
    __aicore__ inline void Softmax(const LocalTensor<float>& x, uint32_t tile, uint32_t row) {
        const LocalTensor<float> local = local_[row], maximum = maximum_[row], total = total_[row];
        const LocalTensor<float> shrink = shrink_[tile % QUEUE * HALF_ROWS + row];
        const float scale = 0.088388347648318447f;
        BlockReduceMax(folded_[0], x, SLICE * CHUNKS, 64, 1, 1, 8);
        uint32_t at = 0;
        for (uint32_t blocks = CHUNKS / 2; blocks > 0; blocks /= 2, at ^= 1)
            Max(folded_[at ^ 1], folded_[at], folded_[at][8], 64, SLICE * blocks / 8, BinaryRepeatParams(1, 2, 2, 8, 16, 16));
        BlockReduceMax(local, folded_[at], SLICE / 8, 64, 1, 1, 8);
        if (tile > 0) {
            Max(local, local, maximum, SLICE);
            Sub(shrink, maximum, local, SLICE);
            Muls(shrink, shrink, scale, SLICE);
            Exp(shrink, shrink, SLICE);
        }
        Muls(maximum, local, 1.0f, SLICE);
        Brcb(column_, local, SLICE / 8, BrcbRepeatParams(1, 8));
        for (uint32_t i = 0; i < CHUNKS; ++i)
            Sub(x[i * 64], x[i * 64], column_, 64, SLICE, BinaryRepeatParams(1, 1, 0, TILE / 8, TILE / 8, 1));
        Muls(x, x, scale, SLICE * TILE);
        Exp(x, x, SLICE * TILE);
        Cast(exp_[side_], x, RoundMode::CAST_ROUND, SLICE * TILE);
        BlockReduceSum(folded_[0], x, SLICE * CHUNKS, 64, 1, 1, 8);
        at = 0;
        for (uint32_t blocks = CHUNKS / 2; blocks > 0; blocks /= 2, at ^= 1)
            Add(folded_[at ^ 1], folded_[at], folded_[at][8], 64, SLICE * blocks / 8, BinaryRepeatParams(1, 2, 2, 8, 16, 16));
        BlockReduceSum(tile == 0 ? total : local, folded_[at], SLICE / 8, 64, 1, 1, 8);
        if (tile == 0) return;
        Mul(total, total, shrink, SLICE);
        Add(total, total, local, SLICE);
    }
    __aicore__ inline void Result(uint32_t block, uint32_t tile) {
        const LocalTensor<float> to = tile == 0 ? result_ : in_[side_];
        WaitFlag<HardEvent::V_MTE2>(side_);
        queues_.partialQueue.BeforeRead();
        DataCopy(to, queues_.partial[(uint64_t)tile % QUEUE * SQUARE + first_ * HEAD], HALF_ROWS * HEAD);
        queues_.partialQueue.AfterRead(tile);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        if (tile > 0) {
            Brcb(column_, shrink_[tile % QUEUE * HALF_ROWS], HALF_ROWS / 8, BrcbRepeatParams(1, 8));
            for (uint32_t i = 0; i < HEAD; i += 64)
                Mul(result_[i], result_[i], column_, 64, HALF_ROWS, BinaryRepeatParams(1, 1, 0, HEAD / 8, HEAD / 8, 1));
            Add(result_, result_, to, HALF_ROWS * HEAD);
        }
        if (tile + 1 == tiles_) {
            Brcb(column_, total_, HALF_ROWS / 8, BrcbRepeatParams(1, 8));
            for (uint32_t i = 0; i < HEAD; i += 64)
                Div(result_[i], result_[i], column_, 64, HALF_ROWS, BinaryRepeatParams(1, 1, 0, HEAD / 8, HEAD / 8, 1));
            SetFlag<HardEvent::V_MTE3>(0);
            WaitFlag<HardEvent::V_MTE3>(0);
            DataCopy(out_[((uint64_t)block * ROWS + first_) * HEAD], result_, HALF_ROWS * HEAD);
            SetFlag<HardEvent::MTE3_MTE2>(0);  // the next queries' first partial comes into the same place
            WaitFlag<HardEvent::MTE3_MTE2>(0);
        }
        SetFlag<HardEvent::V_MTE2>(side_);
        side_ ^= 1;
    }
    template <typename T>
    __aicore__ inline static LocalTensor<T> Place(uint32_t& address, uint32_t count) {
        const LocalTensor<T> place(TPosition::VECCALC, address, count);
        address += count * sizeof(T);
        return place;
    }

    GlobalTensor<float> out_;
    Queues queues_;
    LocalTensor<float> result_, in_[2], folded_[2], column_, local_, maximum_, total_, shrink_;
    LocalTensor<half> exp_[2];
    uint32_t tiles_, first_, side_ = 0;
};

extern "C" __global__ __aicore__ void flash_attention(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR out, GM_ADDR workspace, uint32_t queries,
                                                      uint32_t keys) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    const uint32_t group = GetBlockIdx() / GetSubBlockNum();
    if ASCEND_IS_AIC {
        Cube op(q, k, v, workspace, keys / TILE);
        for (uint32_t block = group; block < queries / ROWS; block += GetBlockNum()) op.Run(block);
    }
    if ASCEND_IS_AIV {
        Vector op(out, workspace, keys / TILE);
        for (uint32_t block = group; block < queries / ROWS; block += GetBlockNum()) op.Run(block);
    }
}
