// Sizes of the chip that operator repositories ask for at compile time (opbase: Ops::Base and platform).
#pragma once

#include "../kernel_operator.h"

namespace Ops {
namespace Base {

constexpr uint32_t GetUbBlockSize() { return 32; }
constexpr uint32_t GetVRegSize() { return 256; }

}  // namespace Base
}  // namespace Ops
namespace platform {

constexpr uint32_t GetUbBlockSize() { return 32; }
constexpr uint32_t GetVRegSize() { return 256; }
constexpr bool IsDataCopyPadSupport() { return toprope::kChip.pads; }
constexpr bool IsSupportAtomicAddTypeSIMD() { return true; }

}  // namespace platform
