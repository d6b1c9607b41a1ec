// Two-stage calls of operators: stage one asks for the workspace, stage two runs. The functions of one operator are a line each: they
// collect their arguments in a Plan, and the device library answers.
#ifndef TOPROPE_ACLNN_H
#define TOPROPE_ACLNN_H

#include "acl.h"

static const aclnnStatus ACLNN_SUCCESS = 0;
static const aclnnStatus OK = 0;
static const aclnnStatus ACLNN_ERR_PARAM_NULLPTR = 161001;
static const aclnnStatus ACLNN_ERR_PARAM_INVALID = 161002;
static const aclnnStatus ACLNN_ERR_RUNTIME_ERROR = 361001;
static const aclnnStatus ACLNN_ERR_INNER = 561000;
static const aclnnStatus ACLNN_ERR_INNER_CREATE_EXECUTOR = 561101;
static const aclnnStatus ACLNN_ERR_INNER_NULLPTR = 561103;

#ifdef __cplusplus
extern "C" {
#endif
typedef aclnnStatus (*OP_API_FUNC)(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
aclnnStatus aclnnInit(const char* config);
aclnnStatus aclnnFinalize(void);
aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);
aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address);
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address);
aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* address);

void* toprope_plan(const char* function);
void toprope_plan_tensor(void* plan, const aclTensor* tensor, int output);
void toprope_plan_tensors(void* plan, const aclTensorList* list, int output);
void toprope_plan_int(void* plan, int64_t value);
void toprope_plan_bool(void* plan, bool value);
void toprope_plan_float(void* plan, double value);
void toprope_plan_text(void* plan, const char* value);
void toprope_plan_ints(void* plan, const aclIntArray* values);
void toprope_plan_floats(void* plan, const aclFloatArray* values);
void toprope_plan_bools(void* plan, const aclBoolArray* values);
void toprope_plan_scalar(void* plan, const aclScalar* value);
void toprope_plan_scalars(void* plan, const aclScalarList* values);
void toprope_plan_pointer(void* plan, const void* value);
aclnnStatus toprope_plan_end(void* plan, uint64_t* workspace, aclOpExecutor** executor);
aclnnStatus toprope_execute(const char* function, void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream);
#ifdef __cplusplus
}

namespace toprope {
namespace aclnn {

// Collects the arguments of stage one.
class Plan {
public:
    explicit Plan(const char* function) : at_(toprope_plan(function)) {}
    Plan& input(const aclTensor* t) { return toprope_plan_tensor(at_, t, 0), *this; }
    Plan& output(const aclTensor* t) { return toprope_plan_tensor(at_, t, 1), *this; }
    Plan& input(const aclTensorList* l) { return toprope_plan_tensors(at_, l, 0), *this; }
    Plan& output(const aclTensorList* l) { return toprope_plan_tensors(at_, l, 1), *this; }
    Plan& value(int64_t v) { return toprope_plan_int(at_, v), *this; }
    Plan& value(uint64_t v) { return toprope_plan_int(at_, static_cast<int64_t>(v)), *this; }
    Plan& value(int32_t v) { return toprope_plan_int(at_, v), *this; }
    Plan& value(uint32_t v) { return toprope_plan_int(at_, v), *this; }
    Plan& value(int8_t v) { return toprope_plan_int(at_, v), *this; }
    Plan& value(aclDataType v) { return toprope_plan_int(at_, v), *this; }
    Plan& value(bool v) { return toprope_plan_bool(at_, v), *this; }
    Plan& value(double v) { return toprope_plan_float(at_, v), *this; }
    Plan& value(float v) { return toprope_plan_float(at_, v), *this; }
    Plan& value(const char* v) { return toprope_plan_text(at_, v), *this; }
    Plan& value(const aclIntArray* v) { return toprope_plan_ints(at_, v), *this; }
    Plan& value(const aclFloatArray* v) { return toprope_plan_floats(at_, v), *this; }
    Plan& value(const aclBoolArray* v) { return toprope_plan_bools(at_, v), *this; }
    Plan& value(const aclScalar* v) { return toprope_plan_scalar(at_, v), *this; }
    Plan& value(const aclScalarList* v) { return toprope_plan_scalars(at_, v), *this; }
    aclnnStatus plan(uint64_t* workspace, aclOpExecutor** executor) { return toprope_plan_end(at_, workspace, executor); }

private:
    void* at_;
};

}  // namespace aclnn
}  // namespace toprope
#endif

#endif
