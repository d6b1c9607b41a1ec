// The vendor's header name.
#pragma once
#include "platform_infos_def.h"
