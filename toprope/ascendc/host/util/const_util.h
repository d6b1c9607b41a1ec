// Values of inputs that are known on the host (opbase: Ops::Base).
#pragma once

#include "../exe_graph/runtime/infer_shape_context.h"
#include "../exe_graph/runtime/tiling_context.h"
#include "../log/log.h"
#include "shape_util.h"

namespace Ops {
namespace Base {

// Calls `take` with each integer of the input; false if it has no value here or is no integer.
template <typename Context, typename Take>
bool each_integer(const Context* context, int64_t index, const Take& take) {
    const gert::Tensor* tensor = context == nullptr ? nullptr : context->GetInputTensor(static_cast<size_t>(index));
    if (tensor == nullptr || tensor->GetAddr() == nullptr) {
        if (context != nullptr) OP_LOGE(context, "the value of input %ld is not known on the host", static_cast<long>(index));
        return false;
    }
    // A value is there although its shape may still say -1: then the first counts.
    const int64_t size = tensor->GetShapeSize();
    const size_t count = size < 0 ? 1 : static_cast<size_t>(size);
    const auto all = [&](const auto* values) {
        for (size_t i = 0; i < count; ++i) take(values[i]);
        return true;
    };
    switch (tensor->GetDataType()) {
        case ge::DT_INT32:
            return all(tensor->GetData<int32_t>());
        case ge::DT_UINT32:
            return all(tensor->GetData<uint32_t>());
        case ge::DT_INT64:
            return all(tensor->GetData<int64_t>());
        case ge::DT_UINT64:
            return all(tensor->GetData<uint64_t>());
        default:
            OP_LOGW(context, "input %ld is %s, not an integer of 32 or 64 bits", static_cast<long>(index),
                    ToString(tensor->GetDataType()).c_str());
            return false;
    }
}
template <typename Context, typename T>
bool GetConstInt(const Context* context, int64_t inputIdx, T& value) {
    size_t seen = 0;
    const bool known = each_integer(context, inputIdx, [&](auto each) {
        if (seen++ == 0) value = static_cast<T>(each);
    });
    return known && seen > 0;
}
template <typename Context>
bool GetConstIntToShape(const Context* context, int64_t inputIdx, gert::Shape& shape) {
    shape.SetDimNum(0);
    return each_integer(context, inputIdx, [&](auto each) { shape.AppendDim(static_cast<int64_t>(each)); });
}
template <typename T>
bool GetValueToShape(const gert::Tensor* tensor, gert::Shape& shape) {
    if (tensor == nullptr || tensor->GetAddr() == nullptr) return false;
    shape.SetDimNum(0);
    for (int64_t i = 0; i < tensor->GetShapeSize(); ++i) shape.AppendDim(static_cast<int64_t>(tensor->GetData<T>()[i]));
    return true;
}

}  // namespace Base
}  // namespace Ops
