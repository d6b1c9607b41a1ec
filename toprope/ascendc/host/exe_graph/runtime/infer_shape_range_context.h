// The vendor's header name.
#pragma once
#include "infer_shape_context.h"
