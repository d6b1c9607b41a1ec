// The registry under which unit tests look for an operator's host functions: here the functions that this library's sources registered.
#pragma once

#include <memory>
#include <string>

#include "../../register/op_impl_registry.h"

namespace gert {

class OpImplSpaceRegistryV2 {
public:
    // Tests call it with a context of the general kind, which is a TilingParseContext under another name.
    struct ParseFunction : std::function<ge::graphStatus(TilingParseContext*)> {
        using Function = std::function<ge::graphStatus(TilingParseContext*)>;
        ParseFunction() = default;
        ParseFunction(Function function) : Function(std::move(function)) {}
        template <typename Context>
        ge::graphStatus operator()(Context* context) const {
            return Function::operator()(reinterpret_cast<TilingParseContext*>(context));
        }
    };
    // Members of the vendor's names, callable with the context of their kind.
    struct Functions {
        std::function<ge::graphStatus(TilingContext*)> tiling;
        ParseFunction tiling_parse;
        std::function<ge::graphStatus(InferShapeContext*)> infer_shape;
        std::function<ge::graphStatus(InferShapeRangeContext*)> infer_shape_range;
        std::function<ge::graphStatus(InferDataTypeContext*)> infer_datatype;
    };
    // Null if no source registered this operator.
    const Functions* GetOpImpl(const char* type) const {
        const auto found = functions().find(type);
        if (found == functions().end()) return nullptr;
        const OperatorFunctions& f = found->second;
        static std::map<std::string, Functions> all;
        Functions& out = all[type];
        out = {f.tiling, f.parse, f.infer_shape, f.infer_shape_range, f.infer_type};
        return &out;
    }
    template <typename... Any>
    ge::graphStatus AddSoToRegistry(Any&&...) {
        return ge::GRAPH_SUCCESS;
    }
};

class OpImplKernelRegistry {
public:
    using OpImplFunctions = OpImplSpaceRegistryV2::Functions;
};

class DefaultOpImplSpaceRegistryV2 {
public:
    static DefaultOpImplSpaceRegistryV2& GetInstance() {
        static DefaultOpImplSpaceRegistryV2 only;
        return only;
    }
    std::shared_ptr<OpImplSpaceRegistryV2> GetSpaceRegistry() const { return registry_; }
    void SetSpaceRegistry(const std::shared_ptr<OpImplSpaceRegistryV2>&) {}

private:
    std::shared_ptr<OpImplSpaceRegistryV2> registry_ = std::make_shared<OpImplSpaceRegistryV2>();
};

}  // namespace gert
