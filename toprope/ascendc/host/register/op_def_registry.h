// What an operator's host source includes: its definition, its functions and their contexts.
#pragma once

#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "../graph/utils/type_utils.h"
#include "../tiling/platform/platform_ascendc.h"
#include "op_def.h"
#include "op_impl_registry.h"
#include "tilingdata_base.h"
