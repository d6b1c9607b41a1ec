// Calls a kernel function with arguments that lie in memory: pointers and scalars by their own type, structs by value.
#pragma once

#include <utility>

#include "machine.h"

namespace toprope {

template <typename A>
std::remove_cv_t<std::remove_reference_t<A>> argument_at(void* where) {
    std::remove_cv_t<std::remove_reference_t<A>> value;
    std::memcpy(static_cast<void*>(&value), where, sizeof value);
    return value;
}
template <typename... A, size_t... I>
void call_kernel(void (*kernel)(A...), void** arguments, std::integer_sequence<size_t, I...>) {
    kernel(argument_at<A>(arguments[I])...);
}
template <typename... A>
void call_kernel(void (*kernel)(A...), void** arguments) {
    call_kernel(kernel, arguments, std::make_integer_sequence<size_t, sizeof...(A)>{});
}
template <typename... A>
constexpr uint32_t argument_sizes(void (*)(A...), uint32_t* sizes) {
    const uint32_t all[] = {static_cast<uint32_t>(sizeof(A))..., 0};
    for (size_t i = 0; sizes != nullptr && i < sizeof...(A); ++i) sizes[i] = all[i];
    return sizeof...(A);
}

}  // namespace toprope

// The section of the variables that each core has for itself; absent in a kernel without such variables.
#ifdef __ELF__
extern "C" char __start_toprope_block_local[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_toprope_block_local[] __attribute__((weak, visibility("hidden")));
static const bool toprope_has_block_locals = (toprope::add_block_locals(__start_toprope_block_local, __stop_toprope_block_local), true);
#endif

// The launcher of one kernel function, found by name when the library is loaded.
#define TOPROPE_ENTRY(symbol, ...)                                                                              \
    extern "C" void toprope_call_##symbol(void** toprope_in) { toprope::call_kernel(__VA_ARGS__, toprope_in); } \
    extern "C" uint32_t toprope_sizes_##symbol(uint32_t* toprope_out) { return toprope::argument_sizes(__VA_ARGS__, toprope_out); }
