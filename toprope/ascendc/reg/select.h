// Comparisons into masks, selection, squeezing, and masks among themselves. Pages: 基础API/Reg矢量计算/{比较与选择,MaskReg计算,逻辑计算}.
#pragma once

#include "arithmetic.h"

namespace toprope {

inline constexpr Op kRegCompare{"Reg::Compare", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegCompares{"Reg::Compares", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegSelect{"Reg::Select", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegSqueeze{"Reg::Squeeze", Pipe::v, Kind::compute, "reg_single"};
inline constexpr Op kRegUnsqueeze{"Reg::Unsqueeze", Pipe::v, Kind::compute, "reg_single"};
inline constexpr Op kRegMaskLogic{"Reg:: of masks", Pipe::v, Kind::compute, "reg_dual"};
inline constexpr Op kRegMaskOrder{"Reg:: order of masks", Pipe::v, Kind::compute, "reg_single"};
inline constexpr Op kRegMaskGen{"Reg::MaskGenWithRegTensor", Pipe::v, Kind::compute, "reg_mask_gen"};

template <AscendC::CMPMODE mode, typename L>
bool compare_lanes(L a, L b) {
    using M = AscendC::CMPMODE;
    if constexpr (mode == M::LT) return a < b;
    if constexpr (mode == M::GT) return a > b;
    if constexpr (mode == M::EQ) return a == b;
    if constexpr (mode == M::LE) return a <= b;
    if constexpr (mode == M::GE) return a >= b;
    return a != b;
}
template <typename F>
reg::MaskReg mask_words(F f) {
    reg::MaskReg m;
    for (int i = 0; i < 4; ++i) m.words[i] = f(i);
    return m;
}

}  // namespace toprope

namespace AscendC {
namespace Reg {

//: Reg::Compare, Reg::Compares | the mask of elements for which a comparison holds | int uint half bf16 float | 950 | 基础API/Reg矢量计算/比较与选择/Compare.md
template <typename T = DefaultType, CMPMODE mode = CMPMODE::EQ, typename U, toprope::IfRegister<U> = 0>
void Compare(MaskReg& dst, U& srcReg0, U& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    TOPROPE_REG_DTYPES(Compare, E, TOPROPE_REG_ALL);
    toprope::record(toprope::kRegCompare, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg0, toprope::kRegCompare, site);
    toprope::require_defined(srcReg1, toprope::kRegCompare, site);
    constexpr uint32_t n = U::kBytes / sizeof(E), step = toprope::kMaskBits / n;
    const auto *x = reinterpret_cast<const E*>(srcReg0.bytes), *y = reinterpret_cast<const E*>(srcReg1.bytes);
    MaskReg out;
    for (uint32_t i = 0; i < n; ++i)
        if (mask.get(i * step) && toprope::compare_lanes<mode>(toprope::lane_of(x[i]), toprope::lane_of(y[i]))) out.set(i * step);
    dst = out;
}
template <typename T = DefaultType, CMPMODE mode = CMPMODE::EQ, typename U, typename S, toprope::IfRegister<U> = 0>
void Compares(MaskReg& dst, U& srcReg, S scalarValue, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    TOPROPE_REG_DTYPES(Compares, E, TOPROPE_REG_ALL);
    toprope::record(toprope::kRegCompares, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg, toprope::kRegCompares, site);
    constexpr uint32_t n = U::kBytes / sizeof(E), step = toprope::kMaskBits / n;
    const auto* x = reinterpret_cast<const E*>(srcReg.bytes);
    const auto y = toprope::lane_of(static_cast<E>(scalarValue));
    MaskReg out;
    for (uint32_t i = 0; i < n; ++i)
        if (mask.get(i * step) && toprope::compare_lanes<mode>(toprope::lane_of(x[i]), y)) out.set(i * step);
    dst = out;
}
//: Reg::Select | src0 where the mask is set, else src1; also of masks | any | 950 | 基础API/Reg矢量计算/比较与选择/Select.md
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Select(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    toprope::record(toprope::kRegSelect, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg0, toprope::kRegSelect, site);
    toprope::require_defined(srcReg1, toprope::kRegSelect, site);
    constexpr uint32_t n = U::kBytes / sizeof(E), step = toprope::kMaskBits / n;
    E out[n];
    const auto *x = reinterpret_cast<const E*>(srcReg0.bytes), *y = reinterpret_cast<const E*>(srcReg1.bytes);
    for (uint32_t i = 0; i < n; ++i) out[i] = mask.get(i * step) ? x[i] : y[i];
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
//: Reg::Squeeze | the elements of the mask side by side, the rest 0; their bytes are counted if asked | int uint half float | 950 | 基础API/Reg矢量计算/比较与选择/Squeeze.md
template <typename T = DefaultType, GatherMaskMode store = GatherMaskMode::NO_STORE_REG, typename U, toprope::IfRegister<U> = 0>
void Squeeze(U& dstReg, U& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    toprope::record(toprope::kRegSqueeze, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg, toprope::kRegSqueeze, site);
    constexpr uint32_t n = U::kBytes / sizeof(E), step = toprope::kMaskBits / n;
    E out[n] = {};
    const auto* x = reinterpret_cast<const E*>(srcReg.bytes);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; ++i)
        if (mask.get(i * step)) out[kept++] = x[i];
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
    if (store == GatherMaskMode::STORE_REG) toprope::vector_function().squeezed_bytes += kept * static_cast<uint32_t>(sizeof(E));
}
//: Reg::Unsqueeze | how many elements of the mask lie before each | int uint | 950 | 基础API/Reg矢量计算/数据压缩/Unsqueeze.md
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Unsqueeze(U& dstReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    TOPROPE_REG_DTYPES(Unsqueeze, E, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t);
    toprope::record(toprope::kRegUnsqueeze, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    auto* out = reinterpret_cast<E*>(dstReg.bytes);
    uint32_t before = 0;
    for (uint32_t i = 0; i < U::kBytes / sizeof(E); ++i) {
        out[i] = static_cast<E>(before);
        before += mask.get(i * static_cast<uint32_t>(sizeof(E)));
    }
    dstReg.defined = true;
}

// ---- masks among themselves ------------------------------------------------------------------------------------------------

inline void And(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskLogic, site, 1, 0);
    dst = toprope::mask_words([&](int i) { return src0.words[i] & src1.words[i] & mask.words[i]; });
}
inline void Or(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskLogic, site, 1, 0);
    dst = toprope::mask_words([&](int i) { return (src0.words[i] | src1.words[i]) & mask.words[i]; });
}
inline void Xor(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskLogic, site, 1, 0);
    dst = toprope::mask_words([&](int i) { return (src0.words[i] ^ src1.words[i]) & mask.words[i]; });
}
inline void Not(MaskReg& dst, MaskReg& src, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskLogic, site, 1, 0);
    dst = toprope::mask_words([&](int i) { return ~src.words[i] & mask.words[i]; });
}
inline void Move(MaskReg& dst, MaskReg& src, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskLogic, site, 1, 0);
    dst = toprope::mask_words([&](int i) { return src.words[i] & mask.words[i]; });
}
inline void Move(MaskReg& dst, MaskReg& src, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskLogic, site, 1, 0);
    dst = src;
}
inline void Select(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskLogic, site, 1, 0);
    dst = toprope::mask_words([&](int i) { return (src0.words[i] & mask.words[i]) | (src1.words[i] & ~mask.words[i]); });
}
//: Reg::MaskGenWithRegTensor | a mask from bits that lie in a register | b16 b32 | 950 | 基础API/Reg矢量计算/Reg数据搬入/MaskReg搬入（MaskGenWithRegTensor）.md
template <typename T = DefaultType, int16_t offset, typename U>
void MaskGenWithRegTensor(MaskReg& dst, U& srcReg, toprope::Site site = toprope::Site::here()) {
    using E = Element<T, U>;
    static_assert(sizeof(E) == 2 || sizeof(E) == 4, "MaskGenWithRegTensor: 16-bit and 32-bit elements");
    static_assert(offset >= 0 && offset < (sizeof(E) == 2 ? 16 : 32), "MaskGenWithRegTensor: offset 0 to 15 (b16) or 0 to 31 (b32)");
    toprope::record(toprope::kRegMaskGen, site, 1, static_cast<uint32_t>(toprope::dtype_of<E>));
    toprope::require_defined(srcReg, toprope::kRegMaskGen, site);
    constexpr uint32_t bits = toprope::kMaskBits / sizeof(E);
    MaskReg out;
    for (uint32_t i = 0; i < toprope::kMaskBits; ++i) {  // every bit as often as the element has bytes
        const uint32_t bit = offset * bits + i / static_cast<uint32_t>(sizeof(E));
        if ((srcReg.bytes[bit / 8] >> (bit % 8)) & 1u) out.set(i);
    }
    dst = out;
}
// Groups of as many bits as the element has bytes.
template <typename T>
void Interleave(MaskReg& dst0, MaskReg& dst1, MaskReg& src0, MaskReg& src1, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskOrder, site, 1, 0);
    constexpr uint32_t group = sizeof(T), n = toprope::kMaskBits / group;
    MaskReg out[2];
    for (uint32_t i = 0; i < 2 * n; ++i)
        for (uint32_t b = 0; b < group; ++b)
            if ((i % 2 == 0 ? src0 : src1).get(i / 2 * group + b)) out[i / n].set(i % n * group + b);
    dst0 = out[0];
    dst1 = out[1];
}
template <typename T>
void DeInterleave(MaskReg& dst0, MaskReg& dst1, MaskReg& src0, MaskReg& src1, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskOrder, site, 1, 0);
    constexpr uint32_t group = sizeof(T), n = toprope::kMaskBits / group;
    MaskReg out[2];
    for (uint32_t i = 0; i < 2 * n; ++i)
        for (uint32_t b = 0; b < group; ++b)
            if ((i < n ? src0 : src1).get(i % n * group + b)) out[i % 2].set(i / 2 * group + b);
    dst0 = out[0];
    dst1 = out[1];
}
// The even bits into one half; the other half becomes 0.
template <HighLowPart part = HighLowPart::LOWEST>
void Pack(MaskReg& dst, MaskReg& src, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskOrder, site, 1, 0);
    MaskReg out;
    for (uint32_t i = 0; i < 128; ++i)
        if (src.get(2 * i)) out.set(i + (part == HighLowPart::HIGHEST ? 128 : 0));
    dst = out;
}
template <HighLowPart part = HighLowPart::LOWEST>
void UnPack(MaskReg& dst, MaskReg& src, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMaskOrder, site, 1, 0);
    MaskReg out;
    for (uint32_t i = 0; i < 128; ++i)
        if (src.get(i + (part == HighLowPart::HIGHEST ? 128 : 0))) out.set(2 * i);
    dst = out;
}

}  // namespace Reg
}  // namespace AscendC
