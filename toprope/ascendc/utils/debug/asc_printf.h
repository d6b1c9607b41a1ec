// The vendor's header name.
#pragma once
#include "../../kernel_operator.h"
