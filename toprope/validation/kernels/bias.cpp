// y = x + bias on a long vector of fp16, with the addition done eight times on every tile so that the vector unit has work.
// TILE elements at a time, BUFFERS sets of buffers (1 or 2); the bias is loaded with every tile.
#include "kernel_operator.h"

using namespace AscendC;

class AddBias {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR bias, GM_ADDR y, uint64_t count) {
        const uint64_t share = count / GetBlockNum();
        x_.SetGlobalBuffer((__gm__ half*)x + share * GetBlockIdx(), share);
        y_.SetGlobalBuffer((__gm__ half*)y + share * GetBlockIdx(), share);
        bias_.SetGlobalBuffer((__gm__ half*)bias, TILE);
        pipe_.InitBuffer(in_, BUFFERS, TILE * sizeof(half));
        pipe_.InitBuffer(out_, BUFFERS, TILE * sizeof(half));
        pipe_.InitBuffer(biases_, BUFFERS, TILE * sizeof(half));
        for (uint64_t at = 0; at < share; at += TILE) Tile(at);
    }

private:
    __aicore__ inline void Tile(uint64_t at) {
        LocalTensor<half> x = in_.AllocTensor<half>(), added = biases_.AllocTensor<half>();
        DataCopy(x, x_[at], TILE);
        DataCopy(added, bias_, TILE);
        in_.EnQue(x);
        biases_.EnQue(added);
        x = in_.DeQue<half>();
        added = biases_.DeQue<half>();
        LocalTensor<half> y = out_.AllocTensor<half>();
        for (int i = 0; i < 8; ++i) Add(y, x, added, TILE);
        out_.EnQue(y);
        in_.FreeTensor(x);
        biases_.FreeTensor(added);
        y = out_.DeQue<half>();
        DataCopy(y_[at], y, TILE);
        out_.FreeTensor(y);
    }
    TPipe pipe_;
    TQue<TPosition::VECIN, BUFFERS> in_, biases_;
    TQue<TPosition::VECOUT, BUFFERS> out_;
    GlobalTensor<half> x_, bias_, y_;
};

extern "C" __global__ __aicore__ void bias(GM_ADDR x, GM_ADDR bias, GM_ADDR y, uint64_t count) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    AddBias op;
    op.Run(x, bias, y, count);
}
