// The special registers (Core::registers) of copies, synchronisation and the scalar unit.
#pragma once

#include "../core/machine.h"

namespace toprope {

// Numbers count down from the top; the vector and cube families use the low half.
enum Register : int {
    kRegSystemWorkspace = 31,  // SetSysWorkspace
    kRegControl = 30,          // CTRL: SetCtrlSpr, SetSaturationFlag
    kRegPadValue = 29,         // SetPadValue: the value's bits
    kRegPadSet = 28,           // SetPadValue was called
    kRegSoftSyncs = 27,        // software SyncAll calls so far
    kRegOrderedInits = 26,     // InitDetermineComputeWorkspace calls so far
};

inline uint64_t& special_register(Register r) { return self->registers[r]; }

}  // namespace toprope
