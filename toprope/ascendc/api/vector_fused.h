// Two or three element-wise steps in one instruction. Rows: TOPROPE_TERNARY (dst also read), TOPROPE_FUSED_CAST (result of another type;
// the documentation line stands above). With one element type each step rounds, so that fusing gains no accuracy (page 复合计算/概述); half
// into float rounds once, at the end.
#pragma once

#include "../machine/cast.h"
#include "vector_binary.h"
#include "vector_unary.h"

namespace toprope {

template <typename F, typename D, typename S>
TOPROPE_OUTLINE void vector_ternary(const Op& op, const F& f, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src0,
                                    const AscendC::LocalTensor<S>& src1, const Lanes& lanes, const AscendC::BinaryRepeatParams& p,
                                    Site site) {
    const VectorOperand d = lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride);
    LaneOp<F, D, S, S, D>::call(op, site, lanes, f, Overlap::whole, d, lane_operand("src0", src0, p.src0BlkStride, p.src0RepStride),
                                lane_operand("src1", src1, p.src1BlkStride, p.src1RepStride), d);
}

template <typename D, typename S, typename... Allowed>
inline constexpr bool is_pair_of = (std::is_same_v<void(D, S), Allowed> || ...);

// A sum or product of 32-bit or smaller integers that wraps in T.
template <typename T>
T wrapped(int64_t x) {
    return static_cast<T>(x);
}
template <typename T>
Lane<T> add_in(Lane<T> a, Lane<T> b) {
    if constexpr (std::is_integral_v<T>)
        return wrapped<T>(int64_t{a} + b);
    else
        return lane_round<T>(a + b);
}
template <typename T>
Lane<T> subtract_in(Lane<T> a, Lane<T> b) {
    if constexpr (std::is_integral_v<T>)
        return wrapped<T>(int64_t{a} - b);
    else
        return lane_round<T>(a - b);
}
template <typename L>
L relu_lane(L x) {
    return x > L{0} || x != x ? x : L{0};
}

// To a narrower type, ties to even: integers saturate, floats follow the saturation mode.
template <typename D, typename L>
Lane<D> narrow_lane(L x) {
    if constexpr (is_float16<D>)
        return x;
    else if constexpr (std::is_integral_v<L>) {
        constexpr int32_t low = std::is_signed_v<D> ? -(1 << (sizeof(D) * 8 - 1)) : 0,
                          high = (1 << (sizeof(D) * 8 - (std::is_signed_v<D> ? 1 : 0))) - 1;
        return static_cast<D>(x < low ? low : (x > high ? high : x));
    } else
        return saturate_float<D>(x);
}

}  // namespace toprope

// Three forms of a function with two sources of type S; `call` is vector_binary or vector_ternary.
#define TOPROPE_FUSED_FORMS(Name, heading, maskHeading, D, S, check, call)                                                                 \
    heading void Name(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, const int32_t& count,             \
                      toprope::Site site = toprope::Site::here()) {                                                                        \
        check;                                                                                                                             \
        toprope::call(toprope::kOp##Name, toprope::Fn##Name<D, S>{}, dst, src0, src1,                                                      \
                      toprope::count_form(toprope::kLaneWidth<D, S>, static_cast<uint32_t>(count)), toprope::packed_binary<D, S, S>(),     \
                      site);                                                                                                               \
    }                                                                                                                                      \
    maskHeading void Name(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, uint64_t mask,                \
                          const uint32_t repeatTime, const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) { \
        check;                                                                                                                             \
        toprope::call(toprope::kOp##Name, toprope::Fn##Name<D, S>{}, dst, src0, src1,                                                      \
                      toprope::mask_form<isSetMask>(toprope::kOp##Name, toprope::kLaneWidth<D, S>, mask, repeatTime, site), repeatParams,  \
                      site);                                                                                                               \
    }                                                                                                                                      \
    maskHeading void Name(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, const uint64_t mask[],        \
                          const uint32_t repeatTime, const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) { \
        check;                                                                                                                             \
        toprope::call(toprope::kOp##Name, toprope::Fn##Name<D, S>{}, dst, src0, src1,                                                      \
                      toprope::mask_form<isSetMask>(toprope::kOp##Name, toprope::kLaneWidth<D, S>, mask, repeatTime, site), repeatParams,  \
                      site);                                                                                                               \
    }

#define TOPROPE_TWO_TYPES template <typename T, typename U>
#define TOPROPE_TWO_TYPES_MASK template <typename T, typename U, bool isSetMask = true>
#define TOPROPE_ONE_TYPE template <typename T>
#define TOPROPE_ONE_TYPE_MASK template <typename T, bool isSetMask = true>

// D: element type of dst, S: of the sources; a, b: the sources' lanes.
#define TOPROPE_FUSED(Name, meaning, cost, dtypes, expression)                                                                      \
    namespace toprope {                                                                                                             \
    inline constexpr Op kOp##Name{#Name, Pipe::v, Kind::compute, cost};                                                             \
    template <typename D, typename S>                                                                                               \
    struct Fn##Name {                                                                                                               \
        Lane<D> operator()(Lane<S> a, Lane<S> b) const { return expression; }                                                       \
    };                                                                                                                              \
    }                                                                                                                               \
    namespace AscendC {                                                                                                             \
    TOPROPE_FUSED_FORMS(Name, TOPROPE_ONE_TYPE, TOPROPE_ONE_TYPE_MASK, T, T, TOPROPE_REQUIRE_DTYPE(Name, T, dtypes), vector_binary) \
    }
#define TOPROPE_TERNARY(Name, meaning, cost, dtypes, expression)                                                                     \
    namespace toprope {                                                                                                              \
    inline constexpr Op kOp##Name{#Name, Pipe::v, Kind::compute, cost};                                                              \
    template <typename D, typename S>                                                                                                \
    struct Fn##Name {                                                                                                                \
        Lane<D> operator()(Lane<S> a, Lane<S> b, Lane<D> d) const { return expression; }                                             \
    };                                                                                                                               \
    }                                                                                                                                \
    namespace AscendC {                                                                                                              \
    TOPROPE_FUSED_FORMS(Name, TOPROPE_ONE_TYPE, TOPROPE_ONE_TYPE_MASK, T, T, TOPROPE_REQUIRE_DTYPE(Name, T, dtypes), vector_ternary) \
    }
#define TOPROPE_REQUIRE_PAIR(Name, ...)                   \
    static_assert(toprope::is_pair_of<T, U, __VA_ARGS__>, \
                  #Name ": this chip has no " #Name " for these element types (see `toprope api " #Name "`)")
#define TOPROPE_FUSED_CAST(Name, pairs, cost, expression)                                                                        \
    namespace toprope {                                                                                                          \
    inline constexpr Op kOp##Name{#Name, Pipe::v, Kind::compute, cost};                                                          \
    template <typename D, typename S>                                                                                            \
    struct Fn##Name {                                                                                                            \
        Lane<D> operator()(Lane<S> a, Lane<S> b) const { return narrow_lane<D>(expression); }                                    \
    };                                                                                                                           \
    }                                                                                                                            \
    namespace AscendC {                                                                                                          \
    TOPROPE_FUSED_FORMS(Name, TOPROPE_TWO_TYPES, TOPROPE_TWO_TYPES_MASK, T, U, TOPROPE_REQUIRE_PAIR(Name, TOPROPE_UNPACK pairs), \
                        vector_binary)                                                                                           \
    }

#if __NPU_ARCH__ != 1001
TOPROPE_FUSED(AddRelu, "dst = max(0, src0 + src1)", "vaddrelu", (int16_t, half, float), relu_lane(add_in<S>(a, b)))
TOPROPE_FUSED(SubRelu, "dst = max(0, src0 - src1)", "vsubrelu", (int16_t, half, float), relu_lane(subtract_in<S>(a, b)))
TOPROPE_TERNARY(FusedMulAdd, "dst = src0 * dst + src1", "vmadd", (half, float), lane_round<S>(a* d) + b)
TOPROPE_TERNARY(MulAddRelu, "dst = max(0, src0 * dst + src1)", "vmaddrelu", (half, float), relu_lane(lane_round<S>(a* d) + b))
TOPROPE_TERNARY(FusedMulAddRelu, "the older name of MulAddRelu", "vmaddrelu", (half, float), relu_lane(lane_round<S>(a* d) + b))
//: AddReluCast | dst = max(0, src0 + src1) in dst's type, saturated | half int16_t into int8_t, float into half | A2 A3 310P | AddReluCast
TOPROPE_FUSED_CAST(AddReluCast, (void(int8_t, half), void(int8_t, int16_t), void(half, float)), "vaddreluconv", relu_lane(add_in<S>(a, b)))
//: SubReluCast | dst = max(0, src0 - src1) in dst's type, saturated | half int16_t into int8_t, float into half | A2 A3 310P | SubReluCast
TOPROPE_FUSED_CAST(SubReluCast, (void(int8_t, half), void(int8_t, int16_t), void(half, float)), "vsubreluconv",
                   relu_lane(subtract_in<S>(a, b)))
//: MulCast | dst = src0 * src1 in dst's type, saturated | half into int8_t uint8_t | A2 A3 310P | MulCast
TOPROPE_FUSED_CAST(MulCast, (void(int8_t, half), void(uint8_t, half)), "vmulconv", lane_round<S>(a* b))
#endif

namespace toprope {
inline constexpr Op kOpMulAddDst{"MulAddDst", Pipe::v, Kind::compute, "vmla"};
inline constexpr Op kOpAxpy{"Axpy", Pipe::v, Kind::compute, "vaxpy"};
inline constexpr Op kOpAddDeqRelu{"AddDeqRelu", Pipe::v, Kind::compute, "vadddeqrelu"};

template <typename D, typename S>
struct FnMulAddDst {
    Lane<D> operator()(Lane<S> a, Lane<S> b, Lane<D> d) const { return lane_round<D>(a * b) + d; }
};
template <>
struct FnMulAddDst<float, half> {
    float operator()(float a, float b, float d) const { return a * b + d; }  // the product of two halves is exact
};
template <typename D, typename S>
struct FnAxpy {
    Lane<S> scalar;
    Lane<D> operator()(Lane<S> x, Lane<D> d) const { return lane_round<D>(scalar * x) + d; }
};

template <typename T, typename U>
TOPROPE_OUTLINE void axpy(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, U scalar, const Lanes& lanes,
                          const AscendC::UnaryRepeatParams& p, Site site) {
    static_assert(is_pair_of<T, U, void(half, half), void(float, float), void(float, half)>,
                  "Axpy: the element types are half, float, or half into float (see `toprope api Axpy`)");
    const VectorOperand d = lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride);
    LaneOp<FnAxpy<T, U>, T, U, T>::call(kOpAxpy, site, lanes, {static_cast<Lane<U>>(scalar)}, Overlap::whole, d,
                                        lane_operand("src", src, p.srcBlkStride, p.srcRepStride), d);
}

// Deq(a + b) = (a + b) / 2^17 * scale * 2^17 in float, then half; the powers of two keep intermediate values small.
struct FnAddDeqRelu {
    float scale;
    float operator()(int32_t a, int32_t b) const {
        const float x = static_cast<float>(wrapped<int32_t>(int64_t{a} + b));
        return relu_lane(lane_round<half>(x * 7.62939453125e-06f * scale * 131072.0f));
    }
};
inline FnAddDeqRelu add_deq_relu(Site site) {
    if (self->type != CoreType::aic) require_deq_scale(kOpAddDeqRelu, DeqKind::half_scale, "SetDeqScale(half)", site);
    return {half_to_float(static_cast<uint16_t>(self->registers[kRegDeqScale]))};
}
}  // namespace toprope

namespace AscendC {

//: MulAddDst | dst = src0 * src1 + dst | half float, half into float | A2 A3 310P | MulAddDst
TOPROPE_FUSED_FORMS(MulAddDst, TOPROPE_TWO_TYPES, TOPROPE_TWO_TYPES_MASK, T, U,
                    TOPROPE_REQUIRE_PAIR(MulAddDst, void(half, half), void(float, float), void(float, half)), vector_ternary)

//: Axpy | dst = scalar * src + dst | half float, half into float | A2 A3 310P 910 | Axpy
template <typename T, typename U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count,
          toprope::Site site = toprope::Site::here()) {
    toprope::axpy(dst, src, scalarValue, toprope::count_form(toprope::kLaneWidth<T, U>, static_cast<uint32_t>(count)),
                  toprope::packed_unary<T, U>(), site);
}
template <typename T, typename U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask, const uint32_t repeatTime,
          const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::axpy(dst, src, scalarValue, toprope::mask_form<isSetMask>(toprope::kOpAxpy, toprope::kLaneWidth<T, U>, mask, repeatTime, site),
                  repeatParams, site);
}
template <typename T, typename U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const uint64_t mask[], const uint32_t repeatTime,
          const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::axpy(dst, src, scalarValue, toprope::mask_form<isSetMask>(toprope::kOpAxpy, toprope::kLaneWidth<T, U>, mask, repeatTime, site),
                  repeatParams, site);
}

//: AddDeqRelu | dst = max(0, (src0 + src1) * the scale of SetDeqScale) as half | int32_t into half | A2 A3 310P | AddDeqRelu
template <typename T = half, typename U = int32_t>
void AddDeqRelu(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, const int32_t& count,
                toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::is_pair_of<T, U, void(half, int32_t)>, "AddDeqRelu: the sources are int32_t and dst is half");
    toprope::vector_binary(toprope::kOpAddDeqRelu, toprope::add_deq_relu(site), dst, src0, src1,
                           toprope::count_form(64, static_cast<uint32_t>(count)), toprope::packed_binary<half, int32_t, int32_t>(), site);
}
#define TOPROPE_ADD_DEQ_RELU(heading, T, U, Mask)                                                                                      \
    heading void AddDeqRelu(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, Mask,                   \
                            const uint32_t repeatTime, const BinaryRepeatParams& repeatParams,                                         \
                            toprope::Site site = toprope::Site::here()) {                                                              \
        static_assert(toprope::is_pair_of<T, U, void(half, int32_t)>, "AddDeqRelu: the sources are int32_t and dst is half");          \
        toprope::vector_binary(toprope::kOpAddDeqRelu, toprope::add_deq_relu(site), dst, src0, src1,                                   \
                               toprope::mask_form<isSetMask>(toprope::kOpAddDeqRelu, 64, mask, repeatTime, site), repeatParams, site); \
    }
#define TOPROPE_COMMA ,
TOPROPE_ADD_DEQ_RELU(template <bool isSetMask = true>, half, int32_t, uint64_t mask)
TOPROPE_ADD_DEQ_RELU(template <bool isSetMask = true>, half, int32_t, const uint64_t mask[])
TOPROPE_ADD_DEQ_RELU(template <typename T TOPROPE_COMMA typename U TOPROPE_COMMA bool isSetMask = true>, T, U, uint64_t mask)
TOPROPE_ADD_DEQ_RELU(template <typename T TOPROPE_COMMA typename U TOPROPE_COMMA bool isSetMask = true>, T, U, const uint64_t mask[])

}  // namespace AscendC

TOPROPE_ABSENT("Ascend 950", AbsSub)
TOPROPE_ABSENT("Ascend 950", ExpSub)
TOPROPE_ABSENT("Ascend 950", MulsCast)
