// Element-wise work on a vector, TILE elements at a time through queues of two buffers; `share` elements a core, the last core has `last`.
// OPERATION 0: half x * half y. 1: relu of half x. 2: logical or of bytes x, y by way of half. 3: where(byte condition x, half y, half w),
// element by element with the scalar unit.
#include "kernel_operator.h"

using namespace AscendC;

#if OPERATION == 2 || OPERATION == 3
using First = uint8_t;
#else
using First = half;
#endif
#if OPERATION == 2
using Second = uint8_t;
#else
using Second = half;
#endif

class Tiles {
public:
    __aicore__ inline explicit Tiles(TPipe* pipe) : pipe_(pipe) {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR w, GM_ADDR z, GM_ADDR tiling) {
        GlobalTensor<uint32_t> stated;
        stated.SetGlobalBuffer((__gm__ uint32_t*)tiling, 8);
        const uint32_t blocks = stated.GetValue(0), share = stated.GetValue(1), last = stated.GetValue(2), core = GetBlockIdx();
        count_ = core >= blocks ? 0 : core + 1 == blocks ? last : share;
        if (count_ == 0) return;
        first_ = (uint64_t)core * share;
        x_ = (__gm__ First*)x;
        y_ = (__gm__ Second*)y;
        w_ = (__gm__ half*)w;
        z_ = (__gm__ Second*)z;
        pipe_->InitBuffer(inX_, 2, TILE * sizeof(First));
        if (OPERATION != 1) pipe_->InitBuffer(inY_, 2, TILE * sizeof(Second));
        if (OPERATION == 3) pipe_->InitBuffer(inW_, 2, TILE * sizeof(half));
        pipe_->InitBuffer(out_, 2, TILE * sizeof(Second));
        if (OPERATION == 2) pipe_->InitBuffer(wide_, TILE * sizeof(half) * 3);
    }
    __aicore__ inline void Process() {
        for (uint32_t at = 0; at < count_; at += TILE) {
            const uint32_t length = count_ - at < TILE ? count_ - at : TILE;
            Load(inX_, x_ + first_ + at, length);
            if (OPERATION != 1) Load(inY_, y_ + first_ + at, length);
            if (OPERATION == 3) Load(inW_, w_ + first_ + at, length);
            Compute(length);
            Store(at, length);
        }
    }

private:
    template <typename T>
    __aicore__ inline void Load(TQue<TPosition::VECIN, 1>& queue, __gm__ T* from, uint32_t length) {
        LocalTensor<T> to = queue.AllocTensor<T>();
        GlobalTensor<T> source;
        source.SetGlobalBuffer(from, length);
        DataCopyPad(to, source, DataCopyParams{1, static_cast<uint16_t>(length * sizeof(T)), 0, 0}, DataCopyPadParams{false, 0, 0, 0});
        queue.EnQue(to);
    }
    __aicore__ inline void Compute(uint32_t length) {
        LocalTensor<First> x = inX_.DeQue<First>();
#if OPERATION != 1
        LocalTensor<Second> y = inY_.DeQue<Second>();
#endif
#if OPERATION == 3
        LocalTensor<half> w = inW_.DeQue<half>();
#endif
        LocalTensor<Second> z = out_.AllocTensor<Second>();
#if OPERATION == 0
        Mul(z, x, y, length);
#elif OPERATION == 1
        Relu(z, x, length);
#elif OPERATION == 2
        LocalTensor<half> xWide = wide_.Get<half>(), yWide = xWide[TILE], zWide = yWide[TILE];
        Cast(xWide, x, RoundMode::CAST_NONE, length);
        Cast(yWide, y, RoundMode::CAST_NONE, length);
        Max(zWide, xWide, yWide, length);
        Cast(z, zWide, RoundMode::CAST_NONE, length);
#else
        Cast(z, x, RoundMode::CAST_NONE, length);
        for (uint32_t i = 0; i < length; ++i) {
            const float chosen = static_cast<float>(z.GetValue(i));
            const half a = y.GetValue(i), b = w.GetValue(i);
            z.SetValue(i, chosen != 0.0f ? a : b);
        }
#endif
        out_.EnQue(z);
        inX_.FreeTensor(x);
#if OPERATION != 1
        inY_.FreeTensor(y);
#endif
#if OPERATION == 3
        inW_.FreeTensor(w);
#endif
    }
    __aicore__ inline void Store(uint32_t at, uint32_t length) {
        LocalTensor<Second> z = out_.DeQue<Second>();
        GlobalTensor<Second> target;
        target.SetGlobalBuffer(z_ + first_ + at, length);
        DataCopyPad(target, z, DataCopyParams{1, static_cast<uint16_t>(length * sizeof(Second)), 0, 0});
        out_.FreeTensor(z);
    }
    TPipe* pipe_;
    TQue<TPosition::VECIN, 1> inX_, inY_, inW_;
    TQue<TPosition::VECOUT, 1> out_;
    TBuf<TPosition::VECCALC> wide_;
    __gm__ First* x_;
    __gm__ Second* y_;
    __gm__ half* w_;
    __gm__ Second* z_;
    uint64_t first_ = 0;
    uint32_t count_ = 0;
};

extern "C" __global__ __aicore__ void tiles(GM_ADDR x, GM_ADDR y, GM_ADDR w, GM_ADDR z, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    Tiles op(&pipe);
    op.Init(x, y, w, z, tiling);
    op.Process();
}
