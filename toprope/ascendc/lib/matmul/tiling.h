// The vendor's header name.
#pragma once
#include "../matrix/matmul/tiling.h"
