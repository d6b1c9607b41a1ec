// The vendor's header name.
#pragma once
#include "../kernel_tiling/kernel_tiling.h"
