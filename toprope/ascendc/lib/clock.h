// The vendor's header name. `clock()` is a function of the C library too, so that the kernel's is a macro.
#pragma once

#include "../kernel_operator.h"

#define clock() toprope_clock()
