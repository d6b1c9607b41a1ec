// Tiles of rows of a matrix between GM and UB: loaded padded to whole 32-byte blocks, computed in float, stored without the padding.
// Half types are converted into `works` float tiles: 1 when results may lie where the input was, 2 when both are needed at once.
#pragma once

#include "kernel_operator.h"

template <typename T, uint32_t works>
class RowTiles {
    using Floats = AscendC::LocalTensor<float>;

public:
    // Tiles of up to `tile` elements; `padding` fills what a row lacks to whole blocks.
    __aicore__ inline void Open(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR y, uint64_t size, uint32_t tile, uint32_t buffers, float padding) {
        xGm.SetGlobalBuffer((__gm__ T*)x, size);
        yGm.SetGlobalBuffer((__gm__ T*)y, size);
        pipe.InitBuffer(inQueue, buffers, tile * sizeof(T));
        pipe.InitBuffer(outQueue, buffers, tile * sizeof(T));
        if constexpr (sizeof(T) == 2) pipe.InitBuffer(workBuffer, works * tile * sizeof(float));
        tileFloats = tile;
        fill = padding;
    }

    // The width of rows in UB: `columns` rounded up to whole blocks of T.
    __aicore__ static inline uint32_t Padded(uint32_t columns) {
        constexpr uint32_t each = 32 / sizeof(T);
        return (columns + each - 1) / each * each;
    }

    // `count` rows of `length` elements that follow each other in GM.
    __aicore__ inline void Load(uint64_t offset, uint32_t count, uint32_t length) { Load(inQueue, xGm[offset], count, length, fill); }
    template <typename Queue>
    __aicore__ inline void Load(Queue& queue, const AscendC::GlobalTensor<T>& from, uint32_t count, uint32_t length, float padding) {
        AscendC::LocalTensor<T> x = queue.template AllocTensor<T>();
        const AscendC::DataCopyPadExtParams<T> extra{true, 0, static_cast<uint8_t>(Padded(length) - length), static_cast<T>(padding)};
        AscendC::DataCopyPad(x, from, {static_cast<uint16_t>(count), static_cast<uint32_t>(length * sizeof(T)), 0, 0, 0}, extra);
        queue.EnQue(x);
    }
    __aicore__ inline void Store(uint64_t offset, uint32_t count, uint32_t length) {
        AscendC::LocalTensor<T> y = outQueue.template DeQue<T>();
        AscendC::DataCopyPad(yGm[offset], y, {static_cast<uint16_t>(count), static_cast<uint32_t>(length * sizeof(T)), 0, 0, 0});
        outQueue.FreeTensor(y);
    }

    // The loaded tile as floats: itself, or converted into the first work tile.
    __aicore__ inline Floats AsFloat(const AscendC::LocalTensor<T>& x, uint32_t count) {
        if constexpr (sizeof(T) == 4)
            return x;
        else {
            AscendC::Cast(workBuffer.Get<float>(), x, AscendC::RoundMode::CAST_NONE, count);
            return workBuffer.Get<float>();
        }
    }
    // Where results are computed: the output tile, or the last work tile.
    __aicore__ inline Floats Result(const AscendC::LocalTensor<T>& y) {
        if constexpr (sizeof(T) == 4)
            return y;
        else
            return workBuffer.Get<float>()[(works - 1) * tileFloats];
    }
    __aicore__ inline void Finish(const AscendC::LocalTensor<T>& y, uint32_t count) {
        if constexpr (sizeof(T) == 2) AscendC::Cast(y, Result(y), AscendC::RoundMode::CAST_RINT, count);
        outQueue.EnQue(y);
    }

    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue;

private:
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuffer;
    AscendC::GlobalTensor<T> xGm, yGm;
    uint32_t tileFloats = 0;
    float fill = 0;
};
