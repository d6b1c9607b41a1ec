// The vendor's header name for the numbers of element types and formats. Kernels have them as macros, host code as template arguments
// (C_DT_, C_FORMAT_) beside the enumerations of ge.
#pragma once
#ifdef TOPROPE_HOST
#include "template_numbers.h"
#else
#include "../api/kernel_macros.h"
#endif
