// Conversions between element types of registers. Page: 基础API/Reg矢量计算/类型转换/{Cast,Truncate}.
#pragma once

#include "select.h"

namespace toprope {

inline constexpr Op kRegCast{"Reg::Cast", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegTruncate{"Reg::Truncate", Pipe::v, Kind::compute, "reg_dual"};

// The pairs of tables 6 to 9 of the page, without the 4-bit and 8-bit floats and int4, which are not modelled.
template <typename D, typename S>
constexpr bool reg_cast_pair() {
    if constexpr (std::is_same_v<S, half>) return is_one_of<D, int8_t, uint8_t, int16_t, int32_t, bfloat16_t, float>;
    if constexpr (std::is_same_v<S, bfloat16_t>) return is_one_of<D, half, int32_t, float>;
    if constexpr (std::is_same_v<S, float>) return is_one_of<D, int16_t, int32_t, int64_t, half, bfloat16_t>;
    if constexpr (std::is_same_v<S, int8_t>) return is_one_of<D, half, int16_t, int32_t>;
    if constexpr (std::is_same_v<S, uint8_t>) return is_one_of<D, half, uint16_t, uint32_t>;
    if constexpr (std::is_same_v<S, int16_t>) return is_one_of<D, half, float, uint8_t, int32_t, uint32_t>;
    if constexpr (std::is_same_v<S, uint16_t>) return is_one_of<D, uint8_t, uint32_t>;
    if constexpr (std::is_same_v<S, int32_t>) return is_one_of<D, float, uint8_t, int16_t, uint16_t, int64_t>;
    if constexpr (std::is_same_v<S, uint32_t>) return is_one_of<D, uint8_t, int16_t, uint16_t>;
    if constexpr (std::is_same_v<S, int64_t>) return is_one_of<D, float, int32_t>;
    return false;
}

inline double whole_by(AscendC::RoundMode mode, double x) {
    using M = AscendC::RoundMode;
    switch (mode) {
        case M::CAST_FLOOR:
            return __builtin_floor(x);
        case M::CAST_CEIL:
            return __builtin_ceil(x);
        case M::CAST_TRUNC:
            return __builtin_trunc(x);
        case M::CAST_ROUND:
            return __builtin_round(x);
        default:
            return __builtin_rint(x);
    }
}
// A number to one of `bits` fraction bits (hidden one included) and least exponent `least`, by mode. Odd: towards zero, last bit 1 if
// inexact.
inline double narrowed(AscendC::RoundMode mode, double x, int bits, int least) {
    if (x == 0 || x != x || __builtin_isinf(x)) return x;
    int exponent;
    __builtin_frexp(x, &exponent);  // |x| in [2^(e-1), 2^e)
    const int place = (exponent > least ? exponent : least) - bits;
    const double scaled = __builtin_ldexp(x, -place);
    double whole = whole_by(mode == AscendC::RoundMode::CAST_ODD ? AscendC::RoundMode::CAST_TRUNC : mode, scaled);
    if (mode == AscendC::RoundMode::CAST_ODD && whole != scaled && __builtin_fmod(whole, 2) == 0) whole += scaled > 0 ? 1 : -1;
    return __builtin_ldexp(whole, place);
}

template <typename D, typename S>
D reg_convert(S value, AscendC::RoundMode mode, bool saturate) {
    if constexpr (std::is_integral_v<D>) {
        constexpr D low = std::numeric_limits<D>::min(), high = std::numeric_limits<D>::max();
        if constexpr (std::is_integral_v<S>) {
            constexpr bool widens_sign = sizeof(D) > sizeof(S) && std::is_unsigned_v<D> && std::is_signed_v<S>;  // saturates always
            if (saturate || widens_sign) {
                if (std::is_signed_v<S> && std::is_unsigned_v<D> && value < 0) return 0;
                if (std::is_signed_v<S> && std::is_signed_v<D> && static_cast<int64_t>(value) < static_cast<int64_t>(low)) return low;
                if (value > 0 && static_cast<uint64_t>(value) > static_cast<uint64_t>(high)) return high;
            }
            return static_cast<D>(value);
        } else {
            const double x = whole_by(mode, static_cast<double>(static_cast<float>(value)));
            if (x != x) return 0;
            if (__builtin_isinf(x)) return x > 0 ? high : low;
            if (x >= static_cast<double>(low) && (sizeof(D) == 8 ? x < 9223372036854775808.0 : x <= static_cast<double>(high)))
                return static_cast<D>(x);
            if (saturate) return x > 0 ? high : low;
            const double turn = __builtin_fmod(x, 18446744073709551616.0);  // the low bits stay
            return static_cast<D>(turn < 0 ? uint64_t{0} - static_cast<uint64_t>(-turn) : static_cast<uint64_t>(turn));
        }
    } else if constexpr (std::is_same_v<D, float>) {
        if constexpr (std::is_integral_v<S> && sizeof(S) == 8) {
            // 64 bits lie in no double: what is cut off is kept as a last bit.
            const uint64_t magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
            double x = static_cast<double>(magnitude >> 11) * 2048.0;
            if (magnitude & 2047) x = magnitude >> 53 ? x + 1024.0 : static_cast<double>(magnitude);
            return static_cast<float>(narrowed(mode, value < 0 ? -x : x, 24, -125));
        } else if constexpr (std::is_integral_v<S>) {
            return static_cast<float>(narrowed(mode, static_cast<double>(value), 24, -125));
        } else {
            return static_cast<float>(value);
        }
    } else {
        const double x = [&] {
            if constexpr (std::is_integral_v<S>)
                return static_cast<double>(value);
            else
                return static_cast<double>(static_cast<float>(value));
        }();
        constexpr bool is_half = std::is_same_v<D, half>;
        const double largest = is_half ? 65504.0 : 3.3895313892515355e38;
        const double r = is_half ? narrowed(mode, x, 11, -13) : narrowed(mode, x, 8, -125);
        const bool over = __builtin_fabs(r) > largest;
        if (saturate && (over || r != r)) return r != r ? D(0.f) : D(static_cast<float>(r > 0 ? largest : -largest));
        if (over && !__builtin_isinf(r)) {
            using M = AscendC::RoundMode;  // directed modes stop at the largest number
            const bool stops =
                mode == M::CAST_TRUNC || mode == M::CAST_ODD || (mode == M::CAST_FLOOR && r > 0) || (mode == M::CAST_CEIL && r < 0);
            return D(static_cast<float>((r > 0 ? 1 : -1) * (stops ? largest : static_cast<double>(__builtin_inff()))));
        }
        return D(static_cast<float>(r));
    }
}
// CTRL[60]: the instruction's mode counts where it is 0, the register's bits where it is 1.
template <bool to_integer>
bool cast_saturates(reg::SatMode own) {
    const uint64_t control = self->registers[kRegControl];
    if ((control >> 60) & 1u) return ((control >> (to_integer ? 59 : 48)) & 1u) == 0;
    return own == reg::SatMode::SAT;
}

}  // namespace toprope

namespace AscendC {
namespace Reg {

//: Reg::Cast | converts element types; narrow elements lie at one of the places of a wide one | int uint half bf16 float | 950 | 基础API/Reg矢量计算/类型转换/Cast.md
template <typename T = DefaultType, typename U = DefaultType, const CastTrait& trait = castTrait, typename S, typename V,
          toprope::IfRegister<S> = 0>
void Cast(S& dstReg, V& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    using D = Element<T, S>;
    using F = Element<U, V>;
    static_assert(
        reg_cast_pair<D, F>(),
        "Reg::Cast: this pair of element types does not exist, or is one of the 4-bit and 8-bit floats or int4, which are not modelled");
    record(kRegCast, site, 1, static_cast<uint32_t>(dtype_of<F>));
    require_defined(srcReg, kRegCast, site);
    constexpr uint32_t to = sizeof(D), from = sizeof(F), wide = to > from ? to : from;
    constexpr uint32_t place = trait.layoutMode == RegLayout::UNKNOWN ? 0 : static_cast<uint32_t>(trait.layoutMode);
    static_assert(place < wide / (to < from ? to : from), "Reg::Cast: RegLayout names a place that the narrow elements do not have");
    constexpr bool merge = trait.mrgMode == MaskMergeMode::MERGING;
    const bool saturate = cast_saturates<std::is_integral_v<D>>(trait.satMode);
    constexpr uint32_t out_bytes = S::kBytes, in_bytes = V::kBytes;
    constexpr uint32_t n = out_bytes / to < in_bytes / from ? out_bytes / to : in_bytes / from;
    // Registers of two lengths (64-bit elements in two): elements side by side; else each narrow one at its place within a wide one.
    constexpr bool side_by_side = out_bytes != in_bytes && to != from;
    const auto* in = reinterpret_cast<const F*>(srcReg.bytes);
    D out[out_bytes / to];
    if (merge)
        std::memcpy(out, dstReg.bytes, sizeof out);
    else
        std::memset(static_cast<void*>(out), 0, sizeof out);
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t source = !side_by_side && to > from ? i * (to / from) + place : i;
        const uint32_t target = !side_by_side && from > to ? i * (from / to) + place : i;
        if (mask.get(source * (kMaskBits / (in_bytes / from)))) out[target] = reg_convert<D>(in[source], trait.roundMode, saturate);
    }
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
//: Reg::Truncate | floating-point elements to whole numbers of the same type | half bf16 float | 950 | 基础API/Reg矢量计算/类型转换/Truncate.md
template <typename T = DefaultType, RoundMode roundMode = RoundMode::CAST_NONE, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S,
          toprope::IfRegister<S> = 0>
void Truncate(S& dstReg, S& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, S>;
    TOPROPE_REG_DTYPES(Truncate, E, half, bfloat16_t, float);
    toprope::reg_unary<E>(toprope::kRegTruncate, dstReg, srcReg, mask, mode == MaskMergeMode::MERGING, site,
                          [](float x) { return static_cast<float>(toprope::whole_by(roundMode, x)); });
}

}  // namespace Reg
}  // namespace AscendC
