// Log macros of host code. What they say is kept for the caller, who shows it when a function fails. Names and argument order are those
// that operator repositories use (opbase log/log.h).
#pragma once

#include <cinttypes>
#include <string>

#include "../graph/types.h"
#include "../state.h"
#include "../util/shape_util.h"

#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif

namespace Ops {
namespace Base {

// The first argument of a log macro as text.
template <class Name>
std::string GetOpInfo(const Name& name) {
    return toprope::host::log_name(name);
}
inline const char* GetSafeStr(const char* text) { return text; }
inline const char* GetSafeStr(const std::string& text) { return text.c_str(); }

}  // namespace Base
}  // namespace Ops

#define OP_LOGE(name, ...) TOPROPE_SAY("ERROR", name, ##__VA_ARGS__)
#define OP_LOGW(name, ...) TOPROPE_SAY("WARNING", name, ##__VA_ARGS__)
#define OP_LOGI(name, ...) TOPROPE_SAY("INFO", name, ##__VA_ARGS__)
#define OP_LOGD(name, ...) TOPROPE_SAY("DEBUG", name, ##__VA_ARGS__)
#define D_OP_LOGE(name, ...) OP_LOGE(name, ##__VA_ARGS__)
#define D_OP_LOGW(name, ...) OP_LOGW(name, ##__VA_ARGS__)
#define D_OP_LOGI(name, ...) OP_LOGI(name, ##__VA_ARGS__)
#define D_OP_LOGD(name, ...) OP_LOGD(name, ##__VA_ARGS__)
// Error messages for the user, most often beside a log line that says the same.
#define REPORT_INNER_ERR_MSG(code, ...) TOPROPE_SAY("REPORT", code, ##__VA_ARGS__)
#define REPORT_INNER_ERROR(code, ...) TOPROPE_SAY("REPORT", code, ##__VA_ARGS__)
#define REPORT_CALL_ERROR(code, ...) TOPROPE_SAY("REPORT", code, ##__VA_ARGS__)
#define REPORT_PREDEFINED_ERR_MSG(code, ...) TOPROPE_SAY("REPORT", code, "a predefined message")
#define OP_EVENT(name, ...) TOPROPE_SAY("EVENT", name, ##__VA_ARGS__)
#define OP_LOGE_WITHOUT_REPORT(name, ...) OP_LOGE(name, ##__VA_ARGS__)
#define OP_LOGE_IF(condition, result, name, ...) \
    do {                                         \
        if (condition) {                         \
            OP_LOGE(name, ##__VA_ARGS__);        \
            return result;                       \
        }                                        \
    } while (0)
#define OP_LOGI_IF_RETURN(condition, result, name, ...) \
    do {                                                \
        if (condition) {                                \
            OP_LOGI(name, ##__VA_ARGS__);               \
            return result;                              \
        }                                               \
    } while (0)
#define OP_LOGW_IF(condition, name, ...)             \
    do {                                             \
        if (condition) OP_LOGW(name, ##__VA_ARGS__); \
    } while (0)

#define OP_CHECK_IF(condition, log, leave) \
    do {                                   \
        if (condition) {                   \
            log;                           \
            leave;                         \
        }                                  \
    } while (0)
#define OP_CHECK(condition, log, leave) OP_CHECK_IF(condition, log, leave)
#define OP_TILING_CHECK(condition, log, leave) OP_CHECK_IF(condition, log, leave)
#define OP_CHECK_NULL_WITH_CONTEXT(context, pointer)      \
    do {                                                  \
        if ((pointer) == nullptr) {                       \
            OP_LOGE(context, "%s is nullptr!", #pointer); \
            return ge::GRAPH_FAILED;                      \
        }                                                 \
    } while (0)
#define OP_CHECK_NULL_WITH_CONTEXT_RET(context, pointer, result) \
    do {                                                         \
        if ((pointer) == nullptr) {                              \
            OP_LOGE(context, "%s is nullptr!", #pointer);        \
            return result;                                       \
        }                                                        \
    } while (0)

// One sentence for each kind of wrong argument: which one, the value found, and what was wanted or why it is wrong.
#define TOPROPE_WRONG(name, ...) toprope::host::say_wrong(toprope::host::log_name(name), __FILE__, __LINE__, __VA_ARGS__)
#define OP_LOGE_FOR_INVALID_VALUE(name, which, found, wanted) TOPROPE_WRONG(name, "value", which, found, wanted)
#define OP_LOGE_FOR_INVALID_VALUE_WITH_REASON(name, which, found, reason) TOPROPE_WRONG(name, "value", which, found, reason)
#define OP_LOGE_FOR_INVALID_VALUES_WITH_REASON(name, which, found, reason) TOPROPE_WRONG(name, "values", which, found, reason)
#define OP_LOGE_FOR_INVALID_SHAPE(name, which, found, wanted) TOPROPE_WRONG(name, "shape", which, found, wanted)
#define OP_LOGE_FOR_INVALID_SHAPE_WITH_REASON(name, which, found, reason) TOPROPE_WRONG(name, "shape", which, found, reason)
#define OP_LOGE_FOR_INVALID_SHAPES_WITH_REASON(name, which, found, reason) TOPROPE_WRONG(name, "shapes", which, found, reason)
#define OP_LOGE_FOR_INVALID_SHAPEDIM(name, which, found, wanted) TOPROPE_WRONG(name, "number of dimensions", which, found, wanted)
#define OP_LOGE_FOR_INVALID_SHAPEDIM_WITH_REASON(name, which, found, reason) \
    TOPROPE_WRONG(name, "number of dimensions", which, found, reason)
#define OP_LOGE_FOR_INVALID_SHAPEDIMS_WITH_REASON(name, which, found, reason) \
    TOPROPE_WRONG(name, "numbers of dimensions", which, found, reason)
#define OP_LOGE_FOR_INVALID_SHAPESIZE(name, which, found, wanted) TOPROPE_WRONG(name, "number of elements", which, found, wanted)
#define OP_LOGE_FOR_INVALID_SHAPESIZE_WITH_REASON(name, which, found, reason) \
    TOPROPE_WRONG(name, "number of elements", which, found, reason)
#define OP_LOGE_FOR_INVALID_SHAPESIZES_WITH_REASON(name, which, found, reason) \
    TOPROPE_WRONG(name, "numbers of elements", which, found, reason)
#define OP_LOGE_FOR_INVALID_DTYPE(name, which, found, wanted) TOPROPE_WRONG(name, "element type", which, found, wanted)
#define OP_LOGE_FOR_INVALID_DTYPE_WITH_REASON(name, which, found, reason) TOPROPE_WRONG(name, "element type", which, found, reason)
#define OP_LOGE_FOR_INVALID_DTYPES_WITH_REASON(name, which, found, reason) TOPROPE_WRONG(name, "element types", which, found, reason)
#define OP_LOGE_FOR_INVALID_FORMAT(name, which, found, wanted) TOPROPE_WRONG(name, "format", which, found, wanted)
#define OP_LOGE_FOR_INVALID_FORMAT_WITH_REASON(name, which, found, reason) TOPROPE_WRONG(name, "format", which, found, reason)
#define OP_LOGE_FOR_INVALID_FORMATS_WITH_REASON(name, which, found, reason) TOPROPE_WRONG(name, "formats", which, found, reason)
#define OP_LOGE_FOR_INVALID_LISTSIZE(name, which, found, wanted) TOPROPE_WRONG(name, "length", which, found, wanted)
#define OP_LOGE_FOR_INVALID_STRIDE(name, which, found, wanted) TOPROPE_WRONG(name, "stride", which, found, wanted)
#define OP_LOGE_FOR_INVALID_TENSORNUM(name, which, found, wanted) TOPROPE_WRONG(name, "number of tensors", which, found, wanted)
#define OP_LOGE_FOR_INVALID_TENSORNUMS_WITH_REASON(name, which, found, reason) \
    TOPROPE_WRONG(name, "numbers of tensors", which, found, reason)
#define OP_LOGE_FOR_INVALID_ARGUMENT_WITH_REASON(name, which, reason) TOPROPE_WRONG(name, "argument", which, "wrong", reason)
#define OP_LOGE_FOR_INVALID_CONFIG_WITH_REASON(name, file, which, found, reason) TOPROPE_WRONG(name, "configuration", which, found, reason)
#define OP_LOGE_FOR_INVALID_CONFIGS_WITH_REASON(name, file, which, found, reason) TOPROPE_WRONG(name, "configuration", which, found, reason)
#define OP_LOGE_WITH_INVALID_INPUT(name, which) TOPROPE_WRONG(name, "input", which, "missing", "it is required")
#define OP_LOGE_WITH_INVALID_INPUT_DTYPE(name, which, found, wanted) TOPROPE_WRONG(name, "element type", which, found, wanted)
#define OP_LOGE_WITH_INVALID_INPUT_FORMAT(name, which, found, wanted) TOPROPE_WRONG(name, "format", which, found, wanted)
#define OP_LOGE_WITH_INVALID_INPUT_SHAPE(name, which, found, wanted) TOPROPE_WRONG(name, "shape", which, found, wanted)
#define OP_LOGE_WITH_INVALID_INPUT_SHAPESIZE(name, which, found, wanted) TOPROPE_WRONG(name, "number of elements", which, found, wanted)
#define OP_LOGE_WITH_INVALID_INPUT_DIM(name, which, found, wanted) TOPROPE_WRONG(name, "number of dimensions", which, found, wanted)
#define OP_LOGE_WITH_INVALID_ATTR(name, which, found, wanted) TOPROPE_WRONG(name, "attribute", which, found, wanted)
#define OP_LOGE_WITH_INVALID_ATTR_SIZE(name, which, found, wanted) TOPROPE_WRONG(name, "length of attribute", which, found, wanted)

#define OPS_LOG_E(name, ...) OP_LOGE(name, ##__VA_ARGS__)
#define OPS_LOG_W(name, ...) OP_LOGW(name, ##__VA_ARGS__)
#define OPS_LOG_I(name, ...) OP_LOGI(name, ##__VA_ARGS__)
#define OPS_LOG_D(name, ...) OP_LOGD(name, ##__VA_ARGS__)
#define OPS_ERR_IF(condition, log, leave) OP_CHECK_IF(condition, log, leave)
#define OPS_REPORT_VECTOR_INNER_ERR(name, ...) OP_LOGE(name, ##__VA_ARGS__)
#define OPS_REPORT_CUBE_INNER_ERR(name, ...) OP_LOGE(name, ##__VA_ARGS__)
#define VECTOR_INNER_ERR_REPORT_TILIING(name, ...) OP_LOGE(name, ##__VA_ARGS__)
#define VECTOR_INFER_SHAPE_INNER_ERR_REPORT(name, ...) OP_LOGE(name, ##__VA_ARGS__)
#define CUBE_INNER_ERR_REPORT(name, ...) OP_LOGE(name, ##__VA_ARGS__)
#define OPS_CHECK_NULL_WITH_CONTEXT(context, pointer) OP_CHECK_NULL_WITH_CONTEXT(context, pointer)
#define OPS_CHECK_NULL_WITH_CONTEXT_RET(context, pointer, result) OP_CHECK_NULL_WITH_CONTEXT_RET(context, pointer, result)
