// Select: dst takes src0 where the bit is 1, src1 or a scalar where it is 0. Page: Select.
// Mode 0 uses the same 256 / sizeof(T) bits in every repeat, modes 1 and 2 go on through the bits.
// The chip keeps 8 KB of UB for modes 1 and 2; this machine needs none, and TPipe does not set them aside.
#pragma once

#include "../machine/bit_masks.h"

namespace toprope {

inline constexpr Op kOpSelect{"Select", Pipe::v, Kind::compute, "vsel"};

template <typename T>
constexpr void require_selectable() {
    static_assert(is_one_of<T, half, float>, "Select: the element types are half and float (see `toprope api Select`)");
}

// The bits a call reads: one per lane, or one repeat's worth in mode 0.
inline uint32_t select_mask_bytes(const Lanes& l, bool reused) {
    const uint64_t lanes = reused ? l.width : (l.bitmap ? uint64_t{l.repeats} * l.width : uint64_t{l.repeats - 1} * l.width + l.tail);
    return static_cast<uint32_t>((lanes + 7) / 8);
}

struct SelectSource {  // src1: a tensor or a scalar
    bool has_scalar;
    uint32_t scalar;
    VectorOperand tensor;
};
template <typename T>
SelectSource select_scalar(T value) {
    return {true, scalar_bits(value), {}};
}
template <typename T>
SelectSource select_tensor(const AscendC::LocalTensor<T>& t, const AscendC::BinaryRepeatParams& p) {
    return {false, 0, lane_operand("src1", t, p.src1BlkStride, p.src1RepStride)};
}

template <typename T, typename U>
TOPROPE_OUTLINE void select(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& selMask, const AscendC::LocalTensor<T>& src0,
                            const SelectSource& src1, AscendC::SELMODE mode, const Lanes& lanes, const AscendC::BinaryRepeatParams& p,
                            Site site) {
    require_selectable<T>();
    if (lanes.empty()) return;
    if ((mode == AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE) != src1.has_scalar) {
        report("select-mode", site, &kOpSelect, "Select: VSEL_TENSOR_SCALAR_MODE goes with a scalar src1, the other modes with a tensor");
        return;
    }
    const bool reused = mode == AscendC::SELMODE::VSEL_CMPMASK_SPR;
    const SelectContext context{sizeof(T), reused ? lanes.width : 0, src1.has_scalar, src1.scalar, selMask.host()};
    const VectorOperand bits = range_operand("selMask", selMask, select_mask_bytes(lanes, reused)),
                        first = lane_operand("src0", src0, p.src0BlkStride, p.src0RepStride);
    const VectorOperand d = lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride);
    if (src1.has_scalar)
        vector_call({kOpSelect, site, lanes, d, {first, bits}, 2, select_body, &context, sizeof context});
    else
        vector_call({kOpSelect, site, lanes, d, {first, src1.tensor, bits}, 3, select_body, &context});
}

// CMPMASK holds the UB address of the bits: an address, or a pointer that GetPhyAddr gave (its low half identifies it).
inline uint32_t select_address() {
    const auto value = static_cast<uint32_t>(self->registers[kRegCmpMask]);
    const uint32_t bytes = self->bytes[static_cast<int>(Space::ub)];
    const uint32_t offset = value - static_cast<uint32_t>(reinterpret_cast<uintptr_t>(self->memory[static_cast<int>(Space::ub)]));
    return offset < bytes ? offset : value;
}

// The forms that take their bits, scalar or address from CMPMASK and their lanes from the mask registers.
template <typename T>
TOPROPE_OUTLINE void select_by_register(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src0,
                                        const AscendC::LocalTensor<T>& src1, AscendC::SELMODE mode, uint32_t repeats,
                                        const AscendC::BinaryRepeatParams& p, Site site) {
    require_selectable<T>();
    if (self->type == CoreType::aic) return;
    const Lanes lanes = mask_lanes(kLaneWidth<T>, checked_repeats(kOpSelect, repeats, site));
    if (lanes.empty()) return;
    if (mode == AscendC::SELMODE::VSEL_CMPMASK_SPR) {
        const SelectContext context{sizeof(T), lanes.width, false, 0, reinterpret_cast<const uint8_t*>(&self->registers[kRegCmpMask])};
        vector_call(
            {kOpSelect,
             site,
             lanes,
             lane_operand("dst", dst, p.dstBlkStride, p.dstRepStride),
             {lane_operand("src0", src0, p.src0BlkStride, p.src0RepStride), lane_operand("src1", src1, p.src1BlkStride, p.src1RepStride)},
             2,
             select_body,
             &context});
        return;
    }
    const AscendC::LocalTensor<uint8_t> bits(AscendC::TPosition::VECCALC, select_address(), select_mask_bytes(lanes, false));
    select(dst, bits, src0, select_tensor(src1, p), mode, lanes, p, site);
}

}  // namespace toprope

namespace AscendC {

//: Select | dst = src0 where the bit of selMask is 1, else src1 (a tensor or a scalar) | half float | A2 A3 310P 910 | Select
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE selMode, uint32_t count,
            toprope::Site site = toprope::Site::here()) {
    toprope::select(dst, selMask, src0, toprope::select_scalar(src1), selMode, toprope::count_form(toprope::kLaneWidth<T>, count), {},
                    site);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
            SELMODE selMode, uint32_t count, toprope::Site site = toprope::Site::here()) {
    toprope::select(dst, selMask, src0, toprope::select_tensor(src1, BinaryRepeatParams{}), selMode,
                    toprope::count_form(toprope::kLaneWidth<T>, count), {}, site);
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE selMode,
            const uint64_t mask[], const uint32_t repeatTime, const BinaryRepeatParams& repeatParams,
            toprope::Site site = toprope::Site::here()) {
    toprope::select(dst, selMask, src0, toprope::select_scalar(src1), selMode,
                    toprope::mask_form<isSetMask>(toprope::kOpSelect, toprope::kLaneWidth<T>, mask, repeatTime, site), repeatParams, site);
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE selMode, uint64_t mask,
            const uint32_t repeatTime, const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::select(dst, selMask, src0, toprope::select_scalar(src1), selMode,
                    toprope::mask_form<isSetMask>(toprope::kOpSelect, toprope::kLaneWidth<T>, mask, repeatTime, site), repeatParams, site);
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
            SELMODE selMode, const uint64_t mask[], const uint32_t repeatTime, const BinaryRepeatParams& repeatParams,
            toprope::Site site = toprope::Site::here()) {
    toprope::select(dst, selMask, src0, toprope::select_tensor(src1, repeatParams), selMode,
                    toprope::mask_form<isSetMask>(toprope::kOpSelect, toprope::kLaneWidth<T>, mask, repeatTime, site), repeatParams, site);
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
            SELMODE selMode, uint64_t mask, const uint32_t repeatTime, const BinaryRepeatParams& repeatParams,
            toprope::Site site = toprope::Site::here()) {
    toprope::select(dst, selMask, src0, toprope::select_tensor(src1, repeatParams), selMode,
                    toprope::mask_form<isSetMask>(toprope::kOpSelect, toprope::kLaneWidth<T>, mask, repeatTime, site), repeatParams, site);
}
// The scalar is the first element that SetCmpMask loaded.
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const uint32_t repeatTime,
            const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    T scalar;
    std::memcpy(&scalar, &toprope::self->registers[toprope::kRegCmpMask], sizeof(T));
    toprope::select(dst, selMask, src0, toprope::select_scalar(scalar), SELMODE::VSEL_TENSOR_SCALAR_MODE,
                    toprope::mask_lanes(toprope::kLaneWidth<T>, toprope::checked_repeats(toprope::kOpSelect, repeatTime, site)),
                    repeatParams, site);
}
template <typename T, SELMODE selMode>
void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const uint32_t repeatTime,
            const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::select_by_register(dst, src0, src1, selMode, repeatTime, repeatParams, site);
}

}  // namespace AscendC
