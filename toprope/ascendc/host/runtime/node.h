// The vendor's header name.
#pragma once
#include "../exe_graph/runtime/node.h"
