// Temporary space and tiling structures of Transpose and TransData as host code asks for them: the pages Transpose-Tiling and
// GetTransDataMaxMinTmpSize. The fields of ConfusionTransposeTiling have no documented meaning; here they are what lib/transpose.h reads.
#pragma once

#include "../../machine/data_format.h"
#include "../../lib/row_split.h"
#include "../../lib/transpose_space.h"

namespace AscendC {

// srcShape is [B, N, S, H/N], for type 7 [H, W]; the sizes are bytes.
template <typename Shape>
void GetTransposeMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const uint32_t transposeTypeIn, uint32_t& maxValue,
                               uint32_t& minValue) {
    const auto rows = static_cast<uint64_t>(srcShape.GetDim(srcShape.GetDimNum() - 2));
    maxValue = minValue = static_cast<uint32_t>(toprope::transpose_space(transposeTypeIn, rows, typeSize));
}
template <typename Shape, typename Tiling>
void GetTransposeTilingInfo(const Shape& srcShape, const uint32_t, const uint32_t, const uint32_t transposeTypeIn, Tiling& tiling) {
    const auto dim = [&](size_t i) { return static_cast<uint32_t>(srcShape.GetDim(i)); };
    if (transposeTypeIn == 7) {
        TOPROPE_SET(tiling, param1, dim(0));
        TOPROPE_SET(tiling, param2, dim(1));
        return;
    }
    TOPROPE_SET(tiling, param0, dim(0));
    TOPROPE_SET(tiling, param1, dim(1));
    TOPROPE_SET(tiling, param2, dim(2));
    TOPROPE_SET(tiling, param3, dim(3));
}
// Older names.
template <typename Shape>
void GetConfusionTransposeMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const uint32_t transposeTypeIn, uint32_t& maxValue,
                                        uint32_t& minValue) {
    GetTransposeMaxMinTmpSize(srcShape, typeSize, transposeTypeIn, maxValue, minValue);
}
template <typename Shape, typename Tiling>
void GetConfusionTransposeTilingInfo(const Shape& srcShape, const uint32_t stackBufferSize, const uint32_t typeSize,
                                     const uint32_t transposeTypeIn, Tiling& tiling) {
    GetTransposeTilingInfo(srcShape, stackBufferSize, typeSize, transposeTypeIn, tiling);
}
template <typename Shape, typename Tiling>
void GetConfusionTransposeOnlyTilingInfo(const Shape& srcShape, const uint32_t stackBufferSize, const uint32_t typeSize, Tiling& tiling) {
    GetTransposeTilingInfo(srcShape, stackBufferSize, typeSize, 7, tiling);
}

// Shapes as in the layouts of TransData; false if neither is NCDHW.
template <typename Platform, typename Shape, typename DataType>
bool GetTransDataMaxMinTmpSize(const Platform&, const Shape& srcShape, const Shape& dstShape, const DataType, const TransDataConfig& config,
                               uint32_t& maxValue, uint32_t& minValue) {
    if (config.srcFormat != DataFormat::NCDHW && config.dstFormat != DataFormat::NCDHW) return false;
    const Shape& volume = config.srcFormat == DataFormat::NCDHW ? srcShape : dstShape;
    maxValue = minValue = static_cast<uint32_t>(toprope::trans_data_space(static_cast<uint64_t>(volume.GetDim(3) * volume.GetDim(4))));
    return true;
}

}  // namespace AscendC
