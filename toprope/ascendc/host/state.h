// What host code can ask for without a context: the chip of the present call, and the log that it writes. One library holds one operator
// project; the caller (toprope/project/host.py) sets the chip before each call and reads the log after it.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#ifdef __ELF__
extern "C" void toprope_present_chip(void* chip, size_t bytes) __attribute__((weak));
#endif

namespace toprope {
namespace host {

// Numbers of the chip file, in the order that the caller packs them.
struct Chip {
    char name[32];
    uint64_t npu_arch, split, aic, aiv, ub_bytes, l1_bytes, l0a_bytes, l0b_bytes, l0c_bytes, bias_bytes, fixbuf_bytes, l2_bytes, gm_bytes,
        l2_bytes_per_cycle, gm_bytes_per_cycle, library_workspace_bytes;
};

// In a program it is the chip of the device library that the program has loaded, if it has.
inline Chip present_chip() {
    Chip present = {};
#ifdef __ELF__
    if (toprope_present_chip != nullptr) toprope_present_chip(&present, sizeof present);
#endif
    return present;
}
inline Chip chip = present_chip();

inline std::string& log() {
    static std::string text;
    return text;
}

// First arguments of the log macros: a name, or a context that knows its node's name.
inline const char* log_name(const char* name) { return name == nullptr ? "?" : name; }
inline const char* log_name(const std::string& name) { return name.c_str(); }
template <class Context>
auto log_name(const Context* context) -> decltype(context->GetNodeName()) {
    return context == nullptr ? "?" : context->GetNodeName();
}
template <class Name>
auto log_name(const Name& name) -> decltype(name.GetString()) {
    return name.GetString();
}

inline std::string text_of(const char* text) { return text == nullptr ? "(null)" : text; }
inline std::string text_of(const std::string& text) { return text; }
template <class Number>
auto text_of(Number number) -> decltype(std::to_string(number)) {
    return std::to_string(number);
}

#if defined(__GNUC__)
__attribute__((format(printf, 5, 6)))
#endif
inline void say(const char* level, const char* name, const char* file, int line, const char* format, ...) {
    char text[2048];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (log().size() > (1u << 20)) return;
    log() += std::string(level) + '\x1f' + name + '\x1f' + file + '\x1f' + std::to_string(line) + '\x1f' + text + '\x1e';
}

inline void say(const char* level, const char* name, const char* file, int line) { say(level, "?", file, line, "%s", name); }

template <class Which, class Found, class Wanted>
void say_wrong(const char* name, const char* file, int line, const char* what, const Which& which, const Found& found,
               const Wanted& wanted) {
    say("ERROR", name, file, line, "%s of %s is %s: %s", what, text_of(which).c_str(), text_of(found).c_str(), text_of(wanted).c_str());
}

}  // namespace host
}  // namespace toprope

#define TOPROPE_SAY(level, name, ...) toprope::host::say(level, toprope::host::log_name(name), __FILE__, __LINE__, ##__VA_ARGS__)
