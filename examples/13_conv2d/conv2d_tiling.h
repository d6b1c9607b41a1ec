// What the host tells the kernel: the shapes, and how many rows of the result make one band.
#pragma once

#include <cstdint>

struct Conv2dTiling {
    uint32_t channelBlocks;  // C / 16
    uint32_t height, width;
    uint32_t filters;  // a multiple of 16
    uint32_t kernelH, kernelW, stride, pad;
    uint32_t outHeight, outWidth;
    uint32_t bandRows;
    uint32_t baseK;  // a multiple of 16
};
