// What the host computes for a launch: how much each core does, and in which pieces. Lengths in elements.
#pragma once

#include <cstdint>

struct AddTilingData {
    uint32_t totalLength;
    uint32_t coreLength;  // per core; a multiple of 32 bytes, so that every core starts on a block of its own
    uint32_t tileLength;  // per step; two of each of the three tensors must fit into UB
};
