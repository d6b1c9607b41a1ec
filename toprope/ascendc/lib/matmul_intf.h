// The Matmul object, under the names that kernels include.
#pragma once

#include "../kernel_operator.h"
#include "matmul/object.h"
