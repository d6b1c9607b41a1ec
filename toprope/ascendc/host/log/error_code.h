// The vendor's header name.
#pragma once
#include "log.h"
