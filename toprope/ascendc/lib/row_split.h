// How row-wise functions cut a matrix into rounds of rows that fit their temporary space, and the tiling structures that say so: for host
// code and for kernels that compute their own. Plain C++.
#pragma once

#include <type_traits>
#include <utility>

#include "temporaries.h"

namespace toprope {

struct RowShape {
    uint32_t rows, width;  // width in elements, whole blocks
};

// Calls the first of two generic lambdas that accepts the arguments.
template <typename ByMethod, typename ByField, typename Tiling, typename Value>
void set_by(const ByMethod& by_method, const ByField& by_field, Tiling& tiling, Value value) {
    if constexpr (std::is_invocable_v<ByMethod, Tiling&, Value>)
        by_method(tiling, value);
    else
        by_field(tiling, value);
}
#define TOPROPE_SET(tiling, field, value)                                                                       \
    toprope::set_by([](auto& t, auto v) -> decltype(static_cast<void>(t.set_##field(v))) { t.set_##field(v); }, \
                    [](auto& t, auto v) { t.field = v; }, tiling, value)

// Rows that fit `space` bytes, at most all of them.
inline uint32_t rows_that_fit(uint32_t rows, uint32_t width, RowTemporaries t, uint64_t space) {
    uint32_t fit = rows;
    while (fit > 1 && row_scratch_bytes(fit, width, t.block_tensors, t.data_tensors) > space) fit = fit > 8 ? (fit - 1) / 8 * 8 : fit - 1;
    return fit;
}

// Sets the fields of a softmax tiling structure for a matrix in `space` bytes of temporaries.
template <typename Tiling>
void split_softmax(RowShape r, uint32_t value_bytes, RowTemporaries t, uint64_t space, Tiling& tiling) {
    const uint32_t split = rows_that_fit(r.rows, r.width, t, space), block = 32 / value_bytes, tail = split == 0 ? 0 : r.rows % split;
    TOPROPE_SET(tiling, srcM, r.rows);
    TOPROPE_SET(tiling, srcK, r.width);
    TOPROPE_SET(tiling, srcSize, r.rows * r.width);
    TOPROPE_SET(tiling, outMaxM, r.rows);
    TOPROPE_SET(tiling, outMaxK, block);
    TOPROPE_SET(tiling, outMaxSize, r.rows * block);
    TOPROPE_SET(tiling, splitM, split);
    TOPROPE_SET(tiling, splitK, r.width);
    TOPROPE_SET(tiling, splitSize, split * r.width);
    TOPROPE_SET(tiling, reduceM, split);
    TOPROPE_SET(tiling, reduceK, block);
    TOPROPE_SET(tiling, reduceSize, split * block);
    TOPROPE_SET(tiling, rangeM, split == 0 ? 0u : r.rows / split);
    TOPROPE_SET(tiling, tailM, tail);
    TOPROPE_SET(tiling, tailSplitSize, tail * r.width);
    TOPROPE_SET(tiling, tailReduceSize, tail * block);
}

}  // namespace toprope
