// Shape inference of families of operators (opbase: Ops::Base): element-wise, broadcasting, reducing.
#pragma once

#include <algorithm>
#include <vector>

#include "exe_graph/runtime/infer_shape_context.h"
#include "log/log.h"
#include "util/const_util.h"
#include "util/shape_util.h"

namespace Ops {
namespace Base {

// The output has the shape of the first input.
inline ge::graphStatus InferShape4Elewise(gert::InferShapeContext* context) {
    const gert::Shape* from = context->GetInputShape(0);
    gert::Shape* to = context->GetOutputShape(0);
    OP_CHECK_NULL_WITH_CONTEXT(context, from);
    OP_CHECK_NULL_WITH_CONTEXT(context, to);
    *to = *from;
    return ge::GRAPH_SUCCESS;
}

// Two shapes against each other from the last dimension on: equal, or one of them 1; an unknown dimension yields to a known one above 1.
inline bool BroadcastShape(const gert::Shape* a, const gert::Shape* b, gert::Shape* out) {
    if (IsUnknownRank(*a) || IsUnknownRank(*b)) {
        SetUnknownRank(*out);
        return true;
    }
    const size_t rank = std::max(a->GetDimNum(), b->GetDimNum());
    gert::Shape found;
    found.SetDimNum(rank);
    for (size_t i = 0; i < rank; ++i) {
        const size_t skip_a = rank - a->GetDimNum(), skip_b = rank - b->GetDimNum();
        const int64_t x = i < skip_a ? 1 : a->GetDim(i - skip_a), y = i < skip_b ? 1 : b->GetDim(i - skip_b);
        if (x != y && x != 1 && y != 1 && x >= 0 && y >= 0) return false;
        found.SetDim(i, x == 1 ? y : y == 1 ? x : std::max(x, y));
    }
    *out = found;
    return true;
}
inline bool BroadcastShape(const std::vector<const gert::Shape*>& shapes, gert::Shape* out) {
    if (shapes.empty()) return false;
    *out = *shapes[0];
    for (const gert::Shape* each : shapes) {
        const gert::Shape before = *out;
        if (!BroadcastShape(&before, each, out)) return false;
    }
    return true;
}
inline ge::graphStatus InferShape4Broadcast(gert::InferShapeContext* context, size_t inputNum) {
    std::vector<const gert::Shape*> shapes;
    for (size_t i = 0; i < inputNum; ++i) {
        const gert::Shape* each = context->GetInputShape(i);
        OP_CHECK_NULL_WITH_CONTEXT(context, each);
        shapes.push_back(each);
    }
    gert::Shape* out = context->GetOutputShape(0);
    OP_CHECK_NULL_WITH_CONTEXT(context, out);
    std::string all;
    for (const gert::Shape* each : shapes) all += (all.empty() ? "" : ", ") + ToString(*each);
    OP_CHECK_IF(!BroadcastShape(shapes, out), OP_LOGE(context, "shapes %s cannot be broadcast", all.c_str()), return ge::GRAPH_FAILED);
    return ge::GRAPH_SUCCESS;
}
inline ge::graphStatus InferShape4Broadcast(gert::InferShapeContext* context) { return InferShape4Broadcast(context, 2); }

template <typename T>
ge::graphStatus reduce_dims(const gert::Shape* shape, const T* axes, int32_t count, bool keep, gert::Shape* out) {
    const auto rank = static_cast<int64_t>(shape->GetDimNum());
    std::vector<bool> gone(static_cast<size_t>(rank) + 1, false);
    for (int32_t i = 0; i < count; ++i) {
        if (!CheckAxisBounds(rank, axes[i])) {
            OP_LOGE("reduce", "axis %ld of a shape with %ld dimensions", static_cast<long>(axes[i]), static_cast<long>(rank));
            return ge::GRAPH_FAILED;
        }
        if (rank > 0) gone[static_cast<size_t>((static_cast<int64_t>(axes[i]) + rank) % rank)] = true;
    }
    gert::Shape found;
    for (int64_t i = 0; i < rank; ++i) {
        if (!gone[static_cast<size_t>(i)])
            found.AppendDim(shape->GetDim(static_cast<size_t>(i)));
        else if (keep)
            found.AppendDim(1);
    }
    *out = found;
    return ge::GRAPH_SUCCESS;
}
template <typename T>
ge::graphStatus ReduceDimsWithKeepDims(const gert::Shape* xShape, const T* axesDims, int32_t axesSize, gert::Shape* outputShape) {
    return reduce_dims(xShape, axesDims, axesSize, true, outputShape);
}
template <typename T>
ge::graphStatus ReduceDimsWithoutKeepDims(const gert::Shape* xShape, const T* axesDims, int32_t axesSize, gert::Shape* outputShape) {
    return reduce_dims(xShape, axesDims, axesSize, false, outputShape);
}
template <typename T>
ge::graphStatus ReduceDims(const gert::Shape* xShape, const gert::Tensor* axesTensor, int32_t axesSize, const bool keepDims,
                           gert::Shape* outputShape) {
    return reduce_dims(xShape, axesTensor->GetData<T>(), axesSize, keepDims, outputShape);
}
// Input 1 holds the axes, attribute 0 says whether their dimensions stay.
inline ge::graphStatus InferShape4Reduce(gert::InferShapeContext* context) {
    const gert::Shape* from = context->GetInputShape(0);
    gert::Shape* to = context->GetOutputShape(0);
    const bool* keep = context->GetAttrs()->GetBool(0);
    OP_CHECK_NULL_WITH_CONTEXT(context, from);
    OP_CHECK_NULL_WITH_CONTEXT(context, to);
    OP_CHECK_NULL_WITH_CONTEXT(context, keep);
    std::vector<int64_t> axes;
    if (!each_integer(context, 1, [&](auto each) { axes.push_back(static_cast<int64_t>(each)); })) return ge::GRAPH_FAILED;
    return reduce_dims(from, axes.data(), static_cast<int32_t>(axes.size()), *keep, to);
}

}  // namespace Base
}  // namespace Ops
