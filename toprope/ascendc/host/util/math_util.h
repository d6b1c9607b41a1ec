// Integer arithmetic that host code of operator repositories shares (opbase: Ops::Base). Division by zero gives the dividend, alignment to
// zero gives zero.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace Ops {
namespace Base {

template <typename T>
std::enable_if_t<std::is_integral_v<T>, T> FloorDiv(T x, T y) {
    return y == 0 ? x : x / y;
}
template <typename T>
std::enable_if_t<std::is_integral_v<T>, T> FloorAlign(T x, T align) {
    return align == 0 ? 0 : x / align * align;
}
// Towards plus infinity, also for negative numbers.
template <typename T>
std::enable_if_t<std::is_integral_v<T>, T> CeilDiv(T x, T y) {
    if (y == 0) return x;
    return x / y + (x % y != 0 && (x < 0) == (y < 0) ? 1 : 0);
}
// The largest value of the type where the result would not fit.
template <typename T>
std::enable_if_t<std::is_integral_v<T>, T> CeilAlign(T x, T align) {
    T out = 0;
    if (align == 0) return 0;
    return __builtin_mul_overflow(CeilDiv(x, align), align, &out) ? std::numeric_limits<T>::max() : out;
}
template <typename T>
std::enable_if_t<std::is_floating_point_v<T>, bool> IsFloatEqual(T a, T b) {
    if (std::isinf(a) || std::isinf(b)) return a == b;
    return std::fabs(a - b) <= std::numeric_limits<T>::epsilon();
}
// The largest power of two that is not above n; 0 for 0.
inline uint64_t LastPow2(uint64_t n) { return n == 0 ? 0 : uint64_t{1} << (63 - __builtin_clzll(n)); }

}  // namespace Base
}  // namespace Ops
