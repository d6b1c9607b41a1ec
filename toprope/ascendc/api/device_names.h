// Names that the device compiler knows without a declaration: scalar arithmetic, branch hints, other spellings of types.
#pragma once

#include <math.h>

#include "cross_core.h"
#include "system.h"

using float32_t = float;

// Not templates, so that a kernel's own min and max templates do not become ambiguous.
#define TOPROPE_SCALAR_PAIR(T)                               \
    constexpr T min(T a, T b) { return b < a ? b : a; }      \
    constexpr T max(T a, T b) { return a < b ? b : a; }
TOPROPE_SCALAR_PAIR(int32_t)
TOPROPE_SCALAR_PAIR(uint32_t)
TOPROPE_SCALAR_PAIR(int64_t)
TOPROPE_SCALAR_PAIR(uint64_t)
TOPROPE_SCALAR_PAIR(float)
#undef TOPROPE_SCALAR_PAIR
constexpr bool likely(bool condition) { return __builtin_expect(condition, 1); }
constexpr bool unlikely(bool condition) { return __builtin_expect(condition, 0); }

using AscendC::GetTPipePtr;
