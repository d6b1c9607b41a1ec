// Runs a kernel from a plain C++ program, without Python. In the program that contains the kernel:
//
//     #include "standalone.h"
//     return toprope::standalone::launch(add_custom, 8, {{x, bytes, "x"}, {y, bytes, "y"}, {z, bytes, "z"}}, x, y, z, n);
//
// Build: g++ -std=c++17 -O2 -ffp-contract=off -fsigned-char -I "$(toprope include)" program.cpp (without -ffp-contract=off, ARM rounds
// a * b + c once where the NPU rounds twice). Prints what the run reports and returns how many mistakes it saw.
#pragma once

#include "machine/entry.h"
#include "machine/runtime.cpp"

namespace toprope::standalone {

// Memory that the kernel sees as GM: where it lies, its size, and its name in messages.
struct Buffer {
    void* data;
    uint64_t bytes;
    const char* name;
};

template <typename... A>
struct Entry {
    static inline void (*kernel)(A...) = nullptr;
    static void call(void** arguments) { call_kernel(kernel, arguments); }
};

// On-chip memories of one vector core of A2/A3 in bytes, by Space (CANN platform configuration of the 910B). The other cores' kernels
// need the chip files: run them with `toprope run`.
inline constexpr uint32_t kVectorCore[kSpaces] = {0, 196608, 0, 0, 0, 0, 0, 0};
inline constexpr uint32_t kMostBlocks = 512;

template <size_t count, typename... A>
int launch(void (*kernel)(A...), uint32_t blocks, const Buffer (&buffers)[count], std::remove_reference_t<A>... values) {
    static_assert(__NPU_ARCH__ == 2201, "standalone.h runs vector kernels of A2/A3 (__NPU_ARCH__ 2201)");
    if (blocks == 0 || blocks > kMostBlocks) {
        std::fprintf(stderr, "toprope: %u blocks; give 1 to %u\n", blocks, kMostBlocks);
        return 1;
    }
    Entry<A...>::kernel = kernel;
    void* arguments[] = {static_cast<void*>(&values)..., nullptr};
    GmBuffer gm[count];
    uint64_t device = 0x10000000;
    for (size_t i = 0; i < count; ++i) {
        gm[i] = {static_cast<uint8_t*>(buffers[i].data), buffers[i].bytes, device, {}};
        std::snprintf(gm[i].name, sizeof gm[i].name, "%s", buffers[i].name);
        device += (buffers[i].bytes + 1023) / 512 * 512;
    }
    static TopropeCoreSpec cores[kMostBlocks];
    TopropeLaunch launch{};
    launch.entries[static_cast<int>(CoreType::aiv)] = Entry<A...>::call;
    launch.arguments = arguments;
    for (uint32_t i = 0; i < blocks; ++i) cores[i] = {static_cast<uint16_t>(i), 0, static_cast<uint8_t>(CoreType::aiv)};
    launch.cores = cores;
    launch.core_count = launch.blocks = blocks;
    launch.ratio = launch.execute = launch.check_contracts = 1;
    std::memcpy(launch.space_bytes[static_cast<int>(CoreType::aiv)], kVectorCore, sizeof kVectorCore);
    launch.gm_count = count;
    launch.gm = gm;
    toprope_run(&launch);
    int mistakes = 0;
    for (uint64_t i = 0; i < toprope_report_count(); ++i) {
        const Report& report = toprope_reports()[i];
        const char* file = "";
        uint32_t line = 0;
        toprope_site(report.site, &file, &line);
        std::fprintf(stderr, "%s:%u: %s: %s\n", file, line, report.code, report.text);
        mistakes += report.severity == 0;
    }
    toprope_release();
    return mistakes;
}

}  // namespace toprope::standalone
