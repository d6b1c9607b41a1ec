// The bounded memory functions that test code uses: 0 on success, 34 (ERANGE) when the target is too small.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstring>

using errno_t = int;
inline constexpr errno_t EOK = 0;

inline errno_t memcpy_s(void* to, size_t room, const void* from, size_t count) {
    if (count > room) return 34;
    std::memcpy(to, from, count);
    return EOK;
}
inline errno_t memset_s(void* to, size_t room, int value, size_t count) {
    if (count > room) return 34;
    std::memset(to, value, count);
    return EOK;
}

inline errno_t memmove_s(void* to, size_t room, const void* from, size_t count) {
    if (count > room) return 34;
    std::memmove(to, from, count);
    return EOK;
}
inline errno_t strcpy_s(char* to, size_t room, const char* from) { return memcpy_s(to, room, from, std::strlen(from) + 1); }
inline errno_t strncpy_s(char* to, size_t room, const char* from, size_t count) {
    const size_t length = strnlen(from, count);
    if (length + 1 > room) return 34;
    std::memcpy(to, from, length);
    to[length] = 0;
    return EOK;
}
// Both give the number of characters, or -1 when they do not fit.
#define sprintf_s(to, room, ...) toprope_sprintf_s(to, room, (room) - 1, __VA_ARGS__)
#define snprintf_s(to, room, count, ...) toprope_sprintf_s(to, room, count, __VA_ARGS__)
template <class... Values>
int toprope_sprintf_s(char* to, size_t room, size_t count, const char* format, Values... values) {
    const int length = std::snprintf(to, room, format, values...);
    return length < 0 || static_cast<size_t>(length) > count ? -1 : length;
}
inline int vsnprintf_s(char* to, size_t room, size_t count, const char* format, va_list values) {
    const int length = std::vsnprintf(to, room, format, values);
    return length < 0 || static_cast<size_t>(length) > count ? -1 : length;
}
