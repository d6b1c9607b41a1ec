// Access to the special registers (core/machine.h lists them).
#pragma once

#include "../core/machine.h"

namespace toprope {

inline uint64_t& special_register(Register r) { return self->registers[r]; }

}  // namespace toprope
