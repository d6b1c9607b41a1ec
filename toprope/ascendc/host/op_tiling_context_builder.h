// The vendor's header name.
#pragma once
#include "unit_test/context_builder.h"
