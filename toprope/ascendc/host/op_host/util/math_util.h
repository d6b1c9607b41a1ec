// The vendor's header name.
#pragma once
#include "../../util/math_util.h"
