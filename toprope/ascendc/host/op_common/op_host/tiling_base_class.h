// The vendor's header name.
#pragma once
#include "../../op_host/tiling_base_class.h"
