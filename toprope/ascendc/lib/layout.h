// Functions that spread, choose or number elements: Broadcast, Select with a byte mask, Arange. Pages: 高阶API/张量变换, 数据过滤,
// 索引计算.
#pragma once

#include "../api/vector_compare.h"
#include "../api/vector_fill.h"
#include "../api/vector_select.h"
#include "rows.h"

namespace AscendC {

struct SelectWithBytesMaskShapeInfo {
    uint32_t firstAxis = 0, srcLastAxis = 0, maskLastAxis = 0;
};

}  // namespace AscendC

namespace toprope {

// dst[i, j] = src[i] where a row fills blocks: every number fills a block, and the block its row. Eight rows are a repeat of the first,
// 255 of the second.
template <typename U>
void spread_blocks(Scratch scratch, const AscendC::LocalTensor<U>& to, const AscendC::LocalTensor<U>& from, uint32_t rows, uint32_t columns,
                   Site site) {
    constexpr uint32_t kPer = 32 / sizeof(U), kMost = 255;
    const uint32_t pitch = columns / kPer;
    const AscendC::LocalTensor<U> blocks = scratch.take<U>(rows * kPer);
    if (!scratch.enough()) return;
    for (uint32_t r = 0; r < rows; r += 8 * kMost)
        AscendC::Brcb(blocks[r * kPer], from[r], rows - r < 8 * kMost ? (rows - r) / 8 : kMost, AscendC::BrcbRepeatParams(1, 8), site);
    pipe_barrier(Pipe::v, site);
    for (uint32_t r = 0; r < rows; r += kMost)
        for (uint32_t b = 0; b < pitch; b += 8)
            AscendC::Copy(to[r * columns + b * kPer], blocks[r * kPer], uint64_t{pitch - b < 8 ? pitch - b : 8} * kPer,
                          rows - r < kMost ? rows - r : kMost, AscendC::CopyRepeatParams(1, 0, static_cast<uint16_t>(pitch), 1), site);
    pipe_barrier(Pipe::v, site);
}

// dst[i, :] = src[:] for every row, or dst[i, j] = src[i] for every column.
template <typename T>
void broadcast(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t rows, uint32_t columns,
               bool along_columns, Site site) {
    static_assert(sizeof(T) <= 4, "Broadcast: elements of 1, 2 and 4 bytes only (see `toprope api Broadcast`)");
    if (self->type == CoreType::aic || rows == 0 || columns == 0) return;
    if constexpr (sizeof(T) == 1) {  // as half, which holds every byte exactly
        const auto from = scratch.take<half>(along_columns ? rows : columns),
                   to = scratch.take<half>((uint64_t{rows} * columns + 15) / 16 * 16);
        if (!scratch.enough()) return;
        using B = std::conditional_t<std::is_same_v<T, int8_t>, int8_t, uint8_t>;
        Steps<half>{static_cast<int32_t>(along_columns ? rows : columns), site}.cast(from, src.template ReinterpretCast<B>());
        broadcast(scratch, to, from, rows, columns, along_columns, site);
        Steps<half>{static_cast<int32_t>(rows * columns), site}.cast_out(dst.template ReinterpretCast<B>(), to);
    } else {
        using U = BitsOf<T>;
        using I = std::conditional_t<sizeof(T) == 2, int16_t, int32_t>;
        constexpr uint32_t kPer = 32 / sizeof(T);
        const auto to = dst.template ReinterpretCast<U>(), from = src.template ReinterpretCast<U>();
        const Steps<I> line{static_cast<int32_t>(columns), site};
        // A row that does not fill blocks begins inside one: gather with offsets reaches it, block instructions do not.
        const uint32_t count = rows * columns;
        if (columns % kPer == 0 && !along_columns) {
            for (uint32_t r = 0; r < rows; ++r)
                AscendC::Adds(to[r * columns].template ReinterpretCast<I>(), from.template ReinterpretCast<I>(), I(0), line.n, site);
            line.wait();
            return;
        }
        if constexpr (toprope::kChip.split)
            if (columns % kPer == 0 && rows % 8 == 0) return spread_blocks(scratch, to, from, rows, columns, site);
        const AscendC::LocalTensor<int32_t> offset = scratch.take<int32_t>(count), whole = scratch.take<int32_t>(count);
        if (!scratch.enough()) return;
        const Steps<int32_t> v{static_cast<int32_t>(count), site};
        const Steps<float> f{v.n, site};
        // index i of dst comes from element i / columns, or i % columns, of src; float is exact below 2^24
        const auto quotient = whole.template ReinterpretCast<float>();
        AscendC::CreateVecIndex(offset, 0, count, site);
        v.wait();
        f.cast(quotient, offset);
        f.add(quotient, quotient, 0.5f);
        f.mul(quotient, quotient, 1.f / static_cast<float>(columns));
        f.cast_out(whole, quotient, AscendC::RoundMode::CAST_FLOOR);
        if (along_columns)
            v.mul(offset, whole, static_cast<int32_t>(sizeof(T)));
        else {
            v.mul(whole, whole, static_cast<int32_t>(columns));
            v.sub(offset, offset, whole);
            v.mul(offset, offset, static_cast<int32_t>(sizeof(T)));
        }
        AscendC::Gather(to, from, offset.template ReinterpretCast<uint32_t>(), 0u, count, site);
        v.wait();
    }
}

// dst = tensor where the mask byte (or word) is `chosen_by`, else scalar.
template <typename T, typename M>
void select_by_bytes(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& tensor, T scalar,
                     const AscendC::LocalTensor<M>& mask, const AscendC::SelectWithBytesMaskShapeInfo& info, AscendC::CMPMODE chosen_by,
                     Site site) {
    static_assert(kLibraryFloat<T>, "Select: half and float only (see `toprope api Select`)");
    using C = std::conditional_t<sizeof(M) == 4, float, half>;  // bytes and words are exact enough in it to tell zero
    using I = std::conditional_t<sizeof(M) == 1, uint8_t, std::conditional_t<sizeof(M) == 2, int16_t, int32_t>>;
    constexpr uint32_t kWidth = 256 / sizeof(C);
    if (self->type == CoreType::aic || info.srcLastAxis == 0) return;
    const uint32_t n = info.srcLastAxis, padded = (n + kWidth - 1) / kWidth * kWidth;
    const AscendC::LocalTensor<C> value = scratch.take<C>(padded);
    const AscendC::LocalTensor<uint8_t> bits = scratch.take<uint8_t>(padded / 8);
    if (!scratch.enough()) return;
    const Steps<C> v{static_cast<int32_t>(n), site}, all{static_cast<int32_t>(padded), site};
    all.fill(value, C(0));
    for (uint32_t row = 0; row < info.firstAxis; ++row) {
        v.cast(value, mask[row * info.maskLastAxis].template ReinterpretCast<I>());
        AscendC::CompareScalar(bits, value, C(0), chosen_by, padded, site);
        v.wait();
        AscendC::Select(dst[row * n], bits, tensor[row * n], scalar, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, n, site);
        v.wait();
    }
}

}  // namespace toprope

namespace AscendC {

//: Broadcast | repeats a vector over rows or a column over columns | 8, 16 and 32 bit | A2 A3 310P | Broadcast
//: BroadCast | older spelling of Broadcast | 8, 16 and 32 bit | A2 A3 310P | Broadcast
#define TOPROPE_BROADCAST(Name, TMP, SCRATCH)                                                                                       \
    template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>                                                    \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim], const uint32_t srcShape[dim] TMP, \
              toprope::Site site = toprope::Site::here()) {                                                                         \
        static_assert((dim == 1 || dim == 2) && (axis == 0 || axis == 1), #Name ": one or two dimensions, axis 0 or 1");            \
        static_cast<void>(srcShape);                                                                                                \
        if constexpr (dim == 1)                                                                                                     \
            toprope::broadcast(SCRATCH(#Name), dst, src, 1u, dstShape[0], true, site);                                              \
        else                                                                                                                        \
            toprope::broadcast(SCRATCH(#Name), dst, src, dstShape[0], dstShape[1], axis == 1, site);                                \
    }
#define TOPROPE_LVALUE_TMP , LocalTensor<uint8_t>& sharedTmpBuffer
TOPROPE_BROADCAST(Broadcast, , TOPROPE_REST_SCRATCH)
TOPROPE_BROADCAST(Broadcast, TOPROPE_LVALUE_TMP, TOPROPE_TMP_SCRATCH)
TOPROPE_BROADCAST(BroadCast, , TOPROPE_REST_SCRATCH)
TOPROPE_BROADCAST(BroadCast, TOPROPE_LVALUE_TMP, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_BROADCAST
#undef TOPROPE_LVALUE_TMP

//: SelectWithBytesMask | src0 where the mask element is 0, else src1; one of them is a scalar | half float | A2 A3 310P | Select
#define TOPROPE_SELECT_BYTES(Name)                                                                                                \
    template <typename T, typename U, bool isReuseMask = true>                                                                    \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, T src1, const LocalTensor<U>& mask,                          \
              const LocalTensor<uint8_t>& sharedTmpBuffer, const SelectWithBytesMaskShapeInfo& info,                              \
              toprope::Site site = toprope::Site::here()) {                                                                       \
        toprope::select_by_bytes(toprope::Scratch(#Name, sharedTmpBuffer, site), dst, src0, src1, mask, info, CMPMODE::EQ, site); \
    }                                                                                                                             \
    template <typename T, typename U, bool isReuseMask = true>                                                                    \
    void Name(const LocalTensor<T>& dst, T src0, const LocalTensor<T>& src1, const LocalTensor<U>& mask,                          \
              const LocalTensor<uint8_t>& sharedTmpBuffer, const SelectWithBytesMaskShapeInfo& info,                              \
              toprope::Site site = toprope::Site::here()) {                                                                       \
        toprope::select_by_bytes(toprope::Scratch(#Name, sharedTmpBuffer, site), dst, src1, src0, mask, info, CMPMODE::NE, site); \
    }
TOPROPE_SELECT_BYTES(SelectWithBytesMask)
TOPROPE_SELECT_BYTES(Select)
#undef TOPROPE_SELECT_BYTES

//: Arange | dst = firstValue, firstValue + diffValue, ... | int16_t half int32_t float | A2 A3 310P | Arange
template <typename T>
void Arange(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count,
            toprope::Site site = toprope::Site::here()) {
    ArithProgression(dst, firstValue, diffValue, count, site);
}

}  // namespace AscendC
