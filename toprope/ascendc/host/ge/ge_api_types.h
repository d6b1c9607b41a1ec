// The vendor's header name.
#pragma once
#include "../graph/types.h"
