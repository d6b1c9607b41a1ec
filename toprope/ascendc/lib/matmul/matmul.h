// The vendor's header name.
#pragma once
#include "../matmul_intf.h"
