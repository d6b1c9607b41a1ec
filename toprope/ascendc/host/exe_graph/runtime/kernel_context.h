// The vendor's header name.
#pragma once
#include "tiling_parse_context.h"
