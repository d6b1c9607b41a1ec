// The vendor's header name.
#pragma once
#include "shape.h"
