// The convolution itself, on the cube: a tile of y is a product of pixels x filters whose left matrix is never stored; the load into L0A
// makes its rows out of the image in L1 (im2col). x and y are NC1HWC0, w is FRACTAL_Z, [C1, KH, KW, N1, 16, 16]; bias has a number for each
// filter of these blocks.
#pragma once

#include "conv2d_tiling_data.h"
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t C0 = 16, FRACTAL = 16 * C0;

__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

template <uint32_t buffers, bool unitFlag>
class KernelConv2d {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR w, GM_ADDR bias, GM_ADDR y, const Conv2dTilingData& tiling) {
        t = tiling;
        taps = t.kernelH * t.kernelW;
        pixels = t.outHeight * t.outWidth;
        xGm.SetGlobalBuffer((__gm__ half*)x, static_cast<uint64_t>(t.batch) * t.channelBlocks * t.height * t.width * C0);
        wGm.SetGlobalBuffer((__gm__ half*)w, static_cast<uint64_t>(t.channelBlocks) * taps * t.filterBlocks * FRACTAL);
        biasGm.SetGlobalBuffer((__gm__ half*)bias, static_cast<uint64_t>(t.filterBlocks) * C0);
        yGm.SetGlobalBuffer((__gm__ half*)y, static_cast<uint64_t>(t.batch) * t.filterBlocks * pixels * C0);
        imageSize = t.imageBytes / sizeof(half);
        weightSize = t.packetBlocks * taps * t.tileN * C0;
        pipe.InitBuffer(image1, buffers * t.imageBytes);
        pipe.InitBuffer(weight1, buffers * weightSize * sizeof(half));
        pipe.InitBuffer(a2, buffers * t.tileM * t.stepK * sizeof(half));
        pipe.InitBuffer(b2, buffers * t.tileN * t.stepK * sizeof(half));
        pipe.InitBuffer(c0, t.tileM * t.tileN * sizeof(float));
        if (t.biased) {
            pipe.InitBuffer(bias1, buffers * t.tileN * sizeof(half));
            pipe.InitBuffer(biasTable, t.tileN * sizeof(float));
        }
        Free(true);
        const uint32_t tilesM = (pixels + t.tileM - 1) / t.tileM, tilesN = (t.filterBlocks * C0 + t.tileN - 1) / t.tileN;
        for (uint32_t i = GetBlockIdx(); i < t.batch * tilesM * tilesN; i += GetBlockNum())
            Tile(i / (tilesM * tilesN), i / tilesN % tilesM * t.tileM, i % tilesN * t.tileN);
        Free(false);
    }

private:
    // Every buffer starts free, and a kernel ends when every buffer is free again.
    __aicore__ inline void Free(bool atStart) {
        for (uint32_t i = 0; i < buffers; i++) {
            if (atStart) {
                SetFlag<HardEvent::MTE1_MTE2>(i);
                SetFlag<HardEvent::M_MTE1>(i);
            } else {
                WaitFlag<HardEvent::MTE1_MTE2>(i);
                WaitFlag<HardEvent::M_MTE1>(i);
            }
        }
        if constexpr (!unitFlag) {
            if (atStart)
                SetFlag<HardEvent::FIX_M>(0);
            else
                WaitFlag<HardEvent::FIX_M>(0);
        }
        if (t.biased) {
            if (atStart)
                SetFlag<HardEvent::M_MTE1>(BIAS);
            else
                WaitFlag<HardEvent::M_MTE1>(BIAS);
        }
    }

    // Pixels [pixel, pixel + rows) of image `batch`, filters from `filter` on.
    __aicore__ inline void Tile(uint32_t batch, uint32_t pixel, uint32_t filter) {
        rows = Least(t.tileM, pixels - pixel);
        columns = Least(t.tileN, t.filterBlocks * C0 - filter);
        Window(pixel);
        if constexpr (!unitFlag) WaitFlag<HardEvent::FIX_M>(0);
        if constexpr (buffers == 2) Load(batch, filter, 0);
        for (uint32_t at = 0; at < t.channelBlocks; at += t.packetBlocks) {
            if constexpr (buffers == 1)
                Load(batch, filter, at);
            else if (at + t.packetBlocks < t.channelBlocks)
                Load(batch, filter, at + t.packetBlocks);
            WaitFlag<HardEvent::MTE2_MTE1>(used);
            const uint32_t blocks = Least(t.packetBlocks, t.channelBlocks - at), depth = blocks * taps * C0;
            for (uint32_t k = 0; k < depth; k += t.stepK)
                Multiply(blocks, k, Least(t.stepK, depth - k), at == 0 && k == 0, at + blocks == t.channelBlocks && k + t.stepK >= depth);
            SetFlag<HardEvent::MTE1_MTE2>(used);
            used = (used + 1) % buffers;
        }
        Store(batch, pixel, filter);
    }

    // The rows of the image that the tile's pixels need; what lies outside the image is padding.
    __aicore__ inline void Window(uint32_t pixel) {
        const int32_t top = static_cast<int32_t>(pixel / t.outWidth), bottom = static_cast<int32_t>((pixel + rows - 1) / t.outWidth);
        const int32_t stride = static_cast<int32_t>(t.strideH), pad = static_cast<int32_t>(t.padTop),
                      height = static_cast<int32_t>(t.height);
        const int32_t first = top * stride - pad, end = bottom * stride - pad + static_cast<int32_t>((t.kernelH - 1) * t.dilationH) + 1;
        const int32_t from = first < 0 ? 0 : first, to = end > height ? height : end;
        imageRow = static_cast<uint32_t>(from);
        imageRows = static_cast<uint32_t>(to - from);
        spread.padList[0] = static_cast<uint8_t>(t.padLeft);
        spread.padList[1] = static_cast<uint8_t>(t.padRight);
        spread.padList[2] = static_cast<uint8_t>(from - first);
        spread.padList[3] = static_cast<uint8_t>(end - to);
        spread.l1H = static_cast<uint16_t>(imageRows);
        spread.l1W = static_cast<uint16_t>(t.width);
        spread.filterW = static_cast<uint8_t>(t.kernelW);
        spread.filterH = static_cast<uint8_t>(t.kernelH);
        spread.strideW = static_cast<uint8_t>(t.strideW);
        spread.strideH = static_cast<uint8_t>(t.strideH);
        spread.dilationFilterW = static_cast<uint8_t>(t.dilationW);
        spread.dilationFilterH = static_cast<uint8_t>(t.dilationH);
        spread.mExtension = static_cast<uint16_t>((rows + 15) / 16 * 16);
        spread.mStartPt = static_cast<uint16_t>(pixel - static_cast<uint32_t>(top) * t.outWidth);
    }

    // Some channel blocks of these rows, and the weights of the tile's filters for them.
    __aicore__ inline void Load(uint32_t batch, uint32_t filter, uint32_t at) {
        const uint32_t blocks = Least(t.packetBlocks, t.channelBlocks - at), wanted = columns / C0;
        const uint64_t row = (static_cast<uint64_t>(batch) * t.channelBlocks + at) * t.height + imageRow;
        WaitFlag<HardEvent::MTE1_MTE2>(filled);
        DataCopy(image1.Get<half>()[filled * imageSize], xGm[row * t.width * C0],
                 DataCopyParams(blocks, imageRows * t.width, (t.height - imageRows) * t.width, 0));
        DataCopy(weight1.Get<half>()[filled * weightSize], wGm[(static_cast<uint64_t>(at) * taps * t.filterBlocks + filter / C0) * FRACTAL],
                 DataCopyParams(blocks * taps, wanted * C0, (t.filterBlocks - wanted) * C0, 0));
        if (t.biased && at == 0) DataCopy(bias1.Get<half>()[filled * t.tileN], biasGm[filter], columns);
        SetFlag<HardEvent::MTE2_MTE1>(filled);
        filled = (filled + 1) % buffers;
    }

    // Columns [k, k + depth) of the spread image times the weights of these.
    __aicore__ inline void Multiply(uint32_t blocks, uint32_t k, uint32_t depth, bool first, bool last) {
        const LocalTensor<half> left = a2.Get<half>()[half_ * t.tileM * t.stepK], right = b2.Get<half>()[half_ * t.tileN * t.stepK];
        WaitFlag<HardEvent::M_MTE1>(half_);
        spread.channelSize = static_cast<uint16_t>(blocks * C0);
        spread.kStartPt = static_cast<uint16_t>(k);
        spread.kExtension = static_cast<uint16_t>(depth);
        LoadData(left, image1.Get<half>()[used * imageSize], spread);
        LoadData2DParams weights;
        weights.startIndex = static_cast<uint16_t>(k / C0 * (columns / C0));
        weights.repeatTimes = static_cast<uint8_t>(depth / C0 * (columns / C0));
        weights.srcStride = 1;
        LoadData(right, weight1.Get<half>()[used * weightSize], weights);
        const bool biased = first && t.biased;
        if (biased) {
            WaitFlag<HardEvent::M_MTE1>(BIAS);
            DataCopy(biasTable.Get<float>(), bias1.Get<half>()[used * t.tileN],
                     DataCopyParams(1, static_cast<uint16_t>(columns / C0), 0, 0));
        }
        SetFlag<HardEvent::MTE1_M>(half_);
        WaitFlag<HardEvent::MTE1_M>(half_);
        MmadParams product;
        product.m = (rows + 15) / 16 * 16;  // one row alone would be taken for a vector, laid out differently
        product.n = columns;
        product.k = depth;
        product.cmatrixInitVal = first;
        if constexpr (unitFlag) product.unitFlag = last ? 3 : 2;
        if (biased) {
            Mmad(c0.Get<float>(), left, right, biasTable.Get<float>(), product);
            SetFlag<HardEvent::M_MTE1>(BIAS);
        } else
            Mmad(c0.Get<float>(), left, right, product);
        if (product.m / 16 * (columns / 16) < 10) PipeBarrier<PIPE_M>();  // the next product adds to fractals still on their way
        SetFlag<HardEvent::M_MTE1>(half_);
        half_ = (half_ + 1) % buffers;
    }

    __aicore__ inline void Store(uint32_t batch, uint32_t pixel, uint32_t filter) {
        if constexpr (!unitFlag) {
            SetFlag<HardEvent::M_FIX>(0);
            WaitFlag<HardEvent::M_FIX>(0);
        }
        FixpipeParamsV220 store;
        store.nSize = static_cast<uint16_t>(columns);
        store.mSize = static_cast<uint16_t>(rows);
        store.srcStride = static_cast<uint16_t>((rows + 15) / 16 * 16);
        store.dstStride = pixels;  // from 16 filters to the next 16, in blocks
        store.quantPre = QuantMode_t::F322F16;
        store.unitFlag = unitFlag ? 3 : 0;
        const uint64_t place = ((static_cast<uint64_t>(batch) * t.filterBlocks + filter / C0) * pixels + pixel) * C0;
        Fixpipe<half, float, CFG_NZ>(yGm[place], c0.Get<float>(), store);
        if constexpr (!unitFlag) SetFlag<HardEvent::FIX_M>(0);
    }

    static constexpr int32_t BIAS = 2;  // the event after those of the halves of L0

    TPipe pipe;
    TBuf<TPosition::A1> image1;
    TBuf<TPosition::B1> weight1;
    TBuf<TPosition::C1> bias1;
    TBuf<TPosition::C2> biasTable;
    TBuf<TPosition::A2> a2;
    TBuf<TPosition::B2> b2;
    TBuf<TPosition::CO1> c0;
    GlobalTensor<half> xGm, wGm, biasGm, yGm;
    Conv2dTilingData t;
    LoadData3DParamsV2<half> spread;
    uint32_t taps = 0, pixels = 0, imageSize = 0, weightSize = 0, rows = 0, columns = 0, imageRow = 0, imageRows = 0;
    uint32_t filled = 0, used = 0, half_ = 0;  // buffers of L1 to fill and to use next, buffers of L0 to use next
};
