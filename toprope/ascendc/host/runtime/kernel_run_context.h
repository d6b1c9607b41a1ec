// The vendor's header name.
#pragma once
#include "../exe_graph/runtime/kernel_run_context.h"
