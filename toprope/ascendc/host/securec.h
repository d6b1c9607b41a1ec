// The bounded memory functions that test code uses: 0 on success, 34 (ERANGE) when the target is too small.
#pragma once

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
