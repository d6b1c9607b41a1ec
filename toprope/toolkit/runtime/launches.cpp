// Kernels: who has registered them, and a launch of one, from its arguments to the trace that goes to the recorder.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "machine/launch.h"
#include "link.h"
#include "state.h"

namespace toprope::device {

namespace {

using Entry = void (*)(void**);
struct KernelRow {
    Entry entries[3] = {};  // by CoreType: aiv, aic, coupled
};
struct TaskRow {
    int aic = 0, aiv = 1;
    uint32_t npu_arch = 0;
    std::vector<std::string> parameters;
    std::vector<uint32_t> bytes;
    const void* module = nullptr;
};
using Key = std::pair<std::string, std::string>;
std::map<Key, KernelRow>& kernels() {
    static auto& all = *new std::map<Key, KernelRow>;
    return all;
}
std::map<Key, TaskRow>& tasks() {
    static auto& all = *new std::map<Key, TaskRow>;
    return all;
}

// Template arguments and namespaces as the compiler writes them: "... [kernel = ns::add<float>]" -> "ns::add<float>".
std::string shown_name(const std::string& given) {
    const size_t at = given.find("kernel = ");
    if (at == std::string::npos) return given;
    std::string name = given.substr(at + 9);
    if (!name.empty() && name[0] == '&') name.erase(0, 1);
    while (!name.empty() && (name.back() == ']' || name.back() == ';')) name.pop_back();
    return name;
}
std::string simple_name(const std::string& shown) {
    std::string name = shown.substr(0, shown.find('<'));
    if (const size_t colon = name.rfind("::"); colon != std::string::npos) name.erase(0, colon + 2);
    if (const size_t bracket = name.find('('); bracket != std::string::npos) name.erase(bracket);
    while (!name.empty() && name.back() == ' ') name.pop_back();
    if (const size_t space = name.rfind(' '); space != std::string::npos) name.erase(0, space + 1);
    return name;
}
template <typename Rows>
auto find_in(Rows& rows, const std::string& unit, const std::string& name) -> decltype(&rows.begin()->second) {
    const auto exact = rows.find({unit, name});
    if (exact != rows.end()) return &exact->second;
    for (auto& [key, row] : rows)
        if (key.second == name) return &row;
    return nullptr;
}

struct Request {
    std::string unit, name, shown;
    KernelRow kernel;
    TaskRow task;
    uint32_t blocks = 0;
    std::vector<std::vector<uint64_t>> values;  // 8-byte units, so that they are aligned
    std::vector<uint64_t> bytes;
    uint64_t tiling_key = 0;
};

// The ranges of GM that a launch read and wrote, as addresses of this process.
std::vector<Range> touched_ranges(const std::vector<toprope::GmBuffer>& gm) {
    std::vector<Range> out;
    auto add = [&](uint64_t begin, uint64_t bytes, bool write) {
        auto next = std::upper_bound(gm.begin(), gm.end(), begin, [](uint64_t at, const toprope::GmBuffer& b) { return at < b.device; });
        if (next == gm.begin()) return;
        --next;
        if (begin >= next->device + next->bytes) return;
        const uint64_t at = reinterpret_cast<uint64_t>(next->host) + (begin - next->device);
        if (!out.empty() && out.back().write == write && out.back().end >= at && out.back().begin <= at) {
            out.back().end = std::max(out.back().end, at + bytes);
            return;
        }
        out.push_back({at, at + bytes, write});
    };
    for (uint32_t core = 0; core < toprope_core_count(); ++core) {
        const void *instrs, *rows;
        uint64_t instr_count, count;
        toprope_core(core, &instrs, &instr_count, &rows, &count);
        const auto* accesses = static_cast<const toprope::Access*>(rows);
        for (uint64_t i = 0; i < count; ++i) {
            const toprope::Access& a = accesses[i];
            if (((a.high >> 16) & 15) != 0) continue;
            const uint64_t address = a.low & 0xffffffffffull, row_bytes = a.low >> 40, pieces = a.high & 0xffff;
            const int64_t stride = static_cast<int64_t>(a.high) >> 24;
            const bool write = ((a.high >> 20) & 2) != 0;
            const bool outer = i > 0 && ((accesses[i - 1].high >> 22) & 1) != 0;
            if (outer) continue;  // an outer loop of the row before: said with its hull below
            const bool more = ((a.high >> 22) & 1) != 0;
            if (pieces <= 1 && !more) {
                add(address, row_bytes, write);
                continue;
            }
            if (!more && pieces <= 64) {
                for (uint64_t p = 0; p < pieces; ++p)
                    add(address + static_cast<uint64_t>(static_cast<int64_t>(p) * stride), row_bytes, write);
                continue;
            }
            int64_t low = 0, high = static_cast<int64_t>(row_bytes);
            for (uint64_t k = i;; ++k) {
                const auto n = static_cast<int64_t>(accesses[k].high & 0xffff);
                const int64_t step = (static_cast<int64_t>(accesses[k].high) >> 24) * (n - 1);
                (step < 0 ? low : high) += step;
                if (((accesses[k].high >> 22) & 1) == 0) break;
            }
            add(address + static_cast<uint64_t>(low), static_cast<uint64_t>(high - low), write);
        }
    }
    std::sort(out.begin(), out.end(),
              [](const Range& a, const Range& b) { return a.write != b.write ? a.write < b.write : a.begin < b.begin; });
    std::vector<Range> merged;
    for (const Range& each : out)
        if (!merged.empty() && merged.back().write == each.write && merged.back().end >= each.begin)
            merged.back().end = std::max(merged.back().end, each.end);
        else
            merged.push_back(each);
    return merged;
}

constexpr uint64_t kGmBase = 0x10000000, kGmAlign = 512, kSystemWorkspace = 16ull << 20;

std::vector<toprope::GmBuffer> gm_of(const Request& request, bool mixed, uint8_t* workspace, std::string& names) {
    std::map<uint64_t, std::string> called;
    for (size_t i = 0; i < request.values.size(); ++i) {
        if (request.bytes[i] != sizeof(void*)) continue;
        const Block* block = block_of(reinterpret_cast<void*>(request.values[i][0]));
        if (block != nullptr)
            called.emplace(reinterpret_cast<uint64_t>(block->at),
                           i < request.task.parameters.size() ? request.task.parameters[i] : "argument " + std::to_string(i));
    }
    std::vector<toprope::GmBuffer> gm;
    uint64_t address = kGmBase;
    names = "[";
    auto place = [&](uint8_t* at, uint64_t bytes, const std::string& name) {
        toprope::GmBuffer row{at, bytes, address, {}};
        std::snprintf(row.name, sizeof row.name, "%s", name.c_str());
        names += (gm.empty() ? "" : ",") + std::string("[") + Json::quoted(name) + "," + std::to_string(address) + "," +
                 std::to_string(bytes) + "]";
        gm.push_back(row);
        address += (bytes + kGmAlign - 1) / kGmAlign * kGmAlign + kGmAlign;
    };
    for (auto& [at, block] : state().blocks) {
        if (!block.live || (block.kind == Kind::host && !block.open)) continue;
        const auto found = called.find(at);
        const char* slash = strrchr(block.made.file, '/');
        place(block.at, block.bytes,
              found != called.end()
                  ? found->second
                  : std::string("block of ") + (slash != nullptr ? slash + 1 : block.made.file) + ":" + std::to_string(block.made.line));
    }
    if (mixed) place(workspace, kSystemWorkspace, "system workspace");
    names += "]";
    return gm;
}

double time_limit_s() {
    static const char* text = getenv("TOPROPE_TIME_LIMIT");
    const double seconds = text == nullptr ? 0 : atof(text);
    return seconds > 0 ? seconds : 60;
}

void send_trace(const Request& request, const Task& task, const std::vector<toprope::GmBuffer>&, const std::string& gm,
                const TopropeLaunch& launch, int signal) {
    std::string counts = "[", ops = "[", sites = "[", cores = "[";
    std::vector<Piece> instrs, accesses;
    for (uint32_t core = 0; core < toprope_core_count(); ++core) {
        const void *ip, *ap;
        uint64_t ni, na;
        toprope_core(core, &ip, &ni, &ap, &na);
        counts += (core ? ",[" : "[") + std::to_string(ni) + "," + std::to_string(na) + "]";
        cores += (core ? ",[" : "[") + std::to_string(launch.cores[core].block) + "," + std::to_string(launch.cores[core].sub) + "," +
                 std::to_string(launch.cores[core].type) + "]";
        instrs.push_back({ip, ni * sizeof(toprope::Instr)});
        accesses.push_back({ap, na * sizeof(toprope::Access)});
    }
    for (uint64_t i = 0; i < toprope_op_count(); ++i) {
        const char *name, *cost;
        uint8_t pipe, kind;
        toprope_op(i, &name, &pipe, &kind, &cost);
        ops += (i ? ",[" : "[") + Json::quoted(name) + "," + std::to_string(pipe) + "," + std::to_string(kind) + "," + Json::quoted(cost) +
               "]";
    }
    for (uint64_t i = 0; i < toprope_site_count(); ++i) {
        const char* file;
        uint32_t line;
        toprope_site(i, &file, &line);
        sites += (i ? ",[" : "[") + Json::quoted(file) + "," + std::to_string(line) + "]";
    }
    Json message("launch");
    message.add("kernel", request.shown).add("blocks", request.blocks).add("at", task.site).add("stream", task.stream->id);
    message.add("number", task.number).add("epoch", task.epoch).add("ratio", launch.ratio).add("mixed", launch.mixed).add("signal", signal);
    message.add("reports", toprope_report_count()).add("buffers", toprope_buffer_count());
    message.raw("gm", gm).raw("counts", counts + "]").raw("ops", ops + "]").raw("sites", sites + "]").raw("cores", cores + "]");
    std::vector<Piece> payload = instrs;
    payload.insert(payload.end(), accesses.begin(), accesses.end());
    payload.push_back({toprope_reports(), toprope_report_count() * sizeof(toprope::Report)});
    payload.push_back({toprope_buffers(), toprope_buffer_count() * sizeof(toprope::Buffer)});
    send(message, payload);
}

aclError refuse(const Site& site, const char* cure, const std::string& why) {
    send(Json("refused").add("message", why).add("cure", cure).add("at", site));
    error_text() = why;
    return ACL_ERROR_RT_INTERNAL_ERROR;
}

aclError execute_kernel(const std::shared_ptr<Request>& request, Task& task) {
    const Chip& c = chip();
    const int aic = c.split ? request->task.aic : 0, aiv = c.split ? request->task.aiv : 1;
    const bool mixed = c.split && aic != 0 && aiv != 0;
    TopropeLaunch launch{};
    for (int t = 0; t < 3; ++t) launch.entries[t] = request->kernel.entries[t];
    if (!c.split && launch.entries[2] == nullptr)
        return refuse(task.site, "compile it for this chip, or set TOPROPE_SOC to a chip that it was compiled for",
                      request->shown + " was compiled for dav-" + std::to_string(request->task.npu_arch) + ", and the device is " + c.name);
    if (c.split && ((aiv != 0 && launch.entries[0] == nullptr) || (aic != 0 && launch.entries[1] == nullptr)))
        return refuse(task.site, "compile it for this chip, or set TOPROPE_SOC to a chip that it was compiled for",
                      request->shown + " has no code for the " + (aiv != 0 && launch.entries[0] == nullptr ? "vector" : "cube") +
                          " cores of " + c.name);
    std::vector<TopropeCoreSpec> cores;
    for (uint32_t b = 0; b < request->blocks; ++b) {
        if (!c.split) cores.push_back({static_cast<uint16_t>(b), 0, 2});
        for (int s = 0; c.split && s < aic; ++s) cores.push_back({static_cast<uint16_t>(b), static_cast<uint8_t>(s), 1});
        for (int s = 0; c.split && s < aiv; ++s) cores.push_back({static_cast<uint16_t>(b), static_cast<uint8_t>(s), 0});
    }
    std::vector<void*> arguments;
    for (auto& value : request->values) arguments.push_back(value.data());
    arguments.push_back(nullptr);
    uint8_t* workspace = mixed ? static_cast<uint8_t*>(calloc(1, kSystemWorkspace)) : nullptr;
    std::string names;
    std::vector<toprope::GmBuffer> gm = gm_of(*request, mixed, workspace, names);
    launch.arguments = arguments.data();
    launch.cores = cores.data();
    launch.core_count = static_cast<uint32_t>(cores.size());
    launch.blocks = request->blocks;
    launch.ratio = static_cast<uint32_t>(c.split ? std::max(1, aiv) : 1);
    launch.mixed = mixed;
    launch.execute = launch.check_contracts = 1;
    memcpy(launch.space_bytes, c.space_bytes, sizeof launch.space_bytes);
    launch.tiling_key = request->tiling_key;
    launch.time_limit_s = time_limit_s();
    launch.trace_limit_bytes = 1ull << 32;  // as toprope/runtime.py says for kernels alone
    launch.cut_instrs = 200000;
    launch.gm_count = static_cast<uint32_t>(gm.size());
    launch.gm = gm.data();
    launch.system_workspace = workspace;
    launch.system_workspace_bytes = mixed ? kSystemWorkspace : 0;
    int signal;
    {
        DeviceOpen open;
        signal = toprope_run(&launch);
    }
    task.touched = touched_ranges(gm);
    send_trace(*request, task, gm, names, launch, signal);
    toprope_release();
    free(workspace);
    return signal == 0 ? ACL_SUCCESS : aiv != 0 ? ACL_ERROR_RT_VECTOR_CORE_EXCEPTION : ACL_ERROR_RT_AICORE_EXCEPTION;
}

// The checks that can be made when the launch is issued.
aclError launch(std::shared_ptr<Request> request, Stream* stream) {
    if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    if (no_device() != ACL_SUCCESS) {
        report("acl-no-device", here(), "launches", {}, "", "%s is launched before aclrtSetDevice", request->shown.c_str());
        return ACL_ERROR_RT_CONTEXT_NULL;
    }
    if (request->blocks < 1) return refuse(here(), "give at least one block", "a launch of 0 blocks");
    if (!request->task.bytes.empty() && request->task.bytes.size() != request->values.size())
        return refuse(here(), "give every argument of its signature",
                      request->shown + " takes " + std::to_string(request->task.bytes.size()) + " arguments, " +
                          std::to_string(request->values.size()) + " were given");
    for (size_t i = 0; i < request->values.size(); ++i) {
        const auto* pointer = reinterpret_cast<void*>(request->values[i][0]);
        const Block* block = request->bytes[i] == sizeof pointer && pointer != nullptr ? block_of(pointer) : nullptr;
        if (block == nullptr) continue;
        if (block->kind == Kind::device && !block->live) {
            report("acl-use-after-free", here(), "launches", block->freed, "freed here", "a kernel gets a freed block");
            return ACL_ERROR_RT_PARAM_INVALID;
        }
        if (block->kind == Kind::host && !block->open)
            report("acl-host-pointer", here(), "launches", block->made, "allocated here",
                   "a kernel gets the address of host memory, which the device cannot reach");
    }
    issue(stream, "kernel", request->shown, [request](Task& task) { return execute_kernel(request, task); });
    return ACL_SUCCESS;
}

void take_values(Request& request, void** values, const uint64_t* bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        std::vector<uint64_t> copy((bytes[i] + 7) / 8 + 1, 0);
        memcpy(copy.data(), values[i], bytes[i]);
        request.values.push_back(std::move(copy));
        request.bytes.push_back(bytes[i]);
    }
}

std::vector<std::string> split(const char* text) {
    std::vector<std::string> out;
    for (const char* at = text; at != nullptr && *at != 0;) {
        const char* end = strchr(at, ',');
        out.emplace_back(at, end == nullptr ? strlen(at) : static_cast<size_t>(end - at));
        at = end == nullptr ? nullptr : end + 1;
    }
    return out;
}

struct Function {
    std::string unit, name;
};
struct Arguments {
    std::vector<std::vector<uint64_t>> values;
    std::vector<uint64_t> bytes;
    bool done = false;
};

}  // namespace

// One launch now, as part of other work.
aclError launch_entries(const std::string& name, void (*const entries[3])(void**), int aic, int aiv, uint32_t blocks, uint64_t tiling_key,
                        const std::string& parameters, const std::vector<const void*>& pointers, Task& task) {
    auto request = std::make_shared<Request>();
    request->name = request->shown = name;
    request->blocks = blocks;
    request->tiling_key = tiling_key;
    for (int t = 0; t < 3; ++t) request->kernel.entries[t] = entries[t];
    request->task.aic = aic, request->task.aiv = aiv, request->task.npu_arch = chip().npu_arch;
    request->task.parameters = split(parameters.c_str());
    for (const void* pointer : pointers) {
        request->values.push_back({reinterpret_cast<uint64_t>(pointer), 0});
        request->bytes.push_back(sizeof pointer);
    }
    std::vector<Range> before = std::move(task.touched);
    const aclError code = execute_kernel(request, task);
    task.touched.insert(task.touched.end(), before.begin(), before.end());
    return code;
}

}  // namespace toprope::device

using namespace toprope::device;

extern "C" {
void toprope_register_kernel(const char* unit, const char* name, int core_type, void (*entry)(void**)) {
    std::lock_guard<std::recursive_mutex> hold(state().lock);
    kernels()[{unit, name}].entries[core_type] = entry;
}
void toprope_register_task(const char* unit, const char* name, int aic, int aiv, uint32_t npu_arch, const char* parameters) {
    std::lock_guard<std::recursive_mutex> hold(state().lock);
    TaskRow& row = tasks()[{unit, name}];
    row.aic = aic, row.aiv = aiv, row.npu_arch = npu_arch;
    row.parameters = split(parameters);
    row.module = __builtin_return_address(0);
    prefer_arch(npu_arch);
}
int toprope_launch_kernel(const char* unit, const char* name, void (*entry)(void**), uint32_t blocks, void* on, void** values,
                          const uint64_t* bytes, uint32_t count) {
    TOPROPE_CALL;
    Stream* stream = stream_of(on);
    auto request = std::make_shared<Request>();
    request->unit = unit;
    request->name = name;
    request->shown = shown_name(name);
    request->blocks = blocks;
    const std::string simple = simple_name(request->shown);
    if (const TaskRow* row = find_in(tasks(), unit, simple)) request->task = *row;
    if (const KernelRow* row = find_in(kernels(), unit, name)) request->kernel = *row;
    if (entry != nullptr) request->kernel.entries[chip().split ? 0 : 2] = entry;
    if (entry == nullptr && request->kernel.entries[0] == nullptr && request->kernel.entries[1] == nullptr &&
        request->kernel.entries[2] == nullptr)
        return refuse(here(), "link the object or library that it was compiled into",
                      std::string("no kernel called ") + name + " is in this program");
    take_values(*request, values, bytes, count);
    return launch(request, stream);
}

// Kernels in a file of their own.
aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions*, aclrtBinHandle* handle) {
    TOPROPE_CALL;
    if (path == nullptr || handle == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*handle == nullptr) return fail(ACL_ERROR_RT_INVALID_HANDLE, "%s", dlerror());
    remember(*handle, "kernel binary");
    return ACL_SUCCESS;
}
aclError aclrtBinaryLoadFromData(const void* data, size_t bytes, const aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    TOPROPE_CALL;
    if (data == nullptr || bytes == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "no data");
    const int file = memfd_create("kernel", MFD_CLOEXEC);
    if (file < 0 || write(file, data, bytes) != static_cast<ssize_t>(bytes))
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s", strerror(errno));
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return aclrtBinaryLoadFromFile(path, const_cast<aclrtBinaryLoadOptions*>(options),
                                   handle);  // the file stays open: its name has to differ
}
aclError aclrtBinaryUnLoad(aclrtBinHandle handle) {
    TOPROPE_CALL;
    execute_all();
    return forget(handle, "kernel binary") ? ACL_SUCCESS : ACL_ERROR_RT_PARAM_INVALID;  // what runs has to stay
}
aclError aclrtBinaryGetFunction(const aclrtBinHandle handle, const char* name, aclrtFuncHandle* function) {
    TOPROPE_CALL;
    if (name == nullptr || function == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    const auto* unit = static_cast<const char*>(dlsym(handle, "toprope_unit"));
    for (const auto& [key, row] : tasks()) {
        if (key.second != name) continue;
        Dl_info of{}, mine{};
        const void* probe = dlsym(handle, "toprope_module");
        if (unit == nullptr && probe != nullptr && dladdr(probe, &of) != 0 && dladdr(row.module, &mine) != 0 &&
            of.dli_fbase != mine.dli_fbase)
            continue;
        *function = new Function{key.first, key.second};
        return ACL_SUCCESS;
    }
    return fail(ACL_ERROR_RT_PARAM_INVALID, "no kernel %s was loaded", name);
}
aclError aclrtGetFunctionName(aclrtFuncHandle handle, uint32_t room, char* name) {
    TOPROPE_CALL;
    if (handle == nullptr || name == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    std::snprintf(name, room, "%s", static_cast<Function*>(handle)->name.c_str());
    return ACL_SUCCESS;
}
aclError aclrtKernelArgsInit(aclrtFuncHandle, aclrtArgsHandle* arguments) {
    TOPROPE_CALL;
    if (arguments == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *arguments = new Arguments;
    return ACL_SUCCESS;
}
aclError aclrtKernelArgsAppend(aclrtArgsHandle handle, void* value, size_t bytes, aclrtParamHandle* parameter) {
    TOPROPE_CALL;
    auto* arguments = static_cast<Arguments*>(handle);
    if (arguments == nullptr || value == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    std::vector<uint64_t> copy((bytes + 7) / 8 + 1, 0);
    memcpy(copy.data(), value, bytes);
    arguments->values.push_back(std::move(copy));
    arguments->bytes.push_back(bytes);
    if (parameter != nullptr) *parameter = reinterpret_cast<void*>(arguments->values.size());
    return ACL_SUCCESS;
}
aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle handle, aclrtParamHandle parameter, void* value, size_t bytes) {
    TOPROPE_CALL;
    auto* arguments = static_cast<Arguments*>(handle);
    const auto index = reinterpret_cast<uint64_t>(parameter);
    if (arguments == nullptr || index < 1 || index > arguments->values.size() || bytes != arguments->bytes[index - 1])
        return ACL_ERROR_RT_PARAM_INVALID;
    memcpy(arguments->values[index - 1].data(), value, bytes);
    return ACL_SUCCESS;
}
aclError aclrtKernelArgsFinalize(aclrtArgsHandle handle) {
    TOPROPE_CALL;
    if (handle == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    static_cast<Arguments*>(handle)->done = true;
    return ACL_SUCCESS;
}
aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle handle, uint32_t blocks, aclrtStream on, aclrtLaunchKernelCfg*, aclrtArgsHandle given,
                                     void*) {
    TOPROPE_CALL;
    const auto* function = static_cast<Function*>(handle);
    const auto* arguments = static_cast<Arguments*>(given);
    if (function == nullptr || arguments == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null handle");
    if (!arguments->done) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtKernelArgsFinalize comes first");
    auto request = std::make_shared<Request>();
    request->unit = function->unit;
    request->name = request->shown = function->name;
    request->blocks = blocks;
    if (const TaskRow* row = find_in(tasks(), function->unit, function->name)) request->task = *row;
    if (const KernelRow* row = find_in(kernels(), function->unit, function->name)) request->kernel = *row;
    request->values = arguments->values;
    request->bytes = arguments->bytes;
    return launch(request, stream_of(on));
}
// `values` is what the kernel's arguments look like one after the other, each 8 bytes.
aclError aclrtLaunchKernel(aclrtFuncHandle handle, uint32_t blocks, const void* values, size_t bytes, aclrtStream on) {
    TOPROPE_CALL;
    const auto* function = static_cast<Function*>(handle);
    if (function == nullptr || (values == nullptr && bytes != 0)) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    auto request = std::make_shared<Request>();
    request->unit = function->unit;
    request->name = request->shown = function->name;
    request->blocks = blocks;
    if (const TaskRow* row = find_in(tasks(), function->unit, function->name)) request->task = *row;
    if (const KernelRow* row = find_in(kernels(), function->unit, function->name)) request->kernel = *row;
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        std::vector<uint64_t> value(2, 0);
        memcpy(value.data(), static_cast<const char*>(values) + at, 8);
        request->values.push_back(std::move(value));
        request->bytes.push_back(8);
    }
    return launch(request, stream_of(on));
}
// `values` holds the address of each argument; how many there are, the kernel's own signature says.
aclError aclrtLaunchKernelWithArgsArray(void* handle, uint32_t blocks, aclrtStream on, aclrtLaunchKernelCfg*, void** values) {
    TOPROPE_CALL;
    const auto* function = static_cast<Function*>(handle);
    if (function == nullptr || values == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    const TaskRow* row = find_in(tasks(), function->unit, function->name);
    std::vector<uint64_t> packed(row == nullptr ? 0 : row->parameters.size());
    for (size_t i = 0; i < packed.size(); ++i) memcpy(&packed[i], values[i], sizeof packed[i]);
    return aclrtLaunchKernel(handle, blocks, packed.data(), packed.size() * sizeof(uint64_t), on);
}
aclError aclrtLaunchKernelV2(aclrtFuncHandle handle, uint32_t blocks, const void* values, size_t bytes, aclrtLaunchKernelCfg*,
                             aclrtStream on) {
    TOPROPE_CALL;
    return aclrtLaunchKernel(handle, blocks, values, bytes, on);
}
}
