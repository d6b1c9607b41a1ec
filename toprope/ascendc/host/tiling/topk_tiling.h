// Temporary space and tiling structure of TopK. Page: 高阶API/排序操作/TopK-Tiling.md. The kernel side here works row by row and reads no
// field of the structure; those whose meaning their names give are set. Plain C++.
#pragma once

#include "../../lib/temporaries.h"

namespace AscendC {

template <typename Platform>
bool GetTopKMaxMinTmpSize(const Platform&, const int32_t inner, const int32_t, const bool, const bool, enum TopKMode, const bool,
                          const uint32_t dataTypeSize, uint32_t& maxValue, uint32_t& minValue) {
    maxValue = minValue = static_cast<uint32_t>(toprope::topk_bytes(static_cast<uint32_t>(inner), dataTypeSize));
    return inner > 0 && (dataTypeSize == 2 || dataTypeSize == 4);
}
template <typename Platform, typename Tiling>
bool TopKTilingFunc(const Platform&, const int32_t inner, const int32_t outter, const int32_t k, const uint32_t dataTypeSize, const bool,
                    enum TopKMode, const bool, Tiling& topKTiling) {
    topKTiling.tmpLocalSize = static_cast<int32_t>(toprope::topk_bytes(static_cast<uint32_t>(inner), dataTypeSize) / 4);
    topKTiling.allDataSize = inner * outter;
    topKTiling.innerDataSize = inner;
    topKTiling.sortRepeat = static_cast<uint32_t>(inner) / 32;
    topKTiling.kAlignFourBytes = (k + 7) / 8 * 8;
    topKTiling.kAlignTwoBytes = (k + 15) / 16 * 16;
    return inner > 0 && inner % 32 == 0 && outter > 0 && k > 0 && k <= inner;
}

}  // namespace AscendC
