// Functions that drop or add elements: DropOut, Pad, UnPad. Pages: 高阶API/数据过滤/DropOut, 张量变换/{Pad,UnPad}.
#pragma once

#include "layout.h"

namespace AscendC {

struct DropOutShapeInfo {
    uint32_t firstAxis = 0, srcLastAxis = 0, maskLastAxis = 0;
};
// Names for dropOutMode of DropOut; its page states the numbers.
inline constexpr uint32_t DROPOUT_MODE_BYTE_MISALIGN = 1, DROPOUT_MODE_BYTE_ALIGN = 2, DROPOUT_MODE_BIT_ALIGN = 3,
                          DROPOUT_MODE_BIT_MISALIGN = 4;
struct PadParams {
    uint16_t leftPad = 0, rightPad = 0;
    int32_t padValue = 0;
};
struct UnPadParams {
    uint16_t leftPad = 0, rightPad = 0;
};

}  // namespace AscendC

namespace toprope {

// The numbers of the template argument dropOutMode. "Padded" masks have rows longer than those of src.
enum class DropOutMode : uint32_t { by_shape, padded_bytes, bytes, bits, padded_bits };

inline DropOutMode drop_out_mode(DropOutMode given, const AscendC::DropOutShapeInfo& info) {
    if (given != DropOutMode::by_shape) return given;
    if (info.maskLastAxis >= info.srcLastAxis)
        return info.maskLastAxis == info.srcLastAxis ? DropOutMode::bytes : DropOutMode::padded_bytes;
    return info.maskLastAxis * 8 == info.srcLastAxis ? DropOutMode::bits : DropOutMode::padded_bits;
}

// dst = src / keep where the mask is set, else 0.
template <typename T>
void drop_out(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
              const AscendC::LocalTensor<uint8_t>& mask, float keep, DropOutMode given, const AscendC::DropOutShapeInfo& info, Site site) {
    static_assert(kLibraryFloat<T>, "DropOut: half and float only (see `toprope api DropOut`)");
    const uint32_t n = info.srcLastAxis, count = info.firstAxis * n;
    if (self->type == CoreType::aic || count == 0) return;
    const Steps<T> all{static_cast<int32_t>(count), site};
    const DropOutMode mode = drop_out_mode(given, info);
    if (mode == DropOutMode::bytes || mode == DropOutMode::padded_bytes)
        select_by_bytes(scratch, dst, src, T(0), mask, {info.firstAxis, n, info.maskLastAxis}, AscendC::CMPMODE::NE, site);
    else {
        const uint32_t rows = mode == DropOutMode::bits ? 1 : info.firstAxis, each = mode == DropOutMode::bits ? count : n;
        for (uint32_t row = 0; row < rows; ++row)
            AscendC::Select(dst[row * each], mask[row * info.maskLastAxis], src[row * each], T(0),
                            AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, each, site);
        all.wait();
    }
    all.mul(dst, dst, static_cast<T>(1.0f / keep));
}

template <typename T>
inline constexpr bool kPaddable = is_one_of<T, int16_t, uint16_t, half, int32_t, uint32_t, float>;

// Rows of `width` elements, `used` of which count, become rows of left + used + right elements, a multiple of 32 bytes.
template <typename T>
void pad_rows(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::PadParams& p,
              uint32_t rows, uint32_t width, uint32_t used, Site site) {
    static_assert(kPaddable<T>, "Pad: elements of 2 and 4 bytes only (see `toprope api Pad`)");
    if (self->type == CoreType::aic || rows == 0 || used == 0) return;
    using U = BitsOf<T>;
    constexpr uint32_t kPer = 32 / sizeof(T), kWidth = 256 / sizeof(T);
    const uint32_t left = p.leftPad, line = left + used + p.rightPad;
    const Steps<int32_t> v{static_cast<int32_t>(line), site};
    const AscendC::LocalTensor<int32_t> column = scratch.take<int32_t>(line), offset = scratch.take<int32_t>(line);
    if (!scratch.enough()) return;
    // The column of src that each column of dst shows; padding shows the nearest one until it is overwritten.
    AscendC::CreateVecIndex(column, -static_cast<int32_t>(left), line, site);
    v.wait();
    AscendC::Maxs(column, column, 0, v.n, site);
    v.wait();
    AscendC::Mins(column, column, static_cast<int32_t>(used - 1), v.n, site);
    v.wait();
    v.mul(column, column, static_cast<int32_t>(sizeof(T)));
    const auto to = dst.template ReinterpretCast<U>(), from = src.template ReinterpretCast<U>();
    for (uint32_t row = 0; row < rows; ++row) {
        v.add(offset, column, static_cast<int32_t>(row * width * sizeof(T)));
        AscendC::Gather(to[row * line], from, offset.template ReinterpretCast<uint32_t>(), 0u, line, site);
        v.wait();
    }
    const auto fill = [&](uint32_t begin, uint32_t end) {  // columns of every row
        for (uint32_t block = begin / kPer * kPer; block < end; block += kWidth) {
            const uint64_t last = end - block < kWidth ? end - block : kWidth, first = begin > block ? begin - block : 0;
            const uint64_t low = run_of_ones(last) & ~run_of_ones(first),
                           high = run_of_ones(last > 64 ? last - 64 : 0) & ~run_of_ones(first > 64 ? first - 64 : 0);
            uint64_t mask[2] = {low, high};
            for (uint32_t row = 0; row < rows; ++row)
                AscendC::Duplicate(dst[row * line + block], static_cast<T>(p.padValue), mask, uint8_t{1}, uint16_t{1}, uint8_t{8}, site);
        }
    };
    if (left > 0) fill(0, left);
    if (p.rightPad > 0) fill(left + used, line);
    v.wait();
    AscendC::ResetMask(site);
}

// Rows of `width` elements lose their last `right`; the results lie next to each other.
template <typename T>
void unpad_rows(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t right, uint32_t rows,
                uint32_t width, Site site) {
    static_assert(kPaddable<T>, "UnPad: elements of 2 and 4 bytes only (see `toprope api UnPad`)");
    if (self->type == CoreType::aic || rows == 0 || width <= right) return;
    using U = BitsOf<T>;
    const uint32_t line = width - right, count = rows * line;
    const AscendC::LocalTensor<int32_t> offset = scratch.take<int32_t>(count), row = scratch.take<int32_t>(count);
    if (!scratch.enough()) return;
    const Steps<int32_t> v{static_cast<int32_t>(count), site};
    const Steps<float> f{v.n, site};
    const auto quotient = row.template ReinterpretCast<float>();
    AscendC::CreateVecIndex(offset, 0, count, site);
    v.wait();
    f.cast(quotient, offset);
    f.add(quotient, quotient, 0.5f);
    f.mul(quotient, quotient, 1.f / static_cast<float>(line));
    f.cast_out(row, quotient, AscendC::RoundMode::CAST_FLOOR);
    v.mul(row, row, static_cast<int32_t>(right));
    v.add(offset, offset, row);
    v.mul(offset, offset, static_cast<int32_t>(sizeof(T)));
    AscendC::Gather(dst.template ReinterpretCast<U>(), src.template ReinterpretCast<U>(), offset.template ReinterpretCast<uint32_t>(), 0u,
                    count, site);
    v.wait();
}

}  // namespace toprope

namespace AscendC {

//: DropOutBitModeInit | prepares the temporary space for DropOut with a mask of bits; here DropOut needs no preparation | - | A2 A3 | no page: called by public flash-attention kernels
template <typename T>
void DropOutBitModeInit(const LocalTensor<T>&) {}
inline void DropOutBitModeInit() {}
//: DropOut | src / keepProb where the mask byte or bit is set, else 0 | half float | A2 A3 310P | DropOut
//: Pad | adds columns on the left and right of a matrix, up to whole 32-byte blocks | 16 and 32 bit | A2 A3 310P | Pad
//: UnPad | drops columns on the right of a matrix | 16 and 32 bit | A2 A3 310P | UnPad
#define TOPROPE_FILTERS(TMP, SCRATCH)                                                                                                    \
    template <typename T, bool isInitBitMode = false, uint32_t dropOutMode = 0>                                                          \
    void DropOut(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const LocalTensor<uint8_t>& maskLocal TMP,              \
                 const float keepProb, const DropOutShapeInfo& info, toprope::Site site = toprope::Site::here()) {                       \
        static_assert(dropOutMode <= 4, "DropOut: dropOutMode is 0 to 4");                                                               \
        toprope::drop_out(SCRATCH("DropOut"), dstLocal, srcLocal, maskLocal, keepProb, static_cast<toprope::DropOutMode>(dropOutMode),   \
                          info, site);                                                                                                   \
    }                                                                                                                                    \
    template <typename T, typename Tiling>                                                                                               \
    void Pad(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, PadParams& padParams TMP, Tiling& tiling,                 \
             toprope::Site site = toprope::Site::here()) {                                                                               \
        toprope::pad_rows(SCRATCH("Pad"), dstTensor, srcTensor, padParams, tiling.srcHeight, tiling.srcWidth, tiling.srcOriWidth, site); \
    }                                                                                                                                    \
    template <typename T, typename Tiling>                                                                                               \
    void UnPad(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, UnPadParams& unPadParams TMP, Tiling& tiling,           \
               toprope::Site site = toprope::Site::here()) {                                                                             \
        toprope::unpad_rows(SCRATCH("UnPad"), dstTensor, srcTensor, unPadParams.rightPad, tiling.srcHeight, tiling.srcWidth, site);      \
    }
TOPROPE_FILTERS(, TOPROPE_REST_SCRATCH)
TOPROPE_FILTERS(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_FILTERS

}  // namespace AscendC
