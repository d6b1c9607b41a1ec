// The vendor's header name. In kernels the template tiling key macros say nothing (api/kernel_macros.h); in host code they become tables.
#pragma once
#ifdef TOPROPE_HOST
#include "template_keys.h"
#else
#include "../kernel_operator.h"
#endif
