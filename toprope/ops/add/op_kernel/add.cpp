// z = x1 + alpha * x2. `add_naive`: one buffer per tensor and small tiles, so copies wait for the sum and the sum for copies.
// `add`: two buffers per queue overlap the load of one tile, the sum of another and the store of a third; tiles are as large as UB allows;
// inputs larger than L2 go past it. half and bfloat16 are added as float where alpha is not 1, so that alpha * x2 is not rounded by itself.
#include "kernel_operator.h"
#include "add_tiling_data.h"

using namespace AscendC;

#ifndef DTYPE_X1
#define DTYPE_X1 half
#endif

template <typename T, int buffers>
class KernelAdd {
public:
    __aicore__ inline void Run(GM_ADDR x1, GM_ADDR x2, GM_ADDR z, const AddTilingData& tiling) {
        const float alpha = tiling.alpha;
        const uint64_t begin = tiling.coreLength * GetBlockIdx();
        if (begin >= tiling.length) return;
        const uint64_t left = tiling.length - begin, length = left < tiling.coreLength ? left : tiling.coreLength;
        x1Gm.SetGlobalBuffer((__gm__ T*)x1 + begin, length);
        x2Gm.SetGlobalBuffer((__gm__ T*)x2 + begin, length);
        zGm.SetGlobalBuffer((__gm__ T*)z + begin, length);
        if (tiling.bypassL2) {
            x1Gm.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
            x2Gm.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
        }
        pipe.InitBuffer(x1Queue, buffers, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(x2Queue, buffers, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(zQueue, buffers, tiling.tileLength * sizeof(T));
        if (wide || (sizeof(T) == 2 && alpha != 1.0f)) {
            pipe.InitBuffer(sumBuffer, tiling.tileLength * sizeof(float));
            pipe.InitBuffer(termBuffer, tiling.tileLength * sizeof(float));
        }
        for (uint64_t at = 0; at < length; at += tiling.tileLength) {
            const uint32_t count = length - at < tiling.tileLength ? length - at : tiling.tileLength;
            Load(at, count);
            Compute(count, alpha);
            Store(at, count);
        }
    }

private:
    static constexpr bool wide = IsSameType<T, bfloat16_t>::value;  // the vector unit adds no bfloat16

    __aicore__ static inline DataCopyExtParams Bytes(uint32_t count) { return {1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0}; }
    __aicore__ inline void Load(uint64_t at, uint32_t count) {
        LocalTensor<T> a = x1Queue.template AllocTensor<T>(), b = x2Queue.template AllocTensor<T>();
        const DataCopyPadExtParams<T> none{false, 0, 0, 0};
        DataCopyPad(a, x1Gm[at], Bytes(count), none);
        x1Queue.EnQue(a);
        DataCopyPad(b, x2Gm[at], Bytes(count), none);
        x2Queue.EnQue(b);
    }
    __aicore__ inline void Compute(uint32_t count, float alpha) {
        LocalTensor<T> a = x1Queue.template DeQue<T>(), b = x2Queue.template DeQue<T>(), z = zQueue.template AllocTensor<T>();
        const int32_t n = static_cast<int32_t>(count);
        if constexpr (wide)
            AsFloats(z, a, b, n, alpha);
        else if (alpha == 1.0f)
            Add(z, a, b, n);
        else if constexpr (sizeof(T) == 2)
            AsFloats(z, a, b, n, alpha);
        else {
            Muls(z, b, static_cast<T>(alpha), n);
            Add(z, a, z, n);
        }
        zQueue.EnQue(z);
        x1Queue.FreeTensor(a);
        x2Queue.FreeTensor(b);
    }
    __aicore__ inline void AsFloats(const LocalTensor<T>& z, const LocalTensor<T>& a, const LocalTensor<T>& b, int32_t count, float alpha) {
        if constexpr (sizeof(T) == 2) {
            const LocalTensor<float> sum = sumBuffer.Get<float>(), term = termBuffer.Get<float>();
            Cast(sum, a, RoundMode::CAST_NONE, count);
            Cast(term, b, RoundMode::CAST_NONE, count);
            if (alpha != 1.0f) Muls(term, term, alpha, count);
            Add(sum, sum, term, count);
            Cast(z, sum, RoundMode::CAST_RINT, count);
        }
    }
    __aicore__ inline void Store(uint64_t at, uint32_t count) {
        LocalTensor<T> z = zQueue.template DeQue<T>();
        DataCopyPad(zGm[at], z, Bytes(count));
        zQueue.FreeTensor(z);
    }

    TPipe pipe;
    TQue<TPosition::VECIN, 1> x1Queue, x2Queue;
    TQue<TPosition::VECOUT, 1> zQueue;
    TBuf<TPosition::VECCALC> sumBuffer, termBuffer;
    GlobalTensor<T> x1Gm, x2Gm, zGm;
};

extern "C" __global__ __aicore__ void add(GM_ADDR x1, GM_ADDR x2, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(AddTilingData);
    GET_TILING_DATA(data, tiling);
    KernelAdd<DTYPE_X1, 2>().Run(x1, x2, z, data);
}

extern "C" __global__ __aicore__ void add_naive(GM_ADDR x1, GM_ADDR x2, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(AddTilingData);
    GET_TILING_DATA(data, tiling);
    KernelAdd<DTYPE_X1, 1>().Run(x1, x2, z, data);
}
