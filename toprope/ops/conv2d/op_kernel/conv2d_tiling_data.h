// What the host decides for a launch of conv2d. Channels in blocks of 16, other lengths in elements.
#pragma once

#include <cstdint>

struct Conv2dTilingData {
    uint32_t batch;
    uint32_t channelBlocks;  // of x
    uint32_t height;         // of x
    uint32_t width;
    uint32_t filterBlocks;  // of y
    uint32_t outHeight;
    uint32_t outWidth;
    uint32_t kernelH;
    uint32_t kernelW;
    uint32_t stride;
    uint32_t pad;
    uint32_t dilation;
    uint32_t tileM;         // pixels of y in a tile, a multiple of 16
    uint32_t tileN;         // filters in a tile, a multiple of 16
    uint32_t stepK;         // of K in L0 at a time, a multiple of 16
    uint32_t packetBlocks;  // channel blocks that one copy into L1 brings
    uint32_t imageBytes;    // of L1 for the part of x in a packet
};
