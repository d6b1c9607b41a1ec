// Filling UB: one value (Duplicate), counting values, copies with strides, one value per block (Brcb).
// Pages: Duplicate, CreateVecIndex, Brcb, Copy, VectorPadding(ISASI).
#pragma once

#include "../machine/vector.h"

namespace AscendC {

struct BrcbRepeatParams {
    uint32_t blockNumber = 8;
    uint16_t dstBlkStride = 1, dstRepStride = 8;
    uint16_t src1BlkStride = 1, src1RepStride = 8;
    bool repeatStrideMode = false, strideSizeMode = false;
    constexpr BrcbRepeatParams() = default;
    constexpr BrcbRepeatParams(uint16_t dstBlk, uint16_t dstRep) : dstBlkStride(dstBlk), dstRepStride(dstRep) {}
};

}  // namespace AscendC

namespace toprope {

inline constexpr Op kOpDuplicate{"Duplicate", Pipe::v, Kind::compute, "vectordup"};
inline constexpr Op kOpCreateVecIndex{"CreateVecIndex", Pipe::v, Kind::compute, "vci"};
inline constexpr Op kOpArithProgression{"ArithProgression", Pipe::v, Kind::compute, "vci"};
inline constexpr Op kOpCopy{"Copy", Pipe::v, Kind::compute, "vcopy"};
inline constexpr Op kOpBrcb{"Brcb", Pipe::v, Kind::compute, "vbrcb"};
inline constexpr Op kOpVectorPadding{"VectorPadding", Pipe::v, Kind::compute, "vpadding"};

#define TOPROPE_FILL_TYPES (int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float)

// Same-width elements share one loop: only their bits matter.
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
template <typename B>
void fill_body(const void* context, void* dst, const void* const*, size_t n, uint64_t) {
    B value;
    std::memcpy(&value, context, sizeof value);
    for (size_t i = 0; i < n; ++i) static_cast<B*>(dst)[i] = value;
}
template <size_t element_bytes>
void copy_body(const void*, void* dst, const void* const* src, size_t n, uint64_t) {
    std::memmove(dst, src[0], n * element_bytes);
}

template <typename T>
TOPROPE_OUTLINE void duplicate(const AscendC::LocalTensor<T>& dst, T value, const Lanes& lanes, uint32_t block_stride,
                               uint32_t repeat_stride, Site site) {
    vector_call({kOpDuplicate,
                 site,
                 lanes,
                 lane_operand("dst", dst, block_stride, repeat_stride),
                 {},
                 0,
                 fill_body<Bits<T>>,
                 &value,
                 sizeof value});
}

// Lane i of repeat r holds first + step * (r * width + i), computed in the lane type and rounded once.
template <typename T>
struct Progression {
    Lane<T> first, step;
};
template <typename T>
void progression_body(const void* context, void* dst, const void* const*, size_t n, uint64_t begin) {
    using L = Lane<T>;
    const auto& p = *static_cast<const Progression<T>*>(context);
    const auto value = [&](size_t i) {
        if constexpr (std::is_integral_v<L>)
            return static_cast<L>(int64_t{p.first} + int64_t{p.step} * static_cast<int64_t>(begin + i));
        else
            return p.first + p.step * static_cast<float>(begin + i);
    };
    for (size_t i = 0; i < n; ++i) static_cast<T*>(dst)[i] = static_cast<T>(value(i));
}
template <typename T>
TOPROPE_OUTLINE void progression(const Op& op, const AscendC::LocalTensor<T>& dst, T first, T step, const Lanes& lanes,
                                 uint32_t block_stride, uint32_t repeat_stride, Site site) {
    const Progression<T> context{first, step};
    if constexpr (std::is_integral_v<T>) {
        const uint64_t count = lanes.repeats == 0 ? 0 : uint64_t{lanes.repeats - 1} * lanes.width + lanes.tail;
        const int64_t last = count == 0 ? first : int64_t{first} + int64_t{step} * static_cast<int64_t>(count - 1);
        if (TOPROPE_UNLIKELY(last != static_cast<T>(last) && self->type != CoreType::aic))
            report("integer-overflow", site, &op, "%s: lane %llu would hold %lld, which does not fit into %zu bits: it becomes %lld",
                   op.name, static_cast<unsigned long long>(count - 1), static_cast<long long>(last), sizeof(T) * 8,
                   static_cast<long long>(static_cast<T>(last)));
    }
    vector_call(
        {op, site, lanes, lane_operand("dst", dst, block_stride, repeat_stride), {}, 0, progression_body<T>, &context, sizeof context});
}

// Copy's mask counts the elements of one repeat in both modes; its repeat argument always holds.
template <typename T>
Lanes copy_lanes(uint32_t repeats, Site site) {
    const VectorState saved = self->vector;
    const uint32_t n = checked_repeats(kOpCopy, repeats, site);
    if (!saved.counter) return mask_lanes(kLaneWidth<T>, n);
    const auto count = static_cast<uint32_t>(saved.mask_low);
    Lanes l;
    l.repeats = n;
    l.width = l.active = l.tail = count;
    return l;
}
template <typename T>
TOPROPE_OUTLINE void copy_strided(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Lanes& lanes,
                                  const AscendC::CopyRepeatParams& p, Site site) {
    vector_call({kOpCopy,
                 site,
                 lanes,
                 lane_operand("dst", dst, p.dstStride, p.dstRepeatSize),
                 {lane_operand("src", src, p.srcStride, p.srcRepeatSize)},
                 1,
                 copy_body<sizeof(T)>,
                 nullptr});
}

// Eight elements per repeat, each into a block of its own.
template <typename T>
TOPROPE_OUTLINE void broadcast_blocks(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t repeats,
                                      const AscendC::BrcbRepeatParams& p, Site site) {
    if (self->type == CoreType::aic || repeats == 0) return;
    constexpr uint32_t per_block = kBlockBytes / sizeof(T);
    const uint32_t block_stride = p.dstBlkStride == 0 ? 1 : p.dstBlkStride;
    const Lanes out = [&] {
        Lanes l;
        l.repeats = repeats;
        l.width = l.active = l.tail = 8 * per_block;
        return l;
    }();
    const Operand<T> d{dst.host(), dst.address(), block_stride, p.dstRepStride};
    const auto source_bytes = static_cast<uint32_t>(repeats * 8 * sizeof(T));
    if (!(require_vector_operand(kOpBrcb, "dst", dst, d, out, site) &
          require_vector_view(kOpBrcb, "src", view_of(src), source_bytes, kBlockBytes, site)))
        return;
    require_apart(kOpBrcb, "dst", dst.address(), dst.address() + span_bytes(d, out), "src", src.address(), src.address() + source_bytes,
                  site);
    Instr& instr = record(kOpBrcb, site, repeats, static_cast<uint32_t>(dtype_of<T>) | static_cast<uint32_t>(dtype_of<T>) << 8);
    touch(instr, Space::ub, Mode::read, src.address(), source_bytes);
    touch_lanes(instr, Mode::write, d, out);
    if (!self->execute) return;
    for (uint32_t i = 0; i < repeats * 8; ++i) {
        Bits<T> value;
        std::memcpy(&value, src.host() + i * sizeof(T), sizeof(T));
        auto* block = reinterpret_cast<Bits<T>*>(d.at(i / 8, i % 8 * per_block));
        for (uint32_t j = 0; j < per_block; ++j) block[j] = value;
    }
}

// Each block of dst from the same block of src: its edge value repeated (0), mirrored (1), mirrored without the edge (2, the rest is 0).
template <typename T>
struct BlockPadding {
    uint8_t mode;
    bool from_right;
};
template <typename T>
void padding_body(const void* context, void* dst, const void* const* src, size_t n, uint64_t) {
    const auto& p = *static_cast<const BlockPadding<T>*>(context);
    constexpr size_t per = kBlockBytes / sizeof(T);
    for (size_t i = 0; i < n; ++i) {
        const T* block = static_cast<const T*>(src[0]) + i / per * per;
        const size_t j = i % per, mirrored = per - 1 - j;
        T value{};
        if (p.mode == 0)
            value = block[p.from_right ? per - 1 : 0];
        else if (p.mode == 1)
            value = block[mirrored];
        else if (p.from_right ? j + 1 < per : j > 0)
            value = block[p.from_right ? mirrored - 1 : mirrored + 1];
        static_cast<T*>(dst)[i] = value;
    }
}
template <typename T>
TOPROPE_OUTLINE void vector_padding(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint8_t mode, bool from_right,
                                    const Lanes& lanes, const AscendC::UnaryRepeatParams& p, Site site) {
    static_assert(__NPU_ARCH__ == 2002 || sizeof(T) == 0, "VectorPadding: this chip has no VectorPadding; it exists on 310P only");
    static_assert(is_one_of<T, int16_t, uint16_t, half, int32_t, uint32_t, float>,
                  "VectorPadding: 16- and 32-bit integers, half and float");
    const BlockPadding<T> context{mode, from_right};
    vector_call({kOpVectorPadding,
                 site,
                 lanes,
                 lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride),
                 {lane_operand("src", src, p.srcBlkStride, p.srcRepStride)},
                 1,
                 padding_body<T>,
                 &context});
}

}  // namespace toprope

namespace AscendC {

//: Duplicate | every selected element of dst = scalarValue | int16_t uint16_t half bfloat16_t int32_t uint32_t float | A2 A3 310P 910 | Duplicate
template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(Duplicate, T, TOPROPE_FILL_TYPES);
    toprope::duplicate(dst, scalarValue, toprope::count_form(toprope::kLaneWidth<T>, static_cast<uint32_t>(count)), 1, 8, site);
}
template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, const uint32_t repeatTime, const uint16_t dstBlockStride,
               const uint8_t dstRepeatStride, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(Duplicate, T, TOPROPE_FILL_TYPES);
    toprope::duplicate(dst, scalarValue,
                       toprope::mask_form<isSetMask>(toprope::kOpDuplicate, toprope::kLaneWidth<T>, mask, repeatTime, site), dstBlockStride,
                       dstRepeatStride, site);
}
template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const uint64_t mask[], const uint32_t repeatTime,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(Duplicate, T, TOPROPE_FILL_TYPES);
    toprope::duplicate(dst, scalarValue,
                       toprope::mask_form<isSetMask>(toprope::kOpDuplicate, toprope::kLaneWidth<T>, mask, repeatTime, site), dstBlockStride,
                       dstRepeatStride, site);
}

#define TOPROPE_INDEX_TYPES (int16_t, half, int32_t, float)
//: CreateVecIndex | dst = firstValue, firstValue + 1, ... over the lanes of all repeats | int16_t half int32_t float | A2 A3 310P | CreateVecIndex
template <typename T>
void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(CreateVecIndex, T, TOPROPE_INDEX_TYPES);
    toprope::progression(toprope::kOpCreateVecIndex, dst, firstValue, T(1), toprope::count_form(toprope::kLaneWidth<T>, count), 1, 8, site);
}
template <typename T>
void CreateVecIndex(const LocalTensor<T>& dst, const T& firstValue, uint64_t mask, const uint32_t repeatTime, uint16_t dstBlkStride,
                    uint8_t dstRepStride, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(CreateVecIndex, T, TOPROPE_INDEX_TYPES);
    toprope::progression(toprope::kOpCreateVecIndex, dst, firstValue, T(1),
                         toprope::mask_form<true>(toprope::kOpCreateVecIndex, toprope::kLaneWidth<T>, mask, repeatTime, site), dstBlkStride,
                         dstRepStride, site);
}
template <typename T>
void CreateVecIndex(const LocalTensor<T>& dst, const T& firstValue, const uint64_t mask[], const uint32_t repeatTime, uint16_t dstBlkStride,
                    uint8_t dstRepStride, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(CreateVecIndex, T, TOPROPE_INDEX_TYPES);
    toprope::progression(toprope::kOpCreateVecIndex, dst, firstValue, T(1),
                         toprope::mask_form<true>(toprope::kOpCreateVecIndex, toprope::kLaneWidth<T>, mask, repeatTime, site), dstBlkStride,
                         dstRepStride, site);
}

//: ArithProgression | dst = firstValue, firstValue + diffValue, firstValue + 2 diffValue, ... | int16_t half int32_t float | A2 A3 310P | Arange
template <typename T>
void ArithProgression(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count,
                      toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(ArithProgression, T, TOPROPE_INDEX_TYPES);
    toprope::progression(toprope::kOpArithProgression, dst, firstValue, diffValue,
                         toprope::count_form(toprope::kLaneWidth<T>, static_cast<uint32_t>(count)), 1, 8, site);
}

//: Copy | dst = src, UB to UB by blocks with strides and a mask | int16_t uint16_t half bfloat16_t int32_t uint32_t float | A2 A3 | Copy
template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const uint32_t repeatTime,
          const CopyRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(Copy, T, TOPROPE_FILL_TYPES);
    if (isSetMask) {
        toprope::check_mask(toprope::kOpCopy, toprope::kLaneWidth<T>, mask, site);
        toprope::set_contiguous_mask(mask);
    }
    toprope::copy_strided(dst, src, toprope::copy_lanes<T>(repeatTime, site), repeatParams, site);
}
template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const uint32_t repeatTime,
          const CopyRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(Copy, T, TOPROPE_FILL_TYPES);
    if (isSetMask) toprope::set_bit_mask(sizeof(T) == 2 ? mask[1] : 0, mask[0]);
    toprope::copy_strided(dst, src, toprope::copy_lanes<T>(repeatTime, site), repeatParams, site);
}

//: Brcb | each of 8 elements per repeat fills a 32-byte block | int16_t uint16_t half bfloat16_t int32_t uint32_t float | A2 A3 310P | Brcb
template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t repeatTime, const BrcbRepeatParams& repeatParams,
          toprope::Site site = toprope::Site::here()) {
    TOPROPE_REQUIRE_DTYPE(Brcb, T, TOPROPE_FILL_TYPES);
    toprope::broadcast_blocks(dst, src, toprope::checked_repeats(toprope::kOpBrcb, repeatTime, site), repeatParams, site);
}

//: VectorPadding | fills each block from the edge or the mirror image of the same block of src | int16_t uint16_t half int32_t uint32_t float | 310P | VectorPadding(ISASI)
template <typename T>
void VectorPadding(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t padMode, const bool padSide, const uint32_t count,
                   toprope::Site site = toprope::Site::here()) {
    toprope::vector_padding(dst, src, padMode, padSide, toprope::count_form(toprope::kLaneWidth<T>, count), {}, site);
}
template <typename T, bool isSetMask = true>
void VectorPadding(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t padMode, const bool padSide, const uint64_t mask,
                   const uint32_t repeatTime, const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::vector_padding(dst, src, padMode, padSide,
                            toprope::mask_form<isSetMask>(toprope::kOpVectorPadding, toprope::kLaneWidth<T>, mask, repeatTime, site),
                            repeatParams, site);
}
template <typename T, bool isSetMask = true>
void VectorPadding(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t padMode, const bool padSide, const uint64_t mask[],
                   const uint32_t repeatTime, const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::vector_padding(dst, src, padMode, padSide,
                            toprope::mask_form<isSetMask>(toprope::kOpVectorPadding, toprope::kLaneWidth<T>, mask, repeatTime, site),
                            repeatParams, site);
}

}  // namespace AscendC
