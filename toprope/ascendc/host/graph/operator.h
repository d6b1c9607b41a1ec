// The node of a graph: only named here, because functions that select formats or check support take one; nothing calls them.
#pragma once

#include "types.h"

namespace ge {

class Operator {
public:
    Operator() = default;
    explicit Operator(const std::string& type) : type_(type) {}
    std::string GetOpType() const { return type_; }
    std::string GetName() const { return type_; }

private:
    std::string type_;
};

}  // namespace ge
