// Launching kernels from a host program. `kernel<<<blocks, l2ctrl, stream>>>(arguments)` becomes
// `TOPROPE_LAUNCH(kernel)(file, line, blocks, l2ctrl, stream)(arguments)` before the compiler sees it. The kernels of a source register
// themselves when the program starts, once for each type of core that they were compiled for.
#pragma once

#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "acl.h"

#ifndef TOPROPE_UNIT
#define TOPROPE_UNIT ""
#endif

extern "C" {
int toprope_launch_kernel(const char* unit, const char* name, void (*entry)(void**), uint32_t blocks, void* stream, void** values,
                          const uint64_t* bytes, uint32_t count);
void toprope_register_kernel(const char* unit, const char* name, int core_type, void (*entry)(void**));
void toprope_register_task(const char* unit, const char* name, int aic, int aiv, uint32_t npu_arch, const char* parameters);
}

namespace toprope {
namespace program {

#if defined(TOPROPE_AIC)
inline constexpr int kCoreType = 1;
#elif defined(TOPROPE_COUPLED)
inline constexpr int kCoreType = 2;
#else
inline constexpr int kCoreType = 0;
#endif

// Arguments by value, in the types that the kernel declares.
template <typename P, typename A>
std::decay_t<P> converted(A&& value) {
    if constexpr (std::is_pointer_v<std::decay_t<P>> && std::is_pointer_v<std::decay_t<A>>)
        return (std::decay_t<P>)(value);
    else
        return static_cast<std::decay_t<P>>(value);
}
template <typename... T>
int launch_values(const char* unit, const char* name, void (*entry)(void**), uint32_t blocks, void* stream, std::tuple<T...>&& values) {
    void* at[sizeof...(T) + 1];
    uint64_t bytes[] = {sizeof(T)..., 0};
    std::apply(
        [&](auto&... each) {
            size_t i = 0;
            ((at[i++] = (void*)&each), ...);
        },
        values);
    return toprope_launch_kernel(unit, name, entry, blocks, stream, at, bytes, sizeof...(T));
}

template <auto kernel>
const char* name_of() {
    return __PRETTY_FUNCTION__;
}
template <auto kernel>
struct Entry;
template <typename... P, void (*kernel)(P...)>
struct Entry<kernel> {
    template <size_t... I>
    static void call(void** values, std::index_sequence<I...>) {
        kernel(*static_cast<std::decay_t<P>*>(values[I])...);
    }
    static void run(void** values) { call(values, std::index_sequence_for<P...>{}); }
    static bool put() {
        toprope_register_kernel(TOPROPE_UNIT, name_of<kernel>(), kCoreType, &run);
        return true;
    }
    static inline const bool known = put();
    uint32_t blocks;
    void* stream;
    template <typename... A>
    int operator()(A&&... values) const {
        static_assert(sizeof...(A) == sizeof...(P), "the kernel takes another number of arguments");
        return launch_values(TOPROPE_UNIT, known ? name_of<kernel>() : "", &run, blocks, stream,
                             std::tuple<std::decay_t<P>...>(converted<P>(std::forward<A>(values))...));
    }
};
// The middle setting is a pointer or 0, and without meaning.
template <auto kernel, typename Setting>
Entry<kernel> configured(const char* file, int line, uint64_t blocks, const Setting&, void* stream) {
    toprope_note_site(file, line);
    return {static_cast<uint32_t>(blocks), stream};
}

}  // namespace program
}  // namespace toprope

// Says to tikicpulib.h that kernels of this source are launched on the device library.
#define TOPROPE_HOST_PROGRAM
#undef TOPROPE_LAUNCH
#define TOPROPE_LAUNCH(...) ::toprope::program::configured<__VA_ARGS__>
#define ACLRT_LAUNCH_KERNEL(name) toprope_at(__FILE__, __LINE__, aclrtlaunch_##name)
// What the compiler stand-in appends for each kernel: its cores, and, where the name can be said there, its function.
#define TOPROPE_REGISTER(name, aic, aiv, arch, parameters) \
    static const bool toprope_known_##name = (toprope_register_task(TOPROPE_UNIT, #name, aic, aiv, arch, parameters), true);
#define TOPROPE_REGISTER_ENTRY(name, symbol)      \
    static const bool toprope_registered_##name = \
        (toprope_register_kernel(TOPROPE_UNIT, #name, ::toprope::program::kCoreType, &::toprope::program::Entry<&symbol>::run), true);
