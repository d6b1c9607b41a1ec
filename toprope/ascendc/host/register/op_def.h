// The definition of an operator: what OpDef and its parts remember of it. Pages: Utils-API/原型注册与管理/*.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../exe_graph/runtime/infer_shape_context.h"
#include "../exe_graph/runtime/tiling_context.h"
#include "../exe_graph/runtime/tiling_parse_context.h"
#include "../graph/operator.h"

namespace optiling {
using OP_CHECK_FUNC = ge::graphStatus (*)(const ge::Operator&, ge::AscendString&);
using PARAM_GENERALIZE_FUNC = ge::graphStatus (*)(const ge::Operator&, const ge::AscendString&, ge::AscendString&);
}  // namespace optiling

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
enum class FollowType { ALL = 0, DTYPE = 1, FORMAT = 2, SHAPE = 3, INVALID_TYPE };
enum class DependScope { ALL = 0, TILING = 1, INVALID_SCOPE };
enum class FormatCheckOption { DEFAULT = 0, STRICT = 1, MAX };
enum HcclServerType : uint32_t { AICPU = 0, AICORE, CCU, MAX };
enum class ScalarType : uint32_t {
    UINT64 = 0,
    INT64 = 1,
    UINT32 = 2,
    INT32 = 3,
    UINT16 = 4,
    INT16 = 5,
    UINT8 = 6,
    INT8 = 7,
    FLOAT32 = 8,
    FLOAT16 = 9,
    INVALID_DTYPE = static_cast<uint32_t>(-1)
};
union ScalarNum {
    uint64_t value_u64;
    int64_t value_i64;
    float value_f32;
    ScalarNum() : value_u64(0) {}
    explicit ScalarNum(uint64_t value) : value_u64(value) {}
    explicit ScalarNum(int64_t value) : value_i64(value) {}
    explicit ScalarNum(float value) : value_f32(value) {}
};
struct ScalarVar {
    ScalarType scalar_type = ScalarType::UINT64;
    ScalarNum scalar_num;
    ScalarVar() = default;
    ScalarVar(ScalarType type, uint64_t value) : scalar_type(type), scalar_num(value) {}
    ScalarVar(ScalarType type, int64_t value) : scalar_type(type), scalar_num(value) {}
    ScalarVar(ScalarType type, int value) : scalar_type(type), scalar_num(static_cast<int64_t>(value)) {}
    ScalarVar(ScalarType type, unsigned int value) : scalar_type(type), scalar_num(static_cast<uint64_t>(value)) {}
    ScalarVar(ScalarType type, float value) : scalar_type(type), scalar_num(value) {}
    ScalarVar(ScalarType type, double value) : scalar_type(type), scalar_num(static_cast<float>(value)) {}
    bool operator==(const ScalarVar& other) const {
        return scalar_type == other.scalar_type && scalar_num.value_u64 == other.scalar_num.value_u64;
    }
    double number() const {
        if (scalar_type == ScalarType::FLOAT32 || scalar_type == ScalarType::FLOAT16) return scalar_num.value_f32;
        return static_cast<double>(scalar_num.value_i64);
    }
};

// An input or an output. Copies share what they describe, as the vendor's handles do.
class OpParamDef {
public:
    struct Facts {
        std::string name, follows;
        Option type = REQUIRED, value_depends = IGNORE;
        std::vector<ge::DataType> types;
        std::vector<ge::Format> formats;
        bool free_types = false, free_formats = false;  // combine with every combination of the others
        bool depends_on_compute = false, initialised = false, scalar = false;
        std::vector<double> initial;
        FollowType follow = FollowType::ALL;
    };
    explicit OpParamDef(const char* name) : facts(std::make_shared<Facts>()) { facts->name = name; }
    OpParamDef& ParamType(Option type) { return set(facts->type, type); }
    OpParamDef& DataType(std::vector<ge::DataType> types) { return set(facts->types, std::move(types)); }
    OpParamDef& DataTypeList(std::vector<ge::DataType> types) {
        facts->free_types = true;
        return set(facts->types, std::move(types));
    }
    OpParamDef& DataTypeForBinQuery(std::vector<ge::DataType>) { return *this; }
    OpParamDef& Format(std::vector<ge::Format> formats) { return set(facts->formats, std::move(formats)); }
    OpParamDef& FormatList(std::vector<ge::Format> formats) {
        facts->free_formats = true;
        return set(facts->formats, std::move(formats));
    }
    OpParamDef& FormatForBinQuery(std::vector<ge::Format>) { return *this; }
    OpParamDef& UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
    OpParamDef& ValueDepend(Option depends) { return set(facts->value_depends, depends); }
    OpParamDef& ValueDepend(Option depends, DependScope) { return set(facts->value_depends, depends); }
    OpParamDef& IgnoreContiguous() { return *this; }
    OpParamDef& AutoContiguous() { return *this; }
    OpParamDef& Scalar() { return set(facts->scalar, true); }
    OpParamDef& ScalarList() { return set(facts->scalar, true); }
    OpParamDef& To(const ge::DataType) { return *this; }
    OpParamDef& To(const char*) { return *this; }
    OpParamDef& Version(uint32_t) { return *this; }
    OpParamDef& Comment(const char*) { return *this; }
    OpParamDef& InitValue(uint64_t value) { return initial({static_cast<double>(value)}); }
    OpParamDef& InitValue(const ScalarVar& value) { return initial({value.number()}); }
    OpParamDef& InitValue(const std::vector<ScalarVar>& values) {
        std::vector<double> numbers;
        for (const ScalarVar& value : values) numbers.push_back(value.number());
        return initial(std::move(numbers));
    }
    OpParamDef& OutputShapeDependOnCompute() { return set(facts->depends_on_compute, true); }
    OpParamDef& Follow(const char* name) { return set(facts->follows, std::string(name)); }
    OpParamDef& Follow(const char* name, FollowType follow) {
        facts->follow = follow;
        return set(facts->follows, std::string(name));
    }

    std::shared_ptr<Facts> facts;

private:
    template <class T>
    OpParamDef& set(T& where, T value) {
        where = std::move(value);
        return *this;
    }
    OpParamDef& initial(std::vector<double> values) {
        facts->initialised = true;
        return set(facts->initial, std::move(values));
    }
};

class OpAttrDef {
public:
    struct Facts {
        std::string name, kind, text;
        Option type = REQUIRED;
        bool has_default = false;
        std::vector<double> numbers;  // of a float or a list of floats
        std::vector<int64_t> integers;
        std::vector<std::vector<int64_t>> rows;
    };
    explicit OpAttrDef(const char* name) : facts(std::make_shared<Facts>()) { facts->name = name; }
    OpAttrDef& AttrType(Option type) {
        facts->type = type;
        return *this;
    }
    OpAttrDef& Bool() { return kind("bool"); }
    OpAttrDef& Bool(bool value) { return kind("bool").integers({value}); }
    OpAttrDef& Int() { return kind("int"); }
    OpAttrDef& Int(int64_t value) { return kind("int").integers({value}); }
    OpAttrDef& Float() { return kind("float"); }
    OpAttrDef& Float(float value) { return kind("float").numbers({value}); }
    OpAttrDef& String() { return kind("string"); }
    OpAttrDef& String(const char* value) {
        facts->text = value;
        return kind("string").given();
    }
    OpAttrDef& ListBool() { return kind("list_bool"); }
    OpAttrDef& ListBool(std::vector<bool> values) { return kind("list_bool").integers({values.begin(), values.end()}); }
    OpAttrDef& ListInt() { return kind("list_int"); }
    OpAttrDef& ListInt(std::vector<int64_t> values) { return kind("list_int").integers(std::move(values)); }
    OpAttrDef& ListFloat() { return kind("list_float"); }
    OpAttrDef& ListFloat(std::vector<float> values) { return kind("list_float").numbers({values.begin(), values.end()}); }
    OpAttrDef& ListListInt() { return kind("list_list_int"); }
    OpAttrDef& ListListInt(std::vector<std::vector<int64_t>> values) {
        facts->rows = std::move(values);
        return kind("list_list_int").given();
    }
    OpAttrDef& Version(uint32_t) { return *this; }
    OpAttrDef& Comment(const char*) { return *this; }
    ge::AscendString GetName() const { return facts->name.c_str(); }
    bool IsRequired() const { return facts->type == REQUIRED; }

    std::shared_ptr<Facts> facts;

private:
    OpAttrDef& kind(const char* name) {
        facts->kind = name;
        return *this;
    }
    OpAttrDef& given() {
        facts->has_default = true;
        return *this;
    }
    OpAttrDef& integers(std::vector<int64_t> values) {
        facts->integers = std::move(values);
        return given();
    }
    OpAttrDef& numbers(std::vector<double> values) {
        facts->numbers = std::move(values);
        return given();
    }
};

// The inputs and outputs that a definition, or one chip's configuration of it, lists. A deque keeps references valid.
struct TensorLists {
    std::deque<OpParamDef> inputs, outputs;
    static OpParamDef& named(std::deque<OpParamDef>& list, const char* name, bool reuse) {
        for (OpParamDef& each : list)
            if (reuse && each.facts->name == name) return each;
        list.emplace_back(name);
        return list.back();
    }
};

class OpAICoreConfig {
public:
    OpAICoreConfig() : lists(std::make_shared<TensorLists>()), extended(std::make_shared<std::map<std::string, std::string>>()) {}
    explicit OpAICoreConfig(const char*) : OpAICoreConfig() {}
    OpParamDef& Input(const char* name) { return TensorLists::named(lists->inputs, name, true); }
    OpParamDef& Output(const char* name) { return TensorLists::named(lists->outputs, name, true); }
    OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
    OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
    OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
    OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
    OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
    OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
    OpAICoreConfig& ExtendCfgInfo(const char* key, const char* value) {
        (*extended)[key] = value;
        return *this;
    }

    std::shared_ptr<TensorLists> lists;
    std::shared_ptr<std::map<std::string, std::string>> extended;
};

class OpAICoreDef {
public:
    template <class Function>
    OpAICoreDef& SetTiling(Function function) {
        tiling = function;
        return *this;
    }
    template <class Function>
    OpAICoreDef& SetCheckSupport(Function) {
        return *this;
    }
    template <class Function>
    OpAICoreDef& SetOpSelectFormat(Function) {
        return *this;
    }
    template <class Function>
    OpAICoreDef& SetOpSupportInfo(Function) {
        return *this;
    }
    template <class Function>
    OpAICoreDef& SetOpSpecInfo(Function) {
        return *this;
    }
    template <class Function>
    OpAICoreDef& SetParamGeneralize(Function) {
        return *this;
    }
    OpAICoreDef& LaunchWithZeroEleOutputTensors(bool = true) { return *this; }
    OpAICoreDef& AddConfig(const char* chip) { return AddConfig(chip, OpAICoreConfig()); }
    OpAICoreDef& AddConfig(const char* chip, const OpAICoreConfig& config) {
        configs.emplace_back(chip, config);
        return *this;
    }

    std::function<ge::graphStatus(gert::TilingContext*)> tiling;
    std::vector<std::pair<std::string, OpAICoreConfig>> configs;
};

class OpMC2Def {
public:
    OpMC2Def& HcclGroup(const char*) { return *this; }
    OpMC2Def& HcclGroup(std::vector<const char*>) { return *this; }
    void HcclServerType(enum HcclServerType, const char* = nullptr) {}
};

class OpDef {
public:
    explicit OpDef(const char* name) : name_(name) {}
    virtual ~OpDef() = default;
    OpParamDef& Input(const char* name) { return TensorLists::named(lists.inputs, name, true); }
    OpParamDef& Output(const char* name) { return TensorLists::named(lists.outputs, name, true); }
    OpAttrDef& Attr(const char* name) {
        for (OpAttrDef& each : attributes)
            if (each.facts->name == name) return each;
        attributes.emplace_back(name);
        return attributes.back();
    }
    template <class Function>
    OpDef& SetInferShape(Function function) {
        infer_shape = function;
        return *this;
    }
    template <class Function>
    OpDef& SetInferShapeRange(Function) {
        return *this;
    }
    template <class Function>
    OpDef& SetInferDataType(Function function) {
        infer_type = function;
        return *this;
    }
    OpAICoreDef& AICore() { return core; }
    OpMC2Def& MC2() { return collective_; }
    template <class Category>
    OpDef& Comment(Category, const char*) {
        return *this;
    }
    OpDef& Comment(const char*) { return *this; }
    OpDef& FormatMatchMode(FormatCheckOption) { return *this; }
    OpDef& EnableFallBack() { return *this; }
    const char* name() const { return name_.c_str(); }

    TensorLists lists;
    std::deque<OpAttrDef> attributes;
    std::function<ge::graphStatus(gert::InferShapeContext*)> infer_shape;
    std::function<ge::graphStatus(gert::InferDataTypeContext*)> infer_type;
    OpAICoreDef core;

private:
    std::string name_;
    OpMC2Def collective_;
};

using OpMaker = std::function<std::shared_ptr<OpDef>()>;
// Operator type -> how to make its definition, in the order of registration.
inline std::vector<std::pair<std::string, OpMaker>>& definitions() {
    static std::vector<std::pair<std::string, OpMaker>> all;
    return all;
}
inline int define_operator(const char* type, OpMaker maker) {
    definitions().emplace_back(type, std::move(maker));
    return 0;
}

}  // namespace ops

#define OP_ADD(op_type, ...) \
    static const int toprope_defined_##op_type = ::ops::define_operator(#op_type, [] { return std::make_shared<op_type>(#op_type); })
