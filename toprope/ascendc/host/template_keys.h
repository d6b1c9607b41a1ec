// Template tiling keys, host side: the same declarations that a kernel's header makes become tables, from which GET_TPL_TILING_KEY computes
// a key. Pages: Utils-API/Tiling模板编程/*.md. The key is the fields side by side from bit 0, in the order of declaration; an unsigned
// field holds the index of its value in the declared list, a bool its value, a dtype or format its number.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "state.h"
#include "template_numbers.h"

namespace toprope {
namespace host {

struct TemplateParameter {
    const char* name;
    int kind;
    uint32_t bits;
    std::vector<uint64_t> values;
    bool is(int other) const { return kind == other; }
};
using TemplateParameters = std::vector<TemplateParameter>;

// The values that a list, ranges or a mix of both stands for.
inline std::vector<uint64_t> spelled_out(const std::vector<uint64_t>& given) {
    if (given.empty()) return {};
    std::vector<uint64_t> out;
    size_t at = 1;
    if (given[0] == ASCENDC_TPL_UI_RANGE || given[0] == ASCENDC_TPL_UI_MIX) {
        const uint64_t ranges = given.size() > 1 ? given[1] : 0;
        for (at = 2; at + 1 < given.size() && at < 2 + 2 * ranges; at += 2)
            for (uint64_t value = given[at]; value <= given[at + 1]; ++value) out.push_back(value);
    }
    out.insert(out.end(), given.begin() + static_cast<std::ptrdiff_t>(at), given.end());
    return out;
}
inline bool holds(const std::vector<uint64_t>& values, uint64_t value) {
    for (uint64_t each : values)
        if (each == value) return true;
    return false;
}

inline std::string template_complaint(const TemplateParameter& declared, uint64_t value) {
    return std::string(declared.name) + " = " + std::to_string(value);
}

// Whether one allowed combination has these values. Parameters without a place in the key (kernel type, determinism) do not count.
inline bool allows(const TemplateParameters& selected, const TemplateParameters& declared, const std::vector<uint64_t>& values) {
    for (const TemplateParameter& each : selected)
        for (size_t i = 0; i < declared.size() && i < values.size(); ++i) {
            const bool unsigned_field = declared[i].is(ASCENDC_TPL_UINT);
            if (std::strcmp(each.name, declared[i].name) == 0 && !each.values.empty() &&
                !holds(unsigned_field ? spelled_out(each.values) : each.values, values[i]))
                return false;
        }
    return true;
}

inline uint64_t template_key(const TemplateParameters& declared, const std::vector<TemplateParameters>& selections,
                             const std::vector<uint64_t>& values) {
    constexpr uint64_t none = ~uint64_t{0};
    if (values.size() != declared.size()) {
        say("ERROR", "GET_TPL_TILING_KEY", __FILE__, __LINE__, "%zu values were given for %zu template parameters", values.size(),
            declared.size());
        return none;
    }
    uint64_t key = 0;
    uint32_t at = 0;
    for (size_t i = 0; i < declared.size(); ++i) {
        uint64_t field = values[i];
        if (declared[i].is(ASCENDC_TPL_UINT)) {
            const std::vector<uint64_t> all = spelled_out(declared[i].values);
            for (field = 0; field < all.size() && all[field] != values[i];) ++field;
            if (field == all.size()) {
                say("ERROR", "GET_TPL_TILING_KEY", __FILE__, __LINE__, "%s is none of the declared values",
                    template_complaint(declared[i], values[i]).c_str());
                return none;
            }
        }
        key |= field << at;
        at += declared[i].bits;
    }
    for (const TemplateParameters& selected : selections)
        if (allows(selected, declared, values)) return key;
    if (!selections.empty()) {
        std::string text;
        for (size_t i = 0; i < declared.size(); ++i) text += (i ? ", " : "") + template_complaint(declared[i], values[i]);
        say("ERROR", "GET_TPL_TILING_KEY", __FILE__, __LINE__, "no ASCENDC_TPL_ARGS_SEL allows %s", text.c_str());
        return none;
    }
    return key;
}

}  // namespace host
}  // namespace toprope

#define TOPROPE_TEMPLATE_PARAMETER(name, kind, bits, ...) \
    toprope::host::TemplateParameter {                    \
        #name, kind, bits, { __VA_ARGS__ }                \
    }
#define ASCENDC_TPL_DTYPE_DECL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_DTYPE, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_DECL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_DTYPE, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_DECL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_FORMAT, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_UINT_DECL(x, bw, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_UINT, bw, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_DECL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_BOOL, ASCENDC_TPL_1_BW, __VA_ARGS__)
#define ASCENDC_TPL_KERNEL_TYPE_DECL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_SHARED_KERNEL_TYPE, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_DTYPE_SEL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_DTYPE, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_SEL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_DTYPE, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_SEL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_FORMAT, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_UINT_SEL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_UINT, 0, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_SEL(x, ...) TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_BOOL, ASCENDC_TPL_1_BW, __VA_ARGS__)
#define ASCENDC_TPL_KERNEL_TYPE_SEL(...) TOPROPE_TEMPLATE_PARAMETER(, ASCENDC_TPL_KERNEL_TYPE, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_DETERMINISTIC_SEL(...) TOPROPE_TEMPLATE_PARAMETER(, ASCENDC_TPL_DETERMINISTIC, ASCENDC_TPL_1_BW, __VA_ARGS__)
#define ASCENDC_TPL_SHARED_KERNEL_TYPE_SEL(x, ...) \
    TOPROPE_TEMPLATE_PARAMETER(x, ASCENDC_TPL_SHARED_KERNEL_TYPE, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_TILING_STRUCT_SEL(...)
#define ASCENDC_TPL_ARGS_DECL(op_type, ...) \
    static const toprope::host::TemplateParameters toprope_template_declared { __VA_ARGS__ }
#define ASCENDC_TPL_ARGS_SEL(...) \
    toprope::host::TemplateParameters { __VA_ARGS__ }
#define ASCENDC_TPL_SEL(...) \
    static const std::vector<toprope::host::TemplateParameters> toprope_template_selections { __VA_ARGS__ }

#define GET_TPL_TILING_KEY(...) \
    toprope::host::template_key(toprope_template_declared, toprope_template_selections, toprope::host::template_values(__VA_ARGS__))
#define ASCENDC_TPL_SEL_PARAM(context, ...) context->SetTilingKey(GET_TPL_TILING_KEY(__VA_ARGS__))

namespace toprope {
namespace host {
template <class... Values>
std::vector<uint64_t> template_values(Values... values) {
    return {static_cast<uint64_t>(values)...};
}
}  // namespace host
}  // namespace toprope
