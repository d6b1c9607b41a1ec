// The vendor's header name.
#pragma once
#include "infershape_elewise_util.h"
