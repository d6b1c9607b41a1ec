// Copies and fills: the checks of their ends, and the bytes, now or in a stream's order.
#include <string.h>

#include <cstring>

#include "link.h"
#include "state.h"

namespace toprope::device {

namespace {

// The checks of a copy. `to_device` and `from_device` tell where its ends are.
bool copy_is_right(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, bool& to_device, bool& from_device) {
    to_device = on_device(to), from_device = on_device(from);
    if (kind == ACL_MEMCPY_HOST_TO_HOST || kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_HOST ||
        kind == ACL_MEMCPY_DEVICE_TO_DEVICE || kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE || kind == ACL_MEMCPY_INTER_DEVICE_TO_DEVICE) {
        to_device = kind != ACL_MEMCPY_HOST_TO_HOST && kind != ACL_MEMCPY_DEVICE_TO_HOST;
        from_device = kind != ACL_MEMCPY_HOST_TO_HOST && kind != ACL_MEMCPY_HOST_TO_DEVICE;
    }
    if (bytes > room) {
        report("acl-copy-size", here(), "copies", {}, "", "%s: %zu bytes are more than the %zu that destMax allows", call_name(), bytes,
               room);
        return false;
    }
    return side_is_right(to, bytes, to_device, "target") & side_is_right(from, bytes, from_device, "source");
}
const char* direction(bool to_device, bool from_device) {
    return to_device ? (from_device ? "D2D" : "H2D") : (from_device ? "D2H" : "H2H");
}
void send_copy(const char* call, const char* way, size_t bytes, const Site& site, const Task* task, bool mapped) {
    Json message("copy");
    message.add("call", call).add("way", way).add("bytes", static_cast<uint64_t>(bytes)).add("at", site).add("mapped", mapped ? 1 : 0);
    if (task != nullptr) message.add("stream", task->stream->id).add("number", task->number).add("epoch", task->epoch);
    send(message);
}
bool is_pinned(const void* at) {
    const Block* block = block_of(at);
    return block != nullptr && block->live;
}

aclError copy_now(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind) {
    if (bytes == 0) return ACL_SUCCESS;
    if (to == nullptr || from == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null address");
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    bool to_device, from_device;
    if (!copy_is_right(to, room, from, bytes, kind, to_device, from_device)) return ACL_ERROR_RT_PARAM_INVALID;
    host_access(from, bytes, false);
    host_access(to, bytes, true);
    std::memmove(writable(to), writable(from), bytes);
    send_copy(call_name(), direction(to_device, from_device), bytes, here(), nullptr, is_pinned(to_device ? from : to));
    return ACL_SUCCESS;
}

aclError copy_later(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, aclrtStream handle) {
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    if (bytes == 0) return ACL_SUCCESS;
    if (to == nullptr || from == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null address");
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    bool to_device, from_device;
    if (!copy_is_right(to, room, from, bytes, kind, to_device, from_device)) return ACL_ERROR_RT_PARAM_INVALID;
    // Pageable host memory is staged when the call is made, pinned memory is read when the copy happens.
    std::shared_ptr<std::vector<uint8_t>> staged;
    if (!from_device && !is_pinned(from))
        staged = std::make_shared<std::vector<uint8_t>>(static_cast<const uint8_t*>(from), static_cast<const uint8_t*>(from) + bytes);
    const char* call = call_name();
    issue(stream, "copy", call, [=](Task& task) {
        const void* source = staged ? staged->data() : writable(from);
        std::memmove(writable(to), source, bytes);
        if (!staged) task.touched.push_back({reinterpret_cast<uint64_t>(from), reinterpret_cast<uint64_t>(from) + bytes, false});
        task.touched.push_back({reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(to) + bytes, true});
        send_copy(call, direction(to_device, from_device), bytes, task.site, &task, is_pinned(to_device ? from : to));
        return ACL_SUCCESS;
    });
    return ACL_SUCCESS;
}

aclError fill(void* at, size_t room, int32_t value, size_t bytes, Stream* stream) {
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    if (bytes > room) {
        report("acl-copy-size", here(), "fills", {}, "", "%s: %zu bytes are more than the %zu that maxCount allows", call_name(), bytes,
               room);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (at == nullptr || !side_is_right(at, bytes, on_device(at), "target")) return ACL_ERROR_RT_PARAM_INVALID;
    const char* call = call_name();
    if (stream == nullptr) {
        host_access(at, bytes, true);
        std::memset(writable(at), value, bytes);
        send_copy(call, "fill", bytes, here(), nullptr, false);
        return ACL_SUCCESS;
    }
    issue(stream, "copy", call, [=](Task& task) {
        std::memset(writable(at), value, bytes);
        task.touched.push_back({reinterpret_cast<uint64_t>(at), reinterpret_cast<uint64_t>(at) + bytes, true});
        send_copy(call, "fill", bytes, task.site, &task, false);
        return ACL_SUCCESS;
    });
    return ACL_SUCCESS;
}

}  // namespace

}  // namespace toprope::device

using namespace toprope::device;

extern "C" {
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind) {
    TOPROPE_CALL;
    return copy_now(to, room, from, bytes, kind);
}
aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream) {
    TOPROPE_CALL;
    return copy_later(to, room, from, bytes, kind, stream);
}
aclError aclrtMemcpyAsyncWithCondition(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream) {
    TOPROPE_CALL;
    return copy_later(to, room, from, bytes, kind, stream);
}
aclError aclrtMemcpy2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, aclrtMemcpyKind kind) {
    TOPROPE_CALL;
    if (width > to_pitch || width > from_pitch) return fail(ACL_ERROR_RT_PARAM_INVALID, "rows of %zu bytes do not fit their pitch", width);
    for (size_t row = 0; row < height; ++row)
        if (const aclError code =
                copy_now(static_cast<char*>(to) + row * to_pitch, width, static_cast<const char*>(from) + row * from_pitch, width, kind))
            return code;
    return ACL_SUCCESS;
}
aclError aclrtMemcpy2dAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
    TOPROPE_CALL;
    if (width > to_pitch || width > from_pitch) return fail(ACL_ERROR_RT_PARAM_INVALID, "rows of %zu bytes do not fit their pitch", width);
    for (size_t row = 0; row < height; ++row)
        if (const aclError code = copy_later(static_cast<char*>(to) + row * to_pitch, width,
                                             static_cast<const char*>(from) + row * from_pitch, width, kind, stream))
            return code;
    return ACL_SUCCESS;
}
aclError aclrtMemset(void* at, size_t room, int32_t value, size_t bytes) {
    TOPROPE_CALL;
    return fill(at, room, value, bytes, nullptr);
}
aclError aclrtMemsetAsync(void* at, size_t room, int32_t value, size_t bytes, aclrtStream handle) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    return stream == nullptr ? ACL_ERROR_RT_PARAM_INVALID : fill(at, room, value, bytes, stream);
}
}
