// What the host decides for a launch of add. Lengths in elements.
#pragma once

#include <cstdint>

struct AddTilingData {
    uint64_t length;
    uint64_t coreLength;  // per core; a multiple of 512 bytes, so that every core's copies start on whole lines of L2
    uint32_t tileLength;  // per step
    float alpha;
    uint32_t bypassL2;  // 1 when the tensors are larger than L2: data that is used once then does not push out what others need
};
