// Declares kinds of operators: REG_OP(Name).INPUT(x, types).OUTPUT(y, types).ATTR(a, Int, 0).OP_END_FACTORY_REG(Name) is a class Name in
// namespace op. Each part ends one member function and begins the next, so that it can add members of its own. Types are not checked.
#pragma once

#include "operator.h"

namespace ge {

class Declaration {
public:
    explicit Declaration(Operator& to) : to_(to) {}
    Declaration& input(const char* name, bool present = true) { return add(to_.inputs_, name, present); }
    Declaration& output(const char* name, bool present = true) { return add(to_.outputs_, name, present); }
    Declaration& attribute(const char* name, const AttrTypes::Any& value) { return to_.attributes_[name] = value, *this; }
    Declaration& nothing() { return *this; }
    void inputs(const char* name, uint32_t count) { list(to_.inputs_, name, count); }
    void outputs(const char* name, uint32_t count) { list(to_.outputs_, name, count); }

private:
    Declaration& add(Operator::Slots& slots, const std::string& name, bool present) {
        return slots.push_back({name, present, {}, {}}), *this;
    }
    // The tensors of a list take the place of its name, which stays behind them for those that are created later.
    static void list(Operator::Slots& slots, const std::string& name, uint32_t count) {
        for (size_t i = 0; i < slots.size(); ++i) {
            if (slots[i].name != name) continue;
            for (uint32_t k = 0; k < count; ++k) slots.insert(slots.begin() + i + k, {name + std::to_string(k), true, {}, {}});
            return;
        }
    }
    Operator& to_;
};

}  // namespace ge

#define REG_OP(type)                                                                                \
    namespace op {                                                                                  \
    class type : public ::ge::Operator {                                                            \
        using Self = type;                                                                          \
                                                                                                    \
    public:                                                                                         \
        explicit type(const char* name) : ::ge::Operator(name, #type) { toprope_declare(); }        \
        explicit type(const std::string& name) : ::ge::Operator(name, #type) { toprope_declare(); } \
        type() : ::ge::Operator(#type, #type) { toprope_declare(); }                                \
                                                                                                    \
    private:                                                                                        \
        void toprope_declare() {                                                                    \
            ::ge::Declaration(*this)

#define TOPROPE_INPUT(x, present)                                                                               \
    input(#x, present);                                                                                         \
    toprope_input_##x();                                                                                        \
    }                                                                                                           \
                                                                                                                \
public:                                                                                                         \
    Self& set_input_##x(const ::ge::Operator& from) { return SetInput(#x, from), *this; }                       \
    Self& set_input_##x(const ::ge::Operator& from, const char*) { return SetInput(#x, from), *this; }          \
    ::ge::TensorDesc get_input_desc_##x() const { return GetInputDesc(#x); }                                    \
    ::ge::graphStatus update_input_desc_##x(const ::ge::TensorDesc& desc) { return UpdateInputDesc(#x, desc); } \
                                                                                                                \
private:                                                                                                        \
    void toprope_input_##x() {                                                                                  \
        ::ge::Declaration(*this)

#define TOPROPE_OUTPUT(x, present)                                                                                \
    output(#x, present);                                                                                          \
    toprope_output_##x();                                                                                         \
    }                                                                                                             \
                                                                                                                  \
public:                                                                                                           \
    ::ge::TensorDesc get_output_desc_##x() const { return GetOutputDesc(#x); }                                    \
    ::ge::graphStatus update_output_desc_##x(const ::ge::TensorDesc& desc) { return UpdateOutputDesc(#x, desc); } \
                                                                                                                  \
private:                                                                                                          \
    void toprope_output_##x() {                                                                                   \
        ::ge::Declaration(*this)

#define TOPROPE_ATTRIBUTE(x, kind, value)                                                        \
    attribute(#x, value);                                                                        \
    toprope_attribute_##x();                                                                     \
    }                                                                                            \
                                                                                                 \
public:                                                                                          \
    Self& set_attr_##x(const ::ge::AttrTypes::kind& given) { return SetAttr(#x, given), *this; } \
                                                                                                 \
private:                                                                                         \
    void toprope_attribute_##x() {                                                               \
        ::ge::Declaration(*this)

#define INPUT(x, ...) TOPROPE_INPUT(x, true)
#define OPTIONAL_INPUT(x, ...) TOPROPE_INPUT(x, false)
#define OUTPUT(x, ...) TOPROPE_OUTPUT(x, true)
#define OPTIONAL_OUTPUT(x, ...) TOPROPE_OUTPUT(x, false)
#define DYNAMIC_INPUT(x, ...)                                                                                    \
    input(#x, false);                                                                                            \
    toprope_inputs_##x();                                                                                        \
    }                                                                                                            \
                                                                                                                 \
public:                                                                                                          \
    Self& create_dynamic_input_##x(uint32_t count) { return ::ge::Declaration(*this).inputs(#x, count), *this; } \
                                                                                                                 \
private:                                                                                                         \
    void toprope_inputs_##x() {                                                                                  \
        ::ge::Declaration(*this)
#define DYNAMIC_OUTPUT(x, ...)                                                                                     \
    output(#x, false);                                                                                             \
    toprope_outputs_##x();                                                                                         \
    }                                                                                                              \
                                                                                                                   \
public:                                                                                                            \
    Self& create_dynamic_output_##x(uint32_t count) { return ::ge::Declaration(*this).outputs(#x, count), *this; } \
                                                                                                                   \
private:                                                                                                           \
    void toprope_outputs_##x() {                                                                                   \
        ::ge::Declaration(*this)
#define ATTR(x, kind, ...) TOPROPE_ATTRIBUTE(x, kind, ([]() -> ::ge::AttrTypes::kind { return __VA_ARGS__; }()))
#define REQUIRED_ATTR(x, kind) TOPROPE_ATTRIBUTE(x, kind, ::ge::AttrTypes::kind())
#define DATATYPE(...) nothing()
#define GRAPH(...) nothing()
#define OP_END_FACTORY_REG(type) \
    nothing();                   \
    }                            \
    }                            \
    ;                            \
    }
