// The vendor's header name.
#pragma once
#include "types.h"
