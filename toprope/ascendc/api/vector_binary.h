// Element-wise operations of two tensors. One row per function: TOPROPE_BINARY(Name, meaning, cost, dtypes, expression of a and b).
// A row gives the count form, both mask forms, the documentation line and the entry in `toprope api`.
// Undocumented and decided here: integers wrap on overflow; Max and Min give NaN when either operand is NaN; floats divide exactly rounded.
#pragma once

#include "../machine/wrapping.h"

namespace toprope {

template <typename F, typename D, typename A, typename B>
TOPROPE_OUTLINE void vector_binary(const Op& op, const F& f, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<A>& src0,
                                   const AscendC::LocalTensor<B>& src1, const Lanes& lanes, const AscendC::BinaryRepeatParams& p, Site site,
                                   Overlap overlap = Overlap::whole) {
    if constexpr (kMayWrap<D> && HasExact<F>::value)
        note_wrapping<F, D>(op, f, lanes, site, lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride),
                            lane_operand("src0", src0, p.src0BlkStride, p.src0RepStride),
                            lane_operand("src1", src1, p.src1BlkStride, p.src1RepStride));
    LaneOp<F, D, A, B>::call(op, site, lanes, f, overlap, lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride),
                             lane_operand("src0", src0, p.src0BlkStride, p.src0RepStride),
                             lane_operand("src1", src1, p.src1BlkStride, p.src1RepStride));
}
// Contiguous operands of these element types in an instruction as wide as the widest allows.
template <typename D, typename A, typename B>
constexpr AscendC::BinaryRepeatParams packed_binary() {
    constexpr uint32_t width = kLaneWidth<D, A, B>;
    return {1, 1, 1, packed_stride<D>(width), packed_stride<A>(width), packed_stride<B>(width)};
}

}  // namespace toprope

#define TOPROPE_BINARY_FORMS(Name, dtypes, rule)                                                                                      \
    template <typename T>                                                                                                             \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count,                \
              toprope::Site site = toprope::Site::here()) {                                                                           \
        TOPROPE_REQUIRE_DTYPE(Name, T, dtypes);                                                                                       \
        toprope::vector_binary(toprope::kOp##Name, toprope::Fn##Name<T>{}, dst, src0, src1,                                           \
                               toprope::count_form(toprope::kLaneWidth<T>, static_cast<uint32_t>(count)), {}, site,                   \
                               toprope::Overlap::rule);                                                                               \
    }                                                                                                                                 \
    template <typename T, bool isSetMask = true, typename R>                                                                          \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, const R repeatTime,   \
              const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {                                   \
        TOPROPE_REQUIRE_DTYPE(Name, T, dtypes);                                                                                       \
        toprope::vector_binary(                                                                                                       \
            toprope::kOp##Name, toprope::Fn##Name<T>{}, dst, src0, src1,                                                              \
            toprope::mask_form<isSetMask>(toprope::kOp##Name, toprope::kLaneWidth<T>, mask, static_cast<uint32_t>(repeatTime), site), \
            repeatParams, site, toprope::Overlap::rule);                                                                              \
    }                                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                                      \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const uint64_t mask[],               \
              const uint32_t repeatTime, const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {        \
        TOPROPE_REQUIRE_DTYPE(Name, T, dtypes);                                                                                       \
        toprope::vector_binary(toprope::kOp##Name, toprope::Fn##Name<T>{}, dst, src0, src1,                                           \
                               toprope::mask_form<isSetMask>(toprope::kOp##Name, toprope::kLaneWidth<T>, mask, repeatTime, site),     \
                               repeatParams, site, toprope::Overlap::rule);                                                           \
    }

#define TOPROPE_BINARY_ROW(Name, cost, dtypes, rule, expression)                      \
    namespace toprope {                                                               \
    inline constexpr Op kOp##Name{#Name, Pipe::v, Kind::compute, cost};               \
    template <typename T>                                                             \
    struct Fn##Name {                                                                 \
        using L = Lane<T>;                                                            \
        L operator()(L a_, L b_) const {                                              \
            const Wrap<L> a = static_cast<Wrap<L>>(a_), b = static_cast<Wrap<L>>(b_); \
            return static_cast<L>(expression);                                        \
        }                                                                             \
        int64_t exact(L a_, L b_) const {                                             \
            const WideLane<L> a = a_, b = b_;                                         \
            return static_cast<int64_t>(expression);                                  \
        }                                                                             \
    };                                                                                \
    }                                                                                 \
    namespace AscendC {                                                               \
    TOPROPE_BINARY_FORMS(Name, dtypes, rule)                                          \
    }

#define TOPROPE_BINARY(Name, meaning, cost, dtypes, expression) TOPROPE_BINARY_ROW(Name, cost, dtypes, accumulate, expression)
#define TOPROPE_BINARY_BITS(Name, meaning, cost, dtypes, expression) TOPROPE_BINARY_ROW(Name, cost, dtypes, whole, expression)

#if __NPU_ARCH__ != 1001
TOPROPE_BINARY(Add, "dst = src0 + src1", "vadd", (int16_t, half, int32_t, float), a + b)
TOPROPE_BINARY(Sub, "dst = src0 - src1", "vsub", (int16_t, half, int32_t, float), a - b)
TOPROPE_BINARY(Mul, "dst = src0 * src1", "vmul", (int16_t, half, int32_t, float), a* b)
TOPROPE_BINARY(Max, "dst = the larger of src0 and src1", "vmax", (int16_t, half, int32_t, float), a_ > b_ || a_ != a_ ? a_ : b_)
TOPROPE_BINARY(Min, "dst = the smaller of src0 and src1", "vmin", (int16_t, half, int32_t, float), a_ < b_ || a_ != a_ ? a_ : b_)
#else
TOPROPE_BINARY(Add, "dst = src0 + src1", "vadd", (half, int32_t, float), a + b)
TOPROPE_BINARY(Sub, "dst = src0 - src1", "vsub", (half, int32_t, float), a - b)
TOPROPE_BINARY(Mul, "dst = src0 * src1", "vmul", (half, int32_t, float), a* b)
TOPROPE_BINARY(Max, "dst = the larger of src0 and src1", "vmax", (half, int32_t, float), a_ > b_ || a_ != a_ ? a_ : b_)
TOPROPE_BINARY(Min, "dst = the smaller of src0 and src1", "vmin", (half, int32_t, float), a_ < b_ || a_ != a_ ? a_ : b_)
#endif
TOPROPE_BINARY_BITS(Div, "dst = src0 / src1", "vdiv", (half, float), a / b)
TOPROPE_BINARY_BITS(And, "dst = src0 & src1, bit by bit", "vand", (int16_t, uint16_t), a& b)
TOPROPE_BINARY_BITS(Or, "dst = src0 | src1, bit by bit", "vor", (int16_t, uint16_t), a | b)

namespace AscendC {
// Precision choices of Div on Ascend 950. The types exist here so that code for several chips compiles; Div takes none on this chip.
enum class DivAlgo {
    INTRINSIC,
    DIFF_COMPENSATION,
    PRECISION_1ULP_FTZ_TRUE,
    PRECISION_0ULP_FTZ_TRUE,
    PRECISION_0ULP_FTZ_FALSE,
    PRECISION_1ULP_FTZ_FALSE
};
struct DivConfig {
    DivAlgo algo = DivAlgo::INTRINSIC;
};
inline constexpr DivConfig DEFAULT_DIV_CONFIG = {DivAlgo::INTRINSIC};
}  // namespace AscendC
