// The vendor's header name.
#pragma once
#include "operator.h"
