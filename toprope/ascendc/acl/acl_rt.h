// The runtime part of ACL: device, memory, copies, streams, events. Work on a stream is done at once, but counts as pending until the host
// waits for it: a read before that is reported, and an asynchronous copy to the host arrives only then.
#pragma once

#include "acl_base.h"

enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY,
    ACL_MEM_MALLOC_NORMAL_ONLY,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P
};
enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_DEVICE_TO_DEVICE,
    ACL_MEMCPY_DEFAULT
};
enum aclrtRunMode { ACL_DEVICE = 0, ACL_HOST };
enum aclrtEventRecordedStatus { ACL_EVENT_RECORDED_STATUS_NOT_READY = 0, ACL_EVENT_RECORDED_STATUS_COMPLETE = 1 };
enum aclrtEventStatus { ACL_EVENT_STATUS_COMPLETE = 0, ACL_EVENT_STATUS_NOT_READY = 1 };
enum aclrtDevAttr {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201
};
enum aclrtMemAttr { ACL_DDR_MEM = 0, ACL_HBM_MEM };

namespace toprope::acl {

inline aclError no_device() {
    if (state().device >= 0) return ACL_SUCCESS;
    error_text() = "no device is set: call aclrtSetDevice first";
    return ACL_ERROR_RT_CONTEXT_NULL;
}

inline aclError allocate(void** out, size_t bytes, bool device) {
    if (out == nullptr || bytes == 0) return ACL_ERROR_RT_PARAM_INVALID;
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    uint8_t* at = device ? device_block(bytes) : static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (at == nullptr) {
        error_text() = "the device has 64 GiB of memory, and this block does not fit";
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    state().blocks[at] = {at, bytes, device, true, false, here, {}, {}, {}};
    *out = at;
    return ACL_SUCCESS;
}

inline aclError release(void* address, bool device) {
    if (address == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    Block* block = block_of(address);
    const char* call = device ? "aclrtFree" : "aclrtFreeHost";
    char text[256];
    if (block == nullptr || block->at != address || block->device != device) {
        std::snprintf(text, sizeof text, "%s gets an address %s", call,
                      block == nullptr          ? "that no allocation returned"
                      : block->at != address    ? "inside a block, not its beginning"
                      : block->device != device ? (device ? "of host memory" : "of device memory")
                                                : "");
        report("acl-bad-free", here, "frees", block != nullptr ? block->made : Site{}, "allocated here", text);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (!block->live) {
        std::snprintf(text, sizeof text, "%s frees a block a second time", call);
        report("acl-double-free", here, "frees again", block->freed, "freed here", text);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    block->live = false;
    block->freed = here;
    if (device)
        madvise(block->at, (block->bytes + kPage - 1) / kPage * kPage, MADV_DONTNEED);
    else
        std::free(block->at), state().blocks.erase(block->at);
    return ACL_SUCCESS;
}

// One side of a copy: is it where the direction says, is it alive, is it large enough?
inline bool side_is_right(const void* address, uint64_t bytes, bool wants_device, const char* role, const char* call) {
    Block* block = block_of(address);
    char text[320];
    if (on_device(address) != wants_device) {
        std::snprintf(text, sizeof text, "%s: the direction says that the %s is on the %s, and it is on the %s", call, role,
                      wants_device ? "device" : "host", wants_device ? "host" : "device");
        report("acl-copy-direction", here, "copies", block != nullptr ? block->made : Site{}, "allocated here", text);
        return false;
    }
    if (block == nullptr && !wants_device) return true;  // host memory of the program's own
    if (block == nullptr || !block->live) {
        std::snprintf(text, sizeof text, "%s: the %s is %s", call, role, block == nullptr ? "in no device block" : "a freed block");
        report("acl-use-after-free", here, "copies", block != nullptr ? block->freed : Site{}, "freed here", text);
        return false;
    }
    const uint64_t begin = static_cast<uint64_t>(static_cast<const uint8_t*>(address) - block->at);
    if (bytes > block->bytes - begin) {
        std::snprintf(text, sizeof text, "%s: %llu bytes from byte %llu of the %s, a block of %llu bytes", call,
                      static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(begin), role,
                      static_cast<unsigned long long>(block->bytes));
        report("acl-copy-size", here, "copies", block->made, "allocated here", text);
        return false;
    }
    return true;
}

inline void check_waited(const void* address, bool writes, const char* call) {
    Block* block = block_of(address);
    if (block == nullptr) return;
    Work& work = writes ? block->touched : block->written;
    if (!pending(work)) return;
    char text[256];
    std::snprintf(text, sizeof text, "%s %s device memory that a stream still works on", call, writes ? "overwrites" : "reads");
    report("acl-missing-synchronise", here, call, work.site, writes ? "uses it, not waited for" : "writes it, not waited for", text);
    work.number = 0;  // said once
}

// The checks of a copy, then the copy; `stream` decides whether a copy to the host has to be waited for.
inline aclError copy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, const char* call, void* stream,
                     bool asynchronous) {
    if (bytes == 0) return ACL_SUCCESS;
    if (to == nullptr || from == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    bool to_device = on_device(to), from_device = on_device(from);
    if (kind != ACL_MEMCPY_DEFAULT) {
        to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
        from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    }
    if (bytes > room) {
        char text[200];
        std::snprintf(text, sizeof text, "%s: %zu bytes are more than the %zu that destMax allows", call, bytes, room);
        report("acl-copy-size", here, "copies", {}, "", text);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    const bool right = side_is_right(to, bytes, to_device, "target", call) & side_is_right(from, bytes, from_device, "source", call);
    if (!right) return ACL_ERROR_RT_PARAM_INVALID;
    if (!asynchronous) {
        if (from_device) check_waited(from, false, call);
        if (to_device) check_waited(to, true, call);
    }
    DeviceOpen open;
    if (!asynchronous) {
        std::memmove(to, from, bytes);
        return ACL_SUCCESS;
    }
    const Work work = next_work(stream);
    if (from_device && !to_device) {
        const auto* begin = static_cast<const uint8_t*>(from);
        state().deliveries.push_back({work, to, std::vector<uint8_t>(begin, begin + bytes)});
        return ACL_SUCCESS;
    }
    std::memmove(to, from, bytes);
    if (Block* block = block_of(to)) block->written = block->touched = work;
    return ACL_SUCCESS;
}

inline aclError fill(void* at, size_t room, int32_t value, size_t bytes, const char* call) {
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    if (bytes > room || !side_is_right(at, bytes, on_device(at), "target", call)) return ACL_ERROR_RT_PARAM_INVALID;
    check_waited(at, true, call);
    DeviceOpen open;
    std::memset(at, value, bytes);
    return ACL_SUCCESS;
}

inline bool stream_exists(void* stream) {
    if (stream == nullptr || state().streams.count(stream) != 0) return true;
    report("acl-use-after-free", here, "uses", {}, "", "a stream that does not exist, or is destroyed already");
    return false;
}
inline void* handle() { return reinterpret_cast<void*>(0x1000 + 16 * ++state().handles); }
inline void wait_for_all() {
    for (auto& [at, stream] : state().streams) wait_for(at, stream.issued);
}

}  // namespace toprope::acl

extern "C" {
inline aclError aclrtSetDevice(int32_t id) {
    if (id < 0 || id > 7) return ACL_ERROR_RT_INVALID_DEVICEID;
    toprope::acl::state().device = id;
    return ACL_SUCCESS;
}
inline aclError aclrtResetDevice(int32_t) {
    toprope::acl::wait_for_all();
    return ACL_SUCCESS;
}
inline aclError aclrtResetDeviceForce(int32_t id) { return aclrtResetDevice(id); }
inline aclError aclrtGetDevice(int32_t* id) {
    *id = toprope::acl::state().device;
    return toprope::acl::no_device();
}
inline aclError aclrtGetDeviceCount(uint32_t* count) {
    *count = 1;
    return ACL_SUCCESS;
}
inline aclError aclrtGetDeviceInfo(uint32_t, aclrtDevAttr attribute, int64_t* value) {
    const toprope::acl::State& s = toprope::acl::state();
    *value = attribute == ACL_DEV_ATTR_VECTOR_CORE_NUM ? s.vector_cores : attribute == ACL_DEV_ATTR_AICPU_CORE_NUM ? 0 : s.cube_cores;
    return ACL_SUCCESS;
}
inline aclError aclrtGetRunMode(aclrtRunMode* mode) {
    *mode = ACL_HOST;
    return ACL_SUCCESS;
}
inline const char* aclrtGetSocName() {
    const char* name = std::getenv("TOPROPE_PROGRAM_SOC");
    return name != nullptr ? name : "Ascend910B1";
}
inline aclError aclrtCreateContext(aclrtContext* context, int32_t device) {
    *context = toprope::acl::new_thing("context", toprope::acl::handle());
    return aclrtSetDevice(device);
}
inline aclError aclrtDestroyContext(aclrtContext context) {
    return toprope::acl::forget_thing(context, "context") ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}
inline aclError aclrtSetCurrentContext(aclrtContext) { return ACL_SUCCESS; }
inline aclError aclrtGetCurrentContext(aclrtContext* context) {
    *context = nullptr;
    return ACL_SUCCESS;
}
inline aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
    *total = toprope::acl::kDeviceBytes;
    *free = *total - toprope::acl::state().used;
    return ACL_SUCCESS;
}

inline aclError aclrtMalloc(void** at, size_t bytes, aclrtMemMallocPolicy) { return toprope::acl::allocate(at, bytes, true); }
inline aclError aclrtMallocAlign32(void** at, size_t bytes, aclrtMemMallocPolicy) { return toprope::acl::allocate(at, bytes, true); }
inline aclError aclrtMallocCached(void** at, size_t bytes, aclrtMemMallocPolicy) { return toprope::acl::allocate(at, bytes, true); }
inline aclError aclrtMallocHost(void** at, size_t bytes) { return toprope::acl::allocate(at, bytes, false); }
inline aclError aclrtFree(void* at) { return toprope::acl::release(at, true); }
inline aclError aclrtFreeHost(void* at) { return toprope::acl::release(at, false); }
inline aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind) {
    return toprope::acl::copy(to, room, from, bytes, kind, "aclrtMemcpy", nullptr, false);
}
inline aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream) {
    if (!toprope::acl::stream_exists(stream)) return ACL_ERROR_RT_PARAM_INVALID;
    return toprope::acl::copy(to, room, from, bytes, kind, "aclrtMemcpyAsync", stream, true);
}
inline aclError aclrtMemset(void* at, size_t room, int32_t value, size_t bytes) {
    return toprope::acl::fill(at, room, value, bytes, "aclrtMemset");
}
inline aclError aclrtMemsetAsync(void* at, size_t room, int32_t value, size_t bytes, aclrtStream stream) {
    if (!toprope::acl::stream_exists(stream)) return ACL_ERROR_RT_PARAM_INVALID;
    return toprope::acl::fill(at, room, value, bytes, "aclrtMemsetAsync");
}

inline aclError aclrtCreateStream(aclrtStream* stream) {
    if (toprope::acl::no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    *stream = toprope::acl::handle();
    toprope::acl::state().streams[*stream].created = toprope::acl::here;
    return ACL_SUCCESS;
}
inline aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) { return aclrtCreateStream(stream); }
inline aclError aclrtSynchronizeStream(aclrtStream stream) {
    if (!toprope::acl::stream_exists(stream)) return ACL_ERROR_RT_PARAM_INVALID;
    toprope::acl::wait_for(stream, toprope::acl::state().streams[stream].issued);
    return ACL_SUCCESS;
}
inline aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t) { return aclrtSynchronizeStream(stream); }
inline aclError aclrtDestroyStream(aclrtStream stream) {
    if (stream == nullptr || !toprope::acl::stream_exists(stream)) return ACL_ERROR_RT_PARAM_INVALID;
    aclrtSynchronizeStream(stream);  // as documented: waits for its work
    toprope::acl::state().streams.erase(stream);
    return ACL_SUCCESS;
}
inline aclError aclrtDestroyStreamForce(aclrtStream stream) { return aclrtDestroyStream(stream); }
inline aclError aclrtSynchronizeDevice() {
    toprope::acl::wait_for_all();
    return ACL_SUCCESS;
}

inline aclError aclrtCreateEvent(aclrtEvent* event) {
    *event = toprope::acl::new_thing("event", toprope::acl::handle());
    return ACL_SUCCESS;
}
inline aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }
inline aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }
inline aclError aclrtDestroyEvent(aclrtEvent event) {
    toprope::acl::state().events.erase(event);
    return toprope::acl::forget_thing(event, "event") ? ACL_SUCCESS : ACL_ERROR_RT_PARAM_INVALID;
}
inline aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    if (!toprope::acl::stream_exists(stream)) return ACL_ERROR_RT_PARAM_INVALID;
    toprope::acl::state().events[event] = {stream, toprope::acl::state().streams[stream].issued, toprope::acl::here,
                                           toprope::acl::state().streams[stream].busy_us};
    return ACL_SUCCESS;
}
inline aclError aclrtResetEvent(aclrtEvent event, aclrtStream) {
    toprope::acl::state().events.erase(event);
    return ACL_SUCCESS;
}
inline aclError aclrtSynchronizeEvent(aclrtEvent event) {
    const auto found = toprope::acl::state().events.find(event);
    if (found != toprope::acl::state().events.end()) toprope::acl::wait_for(found->second.stream, found->second.number);
    return ACL_SUCCESS;
}
inline aclError aclrtStreamWaitEvent(aclrtStream, aclrtEvent) { return ACL_SUCCESS; }
inline aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
    aclrtSynchronizeEvent(event);
    *status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    return ACL_SUCCESS;
}
// The predicted device time of the kernels between the two.
inline aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
    auto& events = toprope::acl::state().events;
    if (events.count(start) == 0 || events.count(end) == 0) return ACL_ERROR_RT_PARAM_INVALID;
    *ms = static_cast<float>((events[end].at_us - events[start].at_us) / 1000);
    return ACL_SUCCESS;
}
}

#define aclrtMalloc(...) toprope_at(__FILE__, __LINE__, aclrtMalloc)(__VA_ARGS__)
#define aclrtMallocAlign32(...) toprope_at(__FILE__, __LINE__, aclrtMallocAlign32)(__VA_ARGS__)
#define aclrtMallocCached(...) toprope_at(__FILE__, __LINE__, aclrtMallocCached)(__VA_ARGS__)
#define aclrtMallocHost(...) toprope_at(__FILE__, __LINE__, aclrtMallocHost)(__VA_ARGS__)
#define aclrtFree(...) toprope_at(__FILE__, __LINE__, aclrtFree)(__VA_ARGS__)
#define aclrtFreeHost(...) toprope_at(__FILE__, __LINE__, aclrtFreeHost)(__VA_ARGS__)
#define aclrtMemcpy(...) toprope_at(__FILE__, __LINE__, aclrtMemcpy)(__VA_ARGS__)
#define aclrtMemcpyAsync(...) toprope_at(__FILE__, __LINE__, aclrtMemcpyAsync)(__VA_ARGS__)
#define aclrtMemset(...) toprope_at(__FILE__, __LINE__, aclrtMemset)(__VA_ARGS__)
#define aclrtMemsetAsync(...) toprope_at(__FILE__, __LINE__, aclrtMemsetAsync)(__VA_ARGS__)
#define aclrtCreateContext(...) toprope_at(__FILE__, __LINE__, aclrtCreateContext)(__VA_ARGS__)
#define aclrtCreateStream(...) toprope_at(__FILE__, __LINE__, aclrtCreateStream)(__VA_ARGS__)
#define aclrtCreateStreamWithConfig(...) toprope_at(__FILE__, __LINE__, aclrtCreateStreamWithConfig)(__VA_ARGS__)
#define aclrtDestroyStream(...) toprope_at(__FILE__, __LINE__, aclrtDestroyStream)(__VA_ARGS__)
#define aclrtSynchronizeStream(...) toprope_at(__FILE__, __LINE__, aclrtSynchronizeStream)(__VA_ARGS__)
#define aclrtCreateEvent(...) toprope_at(__FILE__, __LINE__, aclrtCreateEvent)(__VA_ARGS__)
#define aclrtDestroyEvent(...) toprope_at(__FILE__, __LINE__, aclrtDestroyEvent)(__VA_ARGS__)
#define aclrtRecordEvent(...) toprope_at(__FILE__, __LINE__, aclrtRecordEvent)(__VA_ARGS__)
