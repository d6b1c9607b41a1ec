// Streams, events and copies. Work is kept until somebody waits for it, and then executed in its stream's order.
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>

#include "link.h"
#include "state.h"

namespace toprope::device {

namespace {

constexpr size_t kRemembered = 4096;

bool comes_before(const Clock& clock, uint32_t stream, uint64_t number) {
    const auto found = clock.find(stream);
    return found != clock.end() && found->second >= number;
}
void merge(Clock& into, const Clock& from) {
    for (const auto& [stream, number] : from) {
        uint64_t& known = into[stream];
        known = std::max(known, number);
    }
}
bool meet(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end && (a.write || b.write); }
bool meet(const std::vector<Range>& all, const Range& one) {
    return std::any_of(all.begin(), all.end(), [&](const Range& each) { return meet(each, one); });
}

void say_unordered(const Task& task, const Done& other) {
    report("acl-stream-race", task.site, task.name.c_str(), other.site, other.name.c_str(),
           "%s and %s touch the same device memory on two streams, and neither waits for the other", other.name.c_str(), task.name.c_str());
}

void say_not_waited(const HostAccess& access, const Site& task, const std::string& name) {
    if (access.frees)
        report("acl-free-in-use", access.site, "frees", task, "uses it, not waited for", "%s frees memory that %s still uses", access.call,
               name.c_str());
    else
        report("acl-missing-synchronise", access.site, access.call, task,
               access.range.write ? "uses it, not waited for" : "writes it, not waited for", "%s %s memory that a stream still works on",
               access.call, access.range.write ? "overwrites" : "reads");
}

// What a piece of executed work touched, against everything that is not ordered with it.
void compare(const Task& task) {
    State& s = state();
    for (HostAccess& access : s.host_accesses) {
        if (access.sequence < task.sequence || access.call == nullptr) continue;
        if (!meet(task.touched, access.range)) continue;
        say_not_waited(access, task.site, task.name);
        access.call = nullptr;  // said once
        break;                  // what follows is the same mistake
    }
    if (s.streams.size() > 1)
        for (Done& other : s.done) {
            if (other.stream == task.stream->id || comes_before(task.after, other.stream, other.number)) continue;
            for (const Range& each : task.touched) {
                if (!meet(other.touched, each)) continue;
                say_unordered(task, other);
                other.touched.clear();
                break;
            }
        }
}

// Whether no work that is still to be executed can overlap with `done` in time, and the host has waited for it.
bool is_over(const Done& done) {
    State& s = state();
    if (!comes_before(s.host, done.stream, done.number)) return false;
    for (const auto& [id, stream] : s.stream_by_id)
        if (id != done.stream && !stream->pending.empty() && !comes_before(stream->pending.front().after, done.stream, done.number))
            return false;
    return true;
}

void forget_what_is_over() {
    State& s = state();
    s.done.erase(std::remove_if(s.done.begin(), s.done.end(), is_over), s.done.end());
    while (s.done.size() > kRemembered) s.done.pop_front();
    uint64_t oldest = ~0ull;
    for (const auto& [id, stream] : s.stream_by_id)
        if (!stream->pending.empty()) oldest = std::min(oldest, stream->pending.front().sequence);
    auto over = [&](const HostAccess& a) { return a.call == nullptr || a.sequence < oldest; };
    s.host_accesses.erase(std::remove_if(s.host_accesses.begin(), s.host_accesses.end(), over), s.host_accesses.end());
}

void execute(Task task) {
    State& s = state();
    Stream* stream = task.stream;
    stream->busy = true;
    const aclError code = task.run ? task.run(task) : ACL_SUCCESS;
    stream->busy = false;
    stream->executed = task.number;
    if (code != ACL_SUCCESS && stream->error == ACL_SUCCESS) stream->error = code;
    if (!task.touched.empty()) {
        compare(task);
        s.done.push_back({stream->id, task.number, std::move(task.after), task.site, std::move(task.name), std::move(task.touched)});
    }
    if (s.done.size() > kRemembered || s.host_accesses.size() > 64) forget_what_is_over();
}

}  // namespace

Stream* stream_of(aclrtStream handle) {
    State& s = state();
    auto found = s.streams.find(handle);
    if (found == s.streams.end() && handle == nullptr) {  // the device's own stream
        auto made = std::make_unique<Stream>();
        made->id = ++s.stream_ids;
        s.stream_by_id[made->id] = made.get();
        found = s.streams.emplace(nullptr, std::move(made)).first;
        send(Json("stream").add("id", found->second->id).add("handle", "default"));
    }
    if (found != s.streams.end()) return found->second.get();
    report("acl-use-after-free", here(), "uses", {}, "", "a stream that does not exist, or is destroyed already");
    return nullptr;
}

Task& issue(Stream* stream, const char* kind, std::string name, std::function<aclError(Task&)> run) {
    State& s = state();
    Task task;
    task.stream = stream;
    task.number = ++stream->issued;
    task.sequence = ++s.sequence;
    task.epoch = s.epoch;
    task.kind = kind;
    task.name = std::move(name);
    task.site = here();
    merge(stream->clock, s.host);
    task.after = stream->clock;
    stream->clock[stream->id] = task.number;
    task.run = std::move(run);
    stream->pending.push_back(std::move(task));
    return stream->pending.back();
}

aclError run_until(Stream* stream, uint64_t number) {
    while (!stream->pending.empty() && stream->pending.front().number <= number) {
        if (stream->busy) {
            report("acl-stream-deadlock", stream->pending.front().site, "waits", {}, "",
                   "work of this stream waits for work that comes after it");
            return ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
        }
        Task task = std::move(stream->pending.front());
        stream->pending.pop_front();
        execute(std::move(task));
    }
    return stream->error;
}

aclError wait_for(Stream* stream, uint64_t number) {
    State& s = state();
    const aclError code = run_until(stream, number);
    uint64_t& known = s.host[stream->id];
    if (known < number) {
        known = number;
        for (Done& done : s.done)
            if (done.stream == stream->id && done.number <= number) merge(s.host, done.after);
        ++s.epoch;
        send(Json("sync").add("stream", stream->id).add("number", number).add("epoch", s.epoch));
    }
    merge(s.host, stream->clock.size() > 1 && number == stream->issued ? stream->clock : Clock{});
    forget_what_is_over();
    stream->error = ACL_SUCCESS;
    return code;
}

aclError wait_for_all() {
    aclError code = ACL_SUCCESS;
    std::vector<Stream*> all;
    for (const auto& [id, stream] : state().stream_by_id) all.push_back(stream);
    for (Stream* stream : all)
        if (const aclError one = wait_for(stream, stream->issued)) code = one;
    return code;
}

void execute_all() {
    std::vector<Stream*> all;
    for (const auto& [id, stream] : state().stream_by_id) all.push_back(stream);
    for (Stream* stream : all)
        if (!stream->busy) run_until(stream, stream->issued);
}

void host_access(const void* at, uint64_t bytes, bool write, bool frees) {
    State& s = state();
    HostAccess access{
        {reinterpret_cast<uint64_t>(at), reinterpret_cast<uint64_t>(at) + bytes, write}, ++s.sequence, here(), call_name(), frees};
    for (Done& done : s.done) {
        if (comes_before(s.host, done.stream, done.number) || !meet(done.touched, access.range)) continue;
        say_not_waited(access, done.site, done.name);
        done.touched.clear();
        return;
    }
    for (const auto& [id, stream] : s.stream_by_id)
        if (!stream->pending.empty()) {
            s.host_accesses.push_back(access);
            return;
        }
}

namespace {

int64_t host_clock_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}
bool host_clock() {
    static const char* which = getenv("TOPROPE_EVENT_CLOCK");
    return which != nullptr && strcmp(which, "host") == 0;
}

aclError create_stream(aclrtStream* out, uint32_t priority, uint32_t flags) {
    if (out == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    State& s = state();
    auto made = std::make_unique<Stream>();
    made->id = ++s.stream_ids;
    made->created = here();
    made->priority = priority;
    made->flags = flags;
    made->handle = *out = reinterpret_cast<void*>(0x10000 + 16 * ++s.handles);
    s.stream_by_id[made->id] = made.get();
    send(Json("stream").add("id", made->id).add("at", made->created));
    s.streams[*out] = std::move(made);
    return ACL_SUCCESS;
}

aclError destroy_stream(aclrtStream handle, bool force) {
    if (handle == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "the default stream cannot be destroyed");
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    State& s = state();
    if (!stream->pending.empty()) {
        const Task& first = stream->pending.front();
        if (force)
            report("acl-stream-in-use", here(), "destroys it", first.site, first.name.c_str(),
                   "a stream is destroyed by force while its work is not done");
        if (!force) wait_for(stream, stream->issued);  // as documented: waits for its work
    }
    send(Json("stream_end").add("id", stream->id));
    s.stream_by_id.erase(stream->id);
    s.streams.erase(handle);
    return ACL_SUCCESS;
}

aclError create_event(aclrtEvent* out, uint32_t flags) {
    if (out == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    *out = reinterpret_cast<void*>(0x10000 + 16 * ++state().handles);
    Event made;
    made.made = here();
    made.flags = flags;
    state().events[*out] = made;
    return ACL_SUCCESS;
}
Event* event_of(aclrtEvent handle) {
    const auto found = state().events.find(handle);
    if (found != state().events.end()) return &found->second;
    report("acl-use-after-free", here(), "uses", {}, "", "an event that does not exist, or is destroyed already");
    return nullptr;
}
Stream* stream_behind(const Event& event) {
    const auto found = state().stream_by_id.find(event.stream);
    return found == state().stream_by_id.end() ? nullptr : found->second;
}

aclError record(Event& event, Stream* stream) {
    const uint64_t mark = ++state().marks;
    event.recorded = true;
    event.mark = mark;
    event.stream = stream->id;
    Task& task = issue(stream, "event", "aclrtRecordEvent", nullptr);
    event.number = task.number;
    event.clock = stream->clock;
    aclrtEvent handle = nullptr;
    for (auto& [at, each] : state().events)
        if (&each == &event) handle = at;
    task.run = [mark, handle](Task& done) {
        const auto found = state().events.find(handle);
        if (found != state().events.end() && found->second.mark == mark) found->second.host_ns = host_clock_ns();
        send(Json("event").add("mark", mark).add("stream", done.stream->id).add("number", done.number).add("epoch", done.epoch));
        return ACL_SUCCESS;
    };
    return ACL_SUCCESS;
}

aclError wait_event(Stream* stream, const Event& event) {
    if (!event.recorded) return ACL_SUCCESS;  // as documented: an event that nobody has recorded is over
    Clock& clock = stream->clock;
    merge(clock, event.clock);
    const uint32_t other = event.stream;
    const uint64_t number = event.number, mark = event.mark;
    issue(stream, "wait", "aclrtStreamWaitEvent", [other, number, mark](Task& task) {
        const auto found = state().stream_by_id.find(other);
        if (found != state().stream_by_id.end() && other != task.stream->id) run_until(found->second, number);
        send(Json("wait").add("mark", mark).add("stream", task.stream->id).add("number", task.number).add("epoch", task.epoch));
        return ACL_SUCCESS;
    });
    return ACL_SUCCESS;
}

struct Callback {
    void (*function)(void*);
    void* data;
    bool* done;
};
std::map<uint64_t, std::deque<Callback>>& callbacks() {
    static auto& all = *new std::map<uint64_t, std::deque<Callback>>;
    return all;
}
std::condition_variable_any& callback_ready() {
    static auto& one = *new std::condition_variable_any;
    return one;
}

}  // namespace

}  // namespace toprope::device

using namespace toprope::device;

extern "C" {
aclError aclrtCreateStream(aclrtStream* stream) {
    TOPROPE_CALL;
    return create_stream(stream, 0, 0);
}
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flags) {
    TOPROPE_CALL;
    return create_stream(stream, priority, flags);
}
aclError aclrtDestroyStream(aclrtStream stream) {
    TOPROPE_CALL;
    return destroy_stream(stream, false);
}
aclError aclrtDestroyStreamForce(aclrtStream stream) {
    TOPROPE_CALL;
    return destroy_stream(stream, true);
}
aclError aclrtSynchronizeStream(aclrtStream handle) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    return stream == nullptr ? ACL_ERROR_RT_PARAM_INVALID : wait_for(stream, stream->issued);
}
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t) {
    TOPROPE_CALL;
    return aclrtSynchronizeStream(stream);
}
aclError aclrtSynchronizeDevice() {
    TOPROPE_CALL;
    return no_device() != ACL_SUCCESS ? ACL_ERROR_RT_CONTEXT_NULL : wait_for_all();
}
aclError aclrtSynchronizeDeviceWithTimeout(int32_t) {
    TOPROPE_CALL;
    return aclrtSynchronizeDevice();
}
// No stream is ever being captured: programs ask before they start work that a capture would not bear.
aclError aclmdlRICaptureGetInfo(aclrtStream, int* status, void** model) {
    TOPROPE_CALL;
    if (status == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "no place for the status");
    *status = 0;  // ACL_MODEL_RI_CAPTURE_STATUS_NONE
    if (model != nullptr) *model = nullptr;
    return ACL_SUCCESS;
}
aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    if (stream == nullptr || status == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *status = ACL_STREAM_STATUS_COMPLETE;
    return wait_for(stream, stream->issued);
}
aclError aclrtStreamAbort(aclrtStream handle) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    stream->pending.clear();
    return ACL_SUCCESS;
}
aclError aclrtStreamGetPriority(aclrtStream handle, uint32_t* priority) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    if (stream == nullptr || priority == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *priority = stream->priority;
    return ACL_SUCCESS;
}
aclError aclrtStreamGetFlags(aclrtStream handle, uint32_t* flags) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    if (stream == nullptr || flags == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *flags = stream->flags;
    return ACL_SUCCESS;
}
aclError aclrtStreamGetId(aclrtStream handle, int32_t* id) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    if (stream == nullptr || id == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *id = static_cast<int32_t>(stream->id);
    return ACL_SUCCESS;
}
aclError aclrtGetStreamAvailableNum(uint32_t* count) {
    TOPROPE_CALL;
    if (count == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *count = 1984 - static_cast<uint32_t>(state().streams.size());
    return ACL_SUCCESS;
}
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t) {
    TOPROPE_CALL;
    return stream_of(stream) == nullptr ? ACL_ERROR_RT_PARAM_INVALID : ACL_SUCCESS;
}
aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr, aclrtStreamAttrValue*) {
    TOPROPE_CALL;
    return stream_of(stream) == nullptr ? ACL_ERROR_RT_PARAM_INVALID : ACL_SUCCESS;
}

aclError aclrtCreateEvent(aclrtEvent* event) {
    TOPROPE_CALL;
    return create_event(event, 0);
}
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flags) {
    TOPROPE_CALL;
    return create_event(event, flags);
}
aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flags) {
    TOPROPE_CALL;
    return create_event(event, flags);
}
aclError aclrtDestroyEvent(aclrtEvent handle) {
    TOPROPE_CALL;
    if (event_of(handle) == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    state().events.erase(handle);
    return ACL_SUCCESS;
}
aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream on) {
    TOPROPE_CALL;
    Event* event = event_of(handle);
    Stream* stream = stream_of(on);
    return event == nullptr || stream == nullptr ? ACL_ERROR_RT_PARAM_INVALID : record(*event, stream);
}
aclError aclrtResetEvent(aclrtEvent handle, aclrtStream) {
    TOPROPE_CALL;
    Event* event = event_of(handle);
    if (event == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    if (Stream* stream = stream_behind(*event); event->recorded && stream != nullptr) run_until(stream, event->number);
    event->recorded = false;
    return ACL_SUCCESS;
}
aclError aclrtStreamWaitEvent(aclrtStream on, aclrtEvent handle) {
    TOPROPE_CALL;
    Event* event = event_of(handle);
    Stream* stream = stream_of(on);
    return event == nullptr || stream == nullptr ? ACL_ERROR_RT_PARAM_INVALID : wait_event(stream, *event);
}
aclError aclrtStreamWaitEventWithTimeout(aclrtStream on, aclrtEvent handle, int32_t) {
    TOPROPE_CALL;
    return aclrtStreamWaitEvent(on, handle);
}
aclError aclrtSynchronizeEvent(aclrtEvent handle) {
    TOPROPE_CALL;
    Event* event = event_of(handle);
    if (event == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    Stream* stream = stream_behind(*event);
    if (!event->recorded || stream == nullptr) return ACL_SUCCESS;
    const aclError code = wait_for(stream, event->number);
    for (const auto& [id, number] : event->clock) {
        uint64_t& known = state().host[id];
        known = std::max(known, number);
    }
    return code;
}
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t) {
    TOPROPE_CALL;
    return aclrtSynchronizeEvent(event);
}
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
    TOPROPE_CALL;
    if (status == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    return aclrtSynchronizeEvent(event);
}
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
    TOPROPE_CALL;
    if (status == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *status = ACL_EVENT_STATUS_COMPLETE;
    return aclrtSynchronizeEvent(event);
}
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
    TOPROPE_CALL;
    if (status == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *status = ACL_EVENT_WAIT_STATUS_COMPLETE;
    return aclrtSynchronizeEvent(event);
}
// Milliseconds of predicted device time between the two; of host time when TOPROPE_EVENT_CLOCK is "host".
aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
    TOPROPE_CALL;
    Event *first = event_of(start), *last = event_of(end);
    if (ms == nullptr || first == nullptr || last == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    if (!first->recorded || !last->recorded) return fail(ACL_ERROR_RT_PARAM_INVALID, "an event that has not been recorded");
    for (const Event* each : {first, last})
        if (Stream* stream = stream_behind(*each)) run_until(stream, each->number);
    if (host_clock()) {
        *ms = static_cast<float>(last->host_ns - first->host_ns) / 1e6F;
        return ACL_SUCCESS;
    }
    const std::string answer = ask(Json("elapsed").add("from", first->mark).add("to", last->mark));
    if (answer.empty()) return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "there is no recorder, so there is no device time");
    *ms = strtof(answer.c_str(), nullptr);
    return ACL_SUCCESS;
}
aclError aclrtEventGetTimestamp(aclrtEvent handle, uint64_t* microseconds) {
    TOPROPE_CALL;
    Event* event = event_of(handle);
    if (event == nullptr || microseconds == nullptr || !event->recorded) return ACL_ERROR_RT_PARAM_INVALID;
    if (Stream* stream = stream_behind(*event)) run_until(stream, event->number);
    *microseconds = strtoull(ask(Json("moment").add("mark", event->mark)).c_str(), nullptr, 10);
    return ACL_SUCCESS;
}

aclError aclrtCreateNotify(aclrtNotify* notify, uint64_t flags) {
    TOPROPE_CALL;
    return create_event(notify, static_cast<uint32_t>(flags));
}
aclError aclrtDestroyNotify(aclrtNotify notify) {
    TOPROPE_CALL;
    return aclrtDestroyEvent(notify);
}
aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
    TOPROPE_CALL;
    return aclrtRecordEvent(notify, stream);
}
aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t) {
    TOPROPE_CALL;
    const aclError code = aclrtStreamWaitEvent(stream, notify);
    if (Event* event = code == ACL_SUCCESS ? event_of(notify) : nullptr) event->recorded = false;
    return code;
}

// Host functions in a stream's order. The older form runs in the thread that has subscribed and calls aclrtProcessReport.
aclError aclrtLaunchHostFunc(aclrtStream handle, aclrtHostFunc function, void* data) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    if (stream == nullptr || function == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    issue(stream, "host function", "aclrtLaunchHostFunc", [=](Task&) {
        function(data);
        return ACL_SUCCESS;
    });
    return ACL_SUCCESS;
}
aclError aclrtSubscribeReport(uint64_t thread, aclrtStream handle) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    if (stream->callback_thread != 0) return fail(ACL_ERROR_REPEAT_SUBSCRIBE, "this stream has a subscriber");
    stream->callback_thread = thread;
    callbacks()[thread];
    return ACL_SUCCESS;
}
aclError aclrtUnSubscribeReport(uint64_t, aclrtStream handle) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    run_until(stream, stream->issued);
    stream->callback_thread = 0;
    return ACL_SUCCESS;
}
aclError aclrtLaunchCallback(aclrtCallback function, void* data, aclrtCallbackBlockType block, aclrtStream handle) {
    TOPROPE_CALL;
    Stream* stream = stream_of(handle);
    if (stream == nullptr || function == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    if (stream->callback_thread == 0)
        return fail(ACL_ERROR_STREAM_NOT_SUBSCRIBE, "no thread has subscribed: aclrtSubscribeReport comes first");
    issue(stream, "host function", "aclrtLaunchCallback", [=](Task& task) {
        const uint64_t thread = task.stream->callback_thread;
        bool done = false;
        callbacks()[thread].push_back({function, data, block == ACL_CALLBACK_BLOCK ? &done : nullptr});
        callback_ready().notify_all();
        if (block == ACL_CALLBACK_BLOCK && static_cast<uint64_t>(pthread_self()) != thread)
            callback_ready().wait_for(state().lock, std::chrono::seconds(60), [&] { return done; });
        return ACL_SUCCESS;
    });
    return ACL_SUCCESS;
}
aclError aclrtProcessReport(int32_t timeout_ms) {
    std::unique_lock<std::recursive_mutex> hold(state().lock);
    auto found = callbacks().find(static_cast<uint64_t>(pthread_self()));
    if (found == callbacks().end()) found = callbacks().find(static_cast<uint64_t>(gettid()));
    if (found == callbacks().end()) return fail(ACL_ERROR_THREAD_NOT_SUBSCRIBE, "this thread has not subscribed");
    auto any = [&] { return !found->second.empty(); };
    if (!any()) callback_ready().wait_for(hold, std::chrono::milliseconds(timeout_ms < 0 ? 3600000 : timeout_ms), any);
    if (!any()) return ACL_ERROR_WAIT_CALLBACK_TIMEOUT;
    const Callback next = found->second.front();
    found->second.pop_front();
    hold.unlock();
    next.function(next.data);
    hold.lock();
    if (next.done != nullptr) *next.done = true;
    callback_ready().notify_all();
    return ACL_SUCCESS;
}
}
