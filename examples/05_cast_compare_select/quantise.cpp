// q = the int8 nearest to x * scale, where outliers (|x| > limit) become 0. Three things that every quantising kernel meets:
//   Cast            half -> float to compute, float -> half -> int8 to store; each pair has its own rounding modes
//   CompareScalar   one result bit per element: 1,024 floats give 128 bytes
//   Select          picks by those bits
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t TILE = 1024;  // a multiple of 64: Compare works on whole repeats of 256 bytes

class Quantise {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR q, float scale, float limit, uint32_t totalLength) {
        this->scale = scale;
        this->limit = limit;
        const uint32_t length = totalLength / GetBlockNum();
        tiles = length / TILE;
        xGm.SetGlobalBuffer((__gm__ half*)x + length * GetBlockIdx(), length);
        qGm.SetGlobalBuffer((__gm__ int8_t*)q + length * GetBlockIdx(), length);
        pipe.InitBuffer(xQueue, 2, TILE * sizeof(half));
        pipe.InitBuffer(qQueue, 2, TILE * sizeof(int8_t));
        pipe.InitBuffer(values, TILE * sizeof(float));
        pipe.InitBuffer(sizes, TILE * sizeof(float));
        pipe.InitBuffer(bits, TILE / 8);
    }

    __aicore__ inline void Process() {
        for (uint32_t i = 0; i < tiles; i++) {
            LocalTensor<half> x = xQueue.AllocTensor<half>();
            DataCopy(x, xGm[i * TILE], TILE);
            xQueue.EnQue(x);
            Compute();
            LocalTensor<int8_t> q = qQueue.DeQue<int8_t>();
            DataCopy(qGm[i * TILE], q, TILE);
            qQueue.FreeTensor(q);
        }
    }

private:
    __aicore__ inline void Compute() {
        LocalTensor<half> x = xQueue.DeQue<half>();
        LocalTensor<int8_t> q = qQueue.AllocTensor<int8_t>();
        LocalTensor<float> value = values.Get<float>(), size = sizes.Get<float>();
        LocalTensor<uint8_t> inside = bits.Get<uint8_t>();

        Cast(value, x, RoundMode::CAST_NONE, TILE);  // half -> float loses nothing
        Abs(size, value, TILE);
        CompareScalar(inside, size, limit, CMPMODE::LE, TILE);
        Select(value, inside, value, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, TILE);
        Muls(value, value, scale, TILE);
        // There is no float -> int8: round to an integer first, so that the way through half cannot round a second time.
        Cast(value, value, RoundMode::CAST_RINT, TILE);
        Cast(x, value, RoundMode::CAST_NONE, TILE);
        Cast(q, x, RoundMode::CAST_NONE, TILE);  // saturates at -128 and 127

        qQueue.EnQue(q);
        xQueue.FreeTensor(x);
    }

    TPipe pipe;
    TQue<TPosition::VECIN, 1> xQueue;
    TQue<TPosition::VECOUT, 1> qQueue;
    TBuf<TPosition::VECCALC> values, sizes, bits;
    GlobalTensor<half> xGm;
    GlobalTensor<int8_t> qGm;
    float scale = 0, limit = 0;
    uint32_t tiles = 0;
};

extern "C" __global__ __aicore__ void quantise(GM_ADDR x, GM_ADDR q, float scale, float limit, uint32_t totalLength) {
    Quantise op;
    op.Init(x, q, scale, limit, totalLength);
    op.Process();
}
