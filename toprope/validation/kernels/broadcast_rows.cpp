// Work in which one number belongs to a row of WIDTH elements of half, through queues of two buffers; `share` rows a core.
// OPERATION 0: every row of x divided by its number, TILE elements at a time: Duplicate and Div row by row. 1: the number spread over its
// row, one row at a time; the first `more` cores have one row more.
#include "kernel_operator.h"

using namespace AscendC;

class Rows {
public:
    __aicore__ inline explicit Rows(TPipe* pipe) : pipe_(pipe) {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR numbers, GM_ADDR y, GM_ADDR tiling) {
        GlobalTensor<uint32_t> stated;
        stated.SetGlobalBuffer((__gm__ uint32_t*)tiling, 8);
        const uint32_t blocks = stated.GetValue(0), share = stated.GetValue(1), last = stated.GetValue(2), core = GetBlockIdx();
        const uint32_t more = stated.GetValue(3);
        x_ = (__gm__ half*)x;
        numbers_ = (__gm__ half*)numbers;
        y_ = (__gm__ half*)y;
        first_ = core * share + (core < more ? core : more);
        count_ = core >= blocks ? 0 : core + 1 == blocks ? last : share + (core < more ? 1 : 0);
        if (count_ == 0) return;
        if (OPERATION == 0) pipe_->InitBuffer(inX_, 2, TILE * sizeof(half));
        pipe_->InitBuffer(inNumbers_, 2, (OPERATION == 0 ? TILE / WIDTH : 1) * sizeof(half));
        pipe_->InitBuffer(out_, 2, (OPERATION == 0 ? TILE : WIDTH) * sizeof(half));
    }
    __aicore__ inline void Process() {
        const uint32_t step = OPERATION == 0 ? TILE / WIDTH : 1;
        for (uint32_t row = 0; row < count_; row += step) {
            const uint32_t rows = count_ - row < step ? count_ - row : step;
            if (OPERATION == 0) Load(inX_, x_ + (uint64_t)(first_ + row) * WIDTH, rows * WIDTH);
            Load(inNumbers_, numbers_ + first_ + row, rows);
            Compute(rows);
            LocalTensor<half> y = out_.DeQue<half>();
            GlobalTensor<half> target;
            target.SetGlobalBuffer(y_ + (uint64_t)(first_ + row) * WIDTH, rows * WIDTH);
            DataCopyPad(target, y, DataCopyParams{1, static_cast<uint16_t>(rows * WIDTH * sizeof(half)), 0, 0});
            out_.FreeTensor(y);
        }
    }

private:
    template <typename Queue>
    __aicore__ inline void Load(Queue& queue, __gm__ half* from, uint32_t length) {
        LocalTensor<half> to = queue.template AllocTensor<half>();
        GlobalTensor<half> source;
        source.SetGlobalBuffer(from, length);
        DataCopyPad(to, source, DataCopyParams{1, static_cast<uint16_t>(length * sizeof(half)), 0, 0}, DataCopyPadParams{false, 0, 0, 0});
        queue.EnQue(to);
    }
    __aicore__ inline void Compute(uint32_t rows) {
#if OPERATION == 0
        LocalTensor<half> x = inX_.DeQue<half>();
#endif
        LocalTensor<half> numbers = inNumbers_.DeQue<half>(), y = out_.AllocTensor<half>();
        for (uint32_t r = 0; r < rows; ++r) {
            const half number = numbers.GetValue(r);
            Duplicate(y[r * WIDTH], number, WIDTH);
#if OPERATION == 0
            Div(y[r * WIDTH], x[r * WIDTH], y[r * WIDTH], WIDTH);
#endif
        }
        out_.EnQue(y);
#if OPERATION == 0
        inX_.FreeTensor(x);
#endif
        inNumbers_.FreeTensor(numbers);
    }
    TPipe* pipe_;
    TQue<TPosition::VECIN, QUEUE_DEPTH> inX_, inNumbers_;
    TQue<TPosition::VECOUT, QUEUE_DEPTH> out_;
    __gm__ half *x_, *numbers_, *y_;
    uint32_t first_ = 0, count_ = 0;
};

extern "C" __global__ __aicore__ void broadcast_rows(GM_ADDR x, GM_ADDR numbers, GM_ADDR y, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    Rows op(&pipe);
    op.Init(x, numbers, y, tiling);
    op.Process();
}
