// The vendor's header name.
#pragma once
#include "../tiling/platform/platform_ascendc.h"
