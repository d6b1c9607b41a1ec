// Conversions between element types, and the scale register that quantising conversions use.
// Pages: Cast, CastDequant, SetDeqScale. Which pairs and rounding modes a chip has: machine/cast.h.
#pragma once

#include "../machine/cast.h"

namespace toprope {

inline constexpr Op kOpCast{"Cast", Pipe::v, Kind::compute, "vconv"};
inline constexpr Op kOpCastScaled{"Cast", Pipe::v, Kind::compute, "vconvdeq"};
inline constexpr Op kOpCastDequant{"CastDequant", Pipe::v, Kind::compute, "vconvdeq"};
inline constexpr Op kOpCastVectorDequant{"CastDequant", Pipe::v, Kind::compute, "vconvvdeq"};
inline constexpr Op kOpSetDeqScale{"SetDeqScale", Pipe::s, Kind::state, "set_deqscale"};

template <typename T, typename U>
inline constexpr bool kScaledCast = std::is_same_v<T, half> && std::is_same_v<U, int32_t>;
template <typename T, typename U>
constexpr uint32_t cast_width() {
    if constexpr (std::is_same_v<T, AscendC::int4b_t>)
        return kLaneWidth<U>;
    else if constexpr (std::is_same_v<U, AscendC::int4b_t>)
        return kLaneWidth<T>;
    else
        return kLaneWidth<T, U>;
}

template <typename T, typename U>
TOPROPE_OUTLINE void vector_cast(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, AscendC::RoundMode mode,
                                 const Lanes& lanes, const AscendC::UnaryRepeatParams& p, Site site) {
    constexpr uint32_t modes = cast_modes(dtype_of<U>, dtype_of<T>);
    static_assert(modes != 0, "Cast: this chip has no Cast between these element types (see `toprope api Cast`)");
    const Op& op = kScaledCast<T, U> ? kOpCastScaled : kOpCast;
    if (self->type == CoreType::aic) return;
    if (!kScaledCast<T, U> && !require_round_mode(op, dtype_of<U>, dtype_of<T>, modes, mode, site)) return;
    if (kScaledCast<T, U>) require_deq_scale(op, DeqKind::half_scale, "SetDeqScale(half)", site);
    if ((kElementBits<T> == 4 || kElementBits<U> == 4) && (lanes.active % 2 != 0 || lanes.tail % 2 != 0))
        report("int4-odd-count", site, &op, "Cast: %u elements of int4b_t, but two share a byte: count and mask must be even", lanes.tail);
    const CastContext context{dtype_of<T>, dtype_of<U>, mode, {self->registers[kRegDeqScale], nullptr}};
    vector_call({op,
                 site,
                 lanes,
                 lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride),
                 {lane_operand("src", src, p.srcBlkStride, p.srcRepStride)},
                 1,
                 cast_body,
                 &context,
                 sizeof context,
                 Overlap::whole,
                 is_float16<T> && saturates()});
}
template <typename T, typename U>
constexpr AscendC::UnaryRepeatParams packed_cast() {
    return {1, 1, packed_stride<T>(cast_width<T, U>()), packed_stride<U>(cast_width<T, U>())};
}

// 16-bit integers to 8 bits: the 16 results of a source block fill one half of a destination block.
template <bool isVecDeq, bool halfBlock, typename T>
TOPROPE_OUTLINE void vector_dequant(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<int16_t>& src, const Lanes& lanes,
                                    const AscendC::UnaryRepeatParams& p, Site site) {
    const Op& op = isVecDeq ? kOpCastVectorDequant : kOpCastDequant;
    if (self->type == CoreType::aic) return;
    require_deq_scale(op, isVecDeq ? DeqKind::table : DeqKind::float_scale,
                      isVecDeq ? "SetDeqScale(vdeq, vdeqInfo)" : "SetDeqScale(scale, offset, signMode)", site);
    const uint64_t word = self->registers[kRegDeqScale];
    const auto table = static_cast<uint32_t>(word & 0x3fff) * kBlockBytes;
    const bool has_table = isVecDeq && table + 128 <= self->bytes[static_cast<int>(Space::ub)];
    const CastContext context{dtype_of<T>,
                              Dtype::s16,
                              AscendC::RoundMode::CAST_RINT,
                              {word, has_table ? self->memory[static_cast<int>(Space::ub)] + table : nullptr}};
    VectorOperand d = lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride);
    d.layout.block_lanes = 16;
    d.layout.block_offset = halfBlock ? 16 : 0;
    const VectorOperand scales{"vdeq",
                               {Space::ub, true, table, 128, nullptr},
                               {self->memory[static_cast<int>(Space::ub)] + table, table, 1, 8, 64},
                               Dtype::u64,
                               128};
    vector_call({op,
                 site,
                 lanes,
                 d,
                 {lane_operand("src", src, p.srcBlkStride, p.srcRepStride), scales},
                 has_table ? 2u : 1u,
                 dequant_body,
                 &context});
}

template <typename T, typename U, bool isVecDeq, bool halfBlock>
void cast_dequant(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, const Lanes& lanes,
                  const AscendC::UnaryRepeatParams& p, Site site) {
    if constexpr (std::is_same_v<U, int16_t> && is_one_of<T, int8_t, uint8_t>)
        vector_dequant<isVecDeq, halfBlock>(dst, src, lanes, p, site);
    else {
        static_assert(kScaledCast<T, U>, "CastDequant: int16_t to int8_t or uint8_t, or int32_t to half (see `toprope api CastDequant`)");
        vector_cast(dst, src, AscendC::RoundMode::CAST_RINT, lanes, p, site);
    }
}
// Blocks of 16 lanes advance by one block of dst, half of which is used.
template <typename T, typename U>
constexpr AscendC::UnaryRepeatParams packed_dequant() {
    return {1, 1, static_cast<uint16_t>(sizeof(T) == 1 ? 8 : 4), 8};
}

inline void set_deq_scale(uint64_t value, DeqKind kind, Site site) {
    if (self->type == CoreType::aic) return;
    self->registers[kRegDeqScale] = value | static_cast<uint64_t>(kind) << kDeqKindShift;
    record(kOpSetDeqScale, site, 1);
}
inline uint64_t deq_word(float scale, int16_t offset, bool sign) {
    return float_bits(scale) | static_cast<uint64_t>(static_cast<uint16_t>(offset) & 0x1ffu) << 37 | static_cast<uint64_t>(sign) << 46;
}

}  // namespace toprope

namespace AscendC {

//: Cast | dst = src in dst's element type, rounded by roundMode; out-of-range integers saturate | the pairs of machine/cast.h | A2 A3 310P 910 | Cast
template <typename T, typename U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint32_t count,
          toprope::Site site = toprope::Site::here()) {
    toprope::vector_cast(dst, src, roundMode, toprope::count_form(toprope::cast_width<T, U>(), count), toprope::packed_cast<T, U>(), site);
}
template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask, const uint32_t repeatTime,
          const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::vector_cast(dst, src, roundMode,
                         toprope::mask_form<isSetMask>(toprope::kOpCast, toprope::cast_width<T, U>(), mask, repeatTime, site), repeatParams,
                         site);
}
template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask[],
          const uint32_t repeatTime, const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::vector_cast(dst, src, roundMode,
                         toprope::mask_form<isSetMask>(toprope::kOpCast, toprope::cast_width<T, U>(), mask, repeatTime, site), repeatParams,
                         site);
}

//: CastDequant | dst = src scaled by what SetDeqScale set, rounded to even, saturated | int16_t to int8_t uint8_t, int32_t to half | A2 A3 310P | CastDequant
//: CastDeq | the older name of CastDequant | int16_t to int8_t uint8_t, int32_t to half | A2 A3 310P | CastDequant
#define TOPROPE_CAST_DEQUANT(Name)                                                                                                         \
    template <typename T, typename U, bool isVecDeq = true, bool halfBlock = true>                                                         \
    void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint32_t count, toprope::Site site = toprope::Site::here()) {    \
        toprope::cast_dequant<T, U, isVecDeq, halfBlock>(dst, src, toprope::count_form(toprope::kLaneWidth<T, U>, count),                  \
                                                         toprope::packed_dequant<T, U>(), site);                                           \
    }                                                                                                                                      \
    template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>                                  \
    void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src, const int32_t mask, const uint32_t repeatTime,                         \
              const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {                                         \
        toprope::cast_dequant<T, U, isVecDeq, halfBlock>(dst, src,                                                                         \
                                                         toprope::mask_form<isSetMask>(toprope::kOpCastDequant, toprope::kLaneWidth<T, U>, \
                                                                                       static_cast<uint64_t>(mask), repeatTime, site),     \
                                                         repeatParams, site);                                                              \
    }                                                                                                                                      \
    template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>                                  \
    void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint64_t mask[], const uint32_t repeatTime,                      \
              const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {                                         \
        toprope::cast_dequant<T, U, isVecDeq, halfBlock>(                                                                                  \
            dst, src, toprope::mask_form<isSetMask>(toprope::kOpCastDequant, toprope::kLaneWidth<T, U>, mask, repeatTime, site),           \
            repeatParams, site);                                                                                                           \
    }
TOPROPE_CAST_DEQUANT(CastDequant)
TOPROPE_CAST_DEQUANT(CastDeq)

// The scales, offsets and signs of the 16 lanes of a block, for SetDeqScale.
struct VdeqInfo {
    float vdeqScale[16] = {};
    int16_t vdeqOffset[16] = {};
    bool vdeqSignMode[16] = {};
    VdeqInfo() = default;
    VdeqInfo(const float scale[16], const int16_t offset[16], const bool sign[16]) {
        for (int i = 0; i < 16; ++i) {
            vdeqScale[i] = scale[i];
            vdeqOffset[i] = offset[i];
            vdeqSignMode[i] = sign[i];
        }
    }
};

//: SetDeqScale | sets the scale (and offset, sign) of quantising conversions: one half, one float, or a table of 16 | half, float, uint64_t table | A2 A3 310P | SetDeqScale
inline void SetDeqScale(half scale, toprope::Site site = toprope::Site::here()) {
    toprope::set_deq_scale(scale.bits, toprope::DeqKind::half_scale, site);
}
inline void SetDeqScale(float scale, int16_t offset, bool signMode, toprope::Site site = toprope::Site::here()) {
    toprope::set_deq_scale(toprope::deq_word(scale, offset, signMode), toprope::DeqKind::float_scale, site);
}
// Writes the table to UB word by word, as scalar stores, and points the register at it.
template <typename T>
void SetDeqScale(const LocalTensor<T>& vdeq, const VdeqInfo& vdeqInfo, toprope::Site site = toprope::Site::here()) {
    static_assert(std::is_same_v<T, uint64_t>, "SetDeqScale: the table is a LocalTensor<uint64_t> of 16 elements");
    for (uint32_t i = 0; i < 16; ++i)
        vdeq.SetValue(i, toprope::deq_word(vdeqInfo.vdeqScale[i], vdeqInfo.vdeqOffset[i], vdeqInfo.vdeqSignMode[i]), site);
    toprope::set_deq_scale(vdeq.address() / toprope::kBlockBytes, toprope::DeqKind::table, site);
}

}  // namespace AscendC
