// Everything that computes tilings of the library's own functions.
#pragma once

#include "../graph/operator.h"
#include "../register/vendor_tilings.h"
#include "matmul_tiling.h"
#include "platform/platform_ascendc.h"
#include "row_tiling.h"
#include "transpose_tiling.h"
#include "vector_sizes.h"

namespace AscendC {
inline constexpr int32_t BLOCK_CUBE = 16, ONE_BLK_SIZE = 32;
}
