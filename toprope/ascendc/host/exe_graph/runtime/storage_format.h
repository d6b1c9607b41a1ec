// The vendor's header name.
#pragma once
#include "tensor.h"
