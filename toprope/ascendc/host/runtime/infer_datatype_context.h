// The vendor's header name.
#pragma once
#include "../exe_graph/runtime/infer_datatype_context.h"
