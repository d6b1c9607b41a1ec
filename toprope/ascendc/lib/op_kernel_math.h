// Arithmetic that operator repositories share with their host code, under the names they include (opbase: Ops::Base).
#pragma once

#include "../kernel_operator.h"

namespace Ops {
namespace Base {

// a / b rounded up; b = 0 gives a, as the host's version does.
template <typename T, typename U>
constexpr T CeilDiv(T a, U b) {
    return b == 0 ? a : static_cast<T>((a + b - 1) / b);
}
template <typename T, typename U>
constexpr T FloorDiv(T a, U b) {
    return b == 0 ? a : static_cast<T>(a / b);
}
template <typename T, typename U>
constexpr T CeilAlign(T a, U b) {
    return b == 0 ? a : static_cast<T>((a + b - 1) / b * b);
}
template <typename T, typename U>
constexpr T FloorAlign(T a, U b) {
    return b == 0 ? a : static_cast<T>(a / b * b);
}
template <typename T>
constexpr T Min(T a, T b) {
    return a < b ? a : b;
}
template <typename T>
constexpr T Max(T a, T b) {
    return a < b ? b : a;
}

}  // namespace Base
}  // namespace Ops
