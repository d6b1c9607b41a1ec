// Everything that computes tilings of the library's own functions.
#pragma once

#include "../../machine/block_sizes.h"
#include "../graph/operator.h"
#include "../register/vendor_tilings.h"
#include "matmul_tiling.h"
#include "platform/platform_ascendc.h"
#include "row_tiling.h"
#include "space_sizes.h"
#include "topk_tiling.h"
#include "transpose_tiling.h"
#include "vector_sizes.h"

namespace AscendC {

// Pages: 高阶API/数据结构/TensorShape.md, TensorDataType.md.
using TensorShape = ge::Shape;
using TensorDataType = ge::DataType;

}  // namespace AscendC
