// The vendor's header name.
#pragma once
#include "../utils/std/tuple.h"
