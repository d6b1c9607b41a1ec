// Two-stage operator calls. Stage one describes its arguments to the recorder, which knows the operators; the answer is a kernel to launch
// here, or a plan that the recorder executes itself on the shared device memory.
#include "acl/aclnn.h"

#include <dlfcn.h>
#include <string.h>

#include <sstream>

#include "link.h"
#include "state.h"
#include "tensors.h"

namespace toprope::device {
aclError launch_entries(const std::string& name, void (*const entries[3])(void**), int aic, int aiv, uint32_t blocks, uint64_t tiling_key,
                        const std::string& parameters, const std::vector<const void*>& pointers, Task& task);
}

using namespace toprope::device;

namespace {

struct Item {
    const aclTensor* tensor = nullptr;  // or another value, already written down
    const aclTensor* given = nullptr;   // as the caller holds it: where a shape that hangs on the data is told
    int output = 0;
    std::string json;
    std::unique_ptr<aclTensor> copy;  // executors outlive the tensors that they were made of
};
struct LaunchLine {
    std::string name, shown, aiv, aic, coupled, parameters, arguments, tiling;
    uint32_t blocks = 0;
    uint64_t key = 0;
    int aic_cores = 0, aiv_cores = 1;
};

std::string tensor_json(const aclTensor& t, int output) {
    std::ostringstream out;
    const uint64_t width = aclDataTypeSize(t.type);
    const auto* first = static_cast<const uint8_t*>(t.data) + static_cast<uint64_t>(t.offset) * width;
    out << "{\"k\":\"tensor\",\"out\":" << output << ",\"type\":" << t.type << ",\"format\":" << t.format
        << ",\"pointer\":" << reinterpret_cast<uint64_t>(first)
        << ",\"file\":" << (t.data == nullptr ? -1 : static_cast<int64_t>(file_offset(first))) << ",\"dims\":[";
    for (size_t d = 0; d < t.dims.size(); ++d) out << (d ? "," : "") << t.dims[d];
    out << "],\"strides\":";
    if (t.strides.empty()) {
        out << "null";
    } else {
        out << "[";
        for (size_t d = 0; d < t.strides.size(); ++d) out << (d ? "," : "") << t.strides[d];
        out << "]";
    }
    out << ",\"storage\":[";
    for (size_t d = 0; d < t.storage.size(); ++d) out << (d ? "," : "") << t.storage[d];
    out << "]}";
    return out.str();
}
bool is_dense(const aclTensor& t) {
    int64_t step = 1;
    for (size_t d = t.dims.size(); d-- > 0 && !t.strides.empty();) {
        if (t.dims[d] != 1 && t.strides[d] != step) return false;
        step *= t.dims[d];
    }
    return true;
}
uint64_t elements(const aclTensor& t) {
    uint64_t n = 1;
    for (const int64_t d : t.dims) n *= static_cast<uint64_t>(d);
    return n;
}
uint64_t reach_bytes(const aclTensor& t) {
    if (elements(t) == 0) return 0;
    int64_t last = t.offset;
    if (t.strides.empty())
        last += static_cast<int64_t>(elements(t)) - 1;
    else
        for (size_t d = 0; d < t.dims.size(); ++d) last += (t.dims[d] - 1) * t.strides[d];
    return static_cast<uint64_t>(last + 1) * aclDataTypeSize(t.type);
}
// Copies between a strided tensor and its elements one after the other.
void gather(const aclTensor& t, uint8_t* dense, bool back) {
    const uint64_t width = aclDataTypeSize(t.type), n = elements(t);
    auto* base = writable(t.data) + static_cast<uint64_t>(t.offset) * width;
    std::vector<int64_t> at(t.dims.size(), 0);
    for (uint64_t i = 0; i < n; ++i) {
        int64_t offset = 0;
        for (size_t d = 0; d < at.size(); ++d) offset += at[d] * t.strides[d];
        uint8_t* element = base + offset * static_cast<int64_t>(width);
        if (back)
            memcpy(element, dense + i * width, width);
        else
            memcpy(dense + i * width, element, width);
        for (size_t d = at.size(); d-- > 0;) {
            if (++at[d] < t.dims[d]) break;
            at[d] = 0;
        }
    }
}

}  // namespace

struct aclOpExecutor {
    std::string function;
    std::vector<Item> items;
    uint64_t workspace = 0, id = 0;
    bool repeatable = false, refused = false, in_recorder = false;
    std::vector<int> zeroed;
    std::vector<LaunchLine> launches;
};

namespace {

aclOpExecutor* of(void* plan) { return static_cast<aclOpExecutor*>(plan); }
void add(void* plan, const std::string& json) {
    Item item;
    item.json = json;
    of(plan)->items.push_back(std::move(item));
}
template <typename A>
void add_array(void* plan, const char* kind, const A* array) {
    std::ostringstream out;
    if (array == nullptr) return add(plan, "{\"k\":\"absent\"}");
    out.precision(9);
    out << "{\"k\":\"" << kind << "\",\"v\":[";
    for (size_t i = 0; i < array->values.size(); ++i) {
        const double value = static_cast<double>(array->values[i]);
        if (value != value || value - value != 0)
            out << (i ? "," : "") << (value != value ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
        else
            out << (i ? "," : "") << +array->values[i];
    }
    out << "]}";
    add(plan, out.str());
}
std::string scalar_json(const aclScalar& s) {
    std::string hex;
    char two[3];
    for (size_t i = 0; i < aclDataTypeSize(s.type); ++i) {
        std::snprintf(two, sizeof two, "%02x", s.bytes[i]);
        hex += two;
    }
    return "{\"k\":\"scalar\",\"type\":" + std::to_string(s.type) + ",\"hex\":\"" + hex + "\"}";
}
std::string items_json(const aclOpExecutor& e) {
    std::string out = "[";
    for (size_t i = 0; i < e.items.size(); ++i) {
        const Item& item = e.items[i];
        out += (i ? "," : "") + (item.tensor != nullptr ? tensor_json(*item.tensor, item.output) : item.json);
    }
    return out + "]";
}
std::vector<std::string> fields(const std::string& line) {
    std::vector<std::string> out;
    std::istringstream stream(line);
    std::string field;
    while (std::getline(stream, field, '\t')) out.push_back(field);
    return out;
}
void read_answer(aclOpExecutor& e, const std::string& answer, const std::string& payload) {
    std::istringstream lines(answer);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
        const auto f = fields(line);
        if (f[0] == "Z") e.zeroed.push_back(std::stoi(f[1]));
        if (f[0] != "L") continue;
        LaunchLine launch;
        launch.name = f[1];
        launch.shown = f[2];
        launch.blocks = static_cast<uint32_t>(std::stoul(f[3]));
        launch.key = std::stoull(f[4]);
        launch.aiv = f[5], launch.aic = f[6], launch.coupled = f[7];
        launch.aic_cores = std::stoi(f[8]), launch.aiv_cores = std::stoi(f[9]);
        launch.parameters = f[10], launch.arguments = f[11];
        launch.tiling = payload;
        e.launches.push_back(launch);
    }
}

// Device memory that lives as long as one launch.
class Passing {
public:
    const void* put(const void* data, uint64_t bytes) {
        void* at = nullptr;
        if (aclrtMallocWithCfg(&at, bytes, ACL_MEM_MALLOC_HUGE_FIRST, nullptr) != ACL_SUCCESS) return nullptr;
        if (data != nullptr) memcpy(writable(at), data, bytes);
        made_.push_back(at);
        return at;
    }
    void release() {
        for (void* at : made_) {
            Block* block = block_of(at);
            block->live = false;
            state().live_bytes -= block->bytes;
        }
        made_.clear();
    }

private:
    std::vector<void*> made_;
};

aclError run_launch(const aclOpExecutor& e, const LaunchLine& launch, const void* workspace, Task& task) {
    using Entry = void (*)(void**);
    Entry entries[3] = {};
    const std::string* paths[3] = {&launch.aiv, &launch.aic, &launch.coupled};
    for (int t = 0; t < 3; ++t) {
        if (*paths[t] == "-") continue;
        void* library = dlopen(paths[t]->c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            error_text() = dlerror();
            std::fprintf(stderr, "toprope: %s\n", error_text().c_str());
            return ACL_ERROR_RT_INTERNAL_ERROR;
        }
        entries[t] = reinterpret_cast<Entry>(dlsym(library, ("toprope_call_" + launch.name).c_str()));
    }
    Passing passing;
    std::vector<const void*> pointers;
    std::vector<std::pair<const aclTensor*, const void*>> packed;
    auto data_of = [&](size_t i) -> const void* {
        const Item& item = e.items[i];
        if (item.tensor == nullptr || elements(*item.tensor) == 0) return nullptr;
        const aclTensor& t = *item.tensor;
        if (is_dense(t)) return static_cast<const uint8_t*>(t.data) + static_cast<uint64_t>(t.offset) * aclDataTypeSize(t.type);
        std::vector<uint8_t> dense(elements(t) * aclDataTypeSize(t.type));
        gather(t, dense.data(), false);
        const void* at = passing.put(dense.data(), dense.size());
        if (item.output) packed.emplace_back(&t, at);
        return at;
    };
    std::istringstream words(launch.arguments);
    std::string word;
    while (std::getline(words, word, ',')) {
        if (word[0] == 'p') pointers.push_back(data_of(std::stoul(word.substr(1))));
        if (word[0] == '0') pointers.push_back(nullptr);
        if (word[0] == 'v') pointers.push_back(reinterpret_cast<const void*>(std::stoull(word.substr(1))));  // bits of a number
        if (word[0] == 'r') {  // as it lies, whatever its strides say
            const aclTensor& t = *e.items[std::stoul(word.substr(1))].tensor;
            pointers.push_back(static_cast<const uint8_t*>(t.data) + static_cast<uint64_t>(t.offset) * aclDataTypeSize(t.type));
        }
        if (word[0] == 'w') pointers.push_back(e.workspace != 0 ? workspace : nullptr);
        if (word[0] == 't') pointers.push_back(launch.tiling.empty() ? nullptr : passing.put(launch.tiling.data(), launch.tiling.size()));
        if (word[0] != 'd') continue;
        const size_t dash = word.find('-');
        const size_t first = std::stoul(word.substr(1, dash - 1)), count = std::stoul(word.substr(dash + 1));
        std::vector<uint64_t> row(1, 0), members;
        for (size_t i = first; i < first + count; ++i) {
            const aclTensor& t = *e.items[i].tensor;
            row.push_back(t.dims.size());
            row.insert(row.end(), t.dims.begin(), t.dims.end());
            members.push_back(reinterpret_cast<uint64_t>(data_of(i)));
        }
        row[0] = 8 * row.size();
        row.insert(row.end(), members.begin(), members.end());
        pointers.push_back(passing.put(row.data(), row.size() * 8));
        for (const uint64_t member : members) pointers.push_back(reinterpret_cast<const void*>(member));
    }
    const aclError code = launch_entries(launch.shown, entries, launch.aic_cores, launch.aiv_cores, launch.blocks, launch.key,
                                         launch.parameters, pointers, task);
    for (const auto& [tensor, at] : packed) gather(*tensor, writable(at), true);
    passing.release();
    return code;
}

// Shapes that hang on the data: lines with the number of an argument and its dimensions.
void tell_shapes(const aclOpExecutor& e, const std::string& answer) {
    std::istringstream lines(answer);
    std::string line;
    while (std::getline(lines, line)) {
        const auto f = fields(line);
        if (f.size() < 2 || f[0] != "S") continue;
        const aclTensor* given = e.items[std::stoul(f[1])].given;
        if (given == nullptr || state().things.count(given) == 0) continue;
        std::vector<int64_t> dims;
        std::istringstream numbers(f.size() > 2 ? f[2] : "");
        std::string number;
        while (std::getline(numbers, number, ',')) dims.push_back(std::stoll(number));
        auto* written = const_cast<aclTensor*>(given);
        written->dims = dims;
        written->strides.clear();
    }
}

aclError execute(const std::shared_ptr<aclOpExecutor>& e, const void* workspace, Task& task) {
    for (const int i : e->zeroed) {
        const aclTensor* t = e->items[static_cast<size_t>(i)].tensor;
        if (t != nullptr && elements(*t) != 0)
            memset(writable(t->data) + static_cast<uint64_t>(t->offset) * aclDataTypeSize(t->type), 0,
                   elements(*t) * aclDataTypeSize(t->type));
    }
    if (!e->in_recorder) {
        for (const LaunchLine& launch : e->launches)
            if (const aclError code = run_launch(*e, launch, workspace, task)) return code;
        return ACL_SUCCESS;
    }
    Json message("execute");
    message.add("function", e->function)
        .add("id", e->id)
        .add("stream", task.stream->id)
        .add("number", task.number)
        .add("epoch", task.epoch);
    message.add("at", task.site).raw("args", items_json(*e));
    const std::string answer = ask(message);
    for (const Item& item : e->items) {
        if (item.tensor == nullptr || item.tensor->data == nullptr) continue;
        const auto begin =
            reinterpret_cast<uint64_t>(item.tensor->data) + static_cast<uint64_t>(item.tensor->offset) * aclDataTypeSize(item.tensor->type);
        const auto end = reinterpret_cast<uint64_t>(item.tensor->data) + reach_bytes(*item.tensor);
        if (end > begin && is_dense(*item.tensor)) task.touched.push_back({begin, end, item.output != 0});
    }
    const auto first = fields(answer.substr(0, answer.find('\n')));
    if (first.empty() || first[0] != "0") {  // frameworks tell their users the code alone
        const char* why = first.size() > 1 ? first[1].c_str() : "it was refused";
        std::fprintf(stderr, "toprope: %s: %s\n", e->function.c_str(), why);
        return fail(ACL_ERROR_RT_INTERNAL_ERROR, "%s: %s", e->function.c_str(), why);
    }
    tell_shapes(*e, answer);
    return ACL_SUCCESS;
}

}  // namespace

extern "C" {
void* toprope_plan(const char* function) {
    auto* made = new aclOpExecutor;
    made->function = function;
    return made;
}
void toprope_plan_tensor(void* plan, const aclTensor* t, int output) {
    if (t == nullptr) return add(plan, output ? "{\"k\":\"absent\",\"out\":1}" : "{\"k\":\"absent\"}");
    TOPROPE_CALL;
    const uint64_t bytes = reach_bytes(*t);
    if (bytes != 0 && (t->data == nullptr || !side_is_right(t->data, bytes, true, output ? "output tensor" : "input tensor")))
        of(plan)->refused = true;
    Item item;
    item.copy = std::make_unique<aclTensor>(*t);
    item.tensor = item.copy.get();
    item.given = t;
    item.output = output;
    of(plan)->items.push_back(std::move(item));
}
void toprope_plan_tensors(void* plan, const aclTensorList* list, int output) {
    if (list == nullptr) return add(plan, "{\"k\":\"absent\"}");
    add(plan, "{\"k\":\"list\",\"n\":" + std::to_string(list->items.size()) + ",\"out\":" + std::to_string(output) + "}");
    for (const aclTensor* t : list->items) toprope_plan_tensor(plan, t, output);
}
void toprope_plan_int(void* plan, int64_t v) { add(plan, "{\"k\":\"int\",\"v\":" + std::to_string(v) + "}"); }
void toprope_plan_bool(void* plan, bool v) { add(plan, v ? "{\"k\":\"bool\",\"v\":true}" : "{\"k\":\"bool\",\"v\":false}"); }
void toprope_plan_float(void* plan, double v) {
    char text[64];
    if (v != v || v - v != 0)
        std::snprintf(text, sizeof text, "{\"k\":\"float\",\"v\":%s}", v != v ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
    else
        std::snprintf(text, sizeof text, "{\"k\":\"float\",\"v\":%.17g}", v);
    add(plan, text);
}
void toprope_plan_text(void* plan, const char* v) {
    if (v == nullptr) return add(plan, "{\"k\":\"absent\"}");
    add(plan, "{\"k\":\"text\",\"v\":" + Json::quoted(v) + "}");
}
void toprope_plan_ints(void* plan, const aclIntArray* a) { add_array(plan, "ints", a); }
void toprope_plan_floats(void* plan, const aclFloatArray* a) { add_array(plan, "floats", a); }
void toprope_plan_bools(void* plan, const aclBoolArray* a) { add_array(plan, "bools", a); }
void toprope_plan_scalar(void* plan, const aclScalar* s) { add(plan, s == nullptr ? "{\"k\":\"absent\"}" : scalar_json(*s)); }
void toprope_plan_scalars(void* plan, const aclScalarList* list) {
    if (list == nullptr) return add(plan, "{\"k\":\"absent\"}");
    std::string out = "{\"k\":\"scalars\",\"v\":[";
    for (size_t i = 0; i < list->items.size(); ++i) out += (i ? "," : "") + scalar_json(*list->items[i]);
    add(plan, out + "]}");
}
void toprope_plan_pointer(void* plan, const void* v) {
    add(plan, "{\"k\":\"pointer\",\"v\":" + std::to_string(reinterpret_cast<uint64_t>(v)) + "}");
}

aclnnStatus toprope_plan_end(void* plan, uint64_t* workspace, aclOpExecutor** executor) {
    TOPROPE_CALL;
    std::unique_ptr<aclOpExecutor> made(of(plan));
    if (workspace == nullptr || executor == nullptr)
        return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: no place for the answer", made->function.c_str());
    if (made->refused) return ACLNN_ERR_PARAM_INVALID;
    std::string payload;
    const std::string answer =
        ask(Json("plan").add("function", made->function).add("at", here()).raw("args", items_json(*made)), {}, &payload);
    const auto f = fields(answer.substr(0, answer.find('\n')));
    if (f.size() < 4) return fail(ACLNN_ERR_INNER, "%s: there is no recorder that could answer", made->function.c_str());
    if (f[0] != "0") return fail(std::stoi(f[0]), "%s: %s", made->function.c_str(), f.size() > 4 ? f[4].c_str() : "");
    *workspace = made->workspace = std::stoull(f[1]);
    made->id = std::stoull(f[2]);
    made->in_recorder = f[3] == "recorder";
    read_answer(*made, answer, payload);
    *executor = made.release();
    remember(*executor, "aclOpExecutor (planned, never run)");
    return ACLNN_SUCCESS;
}

aclnnStatus toprope_execute(const char* function, void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream on) {
    TOPROPE_CALL;
    State& s = state();
    const auto found = s.things.find(executor);
    if (executor == nullptr || found == s.things.end()) {
        report("acl-executor-reused", here(), "runs it", {}, "", "%s: this aclOpExecutor has run already, or was never planned", function);
        return ACLNN_ERR_PARAM_INVALID;
    }
    Stream* stream = stream_of(on);
    if (stream == nullptr) return ACLNN_ERR_PARAM_INVALID;
    if (bytes < executor->workspace || (executor->workspace != 0 && workspace == nullptr)) {
        report("acl-workspace-size", here(), "runs it", found->second.made, "plans it", "%s needs %llu bytes of workspace and gets %llu",
               executor->function.c_str(), static_cast<unsigned long long>(executor->workspace),
               static_cast<unsigned long long>(workspace == nullptr ? 0 : bytes));
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (executor->workspace != 0 && !side_is_right(workspace, executor->workspace, true, "workspace")) return ACLNN_ERR_PARAM_INVALID;
    std::shared_ptr<aclOpExecutor> shared;
    if (executor->repeatable) {
        s.things[executor].kind = "repeatable aclOpExecutor";
        shared = std::shared_ptr<aclOpExecutor>(executor, [](aclOpExecutor*) {});
    } else {
        s.things.erase(executor);
        shared = std::shared_ptr<aclOpExecutor>(executor);
    }
    issue(stream, "aclnn", executor->function, [shared, workspace](Task& task) { return execute(shared, workspace, task); });
    return ACLNN_SUCCESS;
}

aclnnStatus aclnnInit(const char*) { return ACLNN_SUCCESS; }
aclnnStatus aclnnFinalize() { return ACLNN_SUCCESS; }
aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
    TOPROPE_CALL;
    if (executor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
    executor->repeatable = true;
    return ACLNN_SUCCESS;
}
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
    TOPROPE_CALL;
    if (executor == nullptr || state().things.erase(executor) == 0) {
        report("acl-bad-free", here(), "destroys", {}, "", "this aclOpExecutor does not exist, or is gone already");
        return ACLNN_ERR_PARAM_INVALID;
    }
    execute_all();
    delete executor;
    return ACLNN_SUCCESS;
}
aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
    TOPROPE_CALL;
    if (executor == nullptr || index >= executor->items.size() || !executor->items[index].copy) return ACLNN_ERR_PARAM_INVALID;
    execute_all();
    executor->items[index].copy->data = address;
    if (tensor != nullptr) tensor->data = address;
    return ACLNN_SUCCESS;
}
aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
    return aclSetTensorAddr(executor, index, tensor, address);
}
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address) {
    size_t at = 0, seen = 0;
    for (; executor != nullptr && at < executor->items.size(); ++at)
        if (executor->items[at].output && seen++ == index) return aclSetTensorAddr(executor, at, tensor, address);
    return ACLNN_ERR_PARAM_INVALID;
}
}
