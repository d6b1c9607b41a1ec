// Temporary space and tiling structures of the row-wise functions (softmax family, LayerNorm, RmsNorm) as host code asks for them: the
// pages 高阶API/激活函数/SoftMax接口/*Tiling*, 归一化操作/{LayerNorm,RmsNorm}-Tiling. Of a structure, the fields that name the shape and
// the split are set; the functions of this library read no others. A structure is a plain one (AscendC::tiling) or one with set_field
// methods (optiling). Plain C++.
#pragma once

#include "../../lib/row_split.h"
#include "vector_sizes.h"

namespace toprope {

template <typename Shape, typename Tiling>
void softmax_tiling(const Shape& shape, uint32_t element_bytes, uint32_t value_bytes, RowTemporaries t, uint64_t space, Tiling& tiling) {
    split_softmax(row_shape(shape, element_bytes), value_bytes, t, space, tiling);
}
template <typename Shape>
SpaceRange softmax_space(const Shape& shape, uint32_t element_bytes, RowTemporaries t) {
    const RowShape r = row_shape(shape, element_bytes);
    return row_space(r.rows, r.width, t);
}
// gamma and beta are kept as floats when they are half.
template <typename Shape>
SpaceRange norm_space(const Shape& shape, uint32_t element_bytes, RowTemporaries t, uint32_t vectors) {
    const RowShape r = row_shape(shape, element_bytes);
    return row_space(r.rows, r.width, t, element_bytes < 4 ? vectors : 0);
}
// LayerNorm's shapes are [B, S, H, H before it was padded]: the last of four dimensions is no axis.
template <typename Shape>
RowShape layer_shape(const Shape& shape, uint32_t element_bytes) {
    if (shape.GetDimNum() != 4) return row_shape(shape, element_bytes);
    const auto dim = [&](size_t i) { return static_cast<uint64_t>(shape.GetDim(i)); };
    return {static_cast<uint32_t>(dim(0) * dim(1)), static_cast<uint32_t>(padded_to(dim(2), 32 / element_bytes))};
}
template <typename Shape>
SpaceRange layer_space(const Shape& shape, uint32_t element_bytes, RowTemporaries t, uint32_t vectors) {
    const RowShape r = layer_shape(shape, element_bytes);
    return row_space(r.rows, r.width, t, element_bytes < 4 ? vectors : 0);
}
template <typename Shape, typename Tiling>
void layer_tiling(const Shape& shape, uint32_t element_bytes, Tiling& tiling) {
    const RowShape r = layer_shape(shape, element_bytes);
    const auto b = static_cast<uint32_t>(shape.GetDim(0));
    TOPROPE_SET(tiling, bLength, b);
    TOPROPE_SET(tiling, sLength, b == 0 ? 0u : r.rows / b);
    TOPROPE_SET(tiling, hLength, r.width);
    TOPROPE_SET(tiling, originalHLength, static_cast<uint32_t>(shape.GetDim(shape.GetDimNum() - 1)));
}
template <typename Shape, typename Tiling>
void norm_tiling(const Shape& shape, const Shape& original, uint32_t element_bytes, Tiling& tiling) {
    const RowShape r = row_shape(shape, element_bytes);
    const auto b = static_cast<uint32_t>(shape.GetDim(0));
    TOPROPE_SET(tiling, bLength, b);
    TOPROPE_SET(tiling, sLength, b == 0 ? 0u : r.rows / b);
    TOPROPE_SET(tiling, hLength, r.width);
    TOPROPE_SET(tiling, originalHLength, static_cast<uint32_t>(original.GetDim(original.GetDimNum() - 1)));
}

}  // namespace toprope

namespace AscendC {

template <typename Shape>
uint32_t GetSoftMaxMaxTmpSize(const Shape& srcShape, const uint32_t dataTypeSize, const bool) {
    return toprope::softmax_space(srcShape, dataTypeSize, toprope::softmax_temporaries(dataTypeSize)).most;
}
template <typename Shape>
uint32_t GetSoftMaxMinTmpSize(const Shape& srcShape, const uint32_t dataTypeSize, const bool) {
    return toprope::softmax_space(srcShape, dataTypeSize, toprope::softmax_temporaries(dataTypeSize)).least;
}
template <typename Shape, typename Tiling>
void SoftMaxTilingFunc(const Shape& srcShape, const uint32_t dataTypeSize, const uint32_t localWorkSpaceSize, Tiling& softmaxTiling) {
    toprope::softmax_tiling(srcShape, dataTypeSize, dataTypeSize, toprope::softmax_temporaries(dataTypeSize), localWorkSpaceSize,
                            softmaxTiling);
}

template <typename Shape>
uint32_t GetSoftMaxFlashMaxTmpSize(const Shape& srcShape, const uint32_t dataTypeSize, const bool, const bool) {
    return toprope::softmax_space(srcShape, dataTypeSize, toprope::flash_temporaries(dataTypeSize)).most;
}
template <typename Shape>
uint32_t GetSoftMaxFlashMinTmpSize(const Shape& srcShape, const uint32_t dataTypeSize, const bool, const bool) {
    return toprope::softmax_space(srcShape, dataTypeSize, toprope::flash_temporaries(dataTypeSize)).least;
}
template <typename Shape, typename Tiling>
void SoftMaxFlashTilingFunc(const Shape& srcShape, const uint32_t dataTypeSize, const uint32_t localWorkSpaceSize,
                            Tiling& softmaxFlashTiling, const bool = false) {
    toprope::softmax_tiling(srcShape, dataTypeSize, dataTypeSize, toprope::flash_temporaries(dataTypeSize), localWorkSpaceSize,
                            softmaxFlashTiling);
}

// dataTypeSize1: elements of the matrix; dataTypeSize2: of the row values.
template <typename Shape>
uint32_t GetSoftMaxFlashV2MaxTmpSize(const Shape& srcShape, const uint32_t dataTypeSize1, const uint32_t, const bool, const bool = false,
                                     const bool = false) {
    return toprope::softmax_space(srcShape, dataTypeSize1, toprope::flash_temporaries(dataTypeSize1)).most;
}
template <typename Shape>
uint32_t GetSoftMaxFlashV2MinTmpSize(const Shape& srcShape, const uint32_t dataTypeSize1, const uint32_t, const bool, const bool = false,
                                     const bool = false) {
    return toprope::softmax_space(srcShape, dataTypeSize1, toprope::flash_temporaries(dataTypeSize1)).least;
}
template <typename Shape, typename Tiling>
void SoftMaxFlashV2TilingFunc(const Shape& srcShape, const uint32_t dataTypeSize1, const uint32_t dataTypeSize2,
                              const uint32_t localWorkSpaceSize, Tiling& softmaxFlashTiling, const bool, const bool = false,
                              const bool = false) {
    toprope::softmax_tiling(srcShape, dataTypeSize1, dataTypeSize2, toprope::flash_temporaries(dataTypeSize1), localWorkSpaceSize,
                            softmaxFlashTiling);
}

// The page: dataTypeSize1 is 2, dataTypeSize2 is 4.
template <typename Shape>
void GetSoftMaxFlashV3MaxMinTmpSize(const Shape& srcShape, const uint32_t dataTypeSize1, const uint32_t, uint32_t& maxValue,
                                    uint32_t& minValue, const bool, const bool = false) {
    toprope::softmax_space(srcShape, dataTypeSize1, toprope::kPasaTemporaries).give(maxValue, minValue);
}
template <typename Shape, typename Tiling>
void SoftMaxFlashV3TilingFunc(const Shape& srcShape, const uint32_t dataTypeSize1, const uint32_t dataTypeSize2,
                              const uint32_t localWorkSpaceSize, Tiling& softmaxFlashV3Tiling, const bool, const bool = false) {
    toprope::softmax_tiling(srcShape, dataTypeSize1, dataTypeSize2, toprope::kPasaTemporaries, localWorkSpaceSize, softmaxFlashV3Tiling);
}

template <typename Shape>
uint32_t GetSoftMaxGradMaxTmpSize(const Shape& srcShape, const uint32_t dataTypeSize, const bool, const bool) {
    return toprope::softmax_space(srcShape, dataTypeSize, toprope::kSoftmaxGradTemporaries).most;
}
template <typename Shape>
uint32_t GetSoftMaxGradMinTmpSize(const Shape& srcShape, const uint32_t dataTypeSize, const bool, const bool) {
    return toprope::softmax_space(srcShape, dataTypeSize, toprope::kSoftmaxGradTemporaries).least;
}
template <typename Shape, typename Tiling>
void SoftMaxGradTilingFunc(const Shape& srcShape, const uint32_t dataTypeSize, const uint32_t localWorkSpaceSize, Tiling& softmaxGradTiling,
                           const bool = false) {
    toprope::softmax_tiling(srcShape, dataTypeSize, dataTypeSize, toprope::kSoftmaxGradTemporaries, localWorkSpaceSize, softmaxGradTiling);
}

template <typename Shape>
void GetLayerNormMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) {
    toprope::layer_space(srcShape, typeSize, toprope::kLayerNormTemporaries, 2).give(maxValue, minValue);
}
template <typename Shape, typename Tiling>
void GetLayerNormNDTilingInfo(const Shape& srcShape, const uint32_t, const uint32_t typeSize, const bool, Tiling& tiling) {
    toprope::layer_tiling(srcShape, typeSize, tiling);
}
template <typename Shape, typename Tiling>
void GetLayerNormNDTillingInfo(const Shape& srcShape, const uint32_t space, const uint32_t typeSize, const bool reuse, Tiling& tilling) {
    GetLayerNormNDTilingInfo(srcShape, space, typeSize, reuse, tilling);
}
template <typename Shape>
bool GetRmsNormMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue, const bool = false) {
    toprope::norm_space(srcShape, typeSize, toprope::kRmsNormTemporaries, 1).give(maxValue, minValue);
    return true;
}
template <typename Shape, typename Tiling>
bool GetRmsNormTilingInfo(const Shape& srcShape, const Shape& originSrcShape, const uint32_t, const uint32_t typeSize, Tiling& tiling,
                          const bool = false) {
    toprope::norm_tiling(srcShape, originSrcShape, typeSize, tiling);
    return true;
}

template <typename Shape>
uint32_t GetLogSoftMaxMaxTmpSize(const Shape& srcShape, const uint32_t dataTypeSize, const bool reuse) {
    return GetSoftMaxMaxTmpSize(srcShape, dataTypeSize, reuse);
}
template <typename Shape>
uint32_t GetLogSoftMaxMinTmpSize(const Shape& srcShape, const uint32_t dataTypeSize, const bool reuse) {
    return GetSoftMaxMinTmpSize(srcShape, dataTypeSize, reuse);
}
template <typename Shape, typename Tiling>
void LogSoftMaxTilingFunc(const Shape& srcShape, const uint32_t dataTypeSize, const uint32_t localWorkSpaceSize, Tiling& softmaxTiling) {
    SoftMaxTilingFunc(srcShape, dataTypeSize, localWorkSpaceSize, softmaxTiling);
}

// With the reciprocal deviation: the other LayerNorm.
template <typename Shape>
void GetLayerNormMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool, const bool, const bool, uint32_t& maxValue,
                               uint32_t& minValue) {
    toprope::norm_space(srcShape, typeSize, toprope::kStatisticsTemporaries, 2).give(maxValue, minValue);
}
template <typename Shape, typename Tiling>
void GetLayerNormNDTilingInfo(const Shape& srcShape, const uint32_t, const uint32_t typeSize, const bool, const bool, Tiling& tiling) {
    const toprope::RowShape r = toprope::row_shape(srcShape, typeSize);
    TOPROPE_SET(tiling, aLength, r.rows);
    TOPROPE_SET(tiling, rLength, static_cast<uint32_t>(srcShape.GetDim(srcShape.GetDimNum() - 1)));
}
// typeSizeU: gamma and beta; typeSizeT: the matrix.
template <typename Shape>
void GetNormalizeMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSizeU, const uint32_t typeSizeT, const bool, const bool,
                               const bool, uint32_t& maxValue, uint32_t& minValue) {
    const toprope::RowShape r = toprope::row_shape(srcShape, typeSizeT);
    toprope::row_space(r.rows, r.width, toprope::kStatisticsTemporaries, typeSizeU < 4 ? 2 : 0).give(maxValue, minValue);
}
template <typename Shape>
bool GetDeepNormMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool, const bool, uint32_t& maxValue,
                              uint32_t& minValue) {
    toprope::norm_space(srcShape, typeSize, toprope::kStatisticsTemporaries, 2).give(maxValue, minValue);
    return true;
}
template <typename Shape, typename Tiling>
bool GetDeepNormTilingInfo(const Shape& srcShape, const Shape& originSrcShape, const uint32_t, const uint32_t typeSize, const bool,
                           const bool, Tiling& tiling) {
    toprope::norm_tiling(srcShape, originSrcShape, typeSize, tiling);
    return true;
}
// A round begins at a whole block of the packed mean and variance: 16 rows of half.
template <typename Shape>
void GetLayerNormGradMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) {
    const toprope::RowShape r = toprope::layer_shape(srcShape, typeSize);
    const uint32_t vectors = typeSize < 4 ? 1 : 0, round = 32 / typeSize;
    toprope::row_space(r.rows, r.width, toprope::kNormGradTemporaries, vectors).give(maxValue, minValue);
    minValue = toprope::row_space(r.rows < round ? r.rows : round, r.width, toprope::kNormGradTemporaries, vectors).most;
}
template <typename Shape, typename Tiling>
void GetLayerNormGradNDTilingInfo(const Shape& srcShape, const uint32_t, const uint32_t typeSize, const bool, Tiling& tiling) {
    toprope::layer_tiling(srcShape, typeSize, tiling);
}
template <typename Shape>
void GetLayerNormGradBetaMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) {
    maxValue = minValue = toprope::layer_shape(srcShape, typeSize).width * 16;  // four lines of floats
}
template <typename Shape, typename Tiling>
void GetLayerNormGradBetaNDTilingInfo(const Shape& srcShape, const uint32_t, const uint32_t typeSize, const bool, Tiling& tiling) {
    toprope::layer_tiling(srcShape, typeSize, tiling);
}
template <typename Shape>
void GetWelfordUpdateMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSizeT, const uint32_t, const bool, const bool,
                                   uint32_t& maxValue, uint32_t& minValue) {
    toprope::piece_space(toprope::row_shape(srcShape, typeSizeT).width, 2, typeSizeT, 1).give(maxValue, minValue);
}
template <typename Shape>
void GetWelfordFinalizeMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) {
    maxValue = minValue = toprope::row_space(1, toprope::row_shape(srcShape, typeSize).width, {2, 2}).most;
}

// Shapes [B, S, H] and [N, C, H, W].
template <typename Shape>
bool GetBatchNormMaxMinTmpSize(const Shape& srcShape, const Shape&, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue,
                               const bool = false) {
    const auto features = static_cast<uint64_t>(srcShape.GetShapeSize()) / static_cast<uint64_t>(srcShape.GetDim(0));
    toprope::piece_space(features, toprope::kBatchNormTemporaries, 4, 0).give(maxValue, minValue);
    return true;
}
template <typename Shape, typename Tiling>
bool GetBatchNormNDTilingInfo(const Shape& srcShape, const Shape& originSrcShape, const uint32_t, const uint32_t, const bool,
                              Tiling& tilling, const bool = false) {
    TOPROPE_SET(tilling, originalBLength, static_cast<uint32_t>(originSrcShape.GetDim(0)));
    TOPROPE_SET(tilling, meanVarSize, static_cast<uint32_t>(srcShape.GetShapeSize() / srcShape.GetDim(0)));
    return true;
}
template <typename Shape>
void GetGroupNormMaxMinTmpSize(const Shape& srcShape, const uint32_t, const bool, const uint32_t groupNum, uint32_t& maxValue,
                               uint32_t& minValue) {
    const auto each = static_cast<uint64_t>(srcShape.GetShapeSize()) / (static_cast<uint64_t>(srcShape.GetDim(0)) * groupNum);
    minValue = maxValue = toprope::row_space(1, static_cast<uint32_t>(toprope::padded_to(each, 8)), toprope::kLayerNormTemporaries).least;
}
template <typename Shape, typename Tiling>
void GetGroupNormNDTilingInfo(const Shape& srcShape, const uint32_t, const uint32_t, const bool, const uint32_t groupNum, Tiling& tiling) {
    TOPROPE_SET(tiling, n, static_cast<uint32_t>(srcShape.GetDim(0)));
    TOPROPE_SET(tiling, c, static_cast<uint32_t>(srcShape.GetDim(1)));
    TOPROPE_SET(tiling, hw, static_cast<uint32_t>(srcShape.GetDim(2) * srcShape.GetDim(3)));
    TOPROPE_SET(tiling, g, groupNum);
    TOPROPE_SET(tiling, d, static_cast<uint32_t>(srcShape.GetDim(1)) / groupNum);
}

}  // namespace AscendC
