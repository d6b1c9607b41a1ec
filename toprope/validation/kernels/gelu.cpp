// y = gelu(x) on floats with the library's Gelu, TILE elements at a time through queues of two buffers, an equal share a core.
#include "kernel_operator.h"

using namespace AscendC;

class GeluTiles {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, uint32_t total) {
        const uint64_t share = total / GetBlockNum();
        x_.SetGlobalBuffer((__gm__ float*)x + share * GetBlockIdx(), share);
        y_.SetGlobalBuffer((__gm__ float*)y + share * GetBlockIdx(), share);
        pipe_.InitBuffer(in_, 2, TILE * sizeof(float));
        pipe_.InitBuffer(out_, 2, TILE * sizeof(float));
        for (uint64_t at = 0; at < share; at += TILE) {
            LocalTensor<float> loaded = in_.AllocTensor<float>();
            DataCopy(loaded, x_[at], TILE);
            in_.EnQue(loaded);
            loaded = in_.DeQue<float>();
            LocalTensor<float> result = out_.AllocTensor<float>();
            Gelu(result, loaded, TILE);
            out_.EnQue(result);
            in_.FreeTensor(loaded);
            result = out_.DeQue<float>();
            DataCopy(y_[at], result, TILE);
            out_.FreeTensor(result);
        }
    }

private:
    TPipe pipe_;
    TQue<TPosition::VECIN, 2> in_;
    TQue<TPosition::VECOUT, 2> out_;
    GlobalTensor<float> x_, y_;
};

extern "C" __global__ __aicore__ void gelu(GM_ADDR x, GM_ADDR y, uint32_t total) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GeluTiles op;
    op.Run(x, y, total);
}
