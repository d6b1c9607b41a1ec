// The vendor's header name.
#pragma once
#include "../../../util/platform_util.h"
