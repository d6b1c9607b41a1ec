// Log macros of a toolkit's tiling functions. Page: Utils-API/log/ASC_CPU_LOG.md.
#pragma once

#include "../state.h"

#define ASC_CPU_LOG_ERROR(format, ...) toprope::host::say("ERROR", "", __FILE__, __LINE__, format, ##__VA_ARGS__)
#define ASC_CPU_LOG_INFO(format, ...) toprope::host::say("INFO", "", __FILE__, __LINE__, format, ##__VA_ARGS__)
#define ASC_CPU_LOG_WARNING(format, ...) toprope::host::say("WARNING", "", __FILE__, __LINE__, format, ##__VA_ARGS__)
#define ASC_CPU_LOG_DEBUG(format, ...) toprope::host::say("DEBUG", "", __FILE__, __LINE__, format, ##__VA_ARGS__)
