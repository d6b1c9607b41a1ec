// Picking elements by address, by block or by bit pattern, and scattering them.
// Source of the rules: reference pages Gather, Gatherb(ISASI), GatherMask, Scatter(ISASI).
#pragma once

#include "vector_reduce.h"

namespace AscendC {

struct GatherRepeatParams {
    uint32_t blockNumber = 8;
    uint8_t dstBlkStride = 1, dstRepStride = 8;
    GatherRepeatParams() = default;
    constexpr GatherRepeatParams(uint8_t dstBlk, uint8_t dstRep) : dstBlkStride(dstBlk), dstRepStride(dstRep) {}
};

struct GatherMaskParams {
    uint8_t src0BlockStride = 1;
    uint16_t repeatTimes = 0, src0RepeatStride = 0;
    uint8_t src1RepeatStride = 0;
    GatherMaskParams() = default;
    constexpr GatherMaskParams(uint8_t block, uint16_t repeats, uint16_t src0Repeat, uint8_t src1Repeat)
        : src0BlockStride(block), repeatTimes(repeats), src0RepeatStride(src0Repeat), src1RepeatStride(src1Repeat) {}
};

// VERSION_V1: each repeat takes `mask` elements. VERSION_V2: `mask` counts all elements.
enum class GatherMaskMode : uint8_t { VERSION_V1 = 0, VERSION_V2 = 1 };
inline constexpr GatherMaskMode defaultGatherMaskMode = __NPU_ARCH__ == 2002 ? GatherMaskMode::VERSION_V2 : GatherMaskMode::VERSION_V1;

}  // namespace AscendC

namespace toprope {

inline constexpr Op kOpGather{"Gather", Pipe::v, Kind::compute, "vgather"};
inline constexpr Op kOpGatherb{"Gatherb", Pipe::v, Kind::compute, "vgatherb"};
inline constexpr Op kOpGatherMask{"GatherMask", Pipe::v, Kind::compute, "vreducev2"};
inline constexpr Op kOpScatter{"Scatter", Pipe::v, Kind::compute, "vscatter"};

// What lies behind byte offsets taken from a tensor: the bytes that may be addressed, and those that are.
struct Reach {
    uint64_t limit;                  // first byte that must not be touched, relative to the tensor's start
    uint64_t low = ~0ull, high = 0;  // the range that is touched
    // False after a report: the element cannot be accessed.
    template <typename T>
    bool admit(const Op& op, const AscendC::LocalTensor<T>& t, uint64_t offset, uint32_t bytes, uint32_t alignment, uint64_t position,
               Site site) {
        if (TOPROPE_UNLIKELY(offset + bytes > limit)) {
            report("gather-index-out-of-range", site, &op,
                   "%s: offset %llu (element %llu of the offset tensor) reaches byte %llu of a buffer that ends after %llu bytes", op.name,
                   static_cast<unsigned long long>(offset), static_cast<unsigned long long>(position),
                   static_cast<unsigned long long>(offset + bytes), static_cast<unsigned long long>(limit));
            return false;
        }
        if (TOPROPE_UNLIKELY((t.address() + offset) % alignment != 0)) {
            report("misaligned-address", site, &op,
                   "%s: offset %llu (element %llu of the offset tensor) is not a multiple of %u bytes\ncure: offsets count bytes: multiply "
                   "element numbers by the element's size (Muls)",
                   op.name, static_cast<unsigned long long>(offset), static_cast<unsigned long long>(position), alignment);
            return false;
        }
        low = offset < low ? offset : low;
        high = offset + bytes > high ? offset + bytes : high;
        return true;
    }
    template <typename T>
    static Reach of(const AscendC::LocalTensor<T>& t) {
        const BufferSlot* slot = t.slot();
        const uint64_t end = slot != nullptr ? uint64_t{slot->address} + slot->bytes : self->bytes[static_cast<int>(Space::ub)];
        return {end > t.address() ? end - t.address() : 0};
    }
    // Where the data went is known only when offsets were computed; a time-only run touches the whole tensor.
    template <typename T>
    void touch_in(Instr& instr, Mode mode, const AscendC::LocalTensor<T>& t) const {
        if (!self->execute)
            touch(instr, Space::ub, mode, t.address(), t.length_bytes() < limit ? t.length_bytes() : limit, 1, 0, false, true);
        else if (high > low)
            touch(instr, Space::ub, mode, t.address() + low, high - low, 1, 0, false, true);
    }
};

// The offsets of an instruction lie next to each other, `width` per repeat, whatever the element type.
struct OffsetLanes {
    const AscendC::LocalTensor<uint32_t>& tensor;
    const Lanes& lanes;
    uint64_t span() const { return (uint64_t{lanes.repeats - 1} * lanes.width + lanes.tail) * 4; }
    uint32_t at(uint32_t repeat, uint32_t lane) const {
        uint32_t value;
        std::memcpy(&value, tensor.host() + (uint64_t{repeat} * lanes.width + lane) * 4, 4);
        return value;
    }
    void touch_in(Instr& instr) const {
        if (lanes.active == lanes.width)
            touch(instr, Space::ub, Mode::read, tensor.address(), span(), 1, 0, false, lanes.bitmap);
        else
            touch_strided(instr, Mode::read, tensor.address(), lanes.active * 4, lanes.repeats, lanes.width * 4);
    }
};

// Gather (to = false: far is read, near is written) and Scatter (to = true). `near` has lanes, `far` is addressed by offsets.
template <bool to, typename T>
void move_by_offset(const Op& op, const AscendC::LocalTensor<T>& near, const AscendC::LocalTensor<T>& far,
                    const AscendC::LocalTensor<uint32_t>& offsets, uint32_t base, const Lanes& l, uint32_t near_repeat, Site site) {
    if (self->type == CoreType::aic || l.empty()) return;
    const Operand<T> n{near.host(), near.address(), 1, near_repeat};
    const OffsetLanes o{offsets, l};
    if (!(require_vector_operand(op, to ? "src" : "dst", near, n, l, site) & require_ub(op, to ? "dst" : "src", far, 0, kBlockBytes, site) &
          require_ub(op, "offset", offsets, o.span(), kBlockBytes, site)))
        return;
    Reach reach = Reach::of(far);
    for (uint32_t r = 0; self->execute && r < l.repeats; ++r)
        for (uint32_t lane = 0; lane < l.active_in(r); ++lane) {
            if (l.bitmap && !l.bit(lane)) continue;
            const uint64_t offset = uint64_t{base} + o.at(r, lane);
            if (!reach.admit(op, far, offset, sizeof(T), sizeof(T), uint64_t{r} * l.width + lane, site)) continue;
            if constexpr (to)
                std::memcpy(far.host() + offset, n.at(r, lane), sizeof(T));
            else
                std::memcpy(n.at(r, lane), far.host() + offset, sizeof(T));
        }
    if (reach.high > reach.low)
        require_apart(op, to ? "src" : "dst", near.address(), near.address() + span_bytes(n, l), to ? "dst" : "src",
                      far.address() + reach.low, far.address() + reach.high, site);
    Instr& instr = record(op, site, l.repeats, vector_arg<T>());
    o.touch_in(instr);
    if constexpr (to) touch_lanes(instr, Mode::read, n, l);
    reach.touch_in(instr, to ? Mode::write : Mode::read, far);
    if constexpr (!to) touch_lanes(instr, Mode::write, n, l);
}

template <typename T>
void gather_blocks(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint32_t>& offsets,
                   uint32_t repeats, const AscendC::GatherRepeatParams& p, Site site) {
    if (self->type == CoreType::aic || repeats == 0) return;
    const Lanes l = count_lanes(lane_width(sizeof(T)), uint64_t{repeats} * lane_width(sizeof(T)));
    const Operand<T> d{dst.host(), dst.address(), p.dstBlkStride == 0 ? 1u : p.dstBlkStride, p.dstRepStride};
    const uint64_t offset_bytes = uint64_t{repeats} * 8 * 4;
    if (!(require_vector_operand(kOpGatherb, "dst", dst, d, l, site) & require_ub(kOpGatherb, "src", src, 0, kBlockBytes, site) &
          require_ub(kOpGatherb, "offset", offsets, offset_bytes, kBlockBytes, site)))
        return;
    Reach reach = Reach::of(src);
    for (uint32_t i = 0; self->execute && i < repeats * 8; ++i) {
        uint32_t offset;
        std::memcpy(&offset, offsets.host() + uint64_t{i} * 4, 4);
        if (reach.admit(kOpGatherb, src, offset, kBlockBytes, kBlockBytes, i, site))
            std::memcpy(d.at(i / 8, i % 8 * Operand<T>::kPerBlock), src.host() + offset, kBlockBytes);
    }
    if (reach.high > reach.low)
        require_apart(kOpGatherb, "dst", dst.address(), dst.address() + span_bytes(d, l), "src", src.address() + reach.low,
                      src.address() + reach.high, site);
    Instr& instr = record(kOpGatherb, site, repeats, vector_arg<T>());
    touch(instr, Space::ub, Mode::read, offsets.address(), offset_bytes);
    reach.touch_in(instr, Mode::read, src);
    touch_lanes(instr, Mode::write, d, l);
}

// Which elements of a repeat GatherMask keeps: one of the seven fixed patterns, or the bits of a tensor.
struct KeptElements {
    uint32_t step = 0, first = 0;   // fixed pattern: element i is kept if i % step == first
    const uint8_t* bits = nullptr;  // tensor pattern
    static KeptElements fixed(uint8_t pattern) {
        constexpr uint8_t kForm[8][2] = {{1, 0}, {2, 0}, {2, 1}, {4, 0}, {4, 1}, {4, 2}, {4, 3}, {1, 0}};
        return {kForm[pattern][0], kForm[pattern][1]};
    }
    bool keeps(uint64_t element) const { return bits != nullptr ? bits[element / 8] >> (element % 8) & 1 : element % step == first; }
};

// Elements per repeat and repeats of GatherMask, from its three ways of counting.
struct MaskRounds {
    uint64_t elements;
    uint32_t repeats;
};
inline MaskRounds mask_rounds(bool counted, uint32_t mask, uint32_t repeats, uint32_t width, AscendC::GatherMaskMode mode) {
    if (!counted) return {width, repeats};
    if (mode == AscendC::GatherMaskMode::VERSION_V1) return {mask, repeats};
    return {width, (mask + width - 1) / width};
}

template <typename T>
uint64_t gather_mask(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, KeptElements kept,
                     const AscendC::LocalTensor<uint8_t>* pattern, bool counted, uint32_t mask, const AscendC::GatherMaskParams& p,
                     AscendC::GatherMaskMode mode, Site site) {
    if (self->type == CoreType::aic) return 0;
    constexpr uint32_t kWidth = kRepeatBytes / sizeof(T), kPer = kBlockBytes / sizeof(T);
    const MaskRounds rounds = mask_rounds(counted, mask, p.repeatTimes, kWidth, mode);
    if (counted) self->vector = {};  // "after the call the mask is in Normal mode"
    self->vector.counter = false;
    if (rounds.repeats == 0 || rounds.elements == 0) return 0;
    const uint64_t last_elements =
        counted && mode == AscendC::GatherMaskMode::VERSION_V2 ? mask - uint64_t{rounds.repeats - 1} * kWidth : rounds.elements;
    // A repeat may be longer than 256 bytes: then it goes on with the next blocks.
    Lanes l;
    l.repeats = rounds.repeats;
    l.width = l.active = static_cast<uint32_t>(rounds.elements);
    l.tail = static_cast<uint32_t>(last_elements);
    const Operand<T> s{src.host(), src.address(), p.src0BlockStride, p.src0RepeatStride};
    const uint64_t pattern_stride = uint64_t{p.src1RepeatStride} * kBlockBytes, pattern_bytes = (rounds.elements + 7) / 8;
    if (!require_vector_operand(kOpGatherMask, "src0", src, s, l, site)) return 0;
    if (pattern != nullptr &&
        !require_ub(kOpGatherMask, "src1Pattern", *pattern, (rounds.repeats - 1) * pattern_stride + pattern_bytes, kBlockBytes, site))
        return 0;
    // Count first, so that the footprint of dst is known before it is written.
    uint64_t count = 0;
    const auto each_kept = [&](auto&& use) {
        for (uint32_t r = 0; r < l.repeats; ++r) {
            if (pattern != nullptr) kept.bits = pattern->host() + r * pattern_stride;
            for (uint64_t i = 0; i < l.active_in(r); ++i)
                if (kept.keeps(i)) use(r, static_cast<uint32_t>(i));
        }
    };
    each_kept([&](uint32_t, uint32_t) { ++count; });
    if (!require_ub(kOpGatherMask, "dst", dst, count * sizeof(T), kBlockBytes, site)) return 0;
    if (dst.address() > src.address())  // squeezed to the front of its source it never overtakes what is still to be read
        require_apart(kOpGatherMask, "dst", dst.address(), dst.address() + count * sizeof(T), "src0", src.address(),
                      src.address() + span_bytes(s, l), site);
    const uint32_t work = static_cast<uint32_t>((rounds.elements + kWidth - 1) / kWidth) * rounds.repeats;
    Instr& instr = record(kOpGatherMask, site, work, vector_arg<T>());
    touch_lanes(instr, Mode::read, s, l);
    if (pattern != nullptr) {
        if (pattern_stride == 0)
            touch(instr, Space::ub, Mode::read, pattern->address(), pattern_bytes);
        else
            touch_strided(instr, Mode::read, pattern->address(), static_cast<uint32_t>(pattern_bytes), rounds.repeats,
                          static_cast<uint32_t>(pattern_stride));
    }
    if (count > 0) touch(instr, Space::ub, Mode::write, dst.address(), count * sizeof(T));
    if (!self->execute) return count;
    T* out = reinterpret_cast<T*>(dst.host());
    if (kept.bits == nullptr && kept.step > 0 && s.flat(l)) {
        const T* in = reinterpret_cast<const T*>(src.host());
        if (rounds.elements % kept.step == 0) {  // one pattern over the whole range
            for (uint64_t i = 0; i < count; ++i) out[i] = in[i * kept.step + kept.first];
            return count;
        }
    }
    static_cast<void>(kPer);
    each_kept([&](uint32_t r, uint32_t i) { *out++ = *s.at(r, i); });
    return count;
}

template <typename T>
inline constexpr bool kGatherable =
    is_one_of<T, int16_t, uint16_t, half, int32_t, uint32_t, float> || (toprope::kChip.a2_types && std::is_same_v<T, bfloat16_t>);

}  // namespace toprope

#define TOPROPE_GATHER_DTYPES(Name) \
    static_assert(toprope::kGatherable<T>, #Name ": this chip moves 16- and 32-bit elements only (see `toprope api " #Name "`)")

namespace AscendC {

//: Gather | dst[i] = the element of src at byte srcBaseAddr + srcOffset[i] | int16_t uint16_t half bfloat16_t int32_t uint32_t float | A2 A3 310P | Gather
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset, const uint32_t srcBaseAddr,
            const uint32_t count, toprope::Site site = toprope::Site::here()) {
    TOPROPE_GATHER_DTYPES(Gather);
    toprope::move_by_offset<false>(toprope::kOpGather, dst, src, srcOffset, srcBaseAddr,
                                   toprope::count_lanes(toprope::lane_width(sizeof(T)), count), 8, site);
}
template <typename T, typename M>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset, const uint32_t srcBaseAddr,
            const M& mask, const uint8_t repeatTime, const uint16_t dstRepStride, toprope::Site site = toprope::Site::here()) {
    TOPROPE_GATHER_DTYPES(Gather);
    toprope::choose_mask<true, T>(toprope::kOpGather, mask, site);
    toprope::move_by_offset<false>(toprope::kOpGather, dst, src, srcOffset, srcBaseAddr, TOPROPE_REPEAT_LANES, dstRepStride, site);
}

//: Gatherb | dst block i = the 32-byte block of src at byte offset[i] | uint16_t uint32_t | A2 A3 | Gatherb(ISASI)
template <typename T>
void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset, const uint8_t repeatTime,
             const GatherRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::is_one_of<T, uint16_t, uint32_t>,
                  "Gatherb: this chip gathers blocks of uint16_t and uint32_t only; use ReinterpretCast for other types");
    toprope::gather_blocks(dst, src, offset, repeatTime, repeatParams, site);
}

//: Scatter | the element of dst at byte dstBaseAddr + dstOffset[i] = src[i] | uint16_t half uint32_t float | 310P | Scatter(ISASI)
template <typename T>
void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& dstOffset, const uint32_t dstBaseAddr,
             const uint32_t count, toprope::Site site = toprope::Site::here()) {
    static_assert(
        !toprope::kChip.a2_types || sizeof(T) == 0,
        "Scatter: the 910B/910C generation has no scatter instruction; write the elements with SetValue, or build the result with Gather");
    toprope::move_by_offset<true>(toprope::kOpScatter, src, dst, dstOffset, dstBaseAddr,
                                  toprope::count_lanes(toprope::lane_width(sizeof(T)), count), 8, site);
}
template <typename T, typename M>
void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& dstOffset, const uint32_t dstBaseAddr,
             const M& mask, const uint8_t repeatTime, const uint8_t srcRepStride, toprope::Site site = toprope::Site::here()) {
    static_assert(
        !toprope::kChip.a2_types || sizeof(T) == 0,
        "Scatter: the 910B/910C generation has no scatter instruction; write the elements with SetValue, or build the result with Gather");
    toprope::choose_mask<true, T>(toprope::kOpScatter, mask, site);
    toprope::move_by_offset<true>(toprope::kOpScatter, src, dst, dstOffset, dstBaseAddr, TOPROPE_REPEAT_LANES, srcRepStride, site);
}

//: GatherMask | the elements of src0 whose pattern bit is set, next to each other; rsvdCnt counts them | int16_t uint16_t half bfloat16_t int32_t uint32_t float | A2 A3 310P | GatherMask
template <typename T, GatherMaskMode mode = defaultGatherMaskMode>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern, const bool reduceMode,
                const uint32_t mask, const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt,
                toprope::Site site = toprope::Site::here()) {
    TOPROPE_GATHER_DTYPES(GatherMask);
    rsvdCnt = 0;
    if (src1Pattern < 1 || src1Pattern > (toprope::kChip.gather_patterns))
        return toprope::report("gather-mask-pattern", site, &toprope::kOpGatherMask,
                               "GatherMask: fixed pattern %u; patterns go from 1 to %d", src1Pattern, toprope::kChip.gather_patterns);
    rsvdCnt = toprope::special_register(toprope::kRegGathered) =
        toprope::gather_mask(dst, src0, toprope::KeptElements::fixed(src1Pattern), nullptr, reduceMode, mask, gatherMaskParams, mode, site);
}
template <typename T, typename U, GatherMaskMode mode = defaultGatherMaskMode>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern, const bool reduceMode,
                const uint32_t mask, const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt,
                toprope::Site site = toprope::Site::here()) {
    TOPROPE_GATHER_DTYPES(GatherMask);
    static_assert(std::is_same_v<U, toprope::BitsOf<T>>,
                  "GatherMask: the pattern tensor is uint16_t for 16-bit elements and uint32_t for 32-bit elements");
    const LocalTensor<uint8_t> bits = src1Pattern.template ReinterpretCast<uint8_t>();
    rsvdCnt = toprope::special_register(toprope::kRegGathered) =
        toprope::gather_mask(dst, src0, toprope::KeptElements{}, &bits, reduceMode, mask, gatherMaskParams, mode, site);
}

}  // namespace AscendC
