// y = 1 / (1 + exp(-x)) on a vector of ELEMENT, TILE elements at a time, two buffers; each core has a share of whole 128 elements.
#include "kernel_operator.h"

using namespace AscendC;

class SigmoidTiles {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, uint32_t count) {
        const uint32_t share = (count / GetBlockNum() + 127) / 128 * 128, first = share * GetBlockIdx();
        if (first >= count) return;
        const uint32_t last = first + share < count ? first + share : count;
        x_.SetGlobalBuffer((__gm__ ELEMENT*)x);
        y_.SetGlobalBuffer((__gm__ ELEMENT*)y);
        pipe_.InitBuffer(in_, 2, TILE * sizeof(ELEMENT));
        pipe_.InitBuffer(out_, 2, TILE * sizeof(ELEMENT));
        pipe_.InitBuffer(ones_, TILE * sizeof(ELEMENT));
        one_ = ones_.Get<ELEMENT>();
        Duplicate(one_, (ELEMENT)1, TILE);
        for (uint32_t at = first; at < last; at += TILE) Tile(at, last - at < TILE ? last - at : TILE);
    }

private:
    __aicore__ inline void Tile(uint32_t at, uint32_t length) {
        const DataCopyExtParams row{1, (uint32_t)(length * sizeof(ELEMENT)), 0, 0, 0};
        LocalTensor<ELEMENT> x = in_.AllocTensor<ELEMENT>(), y = out_.AllocTensor<ELEMENT>();
        DataCopyPad(x, x_[at], row, DataCopyPadExtParams<ELEMENT>{false, 0, 0, 0});
        in_.EnQue(x);
        x = in_.DeQue<ELEMENT>();
        Muls(y, x, (ELEMENT)-1, length);
        Exp(y, y, length);
        Adds(y, y, (ELEMENT)1, length);
        Div(y, one_, y, length);
        out_.EnQue(y);
        in_.FreeTensor(x);
        y = out_.DeQue<ELEMENT>();
        DataCopyPad(y_[at], y, row);
        out_.FreeTensor(y);
    }
    TPipe pipe_;
    TQue<TPosition::VECIN, 2> in_;
    TQue<TPosition::VECOUT, 2> out_;
    TBuf<> ones_;
    LocalTensor<ELEMENT> one_;
    GlobalTensor<ELEMENT> x_, y_;
};

extern "C" __global__ __aicore__ void sigmoid(GM_ADDR x, GM_ADDR y, uint32_t count) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    SigmoidTiles op;
    op.Run(x, y, count);
}
