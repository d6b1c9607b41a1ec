// Element-wise operations of a tensor and a scalar. One row per function: TOPROPE_SCALAR(Name, meaning, cost, dtypes, expression of x and
// s). Undocumented and decided here: integers wrap on overflow; Maxs and Mins give NaN when either operand is NaN.
#pragma once

#include "vector_binary.h"
#include "vector_unary.h"

namespace toprope {

// The count form with isSetMask = false takes its lanes from the mask registers; `count` is a placeholder then.
template <bool isSetMask>
Lanes count_or_registers(uint32_t width, uint32_t count) {
    return isSetMask ? count_form(width, count) : mask_lanes(width, 1);
}

// A shift by the whole width or more leaves only the sign (right, signed) or nothing.
template <typename T>
T shift_left(T x, T s) {
    return s >= static_cast<T>(sizeof(T) * 8) ? T{0} : static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) << s);
}
// Signed left shift keeps the sign bit: the bit below it is lost, says the page.
template <typename T>
T shift_left_keeping_sign(T x, T s) {
    if constexpr (std::is_signed_v<T>) {
        using U = std::make_unsigned_t<T>;
        constexpr U sign = static_cast<U>(U{1} << (sizeof(T) * 8 - 1));
        return static_cast<T>((static_cast<U>(x) & sign) | (static_cast<U>(shift_left<T>(x, s)) & static_cast<U>(~sign)));
    } else {
        return shift_left<T>(x, s);
    }
}
// As the operation says, or exactly if X, the type that it computes in, is wider.
template <typename X, typename T>
auto shifted_left(T x, T s) {
    if constexpr (std::is_same_v<std::remove_const_t<X>, int64_t>)
        return s < 0 || s > 31 ? int64_t{x} : static_cast<int64_t>(static_cast<uint64_t>(int64_t{x}) << s);
    else
        return shift_left_keeping_sign<T>(x, s);
}
template <typename T>
T shift_right(T x, T s, bool rounds) {
    constexpr T bits = static_cast<T>(sizeof(T) * 8);
    if constexpr (std::is_signed_v<T>) {
        const T shifted = static_cast<T>(x >> (s >= bits ? static_cast<T>(bits - 1) : s));
        return static_cast<T>(shifted + (rounds && s > 0 ? (x >> (s > bits ? static_cast<T>(bits - 1) : static_cast<T>(s - 1))) & 1 : 0));
    } else {
        return s >= bits ? T{0} : static_cast<T>(x >> s);
    }
}

}  // namespace toprope

#define TOPROPE_SCALAR(Name, meaning, cost, dtypes, expression)                                                                        \
    namespace toprope {                                                                                                                \
    inline constexpr Op kOp##Name{#Name, Pipe::v, Kind::compute, cost};                                                                \
    template <typename T>                                                                                                              \
    struct Fn##Name {                                                                                                                  \
        using L = Lane<T>;                                                                                                             \
        L s_;                                                                                                                          \
        L operator()(L x_) const {                                                                                                     \
            const Wrap<L> x = static_cast<Wrap<L>>(x_), s = static_cast<Wrap<L>>(s_);                                                  \
            return static_cast<L>(expression);                                                                                         \
        }                                                                                                                              \
        int64_t exact(L x_, L s_) const {                                                                                              \
            const WideLane<L> x = x_, s = s_;                                                                                          \
            return static_cast<int64_t>(expression);                                                                                   \
        }                                                                                                                              \
    };                                                                                                                                 \
    }                                                                                                                                  \
    namespace AscendC {                                                                                                                \
    template <typename T, bool isSetMask = true>                                                                                       \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count,                        \
              toprope::Site site = toprope::Site::here()) {                                                                            \
        TOPROPE_REQUIRE_DTYPE(Name, T, dtypes);                                                                                        \
        toprope::vector_unary(toprope::kOp##Name, toprope::Fn##Name<T>{scalarValue}, dst, src,                                         \
                              toprope::count_or_registers<isSetMask>(toprope::kLaneWidth<T>, static_cast<uint32_t>(count)), {}, site); \
    }                                                                                                                                  \
    template <typename T, bool isSetMask = true>                                                                                       \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask, const uint32_t repeatTime,    \
              const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {                                     \
        TOPROPE_REQUIRE_DTYPE(Name, T, dtypes);                                                                                        \
        toprope::vector_unary(toprope::kOp##Name, toprope::Fn##Name<T>{scalarValue}, dst, src,                                         \
                              toprope::mask_form<isSetMask>(toprope::kOp##Name, toprope::kLaneWidth<T>, mask, repeatTime, site),       \
                              repeatParams, site);                                                                                     \
    }                                                                                                                                  \
    template <typename T, bool isSetMask = true>                                                                                       \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const uint64_t mask[],                       \
              const uint32_t repeatTime, const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {          \
        TOPROPE_REQUIRE_DTYPE(Name, T, dtypes);                                                                                        \
        toprope::vector_unary(toprope::kOp##Name, toprope::Fn##Name<T>{scalarValue}, dst, src,                                         \
                              toprope::mask_form<isSetMask>(toprope::kOp##Name, toprope::kLaneWidth<T>, mask, repeatTime, site),       \
                              repeatParams, site);                                                                                     \
    }                                                                                                                                  \
    }

#if __NPU_ARCH__ != 1001
TOPROPE_SCALAR(Adds, "dst = src + scalar", "vadds", (int16_t, half, int32_t, float), x + s)
TOPROPE_SCALAR(Muls, "dst = src * scalar", "vmuls", (int16_t, half, int32_t, float), x* s)
TOPROPE_SCALAR(Maxs, "dst = the larger of src and scalar", "vmaxs", (int16_t, half, int32_t, float), x_ > s_ || x_ != x_ ? x_ : s_)
TOPROPE_SCALAR(Mins, "dst = the smaller of src and scalar", "vmins", (int16_t, half, int32_t, float), x_ < s_ || x_ != x_ ? x_ : s_)
TOPROPE_SCALAR(LeakyRelu, "dst = src where src >= 0, else scalar * src", "vlrelu", (half, float), x >= 0 ? x : x * s)
#else
TOPROPE_SCALAR(Adds, "dst = src + scalar", "vadds", (half, float), x + s)
TOPROPE_SCALAR(Muls, "dst = src * scalar", "vmuls", (half, float), x* s)
TOPROPE_ABSENT("A2, A3 and 310P", Maxs)
TOPROPE_ABSENT("A2, A3 and 310P", Mins)
TOPROPE_ABSENT("A2, A3 and 310P", LeakyRelu)
#endif

// Shifts: A2, A3 and 950 only.
#if __NPU_ARCH__ == 2201 || __NPU_ARCH__ == 3510
TOPROPE_SCALAR(ShiftLeft, "dst = src << scalar; a signed type keeps its sign bit", "vshl", (int16_t, uint16_t, int32_t, uint32_t),
               toprope::shifted_left<decltype(x)>(x_, s_))
#define TOPROPE_SHIFTS (int16_t, uint16_t, int32_t, uint32_t)
#else
TOPROPE_ABSENT("A2, A3 and 950", ShiftLeft)
#define TOPROPE_SHIFTS (void)
#endif

namespace toprope {
inline constexpr Op kOpShiftRight{"ShiftRight", Pipe::v, Kind::compute, "vshr"};
template <typename T>
struct FnShiftRight {
    T s;
    bool rounds;
    T operator()(T x) const { return shift_right<T>(x, s, rounds); }
};
}  // namespace toprope

namespace AscendC {

//: ShiftRight | dst = src >> scalar, arithmetic for signed types; roundEn adds the last bit shifted out | int16_t uint16_t int32_t uint32_t | A2 A3 | ShiftRight
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count,
                toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(ShiftRight, T, TOPROPE_SHIFTS);
    toprope::vector_unary(toprope::kOpShiftRight, toprope::FnShiftRight<T>{scalarValue, false}, dst, src,
                          toprope::count_or_registers<isSetMask>(toprope::kLaneWidth<T>, static_cast<uint32_t>(count)), {}, site);
}
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask, const uint32_t repeatTime,
                const UnaryRepeatParams& repeatParams, bool roundEn = false, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(ShiftRight, T, TOPROPE_SHIFTS);
    toprope::vector_unary(toprope::kOpShiftRight, toprope::FnShiftRight<T>{scalarValue, roundEn}, dst, src,
                          toprope::mask_form<isSetMask>(toprope::kOpShiftRight, toprope::kLaneWidth<T>, mask, repeatTime, site),
                          repeatParams, site);
}
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const uint64_t mask[],
                const uint32_t repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn = false,
                toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(ShiftRight, T, TOPROPE_SHIFTS);
    toprope::vector_unary(toprope::kOpShiftRight, toprope::FnShiftRight<T>{scalarValue, roundEn}, dst, src,
                          toprope::mask_form<isSetMask>(toprope::kOpShiftRight, toprope::kLaneWidth<T>, mask, repeatTime, site),
                          repeatParams, site);
}

}  // namespace AscendC

TOPROPE_ABSENT("Ascend 950", Subs)
TOPROPE_ABSENT("Ascend 950", Divs)
TOPROPE_ABSENT("Ascend 950", Ands)
TOPROPE_ABSENT("Ascend 950", Ors)
TOPROPE_ABSENT("Ascend 950", Prelu)
TOPROPE_ABSENT("Ascend 950", Mull)
