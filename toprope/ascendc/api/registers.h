// Access to the special registers (machine/machine.h lists them).
#pragma once

#include "../machine/machine.h"

namespace toprope {

inline uint64_t& special_register(Register r) { return self->registers[r]; }

}  // namespace toprope
