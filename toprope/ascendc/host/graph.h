// The vendor's header name.
#pragma once
#include "graph/graph.h"
