// The vendor's header name.
#pragma once
#include "../../util/const_util.h"
