// Signed integer overflow in the lines of a kernel, as findings: what the compiler's -fsanitize=signed-integer-overflow calls. Included
// only in kernels that are built with TOPROPE_CHECK_OVERFLOW.
#pragma once

#include <cinttypes>

#include "machine.h"

namespace toprope {

// Laid out as GCC and clang do.
struct OverflowType {
    uint16_t kind, info;  // info: signed | log2(bits) << 1
    char name[1];
};
struct OverflowPlace {
    const char* file;
    uint32_t line, column;
    const OverflowType* type;
};

inline bool in_header_library(const char* file) {
    static constexpr char kHere[] = __FILE__, kEnd[] = "machine/overflow.h";
    return std::strncmp(file, kHere, sizeof kHere - sizeof kEnd) == 0;
}

inline void report_overflow(const OverflowPlace& place, const char* sign, uint64_t left, uint64_t right) {
    if (self == nullptr || in_header_library(place.file)) return;
    const Site site{place.file, place.line};
    const uint32_t bits = 1u << (place.type->info >> 1);
    if (bits > 32)
        return report("integer-overflow", site, nullptr, "%" PRId64 " %s %" PRId64 " does not fit into %s", static_cast<int64_t>(left),
                      sign, static_cast<int64_t>(right), place.type->name);
    const int64_t a = static_cast<int32_t>(left), b = static_cast<int32_t>(right),
                  exact = *sign == '*'   ? a * b
                          : *sign == '+' ? a + b
                                         : a - b;
    report("integer-overflow", site, nullptr, "%" PRId64 " %s %" PRId64 " = %" PRId64 " does not fit into %s: it becomes %" PRId32, a, sign,
           b, exact, place.type->name, static_cast<int32_t>(static_cast<uint32_t>(exact)));
}

}  // namespace toprope

extern "C" {
inline __attribute__((used)) void __ubsan_handle_add_overflow(void* place, uint64_t left, uint64_t right) {
    toprope::report_overflow(*static_cast<toprope::OverflowPlace*>(place), "+", left, right);
}
inline __attribute__((used)) void __ubsan_handle_sub_overflow(void* place, uint64_t left, uint64_t right) {
    toprope::report_overflow(*static_cast<toprope::OverflowPlace*>(place), "-", left, right);
}
inline __attribute__((used)) void __ubsan_handle_mul_overflow(void* place, uint64_t left, uint64_t right) {
    toprope::report_overflow(*static_cast<toprope::OverflowPlace*>(place), "*", left, right);
}
inline __attribute__((used)) void __ubsan_handle_negate_overflow(void* place, uint64_t value) {
    toprope::report_overflow(*static_cast<toprope::OverflowPlace*>(place), "-", 0, value);
}
}
