// Two-stage calls of operators. The functions of one operator are generated from its project's definition; stage one asks the project's own
// inference and tiling for the workspace, stage two runs its kernel.
#pragma once

#include <deque>

#include "launch.h"

typedef int32_t aclnnStatus;
inline constexpr aclnnStatus ACLNN_SUCCESS = 0, ACLNN_ERR_PARAM_NULLPTR = 161001, ACLNN_ERR_PARAM_INVALID = 161002,
                             ACLNN_ERR_RUNTIME_ERROR = 361001, ACLNN_ERR_INNER = 561000;
using OP_API_FUNC = aclnnStatus (*)(void*, uint64_t, struct aclOpExecutor*, void*);

namespace toprope::aclnn {

enum Kind : int32_t { kAbsent, kTensor, kList, kInt, kFloat, kBool, kText, kInts, kFloats, kBools, kScalar };

// One argument as the hook sees it; the members of a list follow it.
struct Item {
    int32_t kind = kAbsent, output = 0;
    int64_t integer = 0;
    double number = 0;
    const void* data = nullptr;  // a tensor's first element, an array's values, text
    uint64_t count = 0;          // dimensions, values, members
    const int64_t* dims = nullptr;
    const int64_t* strides = nullptr;
    int32_t type = 0, format = 0;
};
struct Call {
    const char* op;
    Item* items;
    uint64_t count;
    uint64_t stage;      // 1 plan, 2 run
    uint64_t workspace;  // bytes, the answer of stage 1
    const char* file;
    int line;
    double us;  // the answer of stage 2
};
using Hook = int (*)(Call*);
inline Hook& hook() {
    static Hook set = nullptr;
    return set;
}

}  // namespace toprope::aclnn

struct aclOpExecutor {
    const char* op;
    std::vector<toprope::aclnn::Item> items;
    std::deque<std::string> texts;
    std::vector<std::vector<int64_t>> rows;
    uint64_t workspace = 0;
    bool repeatable = false;
};

namespace toprope::aclnn {

// Collects the arguments of stage one.
class Plan {
public:
    explicit Plan(const char* op) : made_(new aclOpExecutor{op, {}, {}, {}, 0, false}) {}
    Plan(const Plan&) = delete;
    ~Plan() { delete made_; }
    Plan& input(const aclTensor* t) { return tensor(t, false); }
    Plan& output(const aclTensor* t) { return tensor(t, true); }
    Plan& input(const aclTensorList* l) { return list(l, false); }
    Plan& output(const aclTensorList* l) { return list(l, true); }
    Plan& value(int64_t v) {
        return add(kInt, [&](Item& i) { i.integer = v; });
    }
    Plan& value(int32_t v) { return value(static_cast<int64_t>(v)); }
    Plan& value(bool v) {
        return add(kBool, [&](Item& i) { i.integer = v; });
    }
    Plan& value(double v) {
        return add(kFloat, [&](Item& i) { i.number = v; });
    }
    Plan& value(float v) { return value(static_cast<double>(v)); }
    Plan& value(const char* v) {
        made_->texts.emplace_back(v != nullptr ? v : "");
        return add(kText, [&](Item& i) { i.data = made_->texts.back().c_str(); });
    }
    Plan& value(const aclIntArray* a) { return array(kInts, a); }
    Plan& value(const aclFloatArray* a) { return array(kFloats, a); }
    Plan& value(const aclBoolArray* a) { return array(kBools, a); }
    Plan& value(const aclScalar* s) {
        if (s == nullptr) return add(kAbsent, [](Item&) {});
        return add(kScalar, [&](Item& i) { i.data = s->bytes, i.type = s->type; });
    }

    aclnnStatus plan(uint64_t* workspace, aclOpExecutor** executor) {
        if (workspace == nullptr || executor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
        if (refused_) return ACLNN_ERR_PARAM_INVALID;
        Call call{made_->op, made_->items.data(), made_->items.size(), 1, 0, acl::here.file, acl::here.line, 0};
        acl::DeviceOpen open;
        const int code = hook() != nullptr ? hook()(&call) : ACLNN_ERR_INNER;
        if (code != ACLNN_SUCCESS) return code;
        *workspace = made_->workspace = call.workspace;
        *executor = static_cast<aclOpExecutor*>(acl::new_thing("aclOpExecutor (planned, never run)", made_));
        made_ = nullptr;
        return ACLNN_SUCCESS;
    }

private:
    template <typename F>
    Plan& add(Kind kind, F&& fill) {
        Item item;
        item.kind = kind;
        fill(item);
        made_->items.push_back(item);
        return *this;
    }
    template <typename A>
    Plan& array(Kind kind, const A* a) {
        if (a == nullptr) return add(kAbsent, [](Item&) {});
        return add(kind, [&](Item& i) { i.data = a->values.data(), i.count = a->values.size(); });
    }
    Plan& tensor(const aclTensor* t, bool output) {
        if (t == nullptr) return add(kAbsent, [&](Item& i) { i.output = output; });
        int64_t elements = 1, last = t->offset;
        for (size_t d = 0; d < t->dims.size(); ++d) {
            elements *= t->dims[d];
            if (d < t->strides.size() && t->dims[d] > 0) last += (t->dims[d] - 1) * t->strides[d];
        }
        const int64_t width = static_cast<int64_t>(aclDataTypeSize(t->type));
        if (t->strides.empty()) last = t->offset + elements - 1;
        const uint64_t bytes = elements == 0 ? 0 : static_cast<uint64_t>((last + 1) * width);
        if (bytes != 0 && !acl::side_is_right(t->data, bytes, true, output ? "output tensor" : "input tensor", made_->op)) refused_ = true;
        return add(kTensor, [&](Item& i) {
            i.output = output;
            i.data = static_cast<const uint8_t*>(t->data) + t->offset * width;
            i.dims = t->dims.data();
            i.strides = t->strides.empty() ? nullptr : t->strides.data();
            i.count = t->dims.size();
            i.type = t->type;
            i.format = t->format;
        });
    }
    Plan& list(const aclTensorList* l, bool output) {
        if (l == nullptr) return add(kAbsent, [&](Item& i) { i.output = output; });
        add(kList, [&](Item& i) { i.count = l->items.size(), i.output = output; });
        for (const aclTensor* t : l->items) tensor(t, output);
        return *this;
    }
    aclOpExecutor* made_;
    bool refused_ = false;
};

inline aclnnStatus execute(void* workspace, uint64_t size, aclOpExecutor* executor, void* stream) {
    acl::State& s = acl::state();
    if (s.things.count(executor) == 0) {
        acl::report("acl-executor-reused", acl::here, "runs it", {}, "", "this aclOpExecutor has run already, or was never planned");
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (!acl::stream_exists(stream)) return ACLNN_ERR_PARAM_INVALID;
    const acl::Site planned = s.things[executor].made;
    char text[256];
    const bool too_small = size < executor->workspace || (executor->workspace != 0 && workspace == nullptr);
    if (too_small) {
        std::snprintf(text, sizeof text, "%s needs %llu bytes of workspace and gets %llu", executor->op,
                      static_cast<unsigned long long>(executor->workspace),
                      static_cast<unsigned long long>(workspace == nullptr ? 0 : size));
        acl::report("acl-workspace-size", acl::here, "runs it", planned, "plans it", text);
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (executor->workspace != 0 && !acl::side_is_right(workspace, executor->workspace, true, "workspace", executor->op))
        return ACLNN_ERR_PARAM_INVALID;
    Call call{executor->op, executor->items.data(), executor->items.size(), 2, 0, acl::here.file, acl::here.line, 0};
    int code = ACLNN_ERR_INNER;
    {
        acl::DeviceOpen open;
        if (hook() != nullptr) code = hook()(&call);
    }
    const acl::Work work = acl::next_work(stream);
    s.streams[stream].busy_us += call.us;
    for (const Item& item : executor->items) {
        acl::Block* block = item.kind == kTensor ? acl::block_of(item.data) : nullptr;
        if (block == nullptr) continue;
        block->touched = work;
        if (item.output) block->written = work;
    }
    if (executor->repeatable) {
        s.things[executor].kind = "repeatable aclOpExecutor";
    } else {
        s.things.erase(executor);
        delete executor;
    }
    return code;
}

}  // namespace toprope::aclnn

extern "C" {
inline aclnnStatus aclnnInit(const char*) { return ACLNN_SUCCESS; }
inline aclnnStatus aclnnFinalize() { return ACLNN_SUCCESS; }
inline aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
    if (executor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
    executor->repeatable = true;
    return ACLNN_SUCCESS;
}
inline aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) { return toprope::acl::dropped("aclOpExecutor", executor); }
__attribute__((used)) inline void toprope_program_set_aclnn(toprope::aclnn::Hook hook) { toprope::aclnn::hook() = hook; }
}
