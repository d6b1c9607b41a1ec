// The vendor's header name.
#pragma once
#include "../exe_graph/runtime/infer_shape_range_context.h"
