// Device memory: one file in memory, mapped twice. The program has addresses that only kernels may use; the library has its own view of
// the same bytes, and the recorder a third.
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>

#include "link.h"
#include "state.h"

namespace toprope::device {

namespace {

constexpr uint64_t kPage = 4096, kPoisonedBytes = 256ull << 20;
uint64_t arena_bytes = 16ull << 40;
uint8_t* arena = nullptr;  // the program's view
uint8_t* view = nullptr;   // the library's
uint64_t used = 0;
int arena_file = -1;
int opened = 0;
struct sigaction before_us;

uint64_t pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

void protect(bool open) {
    if (used == 0) return;
    mprotect(arena, used, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    if (open) return;
    for (auto& [at, block] : state().blocks)
        if (block.open && block.live && block.kind == Kind::device) mprotect(block.at, pages(block.bytes), PROT_READ | PROT_WRITE);
}

// Host code touched device memory: one finding, then the block is opened so that the program can go on.
void on_fault(int number, siginfo_t* info, void* context) {
    if (opened != 0 || !on_device(info->si_addr)) {
        sigaction(SIGSEGV, &before_us, nullptr);
        return;  // happens again, now without us
    }
    const void* pc = nullptr;
#if defined(__x86_64__)
    pc = reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#endif
    void* frames[32];
    const int depth = backtrace(frames, 32);
    std::string stack = "[";
    bool seen = pc == nullptr;
    for (int i = 0; i < depth; ++i) {
        seen = seen || frames[i] == pc;
        if (seen) stack += (stack.size() > 1 ? "," : "") + Json::place({"", 0, static_cast<char*>(frames[i]) + (frames[i] == pc)});
    }
    Block* block = block_of(info->si_addr);
    char text[256];
    std::snprintf(text, sizeof text, "host code uses a device address: %llu bytes into %s of %llu bytes",
                  static_cast<unsigned long long>(block != nullptr ? static_cast<uint8_t*>(info->si_addr) - block->at : 0),
                  block == nullptr ? "no block" : (block->live ? "a block" : "a freed block"),
                  static_cast<unsigned long long>(block != nullptr ? block->bytes : 0));
    Json message("finding");
    message.add("code", "device-pointer-on-host")
        .add("message", text)
        .raw("stack", stack + "]")
        .add("last_call", here())
        .add("action", "touches it");
    if (block != nullptr) message.add("other", block->made).add("other_action", "allocated here");
    send(message);
    if (block == nullptr || !block->live) {
        sigaction(number, &before_us, nullptr);
        return;
    }
    block->open = true;
    mprotect(block->at, pages(block->bytes), PROT_READ | PROT_WRITE);
}

void watch_faults() {
    void* warm[2];
    backtrace(warm, 2);  // loads its library now: that may not happen inside a handler
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &before_us);
}

bool open_arena() {
    if (arena != nullptr) return true;
    for (; arena_bytes >= (1ull << 33); arena_bytes /= 16) {
        arena_file = memfd_create("toprope-device", MFD_CLOEXEC);
        if (arena_file < 0) return false;
        void *first = MAP_FAILED, *second = MAP_FAILED;
        if (ftruncate(arena_file, static_cast<off_t>(arena_bytes)) == 0) {
            first = mmap(nullptr, arena_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, arena_file, 0);
            second = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, arena_file, 0);
        }
        if (first != MAP_FAILED && second != MAP_FAILED) {
            arena = static_cast<uint8_t*>(first);
            view = static_cast<uint8_t*>(second);
            madvise(arena, arena_bytes, MADV_DONTDUMP);
            madvise(view, arena_bytes, MADV_DONTDUMP);
            watch_faults();
            return true;
        }
        if (first != MAP_FAILED) munmap(first, arena_bytes);
        if (second != MAP_FAILED) munmap(second, arena_bytes);
        close(arena_file);
    }
    return false;
}

void grew(uint64_t bytes) {
    State& s = state();
    s.live_bytes += bytes;
    s.peak_bytes = std::max(s.peak_bytes, s.live_bytes);
}

Block& add_block(uint8_t* at, uint64_t bytes, Kind kind, uint64_t offset) {
    Block block;
    block.at = at;
    block.bytes = bytes;
    block.kind = kind;
    block.made = here();
    block.file_offset = offset;
    return state().blocks[reinterpret_cast<uint64_t>(at)] = block;
}

aclError allocate(void** out, size_t bytes, Kind kind) {
    if (out == nullptr || bytes == 0)
        return fail(ACL_ERROR_RT_PARAM_INVALID, "%s", out == nullptr ? "the first argument is null" : "0 bytes");
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    if (kind == Kind::host) {
        auto* at = static_cast<uint8_t*>(std::aligned_alloc(4096, pages(bytes)));
        if (at == nullptr) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the host has no %zu bytes left", bytes);
        add_block(at, bytes, kind, 0);
        state().host_bytes += bytes;
        *out = at;
        return ACL_SUCCESS;
    }
    uint8_t* at = device_block(bytes, "aclrtMalloc");
    if (at == nullptr)
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the device has %llu MiB of memory, %llu of them are taken, and %zu bytes do not fit",
                    static_cast<unsigned long long>(chip().memory_bytes >> 20), static_cast<unsigned long long>(state().live_bytes >> 20),
                    bytes);
    *out = at;
    return ACL_SUCCESS;
}

aclError release(void* address, Kind kind) {
    if (address == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null address");
    Block* block = block_of(address);
    const char* call = call_name();
    if (block == nullptr || block->at != address || block->kind != kind) {
        const char* what = block == nullptr                  ? "that no allocation returned"
                           : block->at != address            ? "inside a block, not its beginning"
                           : block->kind == Kind::host       ? "of host memory"
                           : block->kind == Kind::registered ? "of memory that the program itself allocated"
                                                             : "of device memory";
        report("acl-bad-free", here(), "frees", block != nullptr ? block->made : Site{}, "allocated here", "%s gets an address %s", call,
               what);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (!block->live) {
        report("acl-double-free", here(), "frees again", block->freed, "freed here", "%s frees a block a second time", call);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    host_access(address, block->bytes, true, true);
    execute_all();
    block->live = false;
    block->freed = here();
    block->freed_sequence = ++state().sequence;
    send(Json("free").add("bytes", block->bytes).add("device", kind == Kind::device ? 1 : 0));
    if (kind == Kind::host) {
        state().host_bytes -= block->bytes;
        std::free(block->at);
        state().blocks.erase(reinterpret_cast<uint64_t>(address));
        return ACL_SUCCESS;
    }
    state().live_bytes -= block->bytes;
    if (block->open) mprotect(block->at, pages(block->bytes), PROT_NONE);
    fallocate(arena_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(block->file_offset),
              static_cast<off_t>(pages(block->bytes)));
    return ACL_SUCCESS;
}

}  // namespace

int memory_file() { return open_arena() ? arena_file : -1; }
bool on_device(const void* address) {
    const auto* at = static_cast<const uint8_t*>(address);
    return arena != nullptr && at >= arena && at < arena + arena_bytes;
}
uint8_t* writable(const void* address) {
    auto* at = static_cast<uint8_t*>(const_cast<void*>(address));
    return on_device(at) ? view + (at - arena) : at;
}
uint64_t file_offset(const void* address) {
    const Block* block = block_of(address);
    if (block == nullptr || block->kind != Kind::device) return ~0ull;
    return block->file_offset + static_cast<uint64_t>(static_cast<const uint8_t*>(address) - block->at);
}

DeviceOpen::DeviceOpen() {
    if (opened++ == 0) protect(true);
}
DeviceOpen::~DeviceOpen() {
    if (--opened == 0) protect(false);
}

Block* block_of(const void* address) {
    auto& blocks = state().blocks;
    const auto at = reinterpret_cast<uint64_t>(address);
    auto next = blocks.upper_bound(at);
    if (next == blocks.begin()) return nullptr;
    Block& block = (--next)->second;
    return at < next->first + std::max<uint64_t>(block.bytes, 1) ? &block : nullptr;
}

// A block of device memory, zero as the driver hands out fresh pages; nullptr when the device is full. Addresses are never given out
// again.
uint8_t* device_block(uint64_t bytes, const char*) {
    const uint64_t room = pages(bytes) + kPage;
    if (!open_arena() || room < bytes || used + room > arena_bytes || state().live_bytes + bytes > chip().memory_bytes) return nullptr;
    uint8_t* at = arena + used;
    add_block(at, bytes, Kind::device, used);
    used += room;
    if (opened > 0) protect(true);  // the arena has grown
    grew(bytes);
    send(Json("malloc").add("bytes", bytes).add("device", 1));
    return at;
}

// One side of a copy: is it where the direction says, is it alive, is it large enough?
bool side_is_right(const void* address, uint64_t bytes, bool wants_device, const char* role) {
    Block* block = block_of(address);
    const char* call = call_name();
    const bool reachable = on_device(address) || (block != nullptr && block->kind == Kind::registered);
    if (wants_device ? !reachable : on_device(address)) {
        report("acl-copy-direction", here(), "copies", block != nullptr ? block->made : Site{}, "allocated here",
               "%s: the direction says that the %s is on the %s, and it is on the %s", call, role, wants_device ? "device" : "host",
               wants_device ? "host" : "device");
        return false;
    }
    if (block == nullptr && !wants_device) return true;  // host memory of the program's own
    if (block == nullptr || !block->live) {
        report("acl-use-after-free", here(), "copies", block != nullptr ? block->freed : Site{}, "freed here", "%s: the %s is %s", call,
               role, block == nullptr ? "in no device block" : "a freed block");
        return false;
    }
    const auto begin = static_cast<uint64_t>(static_cast<const uint8_t*>(address) - block->at);
    if (bytes > block->bytes - begin) {
        report("acl-copy-size", here(), "copies", block->made, "allocated here",
               "%s: %llu bytes from byte %llu of the %s, a block of %llu bytes", call, static_cast<unsigned long long>(bytes),
               static_cast<unsigned long long>(begin), role, static_cast<unsigned long long>(block->bytes));
        return false;
    }
    return true;
}

void report_leaks() {
    State& s = state();
    for (const auto& [at, block] : s.blocks) {
        if (!block.live || block.kind == Kind::registered) continue;
        report("acl-leak", block.made, "allocated here", {}, "", "%llu bytes of %s memory are never freed",
               static_cast<unsigned long long>(block.bytes), block.kind == Kind::device ? "device" : "host");
    }
    for (const auto& [handle, stream] : s.streams)
        if (handle != nullptr) report("acl-leak", stream->created, "created here", {}, "", "a stream is never destroyed");
    for (const auto& [at, thing] : s.things) report("acl-leak", thing.made, "created here", {}, "", "a %s is never destroyed", thing.kind);
    for (const auto& [handle, event] : s.events) report("acl-leak", event.made, "created here", {}, "", "an event is never destroyed");
}

}  // namespace toprope::device

using namespace toprope::device;

namespace {
struct Physical {
    uint64_t bytes, offset;
    int maps = 0;
};
std::map<void*, Physical>& physical() {
    static auto& all = *new std::map<void*, Physical>;
    return all;
}
struct Reserved {
    uint64_t bytes;
    Site made;
};
std::map<void*, Reserved>& reserved() {
    static auto& all = *new std::map<void*, Reserved>;
    return all;
}
}  // namespace

extern "C" {
aclError aclrtMalloc(void** at, size_t bytes, aclrtMemMallocPolicy) {
    TOPROPE_CALL;
    return allocate(at, bytes, Kind::device);
}
aclError aclrtMallocAlign32(void** at, size_t bytes, aclrtMemMallocPolicy) {
    TOPROPE_CALL;
    return allocate(at, bytes, Kind::device);
}
aclError aclrtMallocCached(void** at, size_t bytes, aclrtMemMallocPolicy) {
    TOPROPE_CALL;
    return allocate(at, bytes, Kind::device);
}
aclError aclrtMallocWithCfg(void** at, size_t bytes, aclrtMemMallocPolicy, aclrtMallocConfig*) {
    TOPROPE_CALL;
    return allocate(at, bytes, Kind::device);
}
aclError aclrtMallocHost(void** at, size_t bytes) {
    TOPROPE_CALL;
    return allocate(at, bytes, Kind::host);
}
aclError aclrtMallocHostWithCfg(void** at, uint64_t bytes, aclrtMallocConfig*) {
    TOPROPE_CALL;
    return allocate(at, bytes, Kind::host);
}
aclError aclrtFree(void* at) {
    TOPROPE_CALL;
    return release(at, Kind::device);
}
aclError aclrtFreeHost(void* at) {
    TOPROPE_CALL;
    return release(at, Kind::host);
}
aclError aclrtMemFlush(void*, size_t) { return ACL_SUCCESS; }
aclError aclrtMemInvalidate(void*, size_t) { return ACL_SUCCESS; }

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
    TOPROPE_CALL;
    if (free == nullptr || total == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    *total = chip().memory_bytes;
    *free = *total - state().live_bytes;
    return ACL_SUCCESS;
}

// Host memory that kernels reach at its own address.
aclError aclrtHostRegisterV2(void* at, uint64_t bytes, uint32_t) {
    TOPROPE_CALL;
    if (at == nullptr || bytes == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "nothing to register");
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    if (on_device(at)) return fail(ACL_ERROR_RT_PARAM_INVALID, "an address of device memory");
    Block* block = block_of(at);
    if (block != nullptr && block->kind == Kind::registered)
        return fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "this memory is registered already");
    if (block != nullptr) {
        if (static_cast<uint8_t*>(at) + bytes > block->at + block->bytes)
            return fail(ACL_ERROR_RT_PARAM_INVALID, "the range leaves its allocation");
        return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "memory of aclrtMallocHost needs no registration: aclrtHostGetDevicePointer gives its device address");
    }
    add_block(static_cast<uint8_t*>(at), bytes, Kind::registered, 0);
    return ACL_SUCCESS;
}
aclError aclrtHostRegister(void* at, uint64_t bytes, aclrtHostRegisterType, void** device) {
    TOPROPE_CALL;
    if (device == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "no place for the device address");
    const aclError code = aclrtHostRegisterV2(at, bytes, 0);
    if (code == ACL_SUCCESS) *device = at;
    return code;
}
aclError aclrtHostGetDevicePointer(void* at, void** device, uint32_t) {
    TOPROPE_CALL;
    Block* block = block_of(at);
    if (device == nullptr || block == nullptr || block->kind == Kind::device)
        return fail(ACL_ERROR_RT_PARAM_INVALID, "this is no registered or pinned host memory");
    if (block->kind == Kind::host) block->open = true;  // mapped: kernels may use it
    *device = at;
    return ACL_SUCCESS;
}
aclError aclrtHostUnregister(void* at) {
    TOPROPE_CALL;
    Block* block = block_of(at);
    if (block == nullptr || block->at != at || block->kind != Kind::registered) {
        report("acl-bad-free", here(), "unregisters", block != nullptr ? block->made : Site{}, "registered here",
               "aclrtHostUnregister gets an address that is not registered");
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    host_access(at, block->bytes, true, true);
    execute_all();
    state().blocks.erase(reinterpret_cast<uint64_t>(at));
    return ACL_SUCCESS;
}
aclError aclrtPointerGetAttributes(const void* at, aclrtPtrAttributes* out) {
    TOPROPE_CALL;
    if (out == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    memset(out, 0, sizeof *out);
    const Block* block = block_of(at);
    out->location.id = state().device < 0 ? 0 : static_cast<uint32_t>(state().device);
    out->location.type = block == nullptr              ? ACL_MEM_LOCATION_TYPE_UNREGISTERED
                         : block->kind == Kind::device ? ACL_MEM_LOCATION_TYPE_DEVICE
                                                       : ACL_MEM_LOCATION_TYPE_HOST;
    out->pageSize = kPage;
    return ACL_SUCCESS;
}

// Addresses and physical memory apart.
aclError aclrtReserveMemAddress(void** at, size_t bytes, size_t, void*, uint64_t) {
    TOPROPE_CALL;
    if (at == nullptr || bytes == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "nothing to reserve");
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    constexpr uint64_t kAlign = 2ull << 20;
    if (!open_arena()) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    used = (used + kAlign - 1) / kAlign * kAlign;
    if (used + bytes + kPage > arena_bytes) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no range of %zu addresses is left", bytes);
    *at = arena + used;
    reserved()[*at] = {bytes, here()};
    used += pages(bytes) + kPage;
    return ACL_SUCCESS;
}
aclError aclrtReleaseMemAddress(void* at) {
    TOPROPE_CALL;
    if (reserved().erase(at) != 0) return ACL_SUCCESS;
    report("acl-bad-free", here(), "releases", {}, "", "aclrtReleaseMemAddress gets an address that is not reserved");
    return ACL_ERROR_RT_PARAM_INVALID;
}
aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t bytes, const aclrtPhysicalMemProp*, uint64_t) {
    TOPROPE_CALL;
    if (handle == nullptr || bytes == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "nothing to allocate");
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    if (!open_arena() || state().live_bytes + bytes > chip().memory_bytes || used + bytes > arena_bytes)
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the device has %llu MiB of memory, %llu of them are taken",
                    static_cast<unsigned long long>(chip().memory_bytes >> 20), static_cast<unsigned long long>(state().live_bytes >> 20));
    *handle = new_handle("physical memory handle");
    physical()[*handle] = {pages(bytes), used};
    std::memset(view + used, 0xff, std::min<uint64_t>(bytes, kPoisonedBytes));
    used += pages(bytes) + kPage;
    grew(pages(bytes));
    send(Json("malloc").add("bytes", pages(bytes)).add("device", 1));
    return ACL_SUCCESS;
}
aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
    TOPROPE_CALL;
    if (!forget(handle, "physical memory handle")) return ACL_ERROR_RT_PARAM_INVALID;
    execute_all();
    const Physical& of = physical()[handle];
    if (of.maps > 0)
        report("acl-use-after-free", here(), "frees it", {}, "", "physical memory is freed while it is mapped: aclrtUnmapMem comes first");
    state().live_bytes -= of.bytes;
    send(Json("free").add("bytes", of.bytes).add("device", 1));
    fallocate(arena_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(of.offset), static_cast<off_t>(of.bytes));
    physical().erase(handle);
    return ACL_SUCCESS;
}
aclError aclrtMapMem(void* at, size_t bytes, size_t offset, aclrtDrvMemHandle handle, uint64_t) {
    TOPROPE_CALL;
    const auto found = physical().find(handle);
    auto range = reserved().upper_bound(at);
    const bool inside = range != reserved().begin() &&
                        (--range, static_cast<uint8_t*>(at) + bytes <= static_cast<uint8_t*>(range->first) + range->second.bytes);
    if (found == physical().end() || !inside || offset + bytes > found->second.bytes)
        return fail(ACL_ERROR_RT_PARAM_INVALID, "%s",
                    found == physical().end() ? "this handle does not exist"
                    : !inside                 ? "the addresses are not reserved"
                                              : "the handle has less memory");
    const int protection = opened > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    const auto from = static_cast<off_t>(found->second.offset + offset);
    mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena_file, from);
    mmap(view + (static_cast<uint8_t*>(at) - arena), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena_file,
         from);
    add_block(static_cast<uint8_t*>(at), bytes, Kind::device, static_cast<uint64_t>(from));
    ++found->second.maps;
    state().things[at] = {"mapping of device memory", here()};
    return ACL_SUCCESS;
}
aclError aclrtUnmapMem(void* at) {
    TOPROPE_CALL;
    if (!forget(at, "mapping of device memory")) return ACL_ERROR_RT_PARAM_INVALID;
    Block* block = block_of(at);
    host_access(at, block->bytes, true, true);
    execute_all();
    const uint64_t own = static_cast<uint64_t>(block->at - arena);
    for (auto& [handle, of] : physical())
        if (block->file_offset >= of.offset && block->file_offset < of.offset + of.bytes) --of.maps;
    mmap(block->at, block->bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena_file, static_cast<off_t>(own));
    mmap(view + own, block->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena_file, static_cast<off_t>(own));
    state().blocks.erase(reinterpret_cast<uint64_t>(at));
    return ACL_SUCCESS;
}
aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp*, aclrtMemGranularityOptions, size_t* bytes) {
    TOPROPE_CALL;
    if (bytes == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    *bytes = 2ull << 20;
    return ACL_SUCCESS;
}
}
