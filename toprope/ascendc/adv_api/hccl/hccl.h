// The vendor's header name.
#pragma once
#include "../../lib/hccl.h"
