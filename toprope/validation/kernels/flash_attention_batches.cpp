// out = softmax(q x k' / sqrt(128)) x v, heads of 128 in fp16, all heads of q against one head of k and v. Scores, weights and partial
// results are fp16 in GM. A cube core and its two vector cores own 128 queries and go through the keys in batches of STAGES tiles of 128:
// all scores of a batch, then all partials; the vector cores all weights of it, then what the partials add. The cores tell each other every
// INTERVAL tiles, and once a batch that its places are free again.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t SIDE = 128, SQUARE = SIDE * SIDE, HALF_ROWS = SIDE / 2, HALF = HALF_ROWS * SIDE;
constexpr uint16_t kScores = 0, kWeights = 1, kPartial = 2, kScoresFree = 3, kWeightsFree = 4, kPartialFree = 5;

__aicore__ inline bool Last(uint32_t i, uint32_t count) { return i % INTERVAL == INTERVAL - 1 || i + 1 == count; }

struct Places {
    __aicore__ inline void Init(GM_ADDR workspace) {
        GM_ADDR mine = workspace + (uint64_t)(GetBlockIdx() / GetSubBlockNum()) * 3 * STAGES * SQUARE * sizeof(half);
        scores.SetGlobalBuffer((__gm__ half*)mine);
        weights.SetGlobalBuffer((__gm__ half*)mine + STAGES * SQUARE);
        partial.SetGlobalBuffer((__gm__ half*)mine + 2 * STAGES * SQUARE);
    }
    GlobalTensor<half> scores, weights, partial;
};

class Cube {
public:
    __aicore__ inline Cube(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR workspace, uint32_t tiles) : tiles_(tiles) {
        q_.SetGlobalBuffer((__gm__ half*)q);
        k_.SetGlobalBuffer((__gm__ half*)k);
        v_.SetGlobalBuffer((__gm__ half*)v);
        places_.Init(workspace);
        for (int id = 0; id < 3; ++id) SetFlag<HardEvent::MTE1_MTE2>(id);
        for (int id = 0; id < 2; ++id) {
            SetFlag<HardEvent::M_MTE1>(id);
            SetFlag<HardEvent::FIX_M>(id);
        }
    }
    __aicore__ inline ~Cube() {
        for (int id = 0; id < 3; ++id) WaitFlag<HardEvent::MTE1_MTE2>(id);
        for (int id = 0; id < 2; ++id) {
            WaitFlag<HardEvent::M_MTE1>(id);
            WaitFlag<HardEvent::FIX_M>(id);
        }
        CrossCoreWaitFlag(kScoresFree);
        CrossCoreWaitFlag(kPartialFree);
    }
    __aicore__ inline void Run(uint32_t block, bool first) {
        DataCopy(InL1(0), q_[(uint64_t)block * SQUARE], Nd2NzParams{1, SIDE, SIDE, 0, SIDE, SIDE, 1, 0});
        PipeBarrier<PIPE_ALL>();
        for (uint32_t tile = 0; tile < tiles_; tile += STAGES) {
            const uint32_t count = tiles_ - tile < STAGES ? tiles_ - tile : STAGES;
            if (!first || tile > 0) CrossCoreWaitFlag(kScoresFree);
            for (uint32_t i = 0; i < count; ++i) Scores(tile + i, i, Last(i, count));
            if (!first || tile > 0) CrossCoreWaitFlag(kPartialFree);
            for (uint32_t i = 0; i < count; ++i) Partial(tile + i, i, Last(i, count));
            CrossCoreSetFlag<2, PIPE_MTE2>(kWeightsFree);
        }
    }

private:
    __aicore__ inline void Scores(uint32_t tile, uint32_t i, bool tell) {
        const uint32_t side = i % 2;
        Load(0, k_[(uint64_t)tile * SQUARE]);
        WaitFlag<HardEvent::M_MTE1>(side);
        if (i < 2) ToL0A(side, InL1(0));
        WaitFlag<HardEvent::MTE2_MTE1>(0);
        LoadData2DParams whole;
        whole.repeatTimes = 64;
        whole.srcStride = 1;
        LoadData(InL0B(side), InL1(1), whole);
        SetFlag<HardEvent::MTE1_MTE2>(0);
        Multiply(side, places_.scores[i * SQUARE]);
        if (tell) CrossCoreSetFlag<2, PIPE_FIX>(kScores);
    }
    __aicore__ inline void Partial(uint32_t tile, uint32_t i, bool tell) {
        const uint32_t side = i % 2;
        Load(1, v_[(uint64_t)tile * SQUARE]);
        if (i % INTERVAL == 0) CrossCoreWaitFlag(kWeights);
        Load(2, places_.weights[i * SQUARE]);
        WaitFlag<HardEvent::MTE2_MTE1>(1);
        WaitFlag<HardEvent::M_MTE1>(side);
        LoadData3DParamsV2<half> rows;
        rows.l1H = 1;
        rows.l1W = rows.channelSize = rows.kExtension = rows.mExtension = SIDE;
        rows.enTranspose = true;
        LoadData(InL0B(side), InL1(2), rows);
        SetFlag<HardEvent::MTE1_MTE2>(1);
        WaitFlag<HardEvent::MTE2_MTE1>(2);
        ToL0A(side, InL1(3));
        SetFlag<HardEvent::MTE1_MTE2>(2);
        Multiply(side, places_.partial[i * SQUARE]);
        if (tell) CrossCoreSetFlag<2, PIPE_FIX>(kPartial);
    }
    // One square into the L1 place of k, v or the weights.
    __aicore__ inline void Load(uint32_t which, const GlobalTensor<half>& from) {
        WaitFlag<HardEvent::MTE1_MTE2>(which);
        DataCopy(InL1(1 + which), from, Nd2NzParams{1, SIDE, SIDE, 0, SIDE, SIDE, 1, 0});
        SetFlag<HardEvent::MTE2_MTE1>(which);
    }
    __aicore__ inline void ToL0A(uint32_t side, const LocalTensor<half>& from) {
        LoadData3DParamsV2<half> load;
        load.l1H = 1;
        load.l1W = load.channelSize = load.kExtension = load.mExtension = SIDE;
        LoadData(LocalTensor<half>(TPosition::A2, side * 32768, SQUARE), from, load);
    }
    __aicore__ inline void Multiply(uint32_t side, const GlobalTensor<half>& to) {
        SetFlag<HardEvent::MTE1_M>(side);
        WaitFlag<HardEvent::MTE1_M>(side);
        WaitFlag<HardEvent::FIX_M>(side);
        const LocalTensor<float> sum(TPosition::CO1, side * SQUARE * sizeof(float), SQUARE);
        MmadParams product;
        product.m = product.n = product.k = SIDE;
        product.cmatrixInitVal = true;
        Mmad(sum, LocalTensor<half>(TPosition::A2, side * 32768, SQUARE), InL0B(side), product);
        SetFlag<HardEvent::M_MTE1>(side);
        SetFlag<HardEvent::M_FIX>(side);
        WaitFlag<HardEvent::M_FIX>(side);
        FixpipeParamsV220 store(SIDE, SIDE, SIDE, SIDE, false);
        store.quantPre = QuantMode_t::F322F16;
        Fixpipe<half, float, CFG_ROW_MAJOR>(to, sum, store);
        SetFlag<HardEvent::FIX_M>(side);
    }
    __aicore__ inline static LocalTensor<half> InL1(uint32_t place) {
        return LocalTensor<half>(TPosition::A1, place * SQUARE * sizeof(half), SQUARE);
    }
    __aicore__ inline static LocalTensor<half> InL0B(uint32_t side) { return LocalTensor<half>(TPosition::B2, side * 32768, SQUARE); }

    GlobalTensor<half> q_, k_, v_;
    Places places_;
    uint32_t tiles_;
};

class Vector {
public:
    __aicore__ inline Vector(GM_ADDR out, GM_ADDR workspace, uint32_t tiles) : tiles_(tiles), first_(GetSubBlockIdx() * HALF_ROWS) {
        out_.SetGlobalBuffer((__gm__ half*)out);
        places_.Init(workspace);
        uint32_t address = 0;
        sum_ = Place<float>(address, HALF);
        work_ = Place<float>(address, HALF);
        wide_ = Place<float>(address, HALF);
        io_ = Place<half>(address, HALF);
        exp_ = Place<half>(address, HALF);
        folded_[0] = Place<float>(address, HALF / 8);
        folded_[1] = Place<float>(address, HALF / 16);
        column_ = Place<float>(address, HALF_ROWS * 8);
        for (int i = 0; i < 2; ++i) minus_[i] = Place<float>(address, HALF_ROWS);
        total_ = Place<float>(address, HALF_ROWS);
        shrink_ = Place<float>(address, STAGES * HALF_ROWS);
        local_ = Place<float>(address, STAGES * HALF_ROWS);
        SetFlag<HardEvent::V_MTE2>(0);
        SetFlag<HardEvent::MTE3_V>(0);
    }
    __aicore__ inline ~Vector() {
        WaitFlag<HardEvent::V_MTE2>(0);
        WaitFlag<HardEvent::MTE3_V>(0);
        CrossCoreWaitFlag(kWeightsFree);
    }
    __aicore__ inline void Run(uint32_t block, bool first) {
        Duplicate(sum_, 0.0f, HALF);
        Duplicate(total_, 0.0f, HALF_ROWS);
        Duplicate(minus_[1], 1073741824.0f, HALF_ROWS);
        for (uint32_t tile = 0; tile < tiles_; tile += STAGES) {
            const uint32_t count = tiles_ - tile < STAGES ? tiles_ - tile : STAGES;
            if (!first || tile > 0) CrossCoreWaitFlag(kWeightsFree);
            for (uint32_t i = 0; i < count; ++i) Weights(i, Last(i, count));
            CrossCoreSetFlag<2, PIPE_MTE2>(kScoresFree);
            for (uint32_t i = 0; i < count; ++i) Result(i);
            CrossCoreSetFlag<2, PIPE_MTE2>(kPartialFree);
        }
        Brcb(column_, total_, HALF_ROWS / 8, BrcbRepeatParams(1, 8));
        Widen(column_);
        Div(sum_, sum_, wide_, HALF);
        WaitFlag<HardEvent::MTE3_V>(0);
        Cast(exp_, sum_, RoundMode::CAST_ROUND, HALF);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(out_[(uint64_t)block * SQUARE + first_ * SIDE], exp_, HALF);
        SetFlag<HardEvent::MTE3_V>(0);
    }

private:
    // `minus_` is the running maximum times -scale, of this tile and the one before in turn.
    __aicore__ inline void Weights(uint32_t i, bool tell) {
        const float scale = 0.088388347648318447f;
        const LocalTensor<float> now = minus_[i % 2], before = minus_[1 - i % 2], at = local_[i * HALF_ROWS];
        if (i % INTERVAL == 0) CrossCoreWaitFlag(kScores);
        Bring(places_.scores[i * SQUARE]);
        BlockReduceMax(folded_[0], work_, HALF / 64, 64, 1, 1, 8);
        Max(folded_[1], folded_[0], folded_[0][8], 64, HALF_ROWS / 8, BinaryRepeatParams(1, 2, 2, 8, 16, 16));
        BlockReduceMax(now, folded_[1], HALF_ROWS / 8, 64, 1, 1, 8);
        Muls(now, now, -scale, HALF_ROWS);
        Min(now, now, before, HALF_ROWS);
        Brcb(column_, now, HALF_ROWS / 8, BrcbRepeatParams(1, 8));
        Widen(column_);
        Axpy(wide_, work_, scale, HALF);
        Exp(work_, wide_, HALF);
        WaitFlag<HardEvent::MTE3_V>(0);
        Cast(exp_, work_, RoundMode::CAST_ROUND, HALF);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(places_.weights[i * SQUARE + first_ * SIDE], exp_, HALF);
        SetFlag<HardEvent::MTE3_V>(0);
        if (tell) CrossCoreSetFlag<2, PIPE_MTE3>(kWeights);
        BlockReduceSum(folded_[0], work_, HALF / 64, 64, 1, 1, 8);
        Add(folded_[1], folded_[0], folded_[0][8], 64, HALF_ROWS / 8, BinaryRepeatParams(1, 2, 2, 8, 16, 16));
        BlockReduceSum(at, folded_[1], HALF_ROWS / 8, 64, 1, 1, 8);
        Sub(shrink_[i * HALF_ROWS], now, before, HALF_ROWS);
    }
    __aicore__ inline void Result(uint32_t i) {
        const LocalTensor<float> shrink = shrink_[i * HALF_ROWS];
        Exp(shrink, shrink, HALF_ROWS);
        Mul(total_, total_, shrink, HALF_ROWS);
        Add(total_, total_, local_[i * HALF_ROWS], HALF_ROWS);
        Brcb(column_, shrink, HALF_ROWS / 8, BrcbRepeatParams(1, 8));
        Widen(column_);
        Mul(sum_, sum_, wide_, HALF);
        if (i % INTERVAL == 0) CrossCoreWaitFlag(kPartial);
        Bring(places_.partial[i * SQUARE]);
        Add(sum_, sum_, work_, HALF);
    }
    __aicore__ inline void Bring(const GlobalTensor<half>& from) {
        WaitFlag<HardEvent::V_MTE2>(0);
        DataCopy(io_, from[first_ * SIDE], HALF);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        Cast(work_, io_, RoundMode::CAST_NONE, HALF);
        SetFlag<HardEvent::V_MTE2>(0);
    }
    // Each row's 32 equal bytes over the whole row.
    __aicore__ inline void Widen(const LocalTensor<float>& column) {
        for (uint32_t i = 0; i < SIDE; i += 64) Copy(wide_[i], column, 64, HALF_ROWS, CopyRepeatParams(1, 0, SIDE / 8, 1));
    }
    template <typename T>
    __aicore__ inline static LocalTensor<T> Place(uint32_t& address, uint32_t count) {
        const LocalTensor<T> place(TPosition::VECCALC, address, count);
        address += count * sizeof(T);
        return place;
    }

    GlobalTensor<half> out_;
    Places places_;
    LocalTensor<float> sum_, work_, wide_, folded_[2], column_, minus_[2], total_, shrink_, local_;
    LocalTensor<half> io_, exp_;
    uint32_t tiles_, first_;
};

extern "C" __global__ __aicore__ void flash_attention_batches(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR out, GM_ADDR workspace,
                                                              uint32_t blocks, uint32_t keys) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    const uint32_t group = GetBlockIdx() / GetSubBlockNum();
    if ASCEND_IS_AIC {
        Cube op(q, k, v, workspace, keys / SIDE);
        for (uint32_t block = group; block < blocks; block += GetBlockNum()) op.Run(block, block == group);
    }
    if ASCEND_IS_AIV {
        Vector op(out, workspace, keys / SIDE);
        for (uint32_t block = group; block < blocks; block += GetBlockNum()) op.Run(block, block == group);
    }
}
