// What the device has been asked to do so far: blocks of memory, streams with the work that has not been executed yet, events, and the
// mistakes seen. Work on a stream is executed when somebody waits for it, so that a program that does not wait sees that it did not.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "acl/acl.h"

namespace toprope::device {

// Where a call stands: the source line that the headers note, else the address that it returns to.
struct Site {
    const char* file = "";
    int line = 0;
    const void* pc = nullptr;
};

using Clock = std::map<uint32_t, uint64_t>;  // of each stream: the number of the last work that is known to be done

struct Range {
    uint64_t begin = 0, end = 0;
    bool write = false;
};

struct Stream;
struct Task {
    Stream* stream = nullptr;
    uint64_t number = 0;    // on its stream, from 1
    uint64_t sequence = 0;  // among all that the program did
    uint64_t epoch = 0;     // how often the host had waited when it was issued
    const char* kind = "";
    std::string name;
    Site site;
    Clock after;                 // work that comes before it
    std::vector<Range> touched;  // filled in by `run`
    std::function<aclError(Task&)> run;
};

struct Stream {
    uint32_t id = 0;
    aclrtStream handle = nullptr;
    Site created;
    uint64_t issued = 0, executed = 0;
    std::deque<Task> pending;
    Clock clock;  // what its next work comes after
    aclError error = ACL_SUCCESS;
    bool busy = false;  // its work is being executed further up the call chain
    uint32_t priority = 0, flags = 0;
    uint64_t callback_thread = 0;
};

enum class Kind : uint8_t { device, host, registered };
struct Block {
    uint8_t* at = nullptr;
    uint64_t bytes = 0;
    Kind kind = Kind::device;
    bool live = true;
    bool open = false;  // host code has touched it: reported once, then let go on
    Site made, freed;
    uint64_t freed_sequence = 0;
    uint64_t file_offset = 0;  // in the memory file that the recorder maps too
};

struct Event {
    Site made;
    uint32_t flags = 0;
    bool recorded = false;
    uint32_t stream = 0;
    uint64_t number = 0;
    uint64_t mark = 0;  // what the recorder knows it by
    Clock clock;
    int64_t host_ns = 0;
};

struct HostAccess {  // what the host did to memory while work was pending
    Range range;
    uint64_t sequence = 0;
    Site site;
    const char* call = "";
    bool frees = false;
};
struct Done {  // executed work that the host has not waited for
    uint32_t stream = 0;
    uint64_t number = 0;
    Clock after;
    Site site;
    std::string name;
    std::vector<Range> touched;
};
struct Thing {
    const char* kind;
    Site made;
};

struct Chip {
    std::string name = "ascend910b1", shown = "Ascend910B1";
    uint32_t npu_arch = 2201;
    bool split = true;
    int64_t aic = 0, aiv = 0;
    uint64_t memory_bytes = 0, l2_bytes = 0;
    uint32_t space_bytes[3][8] = {};
    uint64_t host[16] = {};  // the numbers of host/state.h, in its order
};

struct State {
    std::recursive_mutex lock;
    std::map<uint64_t, Block> blocks;
    std::map<aclrtStream, std::unique_ptr<Stream>> streams;
    std::map<uint32_t, Stream*> stream_by_id;
    std::map<aclrtEvent, Event> events;
    std::map<const void*, Thing> things;
    std::vector<HostAccess> host_accesses;
    std::deque<Done> done;
    Clock host;  // what the host has waited for
    uint64_t sequence = 0, epoch = 0, marks = 0, handles = 0;
    uint32_t stream_ids = 0;
    int device = -1, devices = 1;
    std::map<int, int> device_uses;
    bool initialised = false, ended = false, device_was_used = false;
    uint64_t live_bytes = 0, peak_bytes = 0, host_bytes = 0;
    Chip chip;
    bool chip_known = false;
};
State& state();
const Chip& chip();
void prefer_arch(uint32_t npu_arch);  // the chip that kernels were built for, unless the user has named one

// Every ACL function begins with one of these: takes the lock and says where the call stands.
struct Call {
    explicit Call(const char* name, const void* pc);
    ~Call();
    Call(const Call&) = delete;
};
#define TOPROPE_CALL ::toprope::device::Call call_guard(__func__, __builtin_return_address(0))
const Site& here();
const char* call_name();
std::string& error_text();
aclError fail(aclError code, const char* format, ...) __attribute__((format(printf, 2, 3)));

void report(const char* code, const Site& where, const char* action, const Site& other, const char* other_action, const char* format, ...)
    __attribute__((format(printf, 6, 7)));

// ---- memory ---------------------------------------------------------------------------------------------------------------
bool on_device(const void* address);
Block* block_of(const void* address);    // the block that an address lies in, freed device blocks included
uint8_t* writable(const void* address);  // the same byte where the library may always touch it
bool side_is_right(const void* address, uint64_t bytes, bool wants_device, const char* role);
struct DeviceOpen {  // kernels work on device memory through the program's own addresses
    DeviceOpen();
    ~DeviceOpen();
    DeviceOpen(const DeviceOpen&) = delete;
};
uint64_t file_offset(const void* address);
int memory_file();
aclError no_device();
uint8_t* device_block(uint64_t bytes, const char* what);
void report_leaks();

// ---- streams --------------------------------------------------------------------------------------------------------------
Stream* stream_of(aclrtStream handle);  // nullptr after a report
Task& issue(Stream* stream, const char* kind, std::string name, std::function<aclError(Task&)> run);
aclError run_until(Stream* stream, uint64_t number);
aclError wait_for(Stream* stream, uint64_t number);
aclError wait_for_all();
void execute_all();  // what is pending, without the host having waited for it
void host_access(const void* at, uint64_t bytes, bool write, bool frees = false);
void* new_handle(const char* kind);
bool known(const void* at, const char* kind);
bool forget(const void* at, const char* kind);
inline void remember(const void* at, const char* kind) { state().things[at] = {kind, here()}; }

}  // namespace toprope::device
