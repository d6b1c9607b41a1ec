// The mask registers of the vector unit and their two modes. Page: 掩码操作.
#pragma once

#include "../machine/vector.h"

namespace toprope {
inline constexpr Op kOpSetVectorMask{"SetVectorMask", Pipe::s, Kind::state, "set_mask"};
inline constexpr Op kOpSetMaskCount{"SetMaskCount", Pipe::s, Kind::state, "set_mask"};
inline constexpr Op kOpSetMaskNorm{"SetMaskNorm", Pipe::s, Kind::state, "set_mask"};
inline constexpr Op kOpResetMask{"ResetMask", Pipe::s, Kind::state, "set_mask"};

inline bool vector_core() { return self->type != CoreType::aic; }
}  // namespace toprope

namespace AscendC {

//: SetMaskCount | the mask is from now on the number of elements of the whole instruction | - | A2 A3 310P | SetMaskCount
inline void SetMaskCount(toprope::Site site = toprope::Site::here()) {
    if (!toprope::vector_core()) return;
    toprope::self->vector.counter = true;
    toprope::record(toprope::kOpSetMaskCount, site, 1);
}
//: SetMaskNorm | the mask is from now on one bit per lane of a repeat | - | A2 A3 310P | SetMaskNorm
inline void SetMaskNorm(toprope::Site site = toprope::Site::here()) {
    if (!toprope::vector_core()) return;
    toprope::self->vector.counter = false;
    toprope::record(toprope::kOpSetMaskNorm, site, 1);
}
//: SetVectorMask | sets the mask registers: two words of lane bits, a run of lanes, or (counter mode) a number of elements | - | A2 A3 310P 910 | SetVectorMask
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow, toprope::Site site = toprope::Site::here()) {
    if (!toprope::vector_core()) return;
    toprope::set_bit_mask(mode == MaskMode::COUNTER ? 0 : maskHigh, maskLow);
    toprope::record(toprope::kOpSetVectorMask, site, 1, static_cast<uint32_t>(toprope::dtype_of<T>));
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t len, toprope::Site site = toprope::Site::here()) {
    if (!toprope::vector_core()) return;
    // The mode of the call decides, not that of the register: a run of lane bits in counter mode is a wrong count, as on the chip.
    const auto n = static_cast<uint32_t>(len);
    if (mode == MaskMode::COUNTER)
        toprope::set_bit_mask(0, n);
    else
        toprope::set_bit_mask(toprope::run_of_ones(n > 64 ? n - 64 : 0), toprope::run_of_ones(n));
    toprope::record(toprope::kOpSetVectorMask, site, 1, static_cast<uint32_t>(toprope::dtype_of<T>));
}
//: ResetMask | every lane takes part again; the mode stays | - | A2 A3 310P | ResetMask
inline void ResetMask(toprope::Site site = toprope::Site::here()) {
    if (!toprope::vector_core()) return;
    toprope::set_bit_mask(~0ull, ~0ull);
    toprope::record(toprope::kOpResetMask, site, 1);
}

}  // namespace AscendC
