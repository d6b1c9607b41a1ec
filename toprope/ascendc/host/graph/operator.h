// A node of the graph's interface: named inputs, outputs and attributes. Host code is never called with one here; unit tests of inference
// describe the operator that they infer with it, and operator_reg.h declares its kinds.
#pragma once

#include <map>
#include <type_traits>
#include <variant>

#include "ascend_string.h"
#include "tensor.h"

namespace ge {

using float32_t = float;

// What an attribute can hold, under the names of the operator prototypes.
struct AttrTypes {
    using Int = int64_t;
    using Float = float;
    using Bool = bool;
    using String = std::string;
    using ListInt = std::vector<int64_t>;
    using ListFloat = std::vector<float>;
    using ListBool = std::vector<bool>;
    using ListString = std::vector<std::string>;
    using ListListInt = std::vector<std::vector<int64_t>>;
    using Type = DataType;
    using ListType = std::vector<DataType>;
    using Tensor = ge::Tensor;
    using Any = std::variant<std::monostate, Int, Float, Bool, String, ListInt, ListFloat, ListBool, ListString, ListListInt, Type,
                             ListType, Tensor>;
};

class Operator {
public:
    Operator() = default;
    explicit Operator(const std::string& type) : type_(type), name_(type) {}
    Operator(const std::string& name, const std::string& type) : type_(type), name_(name) {}
    std::string GetOpType() const { return type_; }
    std::string GetName() const { return name_; }

    // Inputs by place are those that are there: optional ones count from the moment on that they are described.
    size_t GetInputsSize() const { return present(inputs_).size(); }
    size_t GetOutputsSize() const { return present(outputs_).size(); }
    TensorDesc GetInputDesc(uint32_t index) const { return desc(at(inputs_, index)); }
    TensorDesc GetInputDesc(const std::string& name) const { return desc(find(inputs_, name)); }
    TensorDesc GetInputDescByName(const char* name) const { return GetInputDesc(std::string(name)); }
    TensorDesc GetOutputDesc(uint32_t index) const { return desc(at(outputs_, index)); }
    TensorDesc GetOutputDesc(const std::string& name) const { return desc(find(outputs_, name)); }
    TensorDesc GetOutputDescByName(const char* name) const { return GetOutputDesc(std::string(name)); }
    graphStatus UpdateInputDesc(const std::string& name, const TensorDesc& desc) { return put(find(inputs_, name), desc); }
    graphStatus UpdateInputDesc(uint32_t index, const TensorDesc& desc) { return put(at(inputs_, index), desc); }
    graphStatus UpdateOutputDesc(const std::string& name, const TensorDesc& desc) { return put(find(outputs_, name), desc); }
    graphStatus UpdateOutputDesc(uint32_t index, const TensorDesc& desc) { return put(at(outputs_, index), desc); }
    // The input is what `from` gives; its value is known if `from` has an attribute "value".
    Operator& SetInput(const std::string& name, const Operator& from) {
        if (const Slot* slot = find(inputs_, name)) {
            const auto value = from.attributes_.find("value");
            if (value != from.attributes_.end() && std::holds_alternative<Tensor>(value->second)) {
                const_cast<Slot*>(slot)->constant = std::get<Tensor>(value->second);
            }
            const_cast<Slot*>(slot)->present = true;
        }
        return *this;
    }
    graphStatus GetInputConstData(const std::string& name, Tensor& value) const { return constant(find(inputs_, name), value); }
    graphStatus GetInputConstData(size_t index, Tensor& value) const { return constant(at(inputs_, index), value); }

    template <typename T>
    Operator& SetAttr(const std::string& name, const T& value) {
        return attributes_[name] = attribute(value), *this;
    }
    Operator& SetAttr(const std::string& name, const std::vector<int64_t>& value) { return attributes_[name] = value, *this; }
    // GRAPH_FAILED, and the value unchanged, without an attribute of this name and type.
    template <typename T>
    graphStatus GetAttr(const std::string& name, T& value) const {
        const auto found = attributes_.find(name);
        if (found == attributes_.end()) return GRAPH_FAILED;
        if constexpr (std::is_same_v<T, AscendString>) {
            const auto* text = std::get_if<std::string>(&found->second);
            return text == nullptr ? GRAPH_FAILED : (value = AscendString(text->c_str()), GRAPH_SUCCESS);
        } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
            const auto* number = std::get_if<int64_t>(&found->second);
            return number == nullptr ? GRAPH_FAILED : (value = static_cast<T>(*number), GRAPH_SUCCESS);
        } else if constexpr (std::is_constructible_v<AttrTypes::Any, std::in_place_type_t<T>>) {
            const auto* same = std::get_if<T>(&found->second);
            return same == nullptr ? GRAPH_FAILED : (value = *same, GRAPH_SUCCESS);
        } else {
            return GRAPH_FAILED;
        }
    }
    // Inference by functions of the graph's own interface, which no operator has here: theirs take a context.
    graphStatus InferShapeAndType() { return GRAPH_FAILED; }
    std::map<std::string, std::string> GetAllAttrNamesAndTypes() const {
        static const char* const words[] = {
            "VT_NONE",      "VT_INT",         "VT_FLOAT",         "VT_BOOL",      "VT_STRING",         "VT_LIST_INT", "VT_LIST_FLOAT",
            "VT_LIST_BOOL", "VT_LIST_STRING", "VT_LIST_LIST_INT", "VT_DATA_TYPE", "VT_LIST_DATA_TYPE", "VT_TENSOR"};
        std::map<std::string, std::string> out;
        for (const auto& [name, value] : attributes_) out[name] = words[value.index()];
        return out;
    }

private:
    friend class Declaration;
    struct Slot {
        std::string name;
        bool present;
        TensorDesc desc;
        Tensor constant;
    };
    using Slots = std::vector<Slot>;

    static std::vector<const Slot*> present(const Slots& slots) {
        std::vector<const Slot*> out;
        for (const Slot& slot : slots)
            if (slot.present) out.push_back(&slot);
        return out;
    }
    static const Slot* at(const Slots& slots, size_t index) {
        const auto all = present(slots);
        return index < all.size() ? all[index] : nullptr;
    }
    static const Slot* find(const Slots& slots, const std::string& name) {
        for (const Slot& slot : slots)
            if (slot.name == name) return &slot;
        return nullptr;
    }
    static TensorDesc desc(const Slot* slot) { return slot == nullptr ? TensorDesc() : slot->desc; }
    static graphStatus put(const Slot* slot, const TensorDesc& desc) {
        if (slot == nullptr) return GRAPH_FAILED;
        const_cast<Slot*>(slot)->desc = desc;
        const_cast<Slot*>(slot)->present = true;
        return GRAPH_SUCCESS;
    }
    static graphStatus constant(const Slot* slot, Tensor& value) {
        if (slot == nullptr || slot->constant.GetSize() == 0) return GRAPH_FAILED;
        return value = slot->constant, GRAPH_SUCCESS;
    }
    template <typename T>
    static AttrTypes::Any attribute(const T& value) {
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, DataType>) {
            return value;
        } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
            return static_cast<int64_t>(value);
        } else if constexpr (std::is_floating_point_v<T>) {
            return static_cast<float>(value);
        } else if constexpr (std::is_same_v<T, AscendString>) {
            return std::string(value.GetString());
        } else if constexpr (std::is_convertible_v<T, std::string>) {
            return std::string(value);
        } else if constexpr (std::is_same_v<T, std::vector<int32_t>> || std::is_same_v<T, std::vector<uint32_t>>) {
            return std::vector<int64_t>(value.begin(), value.end());
        } else {
            return value;
        }
    }

    std::string type_, name_;
    Slots inputs_, outputs_;
    std::map<std::string, AttrTypes::Any> attributes_;
};

}  // namespace ge
