// The vendor's header name; everything is in kernel_operator.h.
#pragma once
#include "../kernel_operator.h"
