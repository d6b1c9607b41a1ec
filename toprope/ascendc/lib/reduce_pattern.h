// Reductions by pattern that are not sums or extremes: ReduceAny, ReduceAll, ReduceProd; and ReduceXorSum. Pages: 高阶API/归约操作/*接口.
#pragma once

#include "power.h"
#include "sum.h"

namespace toprope {

// dst = 1 where any (all) elements along the axis are not 0, else 0.
template <bool any, typename T>
void reduce_truth(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const uint32_t* shape,
                  bool inner_pad, bool last_axis, Site site) {
    static_assert(is_one_of<T, uint8_t, float>, "ReduceAny, ReduceAll: uint8_t and float only (see `toprope api ReduceAny`)");
    constexpr uint32_t kPer = 32 / sizeof(T);
    const uint32_t rows = shape[0], n = shape[1], width = inner_pad ? (n + kPer - 1) / kPer * kPer : n, results = last_axis ? rows : n;
    if (self->type == CoreType::aic || rows == 0 || n == 0) return;
    const Steps<float> v{static_cast<int32_t>(rows * width), site}, out{static_cast<int32_t>(results), site};
    const AscendC::LocalTensor<float> truth = scratch.take<float>(rows * width), result = scratch.take<float>(results);
    AscendC::LocalTensor<float> values = src.template ReinterpretCast<float>();
    AscendC::LocalTensor<half> bytes;
    if constexpr (sizeof(T) == 1) {
        bytes = scratch.take<half>(rows * width);
        values = scratch.take<float>(rows * width);
    }
    if (!scratch.enough()) return;
    if constexpr (sizeof(T) == 1) Steps<half>{v.n, site}.cast(bytes, src), v.cast(values, bytes);
    v.sign(truth, values);
    v.abs(truth, truth);
    reduce_matrix<any ? Along::max : Along::min>(scratch, result, truth, rows, n, width, last_axis, site);
    if constexpr (sizeof(T) == 1)
        out.cast_out(bytes, result), Steps<half>{out.n, site}.cast_out(dst, bytes);
    else
        out.copy(dst, result);
}

// dst = the product along the axis. A row is folded onto its front half until one block is left, which the scalar unit multiplies.
template <typename T>
void reduce_product(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const uint32_t* shape,
                    bool inner_pad, bool last_axis, Site site) {
    static_assert(std::is_same_v<T, float>, "ReduceProd: float only (see `toprope api ReduceProd`)");
    const uint32_t rows = shape[0], n = shape[1], width = inner_pad ? (n + 7) / 8 * 8 : n;
    if (self->type == CoreType::aic || rows == 0 || n == 0) return;
    const Steps<float> v{static_cast<int32_t>(n), site};
    if (!last_axis) {
        v.copy(dst, src);
        for (uint32_t row = 1; row < rows; ++row) v.mul(dst, dst, src[row * width]);
        return;
    }
    const AscendC::LocalTensor<float> line = scratch.take<float>(n);
    if (!scratch.enough()) return;
    for (uint32_t row = 0; row < rows; ++row) {
        v.copy(line, src[row * width]);
        uint32_t left = n;
        for (uint32_t front; left > 8; left = front) {
            front = ((left + 1) / 2 + 7) / 8 * 8;
            Steps<float>{static_cast<int32_t>(left - front), site}.mul(line, line, line[front]);
        }
        order_pipes(AscendC::HardEvent::V_S, site);
        float product = 1;
        for (uint32_t i = 0; i < left; ++i) product *= line.GetValue(i, site);
        dst.SetValue(row, product, site);
        order_pipes(AscendC::HardEvent::S_V, site);
    }
}

// dst[0] = the sum of src0 xor src1.
template <typename T>
void xor_sum(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src0, const AscendC::LocalTensor<T>& src1,
             uint32_t count, Site site) {
    static_assert(std::is_same_v<T, int16_t>, "ReduceXorSum: int16_t only (see `toprope api ReduceXorSum`)");
    if (self->type == CoreType::aic || count == 0) return;
    const AscendC::LocalTensor<T> different = scratch.take<T>(count);
    const AscendC::LocalTensor<uint8_t> space = scratch.take<uint8_t>(uint64_t{count} * sizeof(T));
    const AscendC::LocalTensor<float> values = scratch.take<float>(count), sum = scratch.take<float>(8);
    if (!scratch.enough()) return;
    AscendC::Xor<T>(different, src0, src1, space, count, site);
    Steps<float>{static_cast<int32_t>(count), site}.cast(values, different);
    sum_rows(scratch, sum, values, 1, count, count, site);
    Steps<float>{1, site}.cast_out(dst, sum);
}

}  // namespace toprope

namespace AscendC {

//: ReduceAny | 1 where any element along the last (AR) or first (RA) axis of a matrix is not 0 | uint8_t float | A2 A3 | ReduceAny
//: ReduceAll | 1 where all elements along the last (AR) or first (RA) axis of a matrix are not 0 | uint8_t float | A2 A3 | ReduceAll
//: ReduceProd | the product along the last (AR) or first (RA) axis of a matrix | float | A2 A3 | ReduceProd
#define TOPROPE_REDUCE_BY_PATTERN(Name, function)                                                                                     \
    template <class T, class pattern, bool isReuseSource = false>                                                                     \
    void Name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, const LocalTensor<uint8_t>& sharedTmpBuffer,          \
              const uint32_t srcShape[], bool srcInnerPad, toprope::Site site = toprope::Site::here()) {                              \
        toprope::function(toprope::Scratch(#Name, sharedTmpBuffer, site), dstTensor, srcTensor, srcShape, srcInnerPad, pattern::last, \
                          site);                                                                                                      \
    }                                                                                                                                 \
    template <class T, class pattern, bool isReuseSource = false>                                                                     \
    void Name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, const uint32_t srcShape[], bool srcInnerPad,          \
              toprope::Site site = toprope::Site::here()) {                                                                           \
        toprope::function(toprope::Scratch(#Name, site), dstTensor, srcTensor, srcShape, srcInnerPad, pattern::last, site);           \
    }
TOPROPE_REDUCE_BY_PATTERN(ReduceAny, reduce_truth<true>)
TOPROPE_REDUCE_BY_PATTERN(ReduceAll, reduce_truth<false>)
TOPROPE_REDUCE_BY_PATTERN(ReduceProd, reduce_product)
#undef TOPROPE_REDUCE_BY_PATTERN

//: ReduceXorSum | the sum of src0 xor src1, saturated | int16_t | A2 A3 310P | ReduceXorSum
template <typename T, bool isReuseSource = false>
void ReduceXorSum(LocalTensor<T>& dstTensor, const LocalTensor<T>& src0Tensor, const LocalTensor<T>& src1Tensor,
                  LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount, toprope::Site site = toprope::Site::here()) {
    toprope::xor_sum(toprope::Scratch("ReduceXorSum", sharedTmpBuffer, site), dstTensor, src0Tensor, src1Tensor, calCount, site);
}
template <typename T, bool isReuseSource = false>
void ReduceXorSum(LocalTensor<T>& dstTensor, const LocalTensor<T>& src0Tensor, const LocalTensor<T>& src1Tensor, const uint32_t calCount,
                  toprope::Site site = toprope::Site::here()) {
    toprope::xor_sum(toprope::Scratch("ReduceXorSum", site), dstTensor, src0Tensor, src1Tensor, calCount, site);
}

}  // namespace AscendC
