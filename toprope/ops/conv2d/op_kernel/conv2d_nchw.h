// From and to NCHW, on the vector cores: sixteen rows of sixteen elements turn at a time (TransDataTo5HD). What fills up a block of sixteen
// channels or filters comes from a row of zeros, so that nothing is written twice.
#pragma once

#include "conv2d_tiling_data.h"
#include "kernel_operator.h"

using namespace AscendC;

using Halves = LocalTensor<half>;

__aicore__ inline uint32_t Blocks(uint32_t length) { return (length + 15) / 16; }

// Buffers in and out, a row of zeros, and the instruction.
template <int buffers>
class Turn {
protected:
    __aicore__ inline void Open(uint32_t elements, uint32_t zeroElements) {
        pipe.InitBuffer(inQueue, buffers, elements * sizeof(half));
        pipe.InitBuffer(outQueue, buffers, elements * sizeof(half));
        pipe.InitBuffer(zeroBuffer, zeroElements * sizeof(half));
        zeros = zeroBuffer.Get<half>();
        Duplicate(zeros, static_cast<half>(0.0f), static_cast<int32_t>(zeroElements));
    }
    // 16 x 16 elements from `from` on, rows `fromRow` apart, to `to`, rows `toRow` apart; and again, `fromNext` and `toNext` further. Rows
    // from `present` on are zeros.
    __aicore__ inline void Blocks16(const Halves& to, uint32_t toRow, uint32_t toNext, const Halves& from, uint32_t fromRow,
                                    uint32_t fromNext, uint32_t times, uint32_t present = 16) {
        Halves source[16], target[16];
        for (uint32_t i = 0; i < 16; i++) {
            source[i] = i < present ? from[i * fromRow] : zeros;
            target[i] = to[i * toRow];
        }
        const bool one = times == 1;  // a single one would begin a step further
        TransDataTo5HD<half>(target, source,
                             {false, false, static_cast<uint8_t>(times), static_cast<uint16_t>(one ? 0 : toNext / 16),
                              static_cast<uint16_t>(one ? 0 : fromNext / 16)});
    }

    TPipe pipe;
    TQue<TPosition::VECIN, 1> inQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> zeroBuffer;
    Halves zeros;
};

// Images: [N, C, P] to [N, C1, P, 16] and back, P pixels. A unit is some pixels of a channel block, or some channel blocks of a small
// image.
template <int buffers>
class TurnImages : Turn<buffers> {
    using Base = Turn<buffers>;
    using Base::inQueue, Base::outQueue;
    static constexpr uint32_t PIXELS = 1024;

public:
    __aicore__ inline TurnImages(GM_ADDR plain, GM_ADDR blocked, uint32_t batch, uint32_t channels, uint32_t pixels)
        : images(batch), planes(channels), area(pixels), blocks(Blocks(channels)) {
        plainGm.SetGlobalBuffer((__gm__ half*)plain, static_cast<uint64_t>(batch) * channels * pixels);
        blockedGm.SetGlobalBuffer((__gm__ half*)blocked, static_cast<uint64_t>(batch) * blocks * pixels * 16);
        Base::Open(16 * PIXELS, PIXELS);
        together = area < PIXELS ? PIXELS / (Blocks(area) * 16) : 1;
        parts = (area + PIXELS - 1) / PIXELS;
    }
    // Units `before` were shared by the cores before these; returns how many there are now.
    template <bool in>
    __aicore__ inline uint32_t Run(uint32_t before) {
        const uint32_t groups = (blocks + together - 1) / together, cores = GetBlockNum() * 2, all = images * groups * parts;
        for (uint32_t i = (GetBlockIdx() + cores - before % cores) % cores; i < all; i += cores) {
            const uint32_t block = i / parts % groups * together, from = i % parts * PIXELS, image = i / (parts * groups);
            wanted = together < blocks - block ? together : blocks - block;
            length = PIXELS < area - from ? PIXELS : area - from;
            row = Blocks(length) * 16;
            present = wanted * 16 < planes - block * 16 ? wanted * 16 : planes - block * 16;
            const uint64_t plain = (static_cast<uint64_t>(image) * planes + block * 16) * area + from;
            const uint64_t blocked = ((static_cast<uint64_t>(image) * blocks + block) * area + from) * 16;
            if constexpr (in)
                ToBlocks(plain, blocked);
            else
                FromBlocks(plain, blocked);
        }
        return before + all;
    }

private:
    __aicore__ inline void ToBlocks(uint64_t plain, uint64_t blocked) {
        Halves tile = inQueue.template AllocTensor<half>();
        DataCopyPad(tile, plainGm[plain],
                    {static_cast<uint16_t>(present), static_cast<uint32_t>(length * sizeof(half)),
                     static_cast<uint32_t>((area - length) * sizeof(half)), 0, 0},
                    {true, 0, static_cast<uint8_t>(row - length), static_cast<half>(0.0f)});
        inQueue.EnQue(tile);
        tile = inQueue.template DeQue<half>();
        Halves turned = outQueue.template AllocTensor<half>();
        for (uint32_t b = 0; b < wanted; b++)
            Base::Blocks16(turned[b * row * 16], 16, 256, tile[b * row * 16], row, 16, row / 16, present - b * 16);
        inQueue.FreeTensor(tile);
        outQueue.EnQue(turned);
        turned = outQueue.template DeQue<half>();
        DataCopy(blockedGm[blocked], turned,
                 DataCopyParams(static_cast<uint16_t>(wanted), static_cast<uint16_t>(length), static_cast<uint16_t>(row - length),
                                static_cast<uint16_t>(area - length)));
        outQueue.FreeTensor(turned);
    }
    __aicore__ inline void FromBlocks(uint64_t plain, uint64_t blocked) {
        Halves tile = inQueue.template AllocTensor<half>();
        DataCopy(tile, blockedGm[blocked],
                 DataCopyParams(static_cast<uint16_t>(wanted), static_cast<uint16_t>(length), static_cast<uint16_t>(area - length),
                                static_cast<uint16_t>(row - length)));
        inQueue.EnQue(tile);
        tile = inQueue.template DeQue<half>();
        Halves turned = outQueue.template AllocTensor<half>();
        for (uint32_t b = 0; b < wanted; b++) {
            if (row != length) Duplicate(tile[(b * row + length) * 16], static_cast<half>(0.0f), static_cast<int32_t>((row - length) * 16));
            Base::Blocks16(turned[b * row * 16], row, 16, tile[b * row * 16], 16, 256, row / 16);
        }
        inQueue.FreeTensor(tile);
        outQueue.EnQue(turned);
        turned = outQueue.template DeQue<half>();
        DataCopyPad(plainGm[plain], turned,
                    {static_cast<uint16_t>(present), static_cast<uint32_t>(length * sizeof(half)), 0,
                     static_cast<uint32_t>((area - length) * sizeof(half)), 0});
        outQueue.FreeTensor(turned);
    }

    GlobalTensor<half> plainGm, blockedGm;
    uint32_t images, planes, area, blocks, together = 1, parts = 1;
    uint32_t wanted = 0, length = 0, row = 0, present = 0;  // of a unit: blocks, pixels, pixels rounded up, channels
};

// Filters: [O, I, taps] to [C1, taps, N1, 16 filters, 16 channels], by way of [channel and tap, 16 filters]. A unit is sixteen filters and
// as many channel blocks of them as fit. A bias is filled up by the core after the last unit.
template <int buffers>
class TurnFilters : Turn<buffers> {
    using Base = Turn<buffers>;
    using Base::inQueue, Base::outQueue;
    static constexpr uint32_t COLUMNS = 1024;

public:
    __aicore__ inline TurnFilters(GM_ADDR plain, GM_ADDR blocked, const Conv2dTilingData& tiling) : t(tiling) {
        taps = t.kernelH * t.kernelW;
        together = taps * 16 < COLUMNS ? COLUMNS / (taps * 16) : 1;
        together = together < t.channelBlocks ? together : t.channelBlocks;
        plainGm.SetGlobalBuffer((__gm__ half*)plain, static_cast<uint64_t>(t.filters) * t.channels * taps);
        blockedGm.SetGlobalBuffer((__gm__ half*)blocked, static_cast<uint64_t>(t.channelBlocks) * taps * t.filterBlocks * 256);
        width = together * taps * 16;
        Base::Open(16 * width, width);
        Base::pipe.InitBuffer(columnBuffer, 16 * width * sizeof(half));
        columns = columnBuffer.Get<half>();
    }
    __aicore__ inline uint32_t Run(uint32_t before) {
        const uint32_t groups = (t.channelBlocks + together - 1) / together, cores = GetBlockNum() * 2, all = t.filterBlocks * groups;
        for (uint32_t i = (GetBlockIdx() + cores - before % cores) % cores; i < all; i += cores) Unit(i / groups, i % groups * together);
        return before + all;
    }
    __aicore__ inline void Fill(GM_ADDR plain, GM_ADDR blocked, uint32_t before) {
        if (GetBlockIdx() != before % (GetBlockNum() * 2)) return;
        GlobalTensor<half> from, to;
        from.SetGlobalBuffer((__gm__ half*)plain, t.filters);
        to.SetGlobalBuffer((__gm__ half*)blocked, t.filterBlocks * 16);
        for (uint32_t at = 0; at < t.filters; at += COLUMNS) {
            const uint32_t n = COLUMNS < t.filters - at ? COLUMNS : t.filters - at, whole = Blocks(n) * 16;
            Halves tile = inQueue.template AllocTensor<half>();
            DataCopyPad(tile, from[at], {1, static_cast<uint32_t>(n * sizeof(half)), 0, 0, 0},
                        {true, 0, static_cast<uint8_t>(whole - n), static_cast<half>(0.0f)});
            inQueue.EnQue(tile);
            tile = inQueue.template DeQue<half>();
            Halves filled = outQueue.template AllocTensor<half>();
            Adds(filled.template ReinterpretCast<int16_t>(), tile.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                 static_cast<int32_t>(whole));
            inQueue.FreeTensor(tile);
            outQueue.EnQue(filled);
            filled = outQueue.template DeQue<half>();
            DataCopy(to[at], filled, whole);
            outQueue.FreeTensor(filled);
        }
    }

private:
    __aicore__ inline void Unit(uint32_t filterBlock, uint32_t block) {
        const uint32_t wanted = together < t.channelBlocks - block ? together : t.channelBlocks - block;
        const uint32_t filters = Present(t.filters, filterBlock), channels = Less(wanted * 16, t.channels - block * 16);
        const uint32_t length = channels * taps, row = Blocks(length) * 16;
        Halves tile = inQueue.template AllocTensor<half>();
        DataCopyPad(tile, plainGm[(static_cast<uint64_t>(filterBlock) * 16 * t.channels + block * 16) * taps],
                    {static_cast<uint16_t>(filters), static_cast<uint32_t>(length * sizeof(half)),
                     static_cast<uint32_t>((t.channels * taps - length) * sizeof(half)), 0, 0},
                    {true, 0, static_cast<uint8_t>(row - length), static_cast<half>(0.0f)});
        inQueue.EnQue(tile);
        tile = inQueue.template DeQue<half>();
        Base::Blocks16(columns, 16, 256, tile, row, 16, row / 16, filters);
        inQueue.FreeTensor(tile);
        Halves turned = outQueue.template AllocTensor<half>();
        for (uint32_t b = 0; b < wanted; b++)
            Base::Blocks16(turned[b * taps * 256], 16, 256, columns[b * taps * 256], taps * 16, 16, taps, Present(t.channels, block + b));
        outQueue.EnQue(turned);
        turned = outQueue.template DeQue<half>();
        DataCopy(blockedGm[(static_cast<uint64_t>(block) * taps * t.filterBlocks + filterBlock) * 256], turned,
                 DataCopyParams(static_cast<uint16_t>(wanted * taps), 16, 0, static_cast<uint16_t>((t.filterBlocks - 1) * 16)));
        outQueue.FreeTensor(turned);
    }
    __aicore__ static inline uint32_t Less(uint32_t a, uint32_t b) { return a < b ? a : b; }
    __aicore__ static inline uint32_t Present(uint32_t all, uint32_t block) { return Less(16, all - block * 16); }

    TBuf<TPosition::VECCALC> columnBuffer;
    GlobalTensor<half> plainGm, blockedGm;
    Halves columns;
    const Conv2dTilingData& t;
    uint32_t taps, together, width = 0;
};
