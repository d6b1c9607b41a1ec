// How the caller outside (toprope/project/host.py) asks an operator project's host code: what it defines, and what its functions answer to
// one description of inputs and attributes. Answers are JSON; the log is read apart.
#pragma once

#include <cstdlib>
#include <cxxabi.h>

#include "crash_guard.h"
#include "json_text.h"
#include "register/op_def_registry.h"

namespace toprope {
namespace host {

struct Call {
    gert::Node node;
    std::string type, answer;
    std::shared_ptr<void> compile_info;
    std::unique_ptr<gert::TilingAnswer> tiling;
};

// What is known of an operator: from OP_ADD, from IMPL_OP..., or both.
struct Functions {
    std::shared_ptr<ops::OpDef> definition;
    gert::OperatorFunctions registered;
};
inline Functions functions_of(const std::string& type) {
    Functions out;
    for (const auto& [name, make] : ops::definitions())
        if (name == type) out.definition = make();
    const auto found = gert::functions().find(type);
    if (found != gert::functions().end()) out.registered = found->second;
    if (out.definition != nullptr) {
        if (!out.registered.tiling) out.registered.tiling = out.definition->core.tiling;
        if (!out.registered.infer_shape) out.registered.infer_shape = out.definition->infer_shape;
        if (!out.registered.infer_type) out.registered.infer_type = out.definition->infer_type;
    }
    return out;
}

inline std::string plain_name(const std::type_info* type) {
    if (type == nullptr) return "";
    int status = 0;
    char* name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
    const std::string out = name != nullptr ? name : type->name();
    std::free(name);
    return out;
}

inline void write_tensors(Json& json, const char* key, const std::deque<ops::OpParamDef>& list) {
    json.open('[', key);
    for (const ops::OpParamDef& each : list) {
        const auto& facts = *each.facts;
        json.open('{').text("name", facts.name).number("type", facts.type).number("value_depends", facts.value_depends);
        json.number("free_types", facts.free_types).number("free_formats", facts.free_formats).text("follows", facts.follows);
        json.number("follow", static_cast<int>(facts.follow)).number("depends_on_compute", facts.depends_on_compute);
        json.numbers("dtypes", facts.types).numbers("formats", facts.formats);
        json.number("initialised", facts.initialised).numbers("initial", facts.initial).close('}');
    }
    json.close(']');
}

inline void write_definition(Json& json, ops::OpDef& definition) {
    write_tensors(json, "inputs", definition.lists.inputs);
    write_tensors(json, "outputs", definition.lists.outputs);
    json.open('[', "attributes");
    for (const ops::OpAttrDef& each : definition.attributes) {
        const auto& facts = *each.facts;
        json.open('{').text("name", facts.name).text("kind", facts.kind).number("type", facts.type);
        json.number("has_default", facts.has_default).text("text", facts.text).numbers("numbers", facts.numbers);
        json.numbers("integers", facts.integers).open('[', "rows");
        for (const auto& row : facts.rows) json.numbers(nullptr, row);
        json.close(']').close('}');
    }
    json.close(']').open('[', "configs");
    for (const auto& [chip, config] : definition.core.configs) {
        json.open('{').text("chip", chip);
        write_tensors(json, "inputs", config.lists->inputs);
        write_tensors(json, "outputs", config.lists->outputs);
        json.open('{', "extended");
        for (const auto& [key, value] : *config.extended) json.text(key.c_str(), value);
        json.close('}').close('}');
    }
    json.close(']');
}

inline void write_operator(Json& json, const std::string& type) {
    Functions of = functions_of(type);
    json.open('{').text("type", type).number("defined", of.definition != nullptr).number("tiling", static_cast<bool>(of.registered.tiling));
    json.number("infer_shape", static_cast<bool>(of.registered.infer_shape));
    json.number("infer_type", static_cast<bool>(of.registered.infer_type));
    json.numbers("tiling_needs_value", of.registered.tiling_needs_value).numbers("shape_needs_value", of.registered.shape_needs_value);
    if (of.definition != nullptr) write_definition(json, *of.definition);
    json.close('}');
}

// A class of tiling data and, before it, those of its nested members.
inline void write_tiling(Json& json, const optiling::TilingDef& data, const std::string& key) {
    for (const optiling::TilingField& field : data.fields())
        if (const auto* inner = data.nested(field); inner != nullptr && !inner->fields().empty()) write_tiling(json, *inner, "");
    json.open('{').text("key", key).text("name", data.GetTilingClassName()).number("bytes", data.GetDataSize());
    json.text("file", data.file()).number("line", data.line()).open('[', "fields");
    for (const optiling::TilingField& field : data.fields()) {
        json.open('{').text("name", field.name).text("type", field.type).number("count", field.count).number("offset", field.offset);
        json.number("nested", field.nested).close('}');
    }
    json.close(']').close('}');
}

inline void write_outcome(Json& json, ge::graphStatus status, const std::string& problem) {
    json.number("failed", status != ge::GRAPH_SUCCESS || !problem.empty()).number("status", status).text("problem", problem);
}

inline const char* infer(Call& call) {
    const Functions of = functions_of(call.type);
    ge::graphStatus type_status = ge::GRAPH_SUCCESS, shape_status = ge::GRAPH_SUCCESS;
    std::string problem;
    if (of.registered.infer_type) {
        gert::InferDataTypeContext context(&call.node);
        problem = guarded([&] { type_status = of.registered.infer_type(&context); });
    }
    if (of.registered.infer_shape && problem.empty() && type_status == ge::GRAPH_SUCCESS) {
        gert::InferShapeContext context(&call.node);
        problem = guarded([&] { shape_status = of.registered.infer_shape(&context); });
    }
    Json json;
    json.open('{');
    write_outcome(json, type_status != ge::GRAPH_SUCCESS ? type_status : shape_status, problem);
    json.text("step", type_status != ge::GRAPH_SUCCESS ? "InferDataType" : "InferShape").open('[', "outputs");
    for (const gert::TensorSlot& slot : call.node.outputs) {
        const gert::Shape& shape = slot.tensor.GetOriginShape();
        std::vector<int64_t> dims;
        for (size_t i = 0; i < shape.GetDimNum(); ++i) dims.push_back(shape.GetDim(i));
        json.open('{').number("dtype", slot.desc.GetDataType()).numbers("shape", dims).close('}');
    }
    json.close(']').close('}');
    call.answer = json.str();
    return call.answer.c_str();
}

inline const char* tile(Call& call, uint64_t capacity) {
    const Functions of = functions_of(call.type);
    ge::graphStatus status = ge::GRAPH_SUCCESS;
    std::string problem, step = "Tiling";
    call.tiling = std::make_unique<gert::TilingAnswer>(capacity);
    optiling::TilingDef::last_saved() = nullptr;
    if (of.registered.parse) {
        call.compile_info = of.registered.compile_info();
        gert::TilingParseContext context(&call.node, call.compile_info.get(), &fe::present_platform());
        problem = guarded([&] { status = of.registered.parse(&context); });
        if (status != ge::GRAPH_SUCCESS || !problem.empty()) step = "TilingParse";
    }
    if (step == "Tiling") {
        gert::TilingContext context(&call.node, call.tiling.get(), call.compile_info.get(), &fe::present_platform());
        problem = guarded([&] { status = of.registered.tiling(&context); });
    }
    gert::TilingAnswer& answer = *call.tiling;
    const char* saved = optiling::TilingDef::last_saved();
    Json json;
    json.open('{');
    write_outcome(json, status, problem);
    json.text("step", step).number("key", answer.key).number("blocks", answer.blocks).number("schedule_mode", answer.schedule_mode);
    json.number("local_memory_bytes", answer.local_memory_bytes)
        .number("condition", answer.condition)
        .number("need_atomic", answer.need_atomic);
    json.number("bytes", answer.data.GetDataSize()).number("capacity", answer.data.GetCapacity());
    json.numbers("workspaces", answer.workspaces).text("struct", answer.type != nullptr ? plain_name(answer.type) : saved ? saved : "");
    json.close('}');
    call.answer = json.str();
    return call.answer.c_str();
}

inline std::vector<gert::AnchorInstanceInfo> anchors(const uint32_t* counts, uint32_t declared) {
    std::vector<gert::AnchorInstanceInfo> out;
    uint32_t start = 0;
    for (uint32_t i = 0; i < declared; start += counts[i++]) out.emplace_back(start, counts[i]);
    return out;
}

}  // namespace host
}  // namespace toprope

extern "C" {

const char* toprope_host_operators() {
    static std::string text;
    toprope::host::Json json;
    json.open('{').open('[', "operators");
    std::map<std::string, int> seen;
    for (const auto& [type, make] : ops::definitions())
        if (seen[type]++ == 0) toprope::host::write_operator(json, type);
    for (const auto& [type, registered] : gert::functions())
        if (seen[type]++ == 0) toprope::host::write_operator(json, type);
    json.close(']');
    json.open('[', "tilings");
    for (const auto& [key, make] : optiling::tiling_classes()) toprope::host::write_tiling(json, *make(), key);
    json.close(']');
    text = json.close('}').str();
    return text.c_str();
}
void toprope_host_set_chip(const toprope::host::Chip* chip) { toprope::host::chip = *chip; }
const char* toprope_host_log() { return toprope::host::log().c_str(); }
void toprope_host_clear_log() { toprope::host::log().clear(); }

toprope::host::Call* toprope_host_begin(const char* type, const uint32_t* inputs, uint32_t declared_inputs, const uint32_t* outputs,
                                        uint32_t declared_outputs, int deterministic) {
    auto* call = new toprope::host::Call;
    call->type = call->node.type = call->node.name = type;
    call->node.declared_inputs = toprope::host::anchors(inputs, declared_inputs);
    call->node.declared_outputs = toprope::host::anchors(outputs, declared_outputs);
    call->node.deterministic = deterministic != 0;
    return call;
}
// The next input, or output, in order. `data` stays the caller's and may be null.
void toprope_host_tensor(toprope::host::Call* call, int output, int dtype, int format, const int64_t* dims, uint32_t count, void* data) {
    gert::TensorSlot slot;
    gert::Shape shape;
    for (uint32_t i = 0; i < count; ++i) shape.AppendDim(dims[i]);
    slot.tensor = gert::Tensor({}, {static_cast<ge::Format>(format), static_cast<ge::Format>(format), {}}, gert::kOnHost,
                               static_cast<ge::DataType>(dtype), data);
    slot.tensor.MutableOriginShape() = shape;
    slot.tensor.MutableStorageShape() = shape;
    slot.desc.SetDataType(static_cast<ge::DataType>(dtype));
    slot.desc.SetOriginFormat(static_cast<ge::Format>(format));
    slot.desc.SetStorageFormat(static_cast<ge::Format>(format));
    slot.stride.SetDimNum(count);
    int64_t step = 1;
    for (uint32_t i = count; i-- > 0; step *= dims[i]) slot.stride.SetDim(i, step);
    (output != 0 ? call->node.outputs : call->node.inputs).push_back(slot);
}
// The next attribute, in order: a value or the characters of a text; a list; a list of lists; or none.
void toprope_host_value(toprope::host::Call* call, const void* data, uint64_t bytes) { call->node.attributes.add_bytes(data, bytes); }
void toprope_host_list(toprope::host::Call* call, const void* data, uint64_t count, uint64_t element_bytes) {
    call->node.attributes.add_list(data, count, element_bytes);
}
void toprope_host_lists(toprope::host::Call* call, const int64_t* data, const uint64_t* counts, uint64_t rows) {
    call->node.attributes.add_lists(data, counts, rows);
}
void toprope_host_absent(toprope::host::Call* call) { call->node.attributes.add_absent(); }

const char* toprope_host_infer(toprope::host::Call* call) { return toprope::host::infer(*call); }
const char* toprope_host_tiling(toprope::host::Call* call, uint64_t capacity) { return toprope::host::tile(*call, capacity); }
const void* toprope_host_tiling_data(toprope::host::Call* call) { return call->tiling->data.GetData(); }
void toprope_host_end(toprope::host::Call* call) { delete call; }
}
