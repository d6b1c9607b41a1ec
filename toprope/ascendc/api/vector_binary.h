// Element-wise operations of two tensors. One row per function: TOPROPE_BINARY(name, meaning, cost, dtypes, expression of a and b).
// A row gives the count form, both mask forms, the documentation line and the entry in `toprope api`.
#pragma once

#include "../core/vector.h"

namespace toprope {

struct BinaryStrides { uint32_t dst_block = 1, a_block = 1, b_block = 1, dst_repeat = 8, a_repeat = 8, b_repeat = 8; };
inline BinaryStrides strides_of(const AscendC::BinaryRepeatParams& p) {
    return {p.dstBlkStride, p.src0BlkStride, p.src1BlkStride, p.dstRepStride, p.src0RepStride, p.src1RepStride};
}

template <typename F, typename D, typename A, typename B>
void vector_binary(const Op& op, F f, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<A>& src0, const AscendC::LocalTensor<B>& src1, const Lanes& lanes,
                   const BinaryStrides& st, Site site) {
    if (self->type == CoreType::aic || lanes.empty()) return;
    const Operand<D> d{dst.host(), dst.address(), st.dst_block, st.dst_repeat};
    const Operand<A> a{src0.host(), src0.address(), st.a_block, st.a_repeat};
    const Operand<B> b{src1.host(), src1.address(), st.b_block, st.b_repeat};
    // & rather than &&: every operand is looked at, so that one call reports all its mistakes.
    if (!(require_vector_operand(op, "dst", dst, d, lanes, site) & require_vector_operand(op, "src0", src0, a, lanes, site) &
          require_vector_operand(op, "src1", src1, b, lanes, site)))
        return;
    Instr& instr = record(op, site, lanes.repeats, static_cast<uint32_t>(dtype_of<A>));
    touch_lanes(instr, Mode::read, a, lanes);
    touch_lanes(instr, Mode::read, b, lanes);
    touch_lanes(instr, Mode::write, d, lanes);
    run_lanes(lanes, f, d, a, b);
}

}  // namespace toprope

#define TOPROPE_BINARY(Name, meaning, cost, dtypes, expression)                                                                                    \
    namespace toprope {                                                                                                                            \
    inline constexpr Op kOp##Name{#Name, Pipe::v, Kind::compute, cost};                                                                            \
    struct Fn##Name {                                                                                                                              \
        template <typename L> L operator()(L a, L b) const { return static_cast<L>(expression); }                                                  \
    };                                                                                                                                             \
    }                                                                                                                                              \
    namespace AscendC {                                                                                                                            \
    template <typename T>                                                                                                                          \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count,                             \
              toprope::Site site = toprope::Site::here()) {                                                                                        \
        static_assert(toprope::is_one_of<T, TOPROPE_UNPACK dtypes>, #Name ": this chip has no " #Name " for this element type (see `toprope api " #Name "`)"); \
        toprope::vector_binary(toprope::kOp##Name, toprope::Fn##Name{}, dst, src0, src1, toprope::count_lanes(toprope::lane_width(sizeof(T)), static_cast<uint32_t>(count)), {}, site); \
    }                                                                                                                                              \
    template <typename T, bool isSetMask = true>                                                                                                   \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, const uint8_t repeatTime,          \
              const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {                                                \
        static_assert(toprope::is_one_of<T, TOPROPE_UNPACK dtypes>, #Name ": this chip has no " #Name " for this element type (see `toprope api " #Name "`)"); \
        if constexpr (isSetMask) toprope::set_contiguous_mask(mask);                                                                               \
        toprope::vector_binary(toprope::kOp##Name, toprope::Fn##Name{}, dst, src0, src1, toprope::mask_lanes(toprope::lane_width(sizeof(T)), repeatTime), toprope::strides_of(repeatParams), site); \
    }                                                                                                                                              \
    template <typename T, bool isSetMask = true>                                                                                                   \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask[], const uint8_t repeatTime,        \
              const BinaryRepeatParams& repeatParams, toprope::Site site = toprope::Site::here()) {                                                \
        static_assert(toprope::is_one_of<T, TOPROPE_UNPACK dtypes>, #Name ": this chip has no " #Name " for this element type (see `toprope api " #Name "`)"); \
        if constexpr (isSetMask) toprope::set_bit_mask(mask[1], mask[0]);                                                                          \
        toprope::vector_binary(toprope::kOp##Name, toprope::Fn##Name{}, dst, src0, src1, toprope::mask_lanes(toprope::lane_width(sizeof(T)), repeatTime), toprope::strides_of(repeatParams), site); \
    }                                                                                                                                              \
    }

#define TOPROPE_UNPACK(...) __VA_ARGS__

TOPROPE_BINARY(Add, "dst = src0 + src1", "vadd", (int16_t, half, int32_t, float), a + b)
