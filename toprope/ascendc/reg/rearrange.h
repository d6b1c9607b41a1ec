// Reductions, filling, order of elements, packing, histograms and indices. Pages: 基础API/Reg矢量计算/{归约计算,数据填充,数据重排,数据压缩,
// 离散操作,直方图计算,索引操作}.
#pragma once

#include "cast.h"

namespace toprope {

inline constexpr Op kRegReduce{"Reg::Reduce", Pipe::v, Kind::compute, "reg_reduce"};
inline constexpr Op kRegReduceDataBlock{"Reg::ReduceDataBlock", Pipe::v, Kind::compute, "reg_single"};
inline constexpr Op kRegPairReduceElem{"Reg::PairReduceElem", Pipe::v, Kind::compute, "reg_single"};
inline constexpr Op kRegDuplicate{"Reg::Duplicate", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegInterleave{"Reg::Interleave", Pipe::v, Kind::compute, "reg_single"};
inline constexpr Op kRegPack{"Reg::Pack", Pipe::v, Kind::compute, "reg_single"};
inline constexpr Op kRegSelectElements{"Reg::Gather in a register", Pipe::v, Kind::compute, "reg_single"};
inline constexpr Op kRegHistograms{"Reg::Histograms", Pipe::v, Kind::compute, "reg_histogram"};
inline constexpr Op kRegArange{"Reg::Arange", Pipe::v, Kind::compute, "reg_dual"};

template <typename E>
constexpr Lane<E> least_of() {
    if constexpr (std::is_floating_point_v<Lane<E>>)
        return -__builtin_inff();
    else
        return std::numeric_limits<E>::min();
}
template <typename E>
constexpr Lane<E> most_of() {
    if constexpr (std::is_floating_point_v<Lane<E>>)
        return __builtin_inff();
    else
        return std::numeric_limits<E>::max();
}
// The sum by halves: neighbours first. 16-bit floats round after every addition.
template <typename D>
D tree_sum(Lane<D>* x, uint32_t n) {
    for (; n > 1; n /= 2)
        for (uint32_t i = 0; i < n / 2; ++i) x[i] = lane_of(from_lane<D>(add_lanes(x[2 * i], x[2 * i + 1])));
    return from_lane<D>(x[0]);
}
// The largest or smallest of [first, first + n) and where it is; the first NaN wins, elements left out are the type's worst.
template <bool largest, typename E>
E extreme_of(const E* in, const reg::MaskReg& mask, uint32_t step, uint32_t first, uint32_t n, uint32_t* where) {
    Lane<E> best = largest ? least_of<E>() : most_of<E>();
    *where = 0;
    bool any = false;
    for (uint32_t i = first; i < first + n; ++i) {
        if (!mask.get(i * step)) continue;
        const Lane<E> x = lane_of(in[i]);
        if constexpr (std::is_floating_point_v<Lane<E>>)
            if (x != x) {
                *where = i - first;
                return in[i];
            }
        if (!any || (largest ? max_lanes(best, x) != best : min_lanes(best, x) != best)) {
            best = x;
            *where = i - first;
        } else if (x == best) {
            best = largest ? max_lanes(best, x) : min_lanes(best, x);
        }
        any = true;
    }
    return from_lane<E>(best);
}

}  // namespace toprope

namespace AscendC {
namespace Reg {

//: Reg::Reduce | the sum, or the extreme and its index, in the first elements of a register | int uint half float | 950 | 基础API/Reg矢量计算/归约计算/Reduce.md
template <ReduceType type = ReduceType::SUM, typename T = DefaultType, typename U = DefaultType,
          MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V, toprope::IfRegister<S> = 0>
void Reduce(S& dstReg, V srcReg, MaskReg mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    using D = Element<T, S>;
    using E = Element<U, V>;
    static_assert(mode == MaskMergeMode::ZEROING, "Reduce: ZEROING only");
    record(kRegReduce, site, 1, static_cast<uint32_t>(dtype_of<E>));
    require_defined(srcReg, kRegReduce, site);
    constexpr uint32_t n = V::kBytes / sizeof(E), step = kMaskBits / n;
    const auto* in = reinterpret_cast<const E*>(srcReg.bytes);
    D out[S::kBytes / sizeof(D)] = {};
    if constexpr (type == ReduceType::SUM) {
        static_assert(is_one_of<E, half, float, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>,
                      "Reduce: no sum of this element type");
        static_assert(sizeof(E) == 2 && std::is_integral_v<E> ? sizeof(D) == 4 : std::is_same_v<D, E>,
                      "Reduce: sums of 16-bit integers have 32 bits");
        Lane<D> x[n];
        for (uint32_t i = 0; i < n; ++i) x[i] = mask.get(i * step) ? static_cast<Lane<D>>(lane_of(in[i])) : Lane<D>(0);
        out[0] = tree_sum<D>(x, n);
    } else {
        static_assert(std::is_same_v<D, E>, "Reduce: the extreme has the element type");
        uint32_t where;
        out[0] = extreme_of<type == ReduceType::MAX>(in, mask, step, 0, n, &where);
        std::memcpy(reinterpret_cast<uint8_t*>(&out[1]), &where, sizeof(E) < 4 ? sizeof(E) : 4);
    }
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
//: Reg::ReduceDataBlock | the sum or extreme of every 32 bytes | int uint half float | 950 | 基础API/Reg矢量计算/归约计算/ReduceDataBlock.md
template <ReduceType type = ReduceType::SUM, typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U,
          typename V = U, toprope::IfRegister<U> = 0>
void ReduceDataBlock(U& dstReg, V srcReg, MaskReg mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    using D = Element<T, U>;
    using E = typename V::ActualT;
    record(kRegReduceDataBlock, site, 1, static_cast<uint32_t>(dtype_of<E>));
    require_defined(srcReg, kRegReduceDataBlock, site);
    constexpr uint32_t per = kBlockBytes / sizeof(E), step = sizeof(E);
    const auto* in = reinterpret_cast<const E*>(srcReg.bytes);
    D out[U::kBytes / sizeof(D)] = {};
    for (uint32_t b = 0; b < 8; ++b) {
        if constexpr (type == ReduceType::SUM) {
            Lane<D> x[per];
            for (uint32_t i = 0; i < per; ++i)
                x[i] = mask.get((b * per + i) * step) ? static_cast<Lane<D>>(lane_of(in[b * per + i])) : Lane<D>(0);
            out[b] = tree_sum<D>(x, per);
        } else {
            uint32_t where;
            out[b] = extreme_of<type == ReduceType::MAX>(in, mask, step, b * per, per, &where);
        }
    }
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
//: Reg::PairReduceElem | sums of neighbours, in the lower half | half float | 950 | 基础API/Reg矢量计算/归约计算/PairReduceElem.md
template <PairReduce type = PairReduce::SUM, typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U,
          toprope::IfRegister<U> = 0>
void PairReduceElem(U& dstReg, U srcReg, MaskReg mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    using E = Element<T, U>;
    TOPROPE_REG_DTYPES(PairReduceElem, E, half, float);
    record(kRegPairReduceElem, site, 1, static_cast<uint32_t>(dtype_of<E>));
    require_defined(srcReg, kRegPairReduceElem, site);
    constexpr uint32_t n = U::kBytes / sizeof(E);
    const auto* in = reinterpret_cast<const E*>(srcReg.bytes);
    E out[n] = {};
    const auto value = [&](uint32_t i) { return mask.get(i * static_cast<uint32_t>(sizeof(E))) ? lane_of(in[i]) : 0.f; };
    for (uint32_t i = 0; i < n / 2; ++i) out[i] = from_lane<E>(value(2 * i) + value(2 * i + 1));
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}

//: Reg::Duplicate | a number, or the lowest element of a register, in all elements | any | 950 | 基础API/Reg矢量计算/数据填充/Duplicate.md
template <typename T = DefaultType, typename U, typename S, toprope::IfRegister<S> = 0, std::enable_if_t<!toprope::is_register<U>, int> = 0>
void Duplicate(S& dstReg, U scalarValue, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, S>;
    toprope::record(toprope::kRegDuplicate, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    const E value = static_cast<E>(scalarValue);
    auto* out = reinterpret_cast<E*>(dstReg.bytes);
    for (uint32_t i = 0; i < S::kBytes / sizeof(E); ++i) out[i] = value;
    dstReg.defined = true;
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U, typename S, toprope::IfRegister<S> = 0,
          std::enable_if_t<!toprope::is_register<U>, int> = 0>
void Duplicate(S& dstReg, U scalarValue, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, S>;
    toprope::record(toprope::kRegDuplicate, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    const E value = static_cast<E>(scalarValue);
    if (mode == MaskMergeMode::MERGING && !toprope::covers(mask, S::kStep)) toprope::require_defined(dstReg, toprope::kRegDuplicate, site);
    toprope::reg_apply<E>(dstReg, mask, mode == MaskMergeMode::MERGING, [value](uint32_t) { return value; });
}
template <typename T = DefaultType, HighLowPart pos = HighLowPart::LOWEST, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S,
          toprope::IfRegister<S> = 0>
void Duplicate(S& dstReg, S& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, S>;
    static_assert(pos == HighLowPart::LOWEST, "Duplicate: the lowest element only");
    toprope::record(toprope::kRegDuplicate, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg, toprope::kRegDuplicate, site);
    E value;
    std::memcpy(&value, srcReg.bytes, sizeof value);
    toprope::reg_apply<E>(dstReg, mask, mode == MaskMergeMode::MERGING, [value](uint32_t) { return value; });
}
//: Reg::Arange | indices that go up from a number, or down to it | int half float | 950 | 基础API/Reg矢量计算/索引操作/Arange.md
template <typename T = DefaultType, IndexOrder order = IndexOrder::INCREASE_ORDER, typename U, typename S, toprope::IfRegister<S> = 0>
void Arange(S& dstReg, U scalarValue, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, S>;
    TOPROPE_REG_DTYPES(Arange, E, int8_t, int16_t, int32_t, half, float, int64_t);
    toprope::record(toprope::kRegArange, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    constexpr uint32_t n = S::kBytes / sizeof(E);
    auto* out = reinterpret_cast<E*>(dstReg.bytes);
    const auto first = toprope::lane_of(static_cast<E>(scalarValue));
    for (uint32_t i = 0; i < n; ++i) {
        const auto k = static_cast<toprope::Lane<E>>(order == IndexOrder::INCREASE_ORDER ? i : n - 1 - i);
        out[i] = toprope::from_lane<E>(toprope::add_lanes(first, k));
    }
    dstReg.defined = true;
}

//: Reg::Interleave, Reg::DeInterleave | elements of two registers in turn, and back; also of masks | any | 950 | 基础API/Reg矢量计算/数据重排/Interleave.md
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Interleave(U& dstReg0, U& dstReg1, U& srcReg0, U& srcReg1, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    toprope::record(toprope::kRegInterleave, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg0, toprope::kRegInterleave, site);
    toprope::require_defined(srcReg1, toprope::kRegInterleave, site);
    constexpr uint32_t n = U::kBytes / sizeof(E);
    const U a = srcReg0, b = srcReg1;
    const auto *x = reinterpret_cast<const E*>(a.bytes), *y = reinterpret_cast<const E*>(b.bytes);
    auto *lower = reinterpret_cast<E*>(dstReg0.bytes), *upper = reinterpret_cast<E*>(dstReg1.bytes);
    for (uint32_t i = 0; i < 2 * n; ++i) (i < n ? lower : upper)[i % n] = (i % 2 == 0 ? x : y)[i / 2];
    dstReg0.defined = dstReg1.defined = true;
}
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void DeInterleave(U& dstReg0, U& dstReg1, U& srcReg0, U& srcReg1, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    toprope::record(toprope::kRegInterleave, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg0, toprope::kRegInterleave, site);
    toprope::require_defined(srcReg1, toprope::kRegInterleave, site);
    constexpr uint32_t n = U::kBytes / sizeof(E);
    const U a = srcReg0, b = srcReg1;
    const auto *x = reinterpret_cast<const E*>(a.bytes), *y = reinterpret_cast<const E*>(b.bytes);
    auto *even = reinterpret_cast<E*>(dstReg0.bytes), *odd = reinterpret_cast<E*>(dstReg1.bytes);
    for (uint32_t i = 0; i < 2 * n; ++i) (i % 2 == 0 ? even : odd)[i / 2] = (i < n ? x : y)[i % n];
    dstReg0.defined = dstReg1.defined = true;
}
//: Reg::Pack, Reg::UnPack | the low halves of elements into half a register, and back with sign or 0; also of masks | int uint | 950 | 基础API/Reg矢量计算/数据压缩/Pack.md
template <typename T = DefaultType, typename U = DefaultType, HighLowPart part = HighLowPart::LOWEST, typename S, typename V,
          toprope::IfRegister<S> = 0>
void Pack(S& dstReg, V& srcReg, toprope::Site site = toprope::Site::here()) {
    using D = Element<T, S>;
    using E = Element<U, V>;
    static_assert(sizeof(E) == 2 * sizeof(D) && std::is_integral_v<E> && std::is_unsigned_v<D>,
                  "Pack: to the unsigned type of half the width");
    toprope::record(toprope::kRegPack, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg, toprope::kRegPack, site);
    constexpr uint32_t n = V::kBytes / sizeof(E), room = S::kBytes / sizeof(D), at = part == HighLowPart::HIGHEST ? room / 2 : 0;
    D out[room] = {};
    const auto* x = reinterpret_cast<const E*>(srcReg.bytes);
    for (uint32_t i = 0; i < n && at + i < room; ++i) out[at + i] = static_cast<D>(x[i]);
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
template <typename T = DefaultType, typename U = DefaultType, HighLowPart part = HighLowPart::LOWEST, typename S, typename V,
          toprope::IfRegister<S> = 0>
void UnPack(S& dstReg, V& srcReg, toprope::Site site = toprope::Site::here()) {
    using D = Element<T, S>;
    using E = Element<U, V>;
    static_assert(sizeof(D) == 2 * sizeof(E) && std::is_integral_v<E> && std::is_signed_v<D> == std::is_signed_v<E>,
                  "UnPack: to the type of twice the width and the same sign");
    toprope::record(toprope::kRegPack, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg, toprope::kRegPack, site);
    constexpr uint32_t n = S::kBytes / sizeof(D), room = V::kBytes / sizeof(E), at = part == HighLowPart::HIGHEST ? room / 2 : 0;
    D out[n] = {};
    const auto* x = reinterpret_cast<const E*>(srcReg.bytes);
    for (uint32_t i = 0; i < n && at + i < room; ++i) out[i] = static_cast<D>(x[at + i]);
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
// Elements of a register by their index; an index beyond the register counts modulo its elements.
template <typename T = DefaultType, typename U = DefaultType, typename S, typename V, toprope::IfRegister<S> = 0>
void Gather(S& dstReg, S& srcReg, V& indexReg, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, S>;
    using I = Element<U, V>;
    static_assert(sizeof(E) == sizeof(I) && std::is_unsigned_v<I>, "Gather in a register: unsigned indices of the width of the elements");
    toprope::record(toprope::kRegSelectElements, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg, toprope::kRegSelectElements, site);
    toprope::require_defined(indexReg, toprope::kRegSelectElements, site);
    constexpr uint32_t n = S::kBytes / sizeof(E);
    E out[n];
    const auto* x = reinterpret_cast<const E*>(srcReg.bytes);
    const auto* at = reinterpret_cast<const I*>(indexReg.bytes);
    for (uint32_t i = 0; i < n; ++i) out[i] = x[at[i] % n];
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
//: Reg::Histograms | counts of the values 0 to 127, or 128 to 255, added to dst; single or running | uint8 | 950 | 基础API/Reg矢量计算/直方图计算/Histograms.md
template <typename T = DefaultType, typename U = DefaultType, HistogramsBinType mode, HistogramsType type, typename S, typename V,
          toprope::IfRegister<S> = 0>
void Histograms(V& dstReg, S& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    static_assert(std::is_same_v<Element<T, S>, uint8_t> && std::is_same_v<Element<U, V>, uint16_t>, "Histograms: uint8_t into uint16_t");
    toprope::record(toprope::kRegHistograms, site, 1, static_cast<uint32_t>(toprope::Dtype::u8));
    toprope::require_defined(srcReg, toprope::kRegHistograms, site);
    toprope::require_defined(dstReg, toprope::kRegHistograms, site);
    constexpr uint32_t first = mode == HistogramsBinType::BIN0 ? 0 : 128;
    auto* bins = reinterpret_cast<uint16_t*>(dstReg.bytes);
    uint32_t counts[256] = {};
    for (uint32_t i = 0; i < toprope::kRegisterLength; ++i)
        if (mask.get(i)) ++counts[srcReg.bytes[i]];
    if (type == HistogramsType::ACCUMULATE)
        for (uint32_t v = 1; v < 256; ++v) counts[v] += counts[v - 1];
    for (uint32_t v = 0; v < 128; ++v) bins[v] = static_cast<uint16_t>(bins[v] + counts[first + v]);
}

}  // namespace Reg
}  // namespace AscendC
