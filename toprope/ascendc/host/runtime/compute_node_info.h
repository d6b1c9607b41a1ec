// The vendor's header name.
#pragma once
#include "../exe_graph/runtime/compute_node_info.h"
