// What the host decides for a launch of conv2d. Channels in blocks of 16, other lengths in elements.
#pragma once

#include <cstdint>

struct Conv2dTilingData {
    uint32_t batch;
    uint32_t channels;       // of x, without those that fill up a block
    uint32_t channelBlocks;  // of x
    uint32_t height;         // of x
    uint32_t width;
    uint32_t filters;       // of y, without those that fill up a block
    uint32_t filterBlocks;  // of y
    uint32_t outHeight;
    uint32_t outWidth;
    uint32_t kernelH;
    uint32_t kernelW;
    uint32_t strideH;
    uint32_t strideW;
    uint32_t padTop;
    uint32_t padLeft;
    uint32_t padRight;  // what is below the image follows from outHeight
    uint32_t dilationH;
    uint32_t dilationW;
    uint32_t biased;        // a number for each filter is added
    uint32_t tileM;         // pixels of y in a tile, a multiple of 16
    uint32_t tileN;         // filters in a tile, a multiple of 16
    uint32_t stepK;         // of K in L0 at a time, a multiple of 16
    uint32_t packetBlocks;  // channel blocks that one copy into L1 brings
    uint32_t imageBytes;    // of L1 for the part of x in a packet
};
