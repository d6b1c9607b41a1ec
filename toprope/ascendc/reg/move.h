// Between UB and registers. Pages: 基础API/Reg矢量计算/{Reg数据搬入,Reg数据搬出}.
#pragma once

#include "registers.h"

namespace toprope {

inline constexpr Op kRegLoadAlign{"Reg::LoadAlign", Pipe::v, Kind::compute, "reg_load"};
inline constexpr Op kRegLoadTwo{"Reg::LoadAlign", Pipe::v, Kind::compute, "reg_load_two"};
inline constexpr Op kRegLoadBlocks{"Reg::LoadAlign", Pipe::v, Kind::compute, "reg_load_blocks"};
inline constexpr Op kRegLoadUnAlign{"Reg::LoadUnAlign", Pipe::v, Kind::compute, "reg_load"};
inline constexpr Op kRegLoadUnAlignPre{"Reg::LoadUnAlignPre", Pipe::v, Kind::compute, "reg_load"};
inline constexpr Op kRegStoreAlign{"Reg::StoreAlign", Pipe::v, Kind::compute, "reg_store"};
inline constexpr Op kRegStoreBlocks{"Reg::StoreAlign", Pipe::v, Kind::compute, "reg_store_blocks"};
inline constexpr Op kRegStoreUnAlign{"Reg::StoreUnAlign", Pipe::v, Kind::compute, "reg_store"};
inline constexpr Op kRegStoreUnAlignPost{"Reg::StoreUnAlignPost", Pipe::v, Kind::compute, "reg_store"};
inline constexpr Op kRegGather{"Reg::Gather", Pipe::v, Kind::compute, "reg_gather"};
inline constexpr Op kRegGatherB{"Reg::GatherB", Pipe::v, Kind::compute, "reg_gather"};
inline constexpr Op kRegScatter{"Reg::Scatter", Pipe::v, Kind::compute, "reg_scatter"};
inline constexpr Op kRegMove{"Reg::Move", Pipe::v, Kind::compute, "reg_dual"};

using reg::LoadDist;
using reg::MaskReg;
using reg::StoreDist;

// What a distribution reads (bytes), its unit (bytes of an element; 0: the element type's) and its alignment.
struct LoadForm {
    uint32_t bytes, unit, alignment;
};
constexpr LoadForm load_form(LoadDist dist) {
    switch (dist) {
        case LoadDist::DIST_BRC_B8:
            return {1, 1, 1};
        case LoadDist::DIST_BRC_B16:
            return {2, 2, 2};
        case LoadDist::DIST_BRC_B32:
            return {4, 4, 4};
        case LoadDist::DIST_US_B8:
        case LoadDist::DIST_UNPACK_B8:
            return {128, 1, 32};
        case LoadDist::DIST_US_B16:
        case LoadDist::DIST_UNPACK_B16:
            return {128, 2, 32};
        case LoadDist::DIST_UNPACK_B32:
            return {128, 4, 32};
        case LoadDist::DIST_UNPACK4_B8:
            return {64, 1, 32};
        case LoadDist::DIST_DS_B8:
        case LoadDist::DIST_DINTLV_B8:
            return {512, 1, 32};
        case LoadDist::DIST_DS_B16:
        case LoadDist::DIST_DINTLV_B16:
            return {512, 2, 32};
        case LoadDist::DIST_DINTLV_B32:
            return {512, 4, 32};
        case LoadDist::DIST_BLK:
            return {32, 0, 32};
        case LoadDist::DIST_E2B_B16:
            return {16, 2, 16};
        case LoadDist::DIST_E2B_B32:
            return {32, 4, 32};
        default:
            return {256, 0, 32};
    }
}
constexpr bool loads_two(LoadDist dist) {
    return dist == LoadDist::DIST_DINTLV_B8 || dist == LoadDist::DIST_DINTLV_B16 || dist == LoadDist::DIST_DINTLV_B32;
}

template <LoadDist dist>
void distribute(uint8_t* out, const uint8_t* in) {
    constexpr LoadForm form = load_form(dist);
    const auto place = [&](uint32_t to, uint32_t from) { std::memcpy(out + to * form.unit, in + from * form.unit, form.unit); };
    if constexpr (dist == LoadDist::DIST_BRC_B8 || dist == LoadDist::DIST_BRC_B16 || dist == LoadDist::DIST_BRC_B32) {
        for (uint32_t i = 0; i < kRegisterLength / form.unit; ++i) place(i, 0);
    } else if constexpr (dist == LoadDist::DIST_US_B8 || dist == LoadDist::DIST_US_B16) {
        for (uint32_t i = 0; i < kRegisterLength / form.unit; ++i) place(i, i / 2);
    } else if constexpr (dist == LoadDist::DIST_DS_B8 || dist == LoadDist::DIST_DS_B16) {
        for (uint32_t i = 0; i < kRegisterLength / form.unit; ++i) place(i, 2 * i);
    } else if constexpr (dist == LoadDist::DIST_UNPACK_B8 || dist == LoadDist::DIST_UNPACK_B16 || dist == LoadDist::DIST_UNPACK_B32) {
        std::memset(out, 0, kRegisterLength);
        for (uint32_t i = 0; i < kRegisterLength / form.unit / 2; ++i) place(2 * i, i);
    } else if constexpr (dist == LoadDist::DIST_UNPACK4_B8) {
        std::memset(out, 0, kRegisterLength);
        for (uint32_t i = 0; i < kRegisterLength / 4; ++i) place(4 * i, i);
    } else if constexpr (dist == LoadDist::DIST_BLK) {
        for (uint32_t i = 0; i < kRegisterLength / kBlockBytes; ++i) std::memcpy(out + i * kBlockBytes, in, kBlockBytes);
    } else if constexpr (dist == LoadDist::DIST_E2B_B16 || dist == LoadDist::DIST_E2B_B32) {
        for (uint32_t i = 0; i < kRegisterLength / form.unit; ++i) place(i, i * form.unit / kBlockBytes);
    } else {
        std::memcpy(out, in, kRegisterLength);
    }
}

template <LoadDist dist, typename T, typename R>
void load_aligned(R& dst, const T* from, Site site) {
    static_assert(!loads_two(dist), "LoadAlign: DIST_DINTLV loads two registers");
    static_assert(R::trait.REG_NUM == 1 || dist == LoadDist::DIST_NORM, "LoadAlign: two registers load with DIST_NORM only");
    constexpr uint32_t bytes = dist == LoadDist::DIST_NORM ? R::kBytes : load_form(dist).bytes;
    constexpr bool slow = dist == LoadDist::DIST_DS_B8 || dist == LoadDist::DIST_DS_B16;
    if (!reg_load(slow ? kRegLoadTwo : kRegLoadAlign, from, bytes, bytes, 1, 0, load_form(dist).alignment, &dst, dtype_of<T>, site))
        std::memset(dst.bytes, 0, R::kBytes);
    else if constexpr (dist == LoadDist::DIST_NORM)
        std::memcpy(dst.bytes, from, R::kBytes);
    else
        distribute<dist>(dst.bytes, reinterpret_cast<const uint8_t*>(from));
    dst.defined = true;
}
template <LoadDist dist, typename T, typename R>
void load_two(R& even, R& odd, const T* from, Site site) {
    static_assert(loads_two(dist), "LoadAlign: two registers are loaded with DIST_DINTLV_B8, _B16 or _B32");
    constexpr uint32_t unit = load_form(dist).unit;
    const auto* in = reinterpret_cast<const uint8_t*>(from);
    const bool good = reg_load(kRegLoadTwo, from, 512, 512, 1, 0, 32, &even, dtype_of<T>, site);
    for (uint32_t i = 0; i < kRegisterLength / unit; ++i)
        for (uint32_t b = 0; b < unit; ++b) {
            even.bytes[i * unit + b] = good ? in[2 * i * unit + b] : 0;
            odd.bytes[i * unit + b] = good ? in[(2 * i + 1) * unit + b] : 0;
        }
    even.defined = odd.defined = true;
}

// Touches the runs of elements that a store writes.
template <typename Active>
void touch_stored(Instr& instr, uint32_t at, uint32_t count, uint32_t unit, Active active) {
    for (uint32_t i = 0; i < count;) {
        if (!active(i)) {
            ++i;
            continue;
        }
        uint32_t end = i + 1;
        while (end < count && active(end)) ++end;
        touch(instr, Space::ub, Mode::write, at + i * unit, (end - i) * unit);
        i = end;
    }
}

// Bytes of a source element and of what of it is stored.
struct StoreForm {
    uint32_t from, to, alignment;
};
template <typename T>
constexpr StoreForm store_form(StoreDist dist) {
    switch (dist) {
        case StoreDist::DIST_NORM_B8:
            return {1, 1, 32};
        case StoreDist::DIST_NORM_B16:
            return {2, 2, 32};
        case StoreDist::DIST_NORM_B32:
            return {4, 4, 32};
        case StoreDist::DIST_FIRST_ELEMENT_B8:
            return {1, 1, 1};
        case StoreDist::DIST_FIRST_ELEMENT_B16:
            return {2, 2, 2};
        case StoreDist::DIST_FIRST_ELEMENT_B32:
            return {4, 4, 4};
        case StoreDist::DIST_PACK_B16:
            return {2, 1, 32};
        case StoreDist::DIST_PACK_B32:
            return {4, 2, 32};
        case StoreDist::DIST_PACK_B64:
            return {8, 4, 32};
        case StoreDist::DIST_PACK4_B32:
            return {4, 1, 32};
        default:
            return {sizeof(T), sizeof(T), 32};
    }
}
constexpr bool stores_two(StoreDist dist) {
    return dist == StoreDist::DIST_INTLV_B8 || dist == StoreDist::DIST_INTLV_B16 || dist == StoreDist::DIST_INTLV_B32;
}

template <StoreDist dist, typename T, typename R>
void store_aligned(T* to, const R& src, const MaskReg& mask, Site site) {
    static_assert(!stores_two(dist), "StoreAlign: DIST_INTLV stores two registers");
    require_defined(src, kRegStoreAlign, site);
    constexpr StoreForm form = store_form<T>(dist);
    constexpr bool first =
        dist == StoreDist::DIST_FIRST_ELEMENT_B8 || dist == StoreDist::DIST_FIRST_ELEMENT_B16 || dist == StoreDist::DIST_FIRST_ELEMENT_B32;
    constexpr uint32_t count = first ? 1 : R::kBytes / form.from, step = first ? 1 : kMaskBits / (R::kBytes / form.from);
    const auto active = [&](uint32_t i) { return first || mask.get(i * step); };
    uint32_t last = count;
    while (last != 0 && !active(last - 1)) --last;
    uint32_t at;
    Instr* instr = reg_store(kRegStoreAlign, to, last * form.to, form.alignment, &src, dtype_of<T>, site, &at);
    if (instr == nullptr) return;
    auto* out = reinterpret_cast<uint8_t*>(to);
    if (form.from == form.to && (first || covers(mask, step))) {
        std::memcpy(out, src.bytes, count * form.from);
    } else {
        for (uint32_t i = 0; i < last; ++i)
            if (active(i)) std::memcpy(out + i * form.to, src.bytes + i * form.from, form.to);  // the low bytes
    }
    touch_stored(*instr, at, last, form.to, active);
}

}  // namespace toprope

namespace toprope {
template <typename T, typename R>
void load_unaligned(R& dst, reg::UnalignReg& ureg, const T* from, bool anywhere, Site site) {
    if (TOPROPE_UNLIKELY(ureg.next == nullptr || (!anywhere && ureg.next != static_cast<const void*>(from))))
        report("unaligned-register", site, &kRegLoadUnAlign,
               ureg.next == nullptr ? "LoadUnAlign without LoadUnAlignPre: the unaligned register holds nothing"
                                    : "LoadUnAlign from another address than the one that the unaligned register was prepared for");
    if (reg_load(kRegLoadUnAlign, from, R::kBytes, R::kBytes, 1, 0, 1, &dst, dtype_of<T>, site))
        std::memcpy(dst.bytes, from, R::kBytes);
    else
        std::memset(dst.bytes, 0, R::kBytes);
    dst.defined = true;
}
// The first `count` elements of a register, to any address.
template <typename T, typename R>
void store_unaligned(T* to, const R& src, uint32_t count, Site site) {
    require_defined(src, kRegStoreUnAlign, site);
    if (TOPROPE_UNLIKELY(count > R::kCount)) {
        report("register-elements", site, &kRegStoreUnAlign, "StoreUnAlign of %u elements; a register has %u", count, R::kCount);
        count = R::kCount;
    }
    uint32_t at;
    Instr* instr = reg_store(kRegStoreUnAlign, to, count * static_cast<uint32_t>(sizeof(T)), 1, &src, dtype_of<T>, site, &at);
    if (instr == nullptr || count == 0) return;
    std::memcpy(to, src.bytes, count * sizeof(T));
    touch(*instr, Space::ub, Mode::write, at, count * sizeof(T));
}
}  // namespace toprope

namespace AscendC {
namespace Reg {

#define TOPROPE_REG_LoadAlign LoadAlign
#define TOPROPE_REG_LoadUnAlignPre LoadUnAlignPre
#define TOPROPE_REG_LoadUnAlign LoadUnAlign
#define TOPROPE_REG_StoreAlign StoreAlign
#define TOPROPE_REG_StoreUnAlign StoreUnAlign
#define TOPROPE_REG_StoreUnAlignPost StoreUnAlignPost
#include "moves.h"
#undef TOPROPE_REG_LoadAlign
#undef TOPROPE_REG_LoadUnAlignPre
#undef TOPROPE_REG_LoadUnAlign
#undef TOPROPE_REG_StoreAlign
#undef TOPROPE_REG_StoreUnAlign
#undef TOPROPE_REG_StoreUnAlignPost

//: Reg::Load | UB to a register from any address | any | 950 | 基础API/Reg矢量计算/Reg数据搬入/Load.md
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Load(U& dstReg, T* srcAddr, toprope::Site site = toprope::Site::here()) {
    UnalignReg ureg;
    LoadUnAlignPre(ureg, srcAddr, site);
    toprope::load_unaligned(dstReg, ureg, srcAddr, false, site);
}

//: Reg::Store | a register, or its first elements, to any address of UB | any | 950 | 基础API/Reg矢量计算/Reg数据搬出/Store.md
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Store(T* dstAddr, U& srcReg, toprope::Site site = toprope::Site::here()) {
    toprope::store_unaligned(dstAddr, srcReg, U::kCount, site);
}
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Store(T* dstAddr, U& srcReg, uint32_t count, toprope::Site site = toprope::Site::here()) {
    toprope::store_unaligned(dstAddr, srcReg, count, site);
}

//: Reg::Gather | elements of UB, or of a register, by their index | b8 b16 b32 b64 | 950 | 基础API/Reg矢量计算/Reg数据搬入/离散搬入（Gather）.md
template <typename T0 = DefaultType, typename T1, typename T2 = DefaultType, typename T3, typename T4, toprope::IfRegister<T3> = 0>
void Gather(T3& dstReg, T1* baseAddr, T4& index, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    using To = Element<T0, T3>;
    using Index = Element<T2, T4>;
    require_defined(index, kRegGather, site);
    constexpr uint32_t count = T3::kBytes / sizeof(To) < T4::kBytes / sizeof(Index) ? T3::kBytes / sizeof(To) : T4::kBytes / sizeof(Index),
                       step = kMaskBits / (T3::kBytes / sizeof(To));
    const auto* at = reinterpret_cast<const Index*>(index.bytes);
    To out[T3::kBytes / sizeof(To)] = {};
    reg_address(kRegGather, "src", baseAddr, 0, 32, site);
    record(kRegGather, site, 1, static_cast<uint32_t>(dtype_of<To>));
    for (uint32_t i = 0; i < count; ++i) {
        if (!mask.get(i * step)) continue;
        const T1* from = baseAddr + static_cast<uint64_t>(at[i]);
        const uint32_t offset = reg_address(kRegGather, "src", from, sizeof(T1), 1, site);
        if (offset == ~0u) continue;
        touch(self->instrs.data[self->instrs.size - 1], Space::ub, Mode::read, offset, sizeof(T1));
        if constexpr (sizeof(T1) < sizeof(To))
            out[i] = static_cast<To>(*reinterpret_cast<const std::make_unsigned_t<T1>*>(from));
        else
            std::memcpy(&out[i], from, sizeof(To));
    }
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
//: Reg::GatherB | blocks of UB by their byte offset | any | 950 | 基础API/Reg矢量计算/Reg数据搬入/离散搬入（GatherB）.md
template <typename T = DefaultType, typename U, typename S, toprope::IfRegister<U> = 0>
void GatherB(U& dstReg, T* baseAddr, S& index, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(sizeof(typename S::ActualT) == 4 && U::trait.REG_NUM == 1, "GatherB: uint32_t offsets, one register");
    require_defined(index, kRegGatherB, site);
    record(kRegGatherB, site, 1, static_cast<uint32_t>(dtype_of<T>));
    uint8_t out[kRegisterLength] = {};
    for (uint32_t b = 0; b < 8; ++b) {
        if (!mask.get(b * 4)) continue;
        const auto* from = reinterpret_cast<const uint8_t*>(baseAddr) + reinterpret_cast<const uint32_t*>(index.bytes)[b];
        const uint32_t offset = reg_address(kRegGatherB, "src", from, kBlockBytes, kBlockBytes, site);
        if (offset == ~0u) continue;
        touch(self->instrs.data[self->instrs.size - 1], Space::ub, Mode::read, offset, kBlockBytes);
        std::memcpy(out + b * kBlockBytes, from, kBlockBytes);
    }
    std::memcpy(dstReg.bytes, out, sizeof out);
    dstReg.defined = true;
}
//: Reg::Scatter | elements to UB by their index | b8 b16 b32 b64 | 950 | 基础API/Reg矢量计算/Reg数据搬出/离散搬出（Scatter）.md
template <typename T = DefaultType, typename U = DefaultType, typename S, typename V, toprope::IfRegister<S> = 0>
void Scatter(T* baseAddr, S& srcReg, V& index, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    using Index = Element<U, V>;
    require_defined(srcReg, kRegScatter, site);
    require_defined(index, kRegScatter, site);
    constexpr uint32_t width = sizeof(T) == 1 ? 2 : sizeof(T), elements = S::kBytes / width;  // of bytes only the even ones
    constexpr uint32_t count = elements < V::kBytes / sizeof(Index) ? elements : V::kBytes / sizeof(Index), step = kMaskBits / elements;
    const auto* at = reinterpret_cast<const Index*>(index.bytes);
    reg_address(kRegScatter, "dst", baseAddr, 0, 32, site);
    record(kRegScatter, site, 1, static_cast<uint32_t>(dtype_of<T>));
    for (uint32_t i = 0; i < count; ++i) {
        if (!mask.get(i * step)) continue;
        for (uint32_t j = 0; j < i; ++j)
            if (TOPROPE_UNLIKELY(at[j] == at[i] && mask.get(j * step)))
                report("scatter-index", site, &kRegScatter,
                       "Scatter: elements %u and %u have the same index %lld; the chip keeps one of them", j, i,
                       static_cast<long long>(at[i]));
        T* to = baseAddr + static_cast<uint64_t>(at[i]);
        const uint32_t offset = reg_address(kRegScatter, "dst", to, sizeof(T), 1, site);
        if (offset == ~0u) continue;
        std::memcpy(to, srcReg.bytes + i * width, sizeof(T));
        touch(self->instrs.data[self->instrs.size - 1], Space::ub, Mode::write, offset, sizeof(T));
        vector_function().store(offset, offset + static_cast<uint32_t>(sizeof(T)), &srcReg);
    }
}
//: Reg::Move | a register's elements into another, where the mask says; also of masks | any | 950 | 基础API/Reg矢量计算/Reg数据搬入/Move.md
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::MERGING, typename U, toprope::IfRegister<U> = 0>
void Move(U& dstReg, U& srcReg, MaskReg mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    using E = Element<T, U>;
    record(kRegMove, site, 1, static_cast<uint32_t>(dtype_of<E>));
    require_defined(srcReg, kRegMove, site);
    const auto* in = reinterpret_cast<const E*>(srcReg.bytes);
    const bool whole = covers(mask, U::kStep);
    if (!whole) require_defined(dstReg, kRegMove, site);
    reg_apply<E>(dstReg, mask, mode == MaskMergeMode::MERGING, [&](uint32_t i) { return in[i]; });
}
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Move(U& dstReg, U& srcReg, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegMove, site, 1, static_cast<uint32_t>(toprope::dtype_of<typename U::ActualT>));
    toprope::require_defined(srcReg, toprope::kRegMove, site);
    dstReg = srcReg;
}

}  // namespace Reg
}  // namespace AscendC
