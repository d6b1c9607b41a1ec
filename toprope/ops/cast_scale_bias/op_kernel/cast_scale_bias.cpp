// y = half(float(x) * scale + bias), scale and bias one a column: a chain of four steps in one pass over GM.
//   cast_scale_bias        several rows at a time, two buffers: loads, arithmetic and stores overlap
//   cast_scale_bias_naive  a row at a time, one buffer
#include "kernel_operator.h"
#include "cast_scale_bias_tiling_data.h"

using namespace AscendC;

#ifndef DTYPE_X
#define DTYPE_X int32_t
#endif

constexpr uint32_t LANES = 64, BLOCK = 8, FRAME = 16;  // floats of a repeat and a block; rows in UB are multiples of FRAME elements

__aicore__ inline uint32_t RoundUp(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }
__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

template <typename T, int buffers>
class KernelChain {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR scale, GM_ADDR bias, GM_ADDR y, const CastScaleBiasTilingData& tiling) {
        t = tiling;
        const uint64_t all = static_cast<uint64_t>(t.rows) * t.columns;
        xGm.SetGlobalBuffer((__gm__ T*)x, all);
        yGm.SetGlobalBuffer((__gm__ half*)y, all);
        scaleGm.SetGlobalBuffer((__gm__ float*)scale, t.columns);
        biasGm.SetGlobalBuffer((__gm__ float*)bias, t.columns);
        const uint32_t begin = Least(GetBlockIdx() / t.parts * t.coreRows, t.rows), end = Least(begin + t.coreRows, t.rows);
        const uint32_t from = Least(GetBlockIdx() % t.parts * t.partColumns, t.columns), to = Least(from + t.partColumns, t.columns);
        if (begin == end || from == to) return;
        width = RoundUp(Least(t.piece, to - from), FRAME);
        pipe.InitBuffer(xQueue, buffers, t.tileRows * width * sizeof(T));
        pipe.InitBuffer(yQueue, buffers, t.tileRows * width * sizeof(half));
        pipe.InitBuffer(factorQueue, 1, 2 * width * sizeof(float));
        pipe.InitBuffer(workBuffer, t.tileRows * width * sizeof(float));
        for (uint32_t column = from; column < to; column += t.piece) {
            columns = Least(t.piece, to - column);
            LocalTensor<float> factors = LoadFactors(column);
            for (uint32_t row = begin; row < end; row += t.tileRows)
                Tile(static_cast<uint64_t>(row) * t.columns + column, Least(t.tileRows, end - row), factors);
            factorQueue.FreeTensor(factors);
        }
    }

private:
    // scale, and bias behind it
    __aicore__ inline LocalTensor<float> LoadFactors(uint32_t column) {
        const DataCopyExtParams bytes{1, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0};
        LocalTensor<float> factors = factorQueue.template AllocTensor<float>();
        DataCopyPad(factors, scaleGm[column], bytes, {false, 0, 0, 0});
        DataCopyPad(factors[width], biasGm[column], bytes, {false, 0, 0, 0});
        factorQueue.EnQue(factors);
        return factorQueue.template DeQue<float>();
    }
    __aicore__ inline void Tile(uint64_t at, uint32_t rows, const LocalTensor<float>& factors) {
        constexpr uint32_t each = 32 / sizeof(T);
        LocalTensor<T> x = xQueue.template AllocTensor<T>();
        DataCopyPad(x, xGm[at],
                    {static_cast<uint16_t>(rows), static_cast<uint32_t>(columns * sizeof(T)),
                     static_cast<uint32_t>((t.columns - columns) * sizeof(T)), (width - RoundUp(columns, each)) / each, 0},
                    {false, 0, 0, 0});
        xQueue.EnQue(x);
        x = xQueue.template DeQue<T>();
        const LocalTensor<float> work = workBuffer.Get<float>();
        LocalTensor<half> y = yQueue.template AllocTensor<half>();
        Widen(work, x, rows);
        xQueue.FreeTensor(x);
        Apply<true>(work, factors, rows);
        Apply<false>(work, factors[width], rows);
        if (columns == width)
            Cast(y, work, RoundMode::CAST_RINT, rows * width);
        else
            for (uint32_t r = 0; r < rows; r++) Cast(y[r * width], work[r * width], RoundMode::CAST_RINT, columns);
        yQueue.EnQue(y);
        y = yQueue.template DeQue<half>();
        DataCopyPad(yGm[at], y,
                    {static_cast<uint16_t>(rows), static_cast<uint32_t>(columns * sizeof(half)), (width - RoundUp(columns, FRAME)) / FRAME,
                     static_cast<uint32_t>((t.columns - columns) * sizeof(half)), 0});
        yQueue.FreeTensor(y);
    }
    __aicore__ inline void Widen(const LocalTensor<float>& work, const LocalTensor<T>& x, uint32_t rows) {
        const uint32_t calls = columns == width ? 1 : rows, n = columns == width ? rows * width : columns;
        for (uint32_t r = 0; r < calls; r++) {
            if constexpr (IsSameType<T, float>::value)
                Muls(work[r * width], x[r * width], 1.0f, static_cast<int32_t>(n));  // adding 0 would lose the sign of -0
            else
                Cast(work[r * width], x[r * width], RoundMode::CAST_NONE, n);
        }
    }
    // Every row times or plus the same vector: by 64 columns of all rows when rows are short, else row by row.
    template <bool isMul>
    __aicore__ inline void Apply(const LocalTensor<float>& work, const LocalTensor<float>& vector, uint32_t rows) {
        const bool byColumn = rows * LANES > columns && width / BLOCK <= 255;
        const uint8_t stride = static_cast<uint8_t>(width / BLOCK);
        for (uint32_t i = 0, calls = byColumn ? RoundUp(columns, LANES) / LANES : rows; i < calls; i++) {
            if (byColumn) {
                const uint32_t at = i * LANES;
                const uint64_t mask = Least(LANES, columns - at);
                if constexpr (isMul)
                    Mul(work[at], work[at], vector[at], mask, static_cast<uint8_t>(rows), {1, 1, 1, stride, stride, 0});
                else
                    Add(work[at], work[at], vector[at], mask, static_cast<uint8_t>(rows), {1, 1, 1, stride, stride, 0});
            } else if constexpr (isMul)
                Mul(work[i * width], work[i * width], vector, static_cast<int32_t>(columns));
            else
                Add(work[i * width], work[i * width], vector, static_cast<int32_t>(columns));
        }
    }

    TPipe pipe;
    TQue<TPosition::VECIN, 1> xQueue, factorQueue;
    TQue<TPosition::VECOUT, 1> yQueue;
    TBuf<TPosition::VECCALC> workBuffer;
    GlobalTensor<T> xGm;
    GlobalTensor<half> yGm;
    GlobalTensor<float> scaleGm, biasGm;
    CastScaleBiasTilingData t;
    uint32_t width = 0, columns = 0;
};

extern "C" __global__ __aicore__ void cast_scale_bias(GM_ADDR x, GM_ADDR scale, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                                      GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(CastScaleBiasTilingData);
    GET_TILING_DATA(data, tiling);
    KernelChain<DTYPE_X, 2>().Run(x, scale, bias, y, data);
}

extern "C" __global__ __aicore__ void cast_scale_bias_naive(GM_ADDR x, GM_ADDR scale, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                                            GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(CastScaleBiasTilingData);
    GET_TILING_DATA(data, tiling);
    KernelChain<DTYPE_X, 1>().Run(x, scale, bias, y, data);
}
