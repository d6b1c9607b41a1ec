// Reductions along an axis: Sum, Mean, CumSum, and ReduceSum, ReduceMean, ReduceMax, ReduceMin of a matrix by pattern.
// Pages: 高阶API/归约操作/*接口, 高阶API/数学计算/CumSum接口.
#pragma once

#include "rows.h"

namespace AscendC {

struct SumParams {
    uint32_t outter = 1, inner = 0, n = 0;
};
struct MeanParams {
    uint32_t outter = 1, inner = 0, n = 0;
};
struct CumSumInfo {
    uint32_t outter = 0, inner = 0;
};
enum class CumSumAlgorithm { CUMSUM_ALGORITHM_LINEBYLINE = 0, CUMSUM_ALGORITHM_SKLANSKY = 1 };
struct CumSumConfig {
    bool isLastAxis = true, isReuseSource = false, outputLastRow = false;
    CumSumAlgorithm algorithm = CumSumAlgorithm::CUMSUM_ALGORITHM_LINEBYLINE;
};
// Which axes of a matrix are reduced (R) and which stay (A).
namespace Pattern::Reduce {
struct AR {
    static constexpr bool last = true;
};
struct RA {
    static constexpr bool last = false;
};
}  // namespace Pattern::Reduce
inline constexpr CumSumConfig defaultCumSumConfig = {true, false, false, CumSumAlgorithm::CUMSUM_ALGORITHM_LINEBYLINE};

}  // namespace AscendC

namespace toprope {

// dst[row] = the sum of the first n of `inner` elements: repeats to partial sums, partial sums to one, as trees.
template <typename T>
void sum_rows(Scratch& scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t rows, uint32_t inner,
              uint32_t n, Site site) {
    constexpr uint32_t kWidth = 256 / sizeof(T);
    const auto stride = static_cast<int32_t>(inner * sizeof(T) / 32);
    if (n <= kWidth) {  // rows are repeats
        for (uint32_t done = 0; done < rows; done += 255)
            AscendC::WholeReduceSum<T>(dst[done], src[done * inner], n, static_cast<int32_t>(rows - done < 255 ? rows - done : 255), 1, 1,
                                       stride, site);
        pipe_barrier(Pipe::v, site);
        return;
    }
    const AscendC::LocalTensor<T> partial = scratch.take<T>((n + kWidth - 1) / kWidth);
    if (!scratch.enough()) return;
    for (uint32_t row = 0; row < rows; ++row) {
        AscendC::LocalTensor<T> from = src[row * inner];
        for (uint32_t left = n; left > 1;) {
            const uint32_t full = left / kWidth, tail = left % kWidth, results = full + (tail != 0);
            const AscendC::LocalTensor<T> to = results == 1 ? dst[row] : partial;
            for (uint32_t done = 0; done < full; done += 255)
                AscendC::WholeReduceSum<T>(to[done], from[done * kWidth], kWidth,
                                           static_cast<int32_t>(full - done < 255 ? full - done : 255), 1, 1, 8, site);
            if (tail != 0) AscendC::WholeReduceSum<T>(to[full], from[full * kWidth], tail, 1, 1, 1, 8, site);
            pipe_barrier(Pipe::v, site);
            from = partial;
            left = results;
        }
    }
}

// dst[i, :] = src[0, :] + ... + src[i, :], line by line.
template <typename T>
void sum_lines(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t rows, uint32_t inner, Site site) {
    const Steps<T> v{static_cast<int32_t>(inner), site};
    v.copy(dst, src);
    for (uint32_t row = 1; row < rows; ++row) v.add(dst[row * inner], dst[(row - 1) * inner], src[row * inner]);
}

// Along the last axis: columns are transposed into lines of 16 rows each by gathering, summed, and gathered back.
template <typename T>
void sum_columns(Scratch& scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t rows, uint32_t inner,
                 Site site) {
    constexpr uint32_t kPer = 32 / sizeof(T);
    const uint32_t lines = (rows + kPer - 1) / kPer * kPer;  // elements of a transposed line
    const AscendC::LocalTensor<T> turned = scratch.take<T>(uint64_t{inner} * lines);
    const AscendC::LocalTensor<int32_t> step = scratch.take<int32_t>(lines > inner ? lines : inner),
                                        offset = scratch.take<int32_t>(lines > inner ? lines : inner);
    if (!scratch.enough()) return;
    const auto offsets = offset.template ReinterpretCast<uint32_t>();
    // turned[column, row] = src[row, column]
    const Steps<int32_t> r{static_cast<int32_t>(rows), site}, c{static_cast<int32_t>(inner), site};
    AscendC::ArithProgression(step, 0, static_cast<int32_t>(inner * sizeof(T)), static_cast<int32_t>(rows), site);
    r.wait();
    const Steps<T> all{static_cast<int32_t>(inner * lines), site};
    if (lines != rows) all.fill(turned, T(0));
    for (uint32_t column = 0; column < inner; ++column) {
        r.add(offset, step, static_cast<int32_t>(column * sizeof(T)));
        AscendC::Gather(turned[column * lines], src, offsets, 0u, rows, site);
        r.wait();
    }
    const Steps<T> v{static_cast<int32_t>(lines), site};
    for (uint32_t column = 1; column < inner; ++column) v.add(turned[column * lines], turned[(column - 1) * lines], turned[column * lines]);
    AscendC::ArithProgression(step, 0, static_cast<int32_t>(lines * sizeof(T)), static_cast<int32_t>(inner), site);
    c.wait();
    for (uint32_t row = 0; row < rows; ++row) {
        c.add(offset, step, static_cast<int32_t>(row * sizeof(T)));
        AscendC::Gather(dst[row * inner], turned, offsets, 0u, inner, site);
        c.wait();
    }
}

enum class Along { sum, mean, max, min };

// dst = the fold of a matrix of `rows` rows, `width` floats apart, of which n count, along its last or first axis.
template <Along along>
void reduce_matrix(Scratch scratch, const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src, uint32_t rows,
                   uint32_t n, uint32_t width, bool last_axis, Site site) {
    if (self->type == CoreType::aic || rows == 0 || n == 0) return;
    constexpr float flip = along == Along::min ? -1.f : 1.f;  // a minimum is the negated maximum of the negated values
    if (!last_axis) {
        const Steps<float> v{static_cast<int32_t>(n), site};
        v.copy(dst, src);
        for (uint32_t r = 1; r < rows; ++r) {
            if constexpr (along == Along::max)
                v.max(dst, dst, src[r * width]);
            else if constexpr (along == Along::min)
                v.min(dst, dst, src[r * width]);
            else
                v.add(dst, dst, src[r * width]);
        }
        if constexpr (along == Along::mean) v.mul(dst, dst, 1.f / static_cast<float>(rows));
        return;
    }
    const RowScratch s(scratch, rows, width, 1, along == Along::min ? 1 : 0, false, site);
    for (uint32_t first = 0; s.rows > 0 && first < rows; first += s.rows) {
        const Rows r{rows - first < s.rows ? rows - first : s.rows, width, site};
        AscendC::LocalTensor<float> from = src[first * width];
        if constexpr (along == Along::min) {
            r.all().mul(s.data[0], from, flip);
            from = s.data[0];
        }
        r.template reduce<along == Along::max || along == Along::min ? Fold::MAX : Fold::SUM>(s.blocks[0], from, n, s.partial, s.packed);
        if constexpr (along == Along::min) r.all(8).mul(s.blocks[0], s.blocks[0], flip);
        if constexpr (along == Along::mean) r.all(8).mul(s.blocks[0], s.blocks[0], 1.f / static_cast<float>(n));
        r.pack(dst[first], s.blocks[0], s.partial);
    }
}
// The same for a tensor of shape [shape[0], shape[1]]. inner_pad: rows are padded to whole blocks.
template <Along along, typename T>
void reduce_matrix(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const uint32_t* shape,
                   bool inner_pad, bool last_axis, Site site) {
    static_assert(std::is_same_v<T, float>, "reductions by pattern: float only on this chip (see `toprope api ReduceSum`)");
    reduce_matrix<along>(scratch, dst, src, shape[0], shape[1], inner_pad ? (shape[1] + 7) / 8 * 8 : shape[1], last_axis, site);
}

// Sums in float, so that half loses nothing on the way.
template <typename T, typename F>
void in_float(Scratch& scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t count, Site site,
              const F& sums) {
    if constexpr (std::is_same_v<T, float>)
        sums(dst, src);
    else {
        const AscendC::LocalTensor<float> from = scratch.take<float>(count), to = scratch.take<float>(count);
        if (!scratch.enough()) return;
        const Steps<float> v{static_cast<int32_t>(count), site};
        v.cast(from, src);
        sums(to, from);
        v.cast_out(dst, to);
    }
}

}  // namespace toprope

namespace AscendC {

//: Sum | the sum of each row | half float | A2 A3 310P | Sum
//: Mean | the mean of each row, added in accType | half float | A2 A3 310P | Mean
//: CumSum | running sums along the rows or the columns of a matrix | half float | A2 A3 310P | CumSum
#define TOPROPE_SUMS(TMP, SCRATCH)                                                                                                       \
    template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>                                 \
    void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src TMP, const SumParams& sumParams,                                       \
             toprope::Site site = toprope::Site::here()) {                                                                               \
        static_assert(toprope::kLibraryFloat<T>, "Sum: half and float only (see `toprope api Sum`)");                                    \
        toprope::Scratch scratch = SCRATCH("Sum");                                                                                       \
        toprope::sum_rows(scratch, dst, src, sumParams.outter, sumParams.inner, sumParams.n, site);                                      \
    }                                                                                                                                    \
    template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>           \
    void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src TMP, const MeanParams& meanParams,                                    \
              toprope::Site site = toprope::Site::here()) {                                                                              \
        static_assert(toprope::kLibraryFloat<T>, "Mean: half and float only (see `toprope api Mean`)");                                  \
        toprope::Scratch scratch = SCRATCH("Mean");                                                                                      \
        const MeanParams& p = meanParams;                                                                                                \
        const toprope::Steps<accType> v{static_cast<int32_t>(p.outter), site};                                                           \
        const accType factor = static_cast<accType>(1.0f / static_cast<float>(p.n));                                                     \
        if constexpr (std::is_same_v<T, accType>) {                                                                                      \
            toprope::sum_rows(scratch, dst, src, p.outter, p.inner, p.n, site);                                                          \
            v.mul(dst, dst, factor);                                                                                                     \
        } else {                                                                                                                         \
            const auto wide = scratch.template take<accType>(p.inner), sums = scratch.template take<accType>(p.outter);                  \
            if (!scratch.enough()) return;                                                                                               \
            for (uint32_t row = 0; row < p.outter; ++row) {                                                                              \
                toprope::Steps<accType>{static_cast<int32_t>(p.inner), site}.cast(wide, src[row * p.inner]);                             \
                toprope::Scratch rest = scratch;                                                                                         \
                toprope::sum_rows(rest, sums[row], wide, 1, p.inner, p.n, site);                                                         \
            }                                                                                                                            \
            v.mul(sums, sums, factor), v.cast_out(dst, sums);                                                                            \
        }                                                                                                                                \
    }                                                                                                                                    \
    template <typename T, const CumSumConfig& config = defaultCumSumConfig>                                                              \
    void CumSum(LocalTensor<T>& dst, LocalTensor<T>& lastRow, const LocalTensor<T>& src TMP, const CumSumInfo& cumSumInfo,               \
                toprope::Site site = toprope::Site::here()) {                                                                            \
        static_assert(toprope::kLibraryFloat<T>, "CumSum: half and float only (see `toprope api CumSum`)");                              \
        toprope::Scratch scratch = SCRATCH("CumSum");                                                                                    \
        const uint32_t rows = cumSumInfo.outter, inner = cumSumInfo.inner;                                                               \
        toprope::in_float(scratch, dst, src, rows * inner, site, [&](const LocalTensor<float>& to, const LocalTensor<float>& from) {     \
            if constexpr (config.isLastAxis)                                                                                             \
                toprope::sum_columns(scratch, to, from, rows, inner, site);                                                              \
            else                                                                                                                         \
                toprope::sum_lines(to, from, rows, inner, site);                                                                         \
        });                                                                                                                              \
        if constexpr (config.outputLastRow) toprope::Steps<T>{static_cast<int32_t>(inner), site}.copy(lastRow, dst[(rows - 1) * inner]); \
    }
TOPROPE_SUMS(, TOPROPE_REST_SCRATCH)
TOPROPE_SUMS(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_SUMS

//: ReduceMean | the mean along the last (AR) or first (RA) axis of a matrix | float | A2 A3 | ReduceMean
#define TOPROPE_REDUCE_BY_PATTERN(Name, along)                                                                                         \
    template <class T, class pattern, bool isReuseSource = false, std::enable_if_t<pattern::last || !pattern::last, int> = 0>          \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,                       \
              const uint32_t srcShape[], bool srcInnerPad, toprope::Site site = toprope::Site::here()) {                               \
        toprope::reduce_matrix<toprope::Along::along>(toprope::Scratch(#Name, sharedTmpBuffer, site), dst, src, srcShape, srcInnerPad, \
                                                      pattern::last, site);                                                            \
    }                                                                                                                                  \
    template <class T, class pattern, bool isReuseSource = false, std::enable_if_t<pattern::last || !pattern::last, int> = 0>          \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t srcShape[], bool srcInnerPad,                       \
              toprope::Site site = toprope::Site::here()) {                                                                            \
        toprope::reduce_matrix<toprope::Along::along>(toprope::Scratch(#Name, site), dst, src, srcShape, srcInnerPad, pattern::last,   \
                                                      site);                                                                           \
    }
TOPROPE_REDUCE_BY_PATTERN(ReduceSum, sum)
TOPROPE_REDUCE_BY_PATTERN(ReduceMean, mean)
TOPROPE_REDUCE_BY_PATTERN(ReduceMax, max)
TOPROPE_REDUCE_BY_PATTERN(ReduceMin, min)
#undef TOPROPE_REDUCE_BY_PATTERN

}  // namespace AscendC
