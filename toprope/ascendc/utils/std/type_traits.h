// The vendor's header name; AscendC::Std is in api/kernel_macros.h.
#pragma once
#include "../../kernel_operator.h"
