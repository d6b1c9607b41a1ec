// Copies between GM and on-chip memory.
#pragma once

#include "../core/vector.h"

namespace toprope {
inline constexpr Op kOpDataCopyIn{"DataCopy", Pipe::mte2, Kind::copy, "gm_to_ub"};
inline constexpr Op kOpDataCopyOut{"DataCopy", Pipe::mte3, Kind::copy, "ub_to_gm"};
}  // namespace toprope

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    const uint64_t bytes = bytes_of<T>(count);
    if (self->type == CoreType::aic || bytes == 0) return;
    const uint64_t gm = gm_address(src.pointer(), bytes, kOpDataCopyIn, site, false);
    if (!require_operand(kOpDataCopyIn, "dst", dst, bytes, 32, site) || gm == 0) return;
    Instr& instr = record(kOpDataCopyIn, site, 1, static_cast<uint32_t>(dtype_of<T>));
    touch(instr, Space::gm, Mode::read, gm, bytes);
    touch(instr, Space::ub, Mode::write, dst.address(), bytes);
    if (self->execute) std::memcpy(dst.host(), src.pointer(), bytes);
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    const uint64_t bytes = bytes_of<T>(count);
    if (self->type == CoreType::aic || bytes == 0) return;
    const uint64_t gm = gm_address(dst.pointer(), bytes, kOpDataCopyOut, site, true);
    if (!require_operand(kOpDataCopyOut, "src", src, bytes, 32, site) || gm == 0) return;
    Instr& instr = record(kOpDataCopyOut, site, 1, static_cast<uint32_t>(dtype_of<T>));
    touch(instr, Space::ub, Mode::read, src.address(), bytes);
    touch(instr, Space::gm, Mode::write, gm, bytes);
    if (self->execute) std::memcpy(dst.pointer(), src.host(), bytes);
}

}  // namespace AscendC
