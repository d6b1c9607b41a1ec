// The vendor's header name; the template tiling key macros are in api/kernel_macros.h.
#pragma once
#include "../../../kernel_operator.h"
