// The functions of an operator, registered by its type: tiling, its compile information, shape and type inference.
#pragma once

#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../exe_graph/runtime/infer_shape_context.h"
#include "../exe_graph/runtime/tiling_context.h"
#include "../exe_graph/runtime/tiling_parse_context.h"

namespace gert {

// What is registered for one operator type.
struct OperatorFunctions {
    std::function<ge::graphStatus(TilingContext*)> tiling;
    std::function<ge::graphStatus(TilingParseContext*)> parse;
    std::function<std::shared_ptr<void>()> compile_info;
    std::function<ge::graphStatus(InferShapeContext*)> infer_shape;
    std::function<ge::graphStatus(InferShapeRangeContext*)> infer_shape_range;
    std::function<ge::graphStatus(InferDataTypeContext*)> infer_type;
    std::vector<int64_t> tiling_needs_value, shape_needs_value;
};
inline std::map<std::string, OperatorFunctions>& functions() {
    static std::map<std::string, OperatorFunctions> all;
    return all;
}

class OpImplRegisterV2 {
public:
    using TilingKernelFunc = uint32_t (*)(TilingContext*);
    using InferShapeKernelFunc = uint32_t (*)(InferShapeContext*);
    using InferDataTypeKernelFunc = uint32_t (*)(InferDataTypeContext*);
    explicit OpImplRegisterV2(const char* type) : type_(type) {}
    template <class Function>
    OpImplRegisterV2& Tiling(Function function, size_t = 2048) {
        mine().tiling = function;
        return *this;
    }
    template <class CompileInfo, class Function>
    OpImplRegisterV2& TilingParse(Function function) {
        mine().compile_info = [] { return std::static_pointer_cast<void>(std::make_shared<CompileInfo>()); };
        mine().parse = [function](TilingParseContext* context) { return call(function, context); };
        return *this;
    }
    template <class Function>
    OpImplRegisterV2& InferShape(Function function) {
        mine().infer_shape = function;
        return *this;
    }
    template <class Function>
    OpImplRegisterV2& InferShapeRange(Function function) {
        mine().infer_shape_range = function;
        return *this;
    }
    template <class Function>
    OpImplRegisterV2& InferDataType(Function function) {
        mine().infer_type = function;
        return *this;
    }
    OpImplRegisterV2& InferOutDataTypeSameWithFirstInput() {
        mine().infer_type = [](InferDataTypeContext* context) { return context->SetOutputDataType(0, context->GetInputDataType(0)); };
        return *this;
    }
    template <class Function>
    OpImplRegisterV2& GenSimplifiedKey(Function) {
        return *this;
    }
    template <class Function>
    OpImplRegisterV2& OpExecuteFunc(Function) {
        return *this;
    }
    template <class Function>
    OpImplRegisterV2& HostInputs(Function) {
        return *this;
    }
    OpImplRegisterV2& InputsDataDependency(std::initializer_list<int32_t> inputs) {
        mine().shape_needs_value.assign(inputs.begin(), inputs.end());
        mine().tiling_needs_value.insert(mine().tiling_needs_value.end(), inputs.begin(), inputs.end());
        return *this;
    }
    OpImplRegisterV2& TilingInputsDataDependency(std::initializer_list<int32_t> inputs) {
        mine().tiling_needs_value.insert(mine().tiling_needs_value.end(), inputs.begin(), inputs.end());
        return *this;
    }
    template <class Placements>
    OpImplRegisterV2& TilingInputsDataDependency(std::initializer_list<int32_t> inputs, Placements) {
        return TilingInputsDataDependency(inputs);
    }
    OpImplRegisterV2& OutputShapeDependOnCompute(std::initializer_list<int32_t>) { return *this; }
    template <class... Any>
    OpImplRegisterV2& PrivateAttr(Any&&...) {
        return *this;
    }

private:
    OperatorFunctions& mine() { return functions()[type_]; }
    static uint32_t call(uint32_t (*function)(TilingParseContext*), TilingParseContext* context) { return function(context); }
    static uint32_t call(uint32_t (*function)(KernelContext*), TilingParseContext* context) {
        return function(reinterpret_cast<KernelContext*>(context));
    }
    template <class Function>
    static uint32_t call(const Function& function, TilingParseContext* context) {
        return function(context);
    }
    const char* type_;
};
using OpImplRegister = OpImplRegisterV2;

}  // namespace gert

#define TOPROPE_JOIN_(a, b) a##b
#define TOPROPE_JOIN(a, b) TOPROPE_JOIN_(a, b)
#define IMPL_OP(op_type) static const auto TOPROPE_JOIN(toprope_functions_, __COUNTER__) = ::gert::OpImplRegisterV2(#op_type)
#define IMPL_OP_INFERSHAPE(op_type) IMPL_OP(op_type)
#define IMPL_OP_OPTILING(op_type) IMPL_OP(op_type)
#define DEVICE_IMPL_OP_OPTILING(op_type) IMPL_OP(op_type)
