// Layer norm of rows of 32 halves, each row by itself with the scalar unit between the vector instructions.
// BY_ROW 0: TILE elements are loaded, widened, stored together, without weights. 1: every row is loaded and stored alone, with weights.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kWidth = 32;

class NormRows {
public:
    __aicore__ inline explicit NormRows(TPipe* pipe) : pipe_(pipe) {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR bias, GM_ADDR y, GM_ADDR tiling) {
        GlobalTensor<uint32_t> stated;
        stated.SetGlobalBuffer((__gm__ uint32_t*)tiling, 8);
        const uint32_t blocks = stated.GetValue(0), share = stated.GetValue(1), last = stated.GetValue(2), core = GetBlockIdx();
        rows_ = core >= blocks ? 0 : core + 1 == blocks ? last : share;
        if (rows_ == 0) return;
        first_ = core * share;
        x_ = (__gm__ half*)x;
        weight_ = (__gm__ half*)weight;
        bias_ = (__gm__ half*)bias;
        y_ = (__gm__ half*)y;
        const uint32_t together = BY_ROW ? kWidth : TILE;
        pipe_->InitBuffer(in_, 2, together * sizeof(half));
        pipe_->InitBuffer(out_, 2, together * sizeof(half));
        pipe_->InitBuffer(xWide_, together * sizeof(float));
        pipe_->InitBuffer(yWide_, together * sizeof(float));
        pipe_->InitBuffer(one_, 32);
        pipe_->InitBuffer(spread_, kWidth * sizeof(float));
        pipe_->InitBuffer(square_, kWidth * sizeof(float));
        pipe_->InitBuffer(loaded_, kWidth * sizeof(half) * 2);
        if (BY_ROW) pipe_->InitBuffer(weightWide_, kWidth * sizeof(float));
        if (BY_ROW) pipe_->InitBuffer(biasWide_, kWidth * sizeof(float));
    }
    __aicore__ inline void Process() {
        if (rows_ == 0) return;
        if (BY_ROW) {
            Weights();
            const LocalTensor<half> loaded = loaded_.Get<half>();
            LocalTensor<float> weight = weightWide_.Get<float>(), bias = biasWide_.Get<float>();
            for (uint32_t i = 0; i < kWidth; ++i) {
                weight.SetValue(i, (float)loaded.GetValue(i));
                bias.SetValue(i, (float)loaded.GetValue(kWidth + i));
            }
            for (uint32_t row = 0; row < rows_; ++row) Tile(first_ + row, 1);
            return;
        }
        for (uint32_t row = 0; row < rows_; row += TILE / kWidth)
            Tile(first_ + row, rows_ - row < TILE / kWidth ? rows_ - row : TILE / kWidth);
    }

private:
    __aicore__ inline void Weights() {
        GlobalTensor<half> source;
        LocalTensor<half> loaded = loaded_.Get<half>();
        source.SetGlobalBuffer(weight_, kWidth);
        DataCopy(loaded, source, kWidth);
        source.SetGlobalBuffer(bias_, kWidth);
        DataCopy(loaded[kWidth], source, kWidth);
    }
    __aicore__ inline void Tile(uint32_t row, uint32_t rows) {
        const uint32_t length = rows * kWidth;
        const DataCopyParams copied{1, static_cast<uint16_t>(length * sizeof(half)), 0, 0};
        GlobalTensor<half> source, target;
        LocalTensor<half> x = in_.AllocTensor<half>();
        source.SetGlobalBuffer(x_ + (uint64_t)row * kWidth, length);
        DataCopyPad(x, source, copied, DataCopyPadParams{false, 0, 0, 0});
        in_.EnQue(x);
        x = in_.DeQue<half>();
        LocalTensor<float> xWide = xWide_.Get<float>(), yWide = yWide_.Get<float>();
        Cast(xWide, x, RoundMode::CAST_NONE, length);
        if (BY_ROW) in_.FreeTensor(x);
        if (!BY_ROW) Weights();
        for (uint32_t r = 0; r < rows; ++r) Row(xWide[r * kWidth], yWide[r * kWidth]);
        LocalTensor<half> y = out_.AllocTensor<half>();
        Cast(y, yWide, RoundMode::CAST_RINT, length);
        out_.EnQue(y);
        if (!BY_ROW) in_.FreeTensor(x);
        y = out_.DeQue<half>();
        target.SetGlobalBuffer(y_ + (uint64_t)row * kWidth, length);
        DataCopyPad(target, y, copied);
        out_.FreeTensor(y);
    }
    __aicore__ inline void Row(const LocalTensor<float>& x, const LocalTensor<float>& y) {
        constexpr float kShare = 1.0f / kWidth, kEpsilon = 1e-5f;
        LocalTensor<float> one = one_.Get<float>(), spread = spread_.Get<float>(), square = square_.Get<float>();
        ReduceSum<float>(one, x, y, (int32_t)kWidth);
        const float mean = one.GetValue(0) * kShare;
        Adds(y, x, -mean, kWidth);
        Mul(square, y, y, kWidth);
        ReduceSum<float>(one, square, spread, (int32_t)kWidth);
        const float variance = one.GetValue(0) * kShare;
        Duplicate(spread, variance + kEpsilon, kWidth);
        Sqrt(spread, spread, kWidth);
        const float scale = 1.0f / spread.GetValue(0);
        Duplicate(spread, scale, kWidth);
        Mul(y, y, spread, kWidth);
        if (BY_ROW) {
            Mul(y, y, weightWide_.Get<float>(), kWidth);
            Add(y, y, biasWide_.Get<float>(), kWidth);
        }
    }
    TPipe* pipe_;
    TQue<TPosition::VECIN, 1> in_;
    TQue<TPosition::VECOUT, 1> out_;
    TBuf<TPosition::VECCALC> xWide_, yWide_, one_, spread_, square_, loaded_, weightWide_, biasWide_;
    __gm__ half *x_, *weight_, *bias_, *y_;
    uint32_t first_ = 0, rows_ = 0;
};

extern "C" __global__ __aicore__ void norm_rows(GM_ADDR x, GM_ADDR weight, GM_ADDR bias, GM_ADDR y, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    NormRows op(&pipe);
    op.Init(x, weight, bias, y, tiling);
    op.Process();
}
