// What a host program has done so far: device and host blocks, streams, events, descriptors, and the mistakes seen. Device memory cannot
// be touched by host code: its pages open only while the library itself works on them (DeviceOpen).
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace toprope::acl {

struct Site {
    const char* file = "";
    int line = 0;
};
inline thread_local Site here;  // the call that is being made

// Stream position: work number `number` of `stream`; done when the host has waited that far.
struct Work {
    void* stream = nullptr;
    uint64_t number = 0;
    Site site;
    double at_us = 0;  // predicted device time spent on the stream before
};
struct Stream {
    uint64_t issued = 0, done = 0;
    double busy_us = 0;
    Site created;
};
struct Block {
    uint8_t* at;
    uint64_t bytes;
    bool device, live;
    bool open = false;  // host code has touched it: reported once, then let go on
    Site made, freed;
    Work written, touched;
};
struct Delivery {  // a copy to the host that has not been waited for
    Work work;
    void* to;
    std::vector<uint8_t> bytes;
};
struct Thing {
    const char* kind;
    Site made;
};

inline constexpr uint64_t kDeviceBytes = 64ull << 30, kPage = 4096;

struct State {
    std::map<uint8_t*, Block> blocks;
    std::map<void*, Stream> streams;
    std::map<void*, Thing> things;  // tensors, scalars, arrays, events, executors
    std::map<void*, Work> events;
    std::vector<Delivery> deliveries;
    uint8_t* arena = nullptr;
    uint64_t used = 0;
    int open = 0, device = -1, report_fd = 2;
    int64_t cube_cores = 0, vector_cores = 0;
    bool initialised = false;
    uint64_t handles = 0;
};
inline State& state() {
    static State all;
    return all;
}

// One mistake as a line of tab-separated fields on the report pipe, so that it survives whatever happens next. Safe in a signal handler.
inline void report(const char* code, Site where, const char* action, Site other, const char* other_action, const char* text) {
    char line[2048];
    const int n = std::snprintf(line, sizeof line, "F\t%s\t%s\t%d\t%s\t%s\t%d\t%s\t%s\n", code, where.file, where.line, action, other.file,
                                other.line, other_action, text);
    if (write(state().report_fd, line, static_cast<size_t>(std::min<int>(n, sizeof line - 1))) < 0) return;
}

inline void protect(bool open) {
    State& s = state();
    if (s.used == 0) return;
    mprotect(s.arena, s.used, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    if (open) return;
    for (auto& [at, block] : s.blocks)
        if (block.open && block.live) mprotect(at, (block.bytes + kPage - 1) / kPage * kPage, PROT_READ | PROT_WRITE);
}
struct DeviceOpen {
    DeviceOpen() {
        if (state().open++ == 0) protect(true);
    }
    ~DeviceOpen() {
        if (--state().open == 0) protect(false);
    }
    DeviceOpen(const DeviceOpen&) = delete;
};

// The block that an address lies in, freed device blocks included (their addresses are never given out again).
inline Block* block_of(const void* address) {
    auto& blocks = state().blocks;
    auto* at = static_cast<uint8_t*>(const_cast<void*>(address));
    auto next = blocks.upper_bound(at);
    if (next == blocks.begin()) return nullptr;
    Block& block = (--next)->second;
    return at < block.at + std::max<uint64_t>(block.bytes, 1) ? &block : nullptr;
}
inline bool on_device(const void* address) {
    const State& s = state();
    auto* at = static_cast<const uint8_t*>(address);
    return s.arena != nullptr && at >= s.arena && at < s.arena + kDeviceBytes;
}
inline bool pending(const Work& work) {
    if (work.number == 0) return false;
    const auto found = state().streams.find(work.stream);
    return found != state().streams.end() && work.number > found->second.done;
}

inline struct sigaction before_us;

// Host code touched device memory: one finding, then the block is opened so that the program can go on.
inline void on_fault(int number, siginfo_t* info, void* context) {
    State& s = state();
    if (s.open != 0 || !on_device(info->si_addr)) {
        sigaction(SIGSEGV, &before_us, nullptr);
        return;  // happens again, now without us
    }
    void* frames[32];
    const int depth = backtrace(frames, 32);
    Dl_info mine{}, of{};
    dladdr(reinterpret_cast<void*>(&on_fault), &mine);
    int from = 0;
#if defined(__x86_64__)
    auto* pc = reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
    for (int i = 0; i < depth; ++i)
        if (frames[i] == pc) from = i;
#else
    (void)context;
    from = 2;
#endif
    unsigned long long offset = 0;
    for (int i = from; i < depth && offset == 0; ++i)
        if (dladdr(frames[i], &of) != 0 && of.dli_fbase == mine.dli_fbase)
            offset = static_cast<unsigned long long>(static_cast<char*>(frames[i]) - static_cast<char*>(mine.dli_fbase)) - (i > from);
    char where[64];
    std::snprintf(where, sizeof where, "@%llx", offset);
    Block* block = block_of(info->si_addr);
    char text[256];
    std::snprintf(text, sizeof text, "host code uses a device address: %llu bytes into %s of %llu bytes",
                  static_cast<unsigned long long>(block != nullptr ? static_cast<uint8_t*>(info->si_addr) - block->at : 0),
                  block == nullptr ? "no block" : (block->live ? "a block" : "a freed block"),
                  static_cast<unsigned long long>(block != nullptr ? block->bytes : 0));
    report("device-pointer-on-host", {where, here.line}, here.file, block != nullptr ? block->made : Site{}, "allocated here", text);
    if (block == nullptr || !block->live) {
        sigaction(number, &before_us, nullptr);
        return;
    }
    block->open = true;
    mprotect(block->at, (block->bytes + kPage - 1) / kPage * kPage, PROT_READ | PROT_WRITE);
}

inline void watch_faults() {
    void* warm[2];
    backtrace(warm, 2);  // loads its library now: that may not happen inside a handler
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before_us);
}

// A block of device memory, zero as the driver hands out fresh pages; nullptr when the device is full.
inline uint8_t* device_block(uint64_t bytes) {
    State& s = state();
    if (s.arena == nullptr) {
        void* got = mmap(nullptr, kDeviceBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got == MAP_FAILED) return nullptr;
        s.arena = static_cast<uint8_t*>(got);
        watch_faults();
    }
    const uint64_t room = (bytes + kPage - 1) / kPage * kPage + kPage;
    if (room < bytes || s.used + room > kDeviceBytes) return nullptr;
    uint8_t* at = s.arena + s.used;
    s.used += room;
    DeviceOpen open;
    if (s.open > 1) protect(true);  // the arena has grown
    return at;
}

inline Work next_work(void* stream) { return {stream, ++state().streams[stream].issued, here}; }

// The host has waited for `stream` up to work `number`: copies to the host arrive.
inline void wait_for(void* stream, uint64_t number) {
    State& s = state();
    Stream& known = s.streams[stream];
    known.done = std::max(known.done, number);
    auto arrived = [&](const Delivery& d) { return d.work.stream == stream && d.work.number <= known.done; };
    for (Delivery& d : s.deliveries)
        if (arrived(d)) std::memcpy(d.to, d.bytes.data(), d.bytes.size());
    s.deliveries.erase(std::remove_if(s.deliveries.begin(), s.deliveries.end(), arrived), s.deliveries.end());
}

inline void* new_thing(const char* kind, void* at) {
    state().things[at] = {kind, here};
    return at;
}
inline bool forget_thing(void* at, const char* kind) {
    if (state().things.erase(at) != 0) return true;
    char text[128];
    std::snprintf(text, sizeof text, "this %s does not exist, or is gone already", kind);
    report("acl-bad-free", here, "destroys", {}, "", text);
    return false;
}

// What is left when the program ends.
inline void report_leaks() {
    State& s = state();
    char text[256];
    for (const Delivery& d : s.deliveries) {
        std::snprintf(text, sizeof text, "%zu bytes copied to the host asynchronously were never waited for", d.bytes.size());
        report("acl-missing-synchronise", d.work.site, "copies", {}, "", text);
    }
    for (const auto& [at, block] : s.blocks) {
        if (!block.live) continue;
        std::snprintf(text, sizeof text, "%llu bytes of %s memory are never freed", static_cast<unsigned long long>(block.bytes),
                      block.device ? "device" : "host");
        report("acl-leak", block.made, "allocated here", {}, "", text);
    }
    for (const auto& [at, stream] : s.streams)
        if (at != nullptr) report("acl-leak", stream.created, "created here", {}, "", "a stream is never destroyed");
    for (const auto& [at, thing] : s.things) {
        std::snprintf(text, sizeof text, "a %s is never destroyed", thing.kind);
        report("acl-leak", thing.made, "created here", {}, "", text);
    }
}

}  // namespace toprope::acl

// Notes the place of a call and hands back the function itself.
template <typename F>
F* toprope_at(const char* file, int line, F* function) {
    toprope::acl::here = {file, line};
    return function;
}
