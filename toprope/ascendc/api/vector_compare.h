// Comparisons: one result bit per lane, to a tensor of bits or to the CMPMASK register.
// The mask arguments of the tensor forms are reserved on these chips: every lane takes part. Comparing with NaN is false, except NE.
#pragma once

#include "../machine/bit_masks.h"

namespace toprope {

inline constexpr Op kOpCompare{"Compare", Pipe::v, Kind::compute, "vcmpv"};
inline constexpr Op kOpCompareScalar{"CompareScalar", Pipe::v, Kind::compute, "vcmpvs"};
inline constexpr Op kOpCompareToMask{"Compare", Pipe::v, Kind::compute, "vcmp"};
inline constexpr Op kOpGetCmpMask{"GetCmpMask", Pipe::v, Kind::compute, "get_cmpmask"};
inline constexpr Op kOpSetCmpMask{"SetCmpMask", Pipe::v, Kind::compute, "set_cmpmask"};

inline uint8_t* cmp_mask() { return reinterpret_cast<uint8_t*>(&self->registers[kRegCmpMask]); }

// Whole repeats only: the count form ignores an incomplete last one, and says so.
inline Lanes compare_count(const Op& op, uint32_t width, uint32_t count, Site site) {
    if (count % width != 0)
        warn("compare-tail-ignored", site, &op, "%s: %u elements are not a multiple of %u (256 bytes); the last %u are not compared",
             op.name, count, width, count % width);
    return count_form(width, count / width * width);
}
inline Lanes compare_repeats(const Op& op, uint32_t width, uint32_t repeats, Site site) {
    const VectorState& v = self->vector;
    const uint64_t counted = (v.mask_low & 0xffffffffu) + width - 1;
    return count_lanes(width, v.counter ? counted / width * width : uint64_t{checked_repeats(op, repeats, site)} * width);
}

template <typename T>
constexpr void require_comparable(AscendC::CMPMODE mode, const Op& op, Site site) {
#if __NPU_ARCH__ == 2201 || __NPU_ARCH__ == 3002 || __NPU_ARCH__ == 3510
    static_assert(is_one_of<T, half, float, int32_t>,
                  "Compare: the element types are half, float and, for EQ, int32_t (see `toprope api Compare`)");
#else
    static_assert(is_one_of<T, half, float>, "Compare: the element types are half and float (see `toprope api Compare`)");
#endif
    if (std::is_same_v<T, int32_t> && mode != AscendC::CMPMODE::EQ)
        report("compare-mode", site, &op, "%s: int32_t can only be compared with CMPMODE::EQ on this chip", op.name);
}

// dst holds bits, as int8_t or uint8_t says the page; public kernels pass tensors of any type, whose memory is the same.
// It is written without gaps whatever its strides say: one bit per lane, repeat after repeat.
template <typename T, typename U>
TOPROPE_OUTLINE void compare_tensors(const AscendC::LocalTensor<U>& dst, const AscendC::LocalTensor<T>& src0,
                                     const AscendC::LocalTensor<T>& src1, AscendC::CMPMODE mode, const Lanes& lanes,
                                     const AscendC::BinaryRepeatParams& p, Site site) {
    require_comparable<T>(mode, kOpCompare, site);
    const CompareContext context{dtype_of<T>, mode, false, 0, dst.host()};
    vector_call(
        {kOpCompare,
         site,
         lanes,
         range_operand("dst", dst, static_cast<uint32_t>(lanes.total() / 8)),
         {lane_operand("src0", src0, p.src0BlkStride, p.src0RepStride), lane_operand("src1", src1, p.src1BlkStride, p.src1RepStride)},
         2,
         compare_body,
         &context});
}
template <typename T, typename U>
TOPROPE_OUTLINE void compare_scalar(const AscendC::LocalTensor<U>& dst, const AscendC::LocalTensor<T>& src0, T scalar,
                                    AscendC::CMPMODE mode, const Lanes& lanes, const AscendC::UnaryRepeatParams& p, Site site) {
    require_comparable<T>(mode, kOpCompareScalar, site);
    const CompareContext context{dtype_of<T>, mode, true, scalar_bits(scalar), dst.host()};
    vector_call({kOpCompareScalar,
                 site,
                 lanes,
                 range_operand("dst", dst, static_cast<uint32_t>(lanes.total() / 8)),
                 {lane_operand("src0", src0, p.srcBlkStride, p.srcRepStride)},
                 1,
                 compare_body,
                 &context});
}

// One repeat into CMPMASK; lanes that the mask leaves out keep their bits.
template <typename T>
TOPROPE_OUTLINE void compare_to_mask(const AscendC::LocalTensor<T>& src0, const AscendC::LocalTensor<T>& src1, AscendC::CMPMODE mode,
                                     const Lanes& lanes, const AscendC::BinaryRepeatParams& p, Site site) {
    static_assert(is_one_of<T, half, float>, "Compare into the register: the element types are half and float");
    if (self->type == CoreType::aic || lanes.empty()) return;
    const Operand<T> a{src0.host(), src0.address(), p.src0BlkStride, p.src0RepStride},
        b{src1.host(), src1.address(), p.src1BlkStride, p.src1RepStride};
    if (!(require_vector_operand(kOpCompareToMask, "src0", src0, a, lanes, site) &
          require_vector_operand(kOpCompareToMask, "src1", src1, b, lanes, site)))
        return;
    Instr& instr = record(kOpCompareToMask, site, 1, static_cast<uint32_t>(dtype_of<T>));
    touch_lanes(instr, Mode::read, a, lanes);
    touch_lanes(instr, Mode::read, b, lanes);
    if (!self->execute) return;
    uint8_t bits[16] = {};
    const CompareContext context{dtype_of<T>, mode, false, 0, bits};
    const Layout rows[] = {a, b};
    run_rows(lanes, compare_body, &context, nullptr, rows, 2);
    for (uint32_t lane = 0; lane < lanes.width; ++lane) {
        const bool on = lanes.bitmap ? lanes.bit(lane) : lane < lanes.active;
        const auto bit = static_cast<uint8_t>(1u << (lane % 8));
        if (on) cmp_mask()[lane / 8] = static_cast<uint8_t>((cmp_mask()[lane / 8] & ~bit) | (bits[lane / 8] & bit));
    }
}

// CMPMASK to or from the first 16 bytes of a tensor.
template <typename T>
TOPROPE_OUTLINE void move_cmp_mask(const Op& op, const char* role, const AscendC::LocalTensor<T>& tensor, Mode mode, Site site) {
    if (self->type == CoreType::aic || !require_vector_view(op, role, view_of(tensor), 16, 16, site)) return;
    Instr& instr = record(op, site, 1, static_cast<uint32_t>(dtype_of<T>));
    touch(instr, Space::ub, mode, tensor.address(), 16);
    if (mode == Mode::read)
        std::memcpy(cmp_mask(), tensor.host(), 16);
    else
        std::memcpy(tensor.host(), cmp_mask(), 16);
}

}  // namespace toprope

namespace AscendC {

//: Compare | bit i of dst (or of CMPMASK) = src0[i] cmpMode src1[i] | half float, int32_t for EQ | A2 A3 310P 910 | Compare
template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, uint32_t count,
             toprope::Site site = toprope::Site::here()) {
    toprope::compare_tensors(dst, src0, src1, cmpMode, toprope::compare_count(toprope::kOpCompare, toprope::kLaneWidth<T>, count, site), {},
                             site);
}
template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t,
             const uint32_t repeatTime, const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::compare_tensors(dst, src0, src1, cmpMode,
                             toprope::compare_repeats(toprope::kOpCompare, toprope::kLaneWidth<T>, repeatTime, site), repeatParams, site);
}
template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t[],
             const uint32_t repeatTime, const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::compare_tensors(dst, src0, src1, cmpMode,
                             toprope::compare_repeats(toprope::kOpCompare, toprope::kLaneWidth<T>, repeatTime, site), repeatParams, site);
}
template <typename T, bool isSetMask = true>
void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask,
             const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::compare_to_mask(src0, src1, cmpMode,
                             toprope::mask_form<isSetMask>(toprope::kOpCompareToMask, toprope::kLaneWidth<T>, mask, 1, site), repeatParams,
                             site);
}
template <typename T, bool isSetMask = true>
void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask[],
             const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {
    toprope::compare_to_mask(src0, src1, cmpMode,
                             toprope::mask_form<isSetMask>(toprope::kOpCompareToMask, toprope::kLaneWidth<T>, mask, 1, site), repeatParams,
                             site);
}

//: Compares | bit i of dst = src0[i] cmpMode scalar | half float, int32_t for EQ | A2 A3 310P | Compares
//: CompareScalar | the older name of Compares | half float, int32_t for EQ | A2 A3 310P | Compares
#define TOPROPE_COMPARE_SCALAR(Name)                                                                                               \
    template <typename T, typename U>                                                                                              \
    void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, uint32_t count,          \
              toprope::Site site = toprope::Site::here()) {                                                                        \
        toprope::compare_scalar(dst, src0, src1Scalar, cmpMode,                                                                    \
                                toprope::compare_count(toprope::kOpCompareScalar, toprope::kLaneWidth<T>, count, site), {}, site); \
    }                                                                                                                              \
    template <typename T, typename U, bool isSetMask = true>                                                                       \
    void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, const uint64_t,          \
              const uint32_t repeatTime, const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {      \
        toprope::compare_scalar(dst, src0, src1Scalar, cmpMode,                                                                    \
                                toprope::compare_repeats(toprope::kOpCompareScalar, toprope::kLaneWidth<T>, repeatTime, site),     \
                                repeatParams, site);                                                                               \
    }                                                                                                                              \
    template <typename T, typename U, bool isSetMask = true>                                                                       \
    void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, const uint64_t[],        \
              const uint32_t repeatTime, const UnaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {      \
        toprope::compare_scalar(dst, src0, src1Scalar, cmpMode,                                                                    \
                                toprope::compare_repeats(toprope::kOpCompareScalar, toprope::kLaneWidth<T>, repeatTime, site),     \
                                repeatParams, site);                                                                               \
    }
TOPROPE_COMPARE_SCALAR(Compares)
TOPROPE_COMPARE_SCALAR(CompareScalar)

//: GetCmpMask | stores the 128 bits of CMPMASK in dst | 8 to 32 bits | A2 A3 310P | GetCmpMask(ISASI)
template <typename T>
void GetCmpMask(const LocalTensor<T>& dst, toprope::Site site = toprope::Site::here()) {
    toprope::move_cmp_mask(toprope::kOpGetCmpMask, "dst", dst, toprope::Mode::write, site);
}
//: SetCmpMask | loads CMPMASK from 16 bytes of src: the bits, the scalar or the address that Select without a mask argument needs | 8 to 64 bits | A2 A3 310P | SetCmpMask(ISASI)
template <typename T>
void SetCmpMask(const LocalTensor<T>& src, toprope::Site site = toprope::Site::here()) {
    toprope::move_cmp_mask(toprope::kOpSetCmpMask, "src", src, toprope::Mode::read, site);
}

}  // namespace AscendC
