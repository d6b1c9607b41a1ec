// The vendor's header name.
#pragma once
#include "../lib/tiling_structs.h"
