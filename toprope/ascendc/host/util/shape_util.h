// Questions about shapes, and shapes and types as text (opbase: Ops::Base). An unknown rank is the single dimension -2, an unknown
// dimension is -1.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "../exe_graph/runtime/runtime_attrs.h"
#include "../exe_graph/runtime/tensor.h"
#include "../graph/utils/type_utils.h"

namespace Ops {
namespace Base {

inline bool IsUnknownRank(const gert::Shape& shape) { return shape.GetDimNum() == 1 && shape.GetDim(0) == ge::UNKNOWN_DIM_NUM; }
inline void SetUnknownRank(gert::Shape& shape) {
    shape.SetDimNum(0);
    shape.AppendDim(ge::UNKNOWN_DIM_NUM);
}
inline bool IsUnknownShape(const gert::Shape& shape) {
    for (size_t i = 0; i < shape.GetDimNum(); ++i)
        if (shape.GetDim(i) < 0) return true;
    return false;
}
inline void SetUnknownShape(int64_t rank, gert::Shape& shape) {
    shape.SetDimNum(0);
    for (int64_t i = 0; i < rank; ++i) shape.AppendDim(ge::UNKNOWN_DIM);
}
template <typename T, typename U>
bool CheckAxisBounds(const T dimNum, const U axis) {
    const auto rank = std::max<int64_t>(1, static_cast<int64_t>(dimNum));
    const auto at = static_cast<int64_t>(axis);
    return dimNum == 0 ? at == 0 : -rank <= at && at < rank;
}
// A scalar as a tensor of one element.
inline const gert::Shape& EnsureNotScalar(const gert::Shape& shape) {
    static const gert::Shape one = {1};
    return shape.IsScalar() ? one : shape;
}

template <typename List>
std::string list_text(const List& list, size_t count) {
    std::ostringstream out;
    out << "[";
    for (size_t i = 0; i < count; ++i) out << (i ? ", " : "") << list[i];
    return out.str() + "]";
}
inline std::string ToString(const gert::Shape& shape) { return list_text(shape, shape.GetDimNum()); }
inline std::string ToString(const gert::Shape* shape) { return shape == nullptr ? "nil" : ToString(*shape); }
inline std::string ToString(const gert::StorageShape& shape) { return ToString(shape.GetStorageShape()); }
inline std::string ToString(ge::DataType type) { return ge::TypeUtils::DataTypeToSerialString(type); }
inline std::string ToString(ge::Format format) { return ge::TypeUtils::FormatToSerialString(format); }
template <typename T>
std::string ToString(const std::vector<T>& values) {
    return list_text(values, values.size());
}
template <typename T>
std::string ToString(const T* values, size_t count) {
    return list_text(values, count);
}
template <typename T>
std::string ToString(const gert::TypedContinuousVector<T>* values) {
    return values == nullptr ? "nil" : list_text(values->GetData(), values->GetSize());
}

}  // namespace Base
}  // namespace Ops
