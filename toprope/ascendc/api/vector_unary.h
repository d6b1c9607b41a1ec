// Element-wise functions of one tensor. One row per function: TOPROPE_UNARY(Name, meaning, cost, dtypes, expression of x).
// Reciprocal and Rsqrt are approximations on the chip (errors above 1e-3 for half, 1e-4 for float, says the reference); here they are
// exact.
#pragma once

#include "../machine/float_math.h"
#include "../machine/wrapping.h"

namespace toprope {

template <typename F, typename D, typename S>
TOPROPE_OUTLINE void vector_unary(const Op& op, const F& f, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src,
                                  const Lanes& lanes, const AscendC::UnaryRepeatParams& p, Site site) {
    if constexpr (kMayWrap<D> && HasExact<F>::value)
        note_wrapping<F, D>(op, f, lanes, site, lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride),
                            lane_operand("src", src, p.srcBlkStride, p.srcRepStride));
    LaneOp<F, D, S>::call(op, site, lanes, f, Overlap::whole, lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride),
                          lane_operand("src", src, p.srcBlkStride, p.srcRepStride));
}
template <typename D, typename S>
constexpr AscendC::UnaryRepeatParams packed_unary() {
    constexpr uint32_t width = kLaneWidth<D, S>;
    return {1, 1, packed_stride<D>(width), packed_stride<S>(width)};
}

}  // namespace toprope

#define TOPROPE_UNARY(Name, meaning, cost, dtypes, expression)                                                                          \
    namespace toprope {                                                                                                                 \
    inline constexpr Op kOp##Name{#Name, Pipe::v, Kind::compute, cost};                                                                 \
    template <typename T>                                                                                                               \
    struct Fn##Name {                                                                                                                   \
        using L = Lane<T>;                                                                                                              \
        L operator()(L x) const { return static_cast<L>(expression); }                                                                  \
    };                                                                                                                                  \
    }                                                                                                                                   \
    namespace AscendC {                                                                                                                 \
    template <typename T>                                                                                                               \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count, toprope::Site site = toprope::Site::here()) { \
        TOPROPE_REQUIRE_DTYPE(Name, T, dtypes);                                                                                         \
        toprope::vector_unary(toprope::kOp##Name, toprope::Fn##Name<T>{}, dst, src,                                                     \
                              toprope::count_form(toprope::kLaneWidth<T>, static_cast<uint32_t>(count)), {}, site);                     \
    }                                                                                                                                   \
    template <typename T, bool isSetMask = true>                                                                                        \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const uint32_t repeatTime,                           \
              const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {                                      \
        TOPROPE_REQUIRE_DTYPE(Name, T, dtypes);                                                                                         \
        toprope::vector_unary(toprope::kOp##Name, toprope::Fn##Name<T>{}, dst, src,                                                     \
                              toprope::mask_form<isSetMask>(toprope::kOp##Name, toprope::kLaneWidth<T>, mask, repeatTime, site),        \
                              repeatParams, site);                                                                                      \
    }                                                                                                                                   \
    template <typename T, bool isSetMask = true>                                                                                        \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const uint32_t repeatTime,                   \
              const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {                                      \
        TOPROPE_REQUIRE_DTYPE(Name, T, dtypes);                                                                                         \
        toprope::vector_unary(toprope::kOp##Name, toprope::Fn##Name<T>{}, dst, src,                                                     \
                              toprope::mask_form<isSetMask>(toprope::kOp##Name, toprope::kLaneWidth<T>, mask, repeatTime, site),        \
                              repeatParams, site);                                                                                      \
    }                                                                                                                                   \
    }

#if __NPU_ARCH__ == 3002
TOPROPE_UNARY(Abs, "dst = |src|", "vabs", (int16_t, half, float), x < L{0} ? static_cast<L>(-x) : (x == L{0} ? L{0} : x))
#else
TOPROPE_UNARY(Abs, "dst = |src|", "vabs", (half, float), __builtin_fabsf(x))
#endif
TOPROPE_UNARY(Exp, "dst = e to the power src", "vexp", (half, float), toprope::exp_float(x))
TOPROPE_UNARY(Ln, "dst = the natural logarithm of src", "vln", (half, float), toprope::log_float(x))
TOPROPE_UNARY(Reciprocal, "dst = 1 / src", "vrec", (half, float), toprope::reciprocal_float(x))
TOPROPE_UNARY(Rsqrt, "dst = 1 / sqrt(src)", "vrsqrt", (half, float), toprope::rsqrt_float(x))
TOPROPE_UNARY(Sqrt, "dst = the square root of src", "vsqrt", (half, float), toprope::sqrt_float(x))
#if __NPU_ARCH__ != 1001
TOPROPE_UNARY(Relu, "dst = src where src > 0, else 0; NaN stays NaN", "vrelu", (half, int32_t, float), x > 0 || x != x ? x : L{0})
#else
TOPROPE_UNARY(Relu, "dst = src where src > 0, else 0; NaN stays NaN", "vrelu", (half), x > 0 || x != x ? x : L{0})
#endif
TOPROPE_UNARY(Not, "dst = src with every bit flipped", "vnot", (int16_t, uint16_t), ~x)

TOPROPE_ABSENT("Ascend 950", Neg)
TOPROPE_ABSENT("Ascend 950", Truncate)
