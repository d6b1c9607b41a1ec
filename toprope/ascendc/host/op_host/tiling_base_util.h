// The vendor's header name.
#pragma once
#include "tiling_base_class.h"
