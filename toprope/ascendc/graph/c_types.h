// The vendor's header name: the numbers of dtypes and formats.
#pragma once
#include "../api/kernel_macros.h"
