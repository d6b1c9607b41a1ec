// Temporary space of the functions that reduce, quantise, choose, pad, spread and sort, for host code that plans UB: the pages
// Get<Func>MaxMinTmpSize of 归约操作, 量化操作, 数据过滤, 张量变换, 索引计算 and 排序操作. The numbers are what lib/ takes for the whole
// tensor.
#pragma once

#include "row_tiling.h"
#include "vector_sizes.h"

namespace toprope {

constexpr uint64_t whole_space(uint64_t bytes) { return padded_to(bytes, 32); }
constexpr void give_space(uint64_t bytes, uint32_t& max_value, uint32_t& min_value) {
    max_value = min_value = static_cast<uint32_t>(bytes);
}
template <typename Shape>
uint64_t last_of(const Shape& shape) {
    return static_cast<uint64_t>(shape.GetDim(shape.GetDimNum() - 1));
}
template <typename Shape>
uint64_t elements_of(const Shape& shape) {
    return static_cast<uint64_t>(shape.GetShapeSize());
}
// The numbers of ge::DataType.
constexpr uint32_t host_type_bytes(int type) {
    return type == 0 || type == 3 || type == 8                 ? 4
           : type == 9 || type == 10 || type == 11             ? 8
           : type == 1 || type == 6 || type == 7 || type == 27 ? 2
                                                               : 1;
}

// The sum of a row: partial results, as sum_rows of lib/sum.h takes them.
constexpr uint64_t sum_space(uint64_t n, uint32_t element_bytes) {
    const uint64_t lanes = 256 / element_bytes;
    return n <= lanes ? 0 : whole_space(padded_to(n, lanes) / lanes * element_bytes);
}
// A matrix of floats along an axis.
template <typename Shape>
uint64_t matrix_space(const Shape& shape, bool inner_pad, bool along_rows) {
    const auto rows = static_cast<uint32_t>(shape.GetDim(0)), n = static_cast<uint32_t>(shape.GetDim(1));
    return along_rows ? row_space(rows, inner_pad ? static_cast<uint32_t>(padded_to(n, 8)) : n, {1, 1}).most : 0;
}
// Whether any or all elements are not 0: the elements as truth values, and bytes as half and as float before.
template <typename Shape>
uint64_t truth_space(const Shape& shape, uint32_t element_bytes, bool inner_pad, bool along_rows) {
    const auto rows = static_cast<uint64_t>(shape.GetDim(0)), n = static_cast<uint64_t>(shape.GetDim(1)),
               width = inner_pad ? padded_to(n, 32 / element_bytes) : n;
    uint64_t bytes = whole_space(rows * width * 4) + whole_space((along_rows ? rows : n) * 4);
    if (element_bytes == 1) bytes += whole_space(rows * width * 2) + whole_space(rows * width * 4);
    return bytes + (along_rows ? row_space(static_cast<uint32_t>(rows), static_cast<uint32_t>(width), {1, 1}).most : 0);
}
// A row of values and the bits that choose among them.
constexpr uint64_t choice_space(uint64_t columns) {
    return whole_space(padded_to(columns, 128) * 4) + whole_space(padded_to(columns, 128) / 8);
}
template <typename Shape>
uint64_t antiquant_space(const Shape& shape, int output_type) {
    const auto first = static_cast<uint64_t>(shape.GetDim(0)), last = last_of(shape), width = first > last ? first : last;
    return output_type == 27 ? whole_space(width * 2) + 3 * whole_space(width * 4) : 32 + 3 * whole_space(width * 2);
}

}  // namespace toprope

namespace AscendC {

#define TOPROPE_HOST_REDUCTION(Name, bytes)                                                                               \
    template <typename Shape, typename DataType>                                                                          \
    void Get##Name##MaxMinTmpSize(const Shape& srcShape, [[maybe_unused]] const DataType dataType, ReducePattern pattern, \
                                  [[maybe_unused]] bool isSrcInnerPad, bool, uint32_t& maxValue, uint32_t& minValue) {    \
        [[maybe_unused]] const bool rows = pattern == ReducePattern::AR;                                                  \
        toprope::give_space(bytes, maxValue, minValue);                                                                   \
    }
TOPROPE_HOST_REDUCTION(ReduceSum, toprope::matrix_space(srcShape, isSrcInnerPad, rows))
TOPROPE_HOST_REDUCTION(ReduceMean, toprope::matrix_space(srcShape, isSrcInnerPad, rows))
TOPROPE_HOST_REDUCTION(ReduceMax, toprope::matrix_space(srcShape, isSrcInnerPad, rows))
TOPROPE_HOST_REDUCTION(ReduceMin, toprope::matrix_space(srcShape, isSrcInnerPad, rows))
TOPROPE_HOST_REDUCTION(ReduceAny, toprope::truth_space(srcShape, toprope::host_type_bytes(static_cast<int>(dataType)), isSrcInnerPad, rows))
TOPROPE_HOST_REDUCTION(ReduceAll, toprope::truth_space(srcShape, toprope::host_type_bytes(static_cast<int>(dataType)), isSrcInnerPad, rows))
TOPROPE_HOST_REDUCTION(ReduceProd, rows ? toprope::whole_space(toprope::last_of(srcShape) * 4) : 0)
#undef TOPROPE_HOST_REDUCTION
template <typename Shape>
void GetReduceXorSumMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) {
    const uint64_t n = toprope::elements_of(srcShape);
    toprope::give_space(2 * toprope::whole_space(n * typeSize) + toprope::whole_space(n * 4) + 32 + toprope::sum_space(n, 4), maxValue,
                        minValue);
}
// Rows of n elements one at a time; their sums, of which there is room for 1,024.
inline void GetMeanMaxMinTmpSize(const uint32_t n, const uint32_t srcTypeSize, const uint32_t accTypeSize, const bool, uint32_t& maxSize,
                                 uint32_t& minSize) {
    const uint64_t wide = srcTypeSize == accTypeSize ? 0 : toprope::whole_space(toprope::padded_to(n, 16) * accTypeSize) + 4096;
    toprope::give_space(wide + toprope::sum_space(n, accTypeSize), maxSize, minSize);
}
inline void GetMeanTmpBufferFactorSize(const uint32_t, uint32_t& maxLiveNodeCount, uint32_t& extraBuffer) {
    maxLiveNodeCount = 2;
    extraBuffer = 4096;
}

// ---- quantisation --------------------------------------------------------------------------------------------------------------

// Scale and offset of a row in half, and a piece of the elements.
template <typename Shape>
void GetAscendQuantMaxMinTmpSize(const Shape& srcShape, const uint32_t, uint32_t& maxValue, uint32_t& minValue) {
    const uint64_t row = toprope::whole_space(toprope::padded_to(toprope::last_of(srcShape), 128) * 2);
    minValue = static_cast<uint32_t>(3 * row);
    const uint64_t all = 2 * row + toprope::whole_space(toprope::padded_to(toprope::elements_of(srcShape), 128) * 2);
    maxValue = static_cast<uint32_t>(all > 3 * row ? all : 3 * row);
}
inline void GetAscendQuantTmpBufferFactorSize(uint32_t& maxLiveNodeCount, uint32_t& extraBuf) {
    maxLiveNodeCount = 3;
    extraBuf = 768;
}
template <typename Shape>
void GetAscendDequantMaxMinTmpSize(const Shape& srcShape, const uint32_t, uint32_t& maxValue, uint32_t& minValue) {
    toprope::give_space(2 * toprope::whole_space(toprope::padded_to(toprope::last_of(srcShape), 64) * 4), maxValue, minValue);
}
template <typename Shape>
void GetAscendDequantTmpBufferFactorSize(const Shape& srcShape, uint32_t& maxLiveNodeCount, uint32_t& extraBuf) {
    uint32_t least = 0;
    maxLiveNodeCount = 0;
    GetAscendDequantMaxMinTmpSize(srcShape, 4, extraBuf, least);
}
template <typename Shape, typename DataType>
uint32_t GetAscendAntiQuantMaxTmpSize(const Shape& srcShape, const Shape&, bool, DataType, DataType outputDataType) {
    return static_cast<uint32_t>(toprope::antiquant_space(srcShape, static_cast<int>(outputDataType)));
}
template <typename Shape, typename DataType>
uint32_t GetAscendAntiQuantMinTmpSize(const Shape& srcShape, const Shape& scaleShape, bool isTranspose, DataType in, DataType out) {
    return GetAscendAntiQuantMaxTmpSize(srcShape, scaleShape, isTranspose, in, out);
}
template <typename Shape, typename DataType>
void GetAscendAntiQuantMaxMinTmpSize(const Shape& srcShape, const Shape& scaleShape, bool isTranspose, DataType in, DataType out,
                                     uint32_t& maxValue, uint32_t& minValue) {
    maxValue = minValue = GetAscendAntiQuantMaxTmpSize(srcShape, scaleShape, isTranspose, in, out);
}
template <typename Shape, typename DataType>
void GetAscendAntiQuantTmpBufferFactorSize(const Shape& srcShape, const Shape& scaleShape, bool isTranspose, DataType in, DataType out,
                                           uint32_t& maxLiveNodeCount, uint32_t& extraBuf) {
    maxLiveNodeCount = 0;
    extraBuf = GetAscendAntiQuantMaxTmpSize(srcShape, scaleShape, isTranspose, in, out);
}

// ---- choosing, padding, spreading ----------------------------------------------------------------------------------------------

template <typename Shape>
uint32_t GetSelectMaxTmpSize(const Shape& src0Shape, const Shape& src1Shape, const uint32_t, const Shape&, const uint32_t, const bool) {
    const Shape& tensor =
        toprope::elements_of(src0Shape) > toprope::elements_of(src1Shape) ? src0Shape : src1Shape;  // the other is a scalar
    return static_cast<uint32_t>(toprope::choice_space(toprope::last_of(tensor)));
}
template <typename Shape>
void GetDropOutMaxMinTmpSize(const Shape& srcShape, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue) {
    toprope::give_space(toprope::choice_space(toprope::last_of(srcShape)), maxValue, minValue);
}
template <typename Shape>
uint32_t GetDropOutMaxTmpSize(const Shape& srcShape, const uint32_t, const bool) {
    return static_cast<uint32_t>(toprope::choice_space(toprope::last_of(srcShape)));
}
template <typename Shape>
uint32_t GetDropOutMinTmpSize(const Shape& srcShape, const uint32_t typeSize, const bool reuse) {
    return GetDropOutMaxTmpSize(srcShape, typeSize, reuse);
}
#define TOPROPE_HOST_SELECT(Name)                                                                                                  \
    template <typename Shape>                                                                                                      \
    uint32_t Get##Name##MinTmpSize(const Shape& src0, const Shape& src1, const uint32_t size, const Shape& mask, const uint32_t m, \
                                   const bool reuse) {                                                                             \
        return GetSelectMaxTmpSize(src0, src1, size, mask, m, reuse);                                                              \
    }                                                                                                                              \
    template <typename Shape>                                                                                                      \
    void Get##Name##MaxMinTmpSize(const Shape& src0, const Shape& src1, const uint32_t size, const Shape& mask, const uint32_t m,  \
                                  const bool reuse, uint32_t& maxValue, uint32_t& minValue) {                                      \
        maxValue = minValue = GetSelectMaxTmpSize(src0, src1, size, mask, m, reuse);                                               \
    }
TOPROPE_HOST_SELECT(Select)
TOPROPE_HOST_SELECT(SelectWithBytesMask)
#undef TOPROPE_HOST_SELECT
template <typename Shape>
uint32_t GetSelectWithBytesMaskMaxTmpSize(const Shape& src0, const Shape& src1, const uint32_t size, const Shape& mask, const uint32_t m,
                                          const bool reuse) {
    return GetSelectMaxTmpSize(src0, src1, size, mask, m, reuse);
}

// A padded row has at most one 32-byte block more on each side.
template <typename Shape>
void GetPadMaxMinTmpSize(const Shape& srcShape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue) {
    const uint64_t block = 32 / typeSize;
    toprope::give_space(2 * toprope::whole_space((toprope::padded_to(toprope::last_of(srcShape), block) + 2 * block) * 4), maxValue,
                        minValue);
}
template <typename Shape, typename Tiling>
void PadTilingFunc(const Shape srcShape, const Shape oriSrcShape, const uint32_t, const uint32_t, Tiling& tiling) {
    TOPROPE_SET(tiling, srcHeight, static_cast<uint32_t>(srcShape.GetDim(0)));
    TOPROPE_SET(tiling, srcWidth, static_cast<uint32_t>(srcShape.GetDim(1)));
    TOPROPE_SET(tiling, srcOriWidth, static_cast<uint32_t>(oriSrcShape.GetDim(1)));
}
template <typename Platform, typename Shape>
void GetUnPadMaxMinTmpSize(const Platform&, const Shape& srcShape, const uint32_t, uint32_t& maxValue, uint32_t& minValue) {
    toprope::give_space(2 * toprope::whole_space(toprope::elements_of(srcShape) * 4), maxValue, minValue);
}
template <typename Shape, typename Tiling>
void UnPadTilingFunc(const Shape srcShape, const uint32_t, const uint32_t, Tiling& tiling) {
    TOPROPE_SET(tiling, srcHeight, static_cast<uint32_t>(srcShape.GetDim(0)));
    TOPROPE_SET(tiling, srcWidth, static_cast<uint32_t>(srcShape.GetDim(1)));
}
// Offsets for every element; bytes are spread as half.
template <typename Platform, typename Shape>
void GetBroadCastMaxMinTmpSize(const Platform&, const Shape& srcShape, const Shape& dstShape, uint32_t typeSize, const bool,
                               uint32_t& maxValue, uint32_t& minValue) {
    const uint64_t from = toprope::elements_of(srcShape), to = toprope::elements_of(dstShape),
                   bytes = typeSize == 1 ? toprope::whole_space(from * 2) + toprope::whole_space(toprope::padded_to(to, 16) * 2) : 0;
    toprope::give_space(bytes + 2 * toprope::whole_space(to * 4), maxValue, minValue);
}

// ---- numbering, sorting --------------------------------------------------------------------------------------------------------

inline void GetArangeMaxMinTmpSize(uint32_t& maxValue, uint32_t& minValue) { maxValue = minValue = 0; }
inline void GetArithProgressionMaxMinTmpSize(uint32_t& maxValue, uint32_t& minValue) { maxValue = minValue = 0; }
// An entry of a score and its index has 8 bytes.
template <typename Platform>
uint32_t GetConcatTmpSize(const Platform&, const uint32_t elemCount, const uint32_t) {
    return elemCount * 8;
}
template <typename Platform>
uint32_t GetSortTmpSize(const Platform&, const uint32_t elemCount, const uint32_t) {
    return elemCount * 8;
}
inline void GetPowerTmpBufferFactorSize(const bool, const bool, const bool, const uint32_t typeSize, uint32_t& maxLiveNodeCount,
                                        uint32_t& extraBuffer) {
    maxLiveNodeCount = static_cast<uint32_t>(toprope::temporary_bytes(1, toprope::kPowerTemporaries + 1, typeSize, 2) / typeSize);
    extraBuffer = static_cast<uint32_t>(toprope::temporary_bytes(toprope::kPieceLanes, toprope::kPowerTemporaries + 1, typeSize, 2));
}

}  // namespace AscendC
