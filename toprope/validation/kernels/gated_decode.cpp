// One step of a gated delta rule for every value head: state = exp(g) state + beta (v - state k) k', out = state q, state in place. A
// head's state is 128 x 128 floats, whole in UB; heads are shared out over the cores in segments of up to eight of one request, whose gates
// are computed together.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t K = 128, V = 128, kLanes = 64;

class GatedDecode {
public:
    __aicore__ inline void Init(GM_ADDR mixed, GM_ADDR a, GM_ADDR b, GM_ADDR logs, GM_ADDR biases, GM_ADDR state, GM_ADDR places,
                                GM_ADDR out) {
        mixed_.SetGlobalBuffer((__gm__ bfloat16_t*)mixed);
        a_.SetGlobalBuffer((__gm__ bfloat16_t*)a);
        b_.SetGlobalBuffer((__gm__ bfloat16_t*)b);
        logs_.SetGlobalBuffer((__gm__ float*)logs);
        biases_.SetGlobalBuffer((__gm__ float*)biases);
        state_.SetGlobalBuffer((__gm__ float*)state);
        places_.SetGlobalBuffer((__gm__ int64_t*)places);
        out_.SetGlobalBuffer((__gm__ bfloat16_t*)out);
        pipe_.InitBuffer(small_, 1, 2 * K * sizeof(bfloat16_t));
        pipe_.InitBuffer(states_, 1, K * V * sizeof(float) + V * sizeof(bfloat16_t));
        pipe_.InitBuffer(results_, 1, K * V * sizeof(float) + V * sizeof(bfloat16_t));
        pipe_.InitBuffer(rest_, 16384);
        LocalTensor<float> all = rest_.Get<float>();
        q_ = all;
        k_ = all[K];
        v_ = all[2 * K];
        work_ = all[3 * K];
        delta_ = all[4 * K];
        sum_ = all[5 * K];
        gates_ = all[6 * K];
    }
    __aicore__ inline void Run(uint32_t batch, uint32_t heads, uint32_t values) {
        heads_ = heads;
        values_ = values;
        const uint32_t tasks = batch * values, blocks = GetBlockNum(), core = GetBlockIdx(), share = tasks / blocks, more = tasks % blocks;
        const uint32_t count = share + (core < more ? 1 : 0), first = core * share + (core < more ? core : more);
        for (uint32_t at = 0; at < count;) {
            const uint32_t task = first + at, left = values - task % values;
            uint32_t length = count - at < 8 ? count - at : 8;
            if (left < length) length = left;
            Segment(task / values, task % values, length);
            at += length;
        }
    }

private:
    template <typename T>
    __aicore__ inline void Load(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t count) {
        DataCopyPad(to, from, DataCopyExtParams{1, count * (uint32_t)sizeof(T), 0, 0, 0}, DataCopyPadExtParams<T>{false, 0, 0, 0});
    }
    __aicore__ inline void Gates(uint32_t request, uint32_t value, uint32_t count) {
        LocalTensor<bfloat16_t> narrow = small_.AllocTensor<bfloat16_t>();
        Load(narrow, a_[request * values_ + value], count);
        Load(narrow[16], b_[request * values_ + value], count);
        small_.EnQue(narrow);
        narrow = small_.DeQue<bfloat16_t>();
        Cast(work_, narrow, RoundMode::CAST_NONE, 32);
        small_.FreeTensor(narrow);
        LocalTensor<float> loaded = small_.AllocTensor<float>();
        Load(loaded, logs_[value], count);
        Load(loaded[8], biases_[value], count);
        small_.EnQue(loaded);
        loaded = small_.DeQue<float>();
        DataCopy(gates_, loaded, 16);
        small_.FreeTensor(loaded);
        LocalTensor<float> x = gates_[16], t = gates_[24], beta = gates_[40], decay = gates_[48];
        Add(x, work_, gates_[8], count);
        Mins(t, x, 20.0f, count);
        Exp(t, t, count);
        Adds(t, t, 1.0f, count);
        Ln(t, t, count);
        Max(x, x, t, count);
        Exp(gates_, gates_, count);
        Muls(gates_, gates_, -1.0f, count);
        Mul(x, x, gates_, count);
        Exp(decay, x, count);
        Sigmoid(beta, work_[16], count);
        Brcb(gates_[64], beta, 1, {1, 8});
        Brcb(gates_[128], decay, 1, {1, 8});
    }
    __aicore__ inline void Normalize(const LocalTensor<float>& x) {
        Mul(work_, x, x, K);
        Add(work_, work_, work_[kLanes], kLanes);
        WholeReduceSum<float>(gates_, work_, kLanes, 1, 1, 1, 8);
        Adds(gates_, gates_, 1e-6f, 1);
        Rsqrt(gates_, gates_, 1);
        Brcb(work_, gates_, 1, {1, 8});
        ByBlock(x, x, work_, K);
    }
    __aicore__ inline void ByBlock(const LocalTensor<float>& to, const LocalTensor<float>& from, const LocalTensor<float>& block,
                                   uint32_t count) {
        for (uint32_t at = 0; at < count;) {
            const uint32_t repeats = (count - at) / kLanes < 255 ? (count - at) / kLanes : 255;
            Mul(to[at], from[at], block, kLanes, repeats, {1, 1, 0, 8, 8, 0});
            at += repeats * kLanes;
        }
    }
    __aicore__ inline void Product(const LocalTensor<float>& matrix, const LocalTensor<float>& vector, const LocalTensor<float>& space,
                                   const LocalTensor<float>& to) {
        for (uint32_t i = 0; i < K; i += kLanes) Mul(space[i], matrix[i], vector[i], kLanes, V, {1, 1, 1, K / 8, K / 8, 0});
        const uint32_t shape[2] = {V, K};
        ReduceSum<float, Pattern::Reduce::AR, true>(to, space, shape, true);
    }
    __aicore__ inline void Segment(uint32_t request, uint32_t value, uint32_t count) {
        const int64_t place = places_.GetValue(request);
        Gates(request, value, count);
        const uint32_t each = values_ / heads_;
        for (uint32_t i = 0; i < count;) {
            const uint32_t head = (value + i) / each, left = each - (value + i) % each, together = count - i < left ? count - i : left;
            const uint32_t row = request * (2 * heads_ * K + values_ * V);
            LocalTensor<bfloat16_t> loaded = small_.AllocTensor<bfloat16_t>();
            Load(loaded, mixed_[row + head * K], K);
            Load(loaded[K], mixed_[row + (heads_ + head) * K], K);
            small_.EnQue(loaded);
            loaded = small_.DeQue<bfloat16_t>();
            Cast(q_, loaded, RoundMode::CAST_NONE, 2 * K);
            small_.FreeTensor(loaded);
            Normalize(q_);
            Normalize(k_);
            Muls(q_, q_, 0.088f, K);
            for (uint32_t j = 0; j < together; ++j) Head(request, value + i + j, place, i + j, row);
            i += together;
        }
    }
    __aicore__ inline void Head(uint32_t request, uint32_t value, int64_t place, uint32_t gate, uint32_t row) {
        const uint64_t at = ((uint64_t)place * values_ + value) * K * V;
        LocalTensor<float> old = states_.AllocTensor<float>();
        DataCopyPad(old, state_[at], DataCopyExtParams{V, K * sizeof(float), 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0});
        Load(old[K * V].ReinterpretCast<bfloat16_t>(), mixed_[row + 2 * heads_ * K + value * V], V);
        states_.EnQue(old);
        old = states_.DeQue<float>();
        Cast(v_, old[K * V].ReinterpretCast<bfloat16_t>(), RoundMode::CAST_NONE, V);
        LocalTensor<float> state = results_.AllocTensor<float>();
        ByBlock(state, old, gates_[128 + gate * 8], K * V);
        Product(state, k_, old, delta_);
        Sub(delta_, v_, delta_, V);
        ByBlock(delta_, delta_, gates_[64 + gate * 8], V);
        Brcb(old, delta_, V / 8, {1, 8});
        for (uint32_t i = 0; i < K; i += kLanes) MulAddDst(state[i], k_[i], old, kLanes, V, {1, 1, 0, K / 8, 0, 1});
        Product(state, q_, old, sum_);
        Cast(state[K * V].ReinterpretCast<bfloat16_t>(), sum_, RoundMode::CAST_RINT, V);
        results_.EnQue(state);
        state = results_.DeQue<float>();
        DataCopyPad(out_[(request * values_ + value) * V], state[K * V].ReinterpretCast<bfloat16_t>(),
                    DataCopyExtParams{1, V * sizeof(bfloat16_t), 0, 0, 0});
        DataCopyPad(state_[at], state, DataCopyExtParams{V, K * sizeof(float), 0, 0, 0});
        results_.FreeTensor(state);
        states_.FreeTensor(old);
    }
    TPipe pipe_;
    TQue<TPosition::VECIN, 1> small_, states_;
    TQue<TPosition::VECOUT, 1> results_;
    TBuf<TPosition::VECCALC> rest_;
    LocalTensor<float> q_, k_, v_, work_, delta_, sum_, gates_;
    GlobalTensor<bfloat16_t> mixed_, a_, b_, out_;
    GlobalTensor<float> logs_, biases_, state_;
    GlobalTensor<int64_t> places_;
    uint32_t heads_ = 0, values_ = 0;
};

extern "C" __global__ __aicore__ void gated_decode(GM_ADDR mixed, GM_ADDR a, GM_ADDR b, GM_ADDR logs, GM_ADDR biases, GM_ADDR state,
                                                   GM_ADDR places, GM_ADDR out, uint32_t batch, uint32_t heads, uint32_t values) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GatedDecode op;
    op.Init(mixed, a, b, logs, biases, state, places, out);
    op.Run(batch, heads, values);
}
