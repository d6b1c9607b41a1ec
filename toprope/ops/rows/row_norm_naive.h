// Layer norm and RMS norm as the formula stands: row by row, three walks over each, one buffer, row values in scalars.
#pragma once

#include "kernel_operator.h"
#include "row_norm_tiling_data.h"

template <typename T, bool centred>
class NormNaive {
    using Floats = AscendC::LocalTensor<float>;

public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                               const RowNormTilingData& tiling) {
        const uint64_t size = static_cast<uint64_t>(tiling.rows) * tiling.columns;
        xGm.SetGlobalBuffer((__gm__ T*)x, size);
        yGm.SetGlobalBuffer((__gm__ T*)y, size);
        gammaGm.SetGlobalBuffer((__gm__ T*)gamma, tiling.columns);
        rstdGm.SetGlobalBuffer((__gm__ float*)rstd, tiling.rows);
        if constexpr (centred) {
            betaGm.SetGlobalBuffer((__gm__ T*)beta, tiling.columns);
            meanGm.SetGlobalBuffer((__gm__ float*)mean, tiling.rows);
        }
        pipe.InitBuffer(inQueue, 1, PIECE * sizeof(T));
        pipe.InitBuffer(outQueue, 1, PIECE * sizeof(T));
        pipe.InitBuffer(sideQueue, 1, 32);
        pipe.InitBuffer(floatBuffer, PIECE * sizeof(float));
        pipe.InitBuffer(weightBuffer, PIECE * sizeof(float));
        pipe.InitBuffer(reduceBuffer, PIECE * sizeof(float));
        for (uint32_t row = AscendC::GetBlockIdx(); row < tiling.rows; row += AscendC::GetBlockNum()) Row(row, tiling);
    }

private:
    static constexpr uint32_t PIECE = 4096;

    __aicore__ inline void Row(uint32_t row, const RowNormTilingData& tiling) {
        const uint32_t columns = tiling.columns;
        const uint64_t offset = static_cast<uint64_t>(row) * columns;
        const Floats values = floatBuffer.Get<float>(), weights = weightBuffer.Get<float>();
        float average = 0, squares = 0;
        if constexpr (centred) {
            for (uint32_t at = 0; at < columns; at += PIECE) {
                const int32_t count = Load(xGm[offset + at], values, columns - at);
                average += Sum(values, count);
            }
            average /= static_cast<float>(columns);
        }
        for (uint32_t at = 0; at < columns; at += PIECE) {
            const int32_t count = Load(xGm[offset + at], values, columns - at);
            AscendC::Adds(values, values, -average, count);
            AscendC::Mul(values, values, values, count);
            squares += Sum(values, count);
        }
        const float scale = Rstd(squares / static_cast<float>(columns) + tiling.epsilon, row, average);
        for (uint32_t at = 0; at < columns; at += PIECE) {
            const int32_t count = Load(xGm[offset + at], values, columns - at);
            AscendC::Adds(values, values, -average, count);
            AscendC::Muls(values, values, scale, count);
            Load(gammaGm[at], weights, columns - at);
            AscendC::Mul(values, values, weights, count);
            if constexpr (centred) {
                Load(betaGm[at], weights, columns - at);
                AscendC::Add(values, values, weights, count);
            }
            Store(offset + at, count);
        }
    }
    __aicore__ inline int32_t Load(const AscendC::GlobalTensor<T>& from, const Floats& to, uint32_t left) {
        const uint32_t count = left < PIECE ? left : PIECE;
        AscendC::LocalTensor<T> x = inQueue.template AllocTensor<T>();
        AscendC::DataCopyPad(x, from, {1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0}, {false, 0, 0, 0});
        inQueue.EnQue(x);
        x = inQueue.template DeQue<T>();
        if constexpr (sizeof(T) == 4)
            AscendC::Adds(to, x, 0.0f, static_cast<int32_t>(count));
        else
            AscendC::Cast(to, x, AscendC::RoundMode::CAST_NONE, count);
        inQueue.FreeTensor(x);
        return static_cast<int32_t>(count);
    }
    __aicore__ inline float Sum(const Floats& values, int32_t count) {
        const Floats room = reduceBuffer.Get<float>();
        AscendC::ReduceSum(room, values, room, count);
        return room.GetValue(0);
    }
    // 1 / sqrt(variance) through the vector unit; it and the mean are stored as they are.
    __aicore__ inline float Rstd(float variance, uint32_t row, float average) {
        const AscendC::DataCopyExtParams bytes{1, sizeof(float), 0, 0, 0};
        if constexpr (centred) {
            Floats side = sideQueue.template AllocTensor<float>();
            AscendC::Duplicate(side, average, 8);
            sideQueue.EnQue(side);
            side = sideQueue.template DeQue<float>();
            AscendC::DataCopyPad(meanGm[row], side, bytes);
            sideQueue.FreeTensor(side);
        }
        const Floats room = reduceBuffer.Get<float>();
        Floats side = sideQueue.template AllocTensor<float>();
        AscendC::Duplicate(room, variance, 8);
        AscendC::Sqrt(room, room, 8);
        AscendC::Duplicate(side, 1.0f, 8);
        AscendC::Div(side, side, room, 8);
        const float scale = side.GetValue(0);
        sideQueue.EnQue(side);
        side = sideQueue.template DeQue<float>();
        AscendC::DataCopyPad(rstdGm[row], side, bytes);
        sideQueue.FreeTensor(side);
        return scale;
    }
    __aicore__ inline void Store(uint64_t offset, int32_t count) {
        AscendC::LocalTensor<T> y = outQueue.template AllocTensor<T>();
        if constexpr (sizeof(T) == 4)
            AscendC::Adds(y, floatBuffer.Get<float>(), 0.0f, count);
        else
            AscendC::Cast(y, floatBuffer.Get<float>(), AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
        outQueue.EnQue(y);
        y = outQueue.template DeQue<T>();
        AscendC::DataCopyPad(yGm[offset], y, {1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0});
        outQueue.FreeTensor(y);
    }

    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue, sideQueue;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuffer, weightBuffer, reduceBuffer;
    AscendC::GlobalTensor<T> xGm, yGm, gammaGm, betaGm;
    AscendC::GlobalTensor<float> meanGm, rstdGm;
};
