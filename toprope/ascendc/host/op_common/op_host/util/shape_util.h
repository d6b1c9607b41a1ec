// The vendor's header name.
#pragma once
#include "../../../util/shape_util.h"
