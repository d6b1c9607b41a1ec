// What the host decides for a launch of pow. Lengths in elements.
#pragma once

#include <cstdint>

struct PowTilingData {
    uint64_t length;
    uint64_t coreLength;  // per core; a multiple of 512 bytes, so that every core's copies start on whole lines of L2
};
