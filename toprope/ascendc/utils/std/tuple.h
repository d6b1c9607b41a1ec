// The vendor's header name; AscendC::Std::tuple is in api/tensor_layout.h.
#pragma once

#include "../../kernel_operator.h"
