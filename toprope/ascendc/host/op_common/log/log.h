// The vendor's header name.
#pragma once
#include "../../log/log.h"
