// Sizes that kernels and host code both know.
#pragma once

#include <cstdint>

namespace AscendC {
inline constexpr int32_t ONE_BLK_SIZE = 32, BLOCK_CUBE = 16;
}
