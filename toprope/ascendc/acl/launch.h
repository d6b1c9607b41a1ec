// Launching kernels from a host program. `kernel<<<blocks, l2ctrl, stream>>>(arguments)` becomes
// `TOPROPE_LAUNCH(kernel, blocks, l2ctrl, stream)(arguments)` before the compiler sees it; the launch itself is made by the hook, which
// `toprope run` sets.
#pragma once

#include <tuple>
#include <type_traits>

#include "acl.h"

namespace toprope::program {

// One device block as the hook sees it; the hook fills `use`: 1 read, 2 written, 3 both.
struct Memory {
    uint8_t* at;
    uint64_t bytes;
    const char* file;
    int line;
    int use;
};
struct Launch {
    const char* name;       // of the kernel function; with template arguments and namespaces where the compiler gave it
    void (*entry)(void**);  // nullptr: a kernel of another source, found by name
    uint32_t blocks;
    void** arguments;
    uint64_t* argument_bytes;
    uint32_t argument_count;
    Memory* memory;
    uint64_t memory_count;
    const char* file;
    int line;
    double us;  // filled in by the hook: predicted time
};
using Hook = int (*)(Launch*);
inline Hook& hook() {
    static Hook set = nullptr;
    return set;
}

inline int launch(const char* name, void (*entry)(void**), uint32_t blocks, void* stream, void** arguments, uint64_t* bytes, uint32_t n) {
    acl::State& s = acl::state();
    if (!acl::stream_exists(stream)) return ACL_ERROR_RT_PARAM_INVALID;
    std::vector<Memory> memory;
    for (auto& [at, block] : s.blocks)
        if (block.device && block.live) memory.push_back({block.at, block.bytes, block.made.file, block.made.line, 0});
    for (uint32_t i = 0; i < n; ++i) {
        void* pointer = nullptr;
        if (bytes[i] == sizeof pointer) std::memcpy(&pointer, arguments[i], sizeof pointer);
        const acl::Block* block = pointer != nullptr ? acl::block_of(pointer) : nullptr;
        if (block != nullptr && block->device && !block->live) {
            acl::report("acl-use-after-free", acl::here, "launches", block->freed, "freed here", "a kernel gets a freed block");
            return ACL_ERROR_RT_PARAM_INVALID;
        }
        if (block != nullptr && !block->device)
            acl::report("acl-host-pointer", acl::here, "launches", block->made, "allocated here",
                        "a kernel gets the address of host memory, which the device cannot reach");
    }
    Launch call{name, entry, blocks, arguments, bytes, n, memory.data(), memory.size(), acl::here.file, acl::here.line, 0};
    acl::DeviceOpen open;
    const int code = hook() != nullptr ? hook()(&call) : ACL_ERROR_FAILURE;
    const acl::Work work = acl::next_work(stream);
    s.streams[stream].busy_us += call.us;
    for (const Memory& m : memory) {
        acl::Block& block = s.blocks[m.at];
        if (m.use & 2) block.written = work;
        if (m.use & 3) block.touched = work;
    }
    return code;
}

// Arguments by value, in the types that the kernel declares.
template <typename P, typename A>
std::decay_t<P> converted(A&& value) {
    if constexpr (std::is_pointer_v<std::decay_t<P>> && std::is_pointer_v<std::decay_t<A>>)
        return (std::decay_t<P>)(value);
    else
        return static_cast<std::decay_t<P>>(value);
}
template <typename... T>
int launch_values(const char* name, void (*entry)(void**), uint32_t blocks, void* stream, std::tuple<T...>&& values) {
    void* at[sizeof...(T) + 1];
    uint64_t bytes[] = {sizeof(T)..., 0};
    std::apply(
        [&](auto&... each) {
            size_t i = 0;
            ((at[i++] = (void*)&each), ...);
        },
        values);
    return launch(name, entry, blocks, stream, at, bytes, sizeof...(T));
}

// Kernels of this library by name: the build for the other core type is asked for the same name.
inline std::map<std::string, void (*)(void**)>& kernels() {
    static std::map<std::string, void (*)(void**)> all;
    return all;
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
    static inline const bool known = (kernels()[name_of<kernel>()] = &run, true);
    uint32_t blocks;
    void* stream;
    template <typename... A>
    int operator()(A&&... values) const {
        static_assert(sizeof...(A) == sizeof...(P), "the kernel takes another number of arguments");
        return launch_values(known ? name_of<kernel>() : "", &run, blocks, stream,
                             std::tuple<std::decay_t<P>...>(converted<P>(std::forward<A>(values))...));
    }
};
template <auto kernel>
Entry<kernel> configured(const char* file, int line, uint64_t blocks, const void*, void* stream) {
    acl::here = {file, line};
    return {static_cast<uint32_t>(blocks), stream};
}

}  // namespace toprope::program

#undef TOPROPE_LAUNCH
#define TOPROPE_LAUNCH(...) ::toprope::program::configured<__VA_ARGS__>
#define ACLRT_LAUNCH_KERNEL(name) toprope_at(__FILE__, __LINE__, aclrtlaunch_##name)

extern "C" {
__attribute__((used)) inline void toprope_program_set(toprope::program::Hook hook, int report_fd, int64_t cube_cores,
                                                      int64_t vector_cores) {
    toprope::program::hook() = hook;
    toprope::acl::State& s = toprope::acl::state();
    s.report_fd = report_fd, s.cube_cores = cube_cores, s.vector_cores = vector_cores;
}
__attribute__((used)) inline void* toprope_program_kernel(const char* name) {
    const auto found = toprope::program::kernels().find(name);
    return found == toprope::program::kernels().end() ? nullptr : reinterpret_cast<void*>(found->second);
}
__attribute__((used)) inline void toprope_program_end() {
    toprope::acl::report_leaks();
    std::fflush(nullptr);
}
// Stands before the C library's: an exit in the middle must not lose the report.
__attribute__((weak, noreturn)) void exit(int code) noexcept {
    toprope_program_end();
    _exit(code);
}
}
