// The vendor's header name.
#pragma once
#include "node.h"
