// Forms of the advanced functions whose address has the vendor's type; see api/device_names.h.
#pragma once

#include "../api/device_names.h"
#include "vector_library.h"

namespace AscendC {

TOPROPE_ADDRESS_OF_COUNT_FORM(Acos)
TOPROPE_ADDRESS_OF_COUNT_FORM(Asin)
TOPROPE_ADDRESS_OF_COUNT_FORM(Atan)
TOPROPE_ADDRESS_OF_COUNT_FORM(Cos)
TOPROPE_ADDRESS_OF_COUNT_FORM(Cosh)
TOPROPE_ADDRESS_OF_COUNT_FORM(Erf)
TOPROPE_ADDRESS_OF_COUNT_FORM(Erfc)
TOPROPE_ADDRESS_OF_COUNT_FORM(Sigmoid)
TOPROPE_ADDRESS_OF_COUNT_FORM(Sin)
TOPROPE_ADDRESS_OF_COUNT_FORM(Sinh)
TOPROPE_ADDRESS_OF_COUNT_FORM(Tan)
TOPROPE_ADDRESS_OF_COUNT_FORM(Tanh)

}  // namespace AscendC
