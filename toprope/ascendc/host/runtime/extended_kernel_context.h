// The vendor's header name.
#pragma once
#include "../exe_graph/runtime/extended_kernel_context.h"
