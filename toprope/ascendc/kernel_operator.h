// What an Ascend C kernel includes. Each family of functions is one file in api/; core/ is the machine below them.
#pragma once

#include "api/data_copy.h"
#include "api/sync.h"
#include "api/system.h"
#include "api/vector_binary.h"
