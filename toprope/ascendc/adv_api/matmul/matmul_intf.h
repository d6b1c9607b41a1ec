// The vendor's header name.
#pragma once
#include "../../lib/matmul_intf.h"
