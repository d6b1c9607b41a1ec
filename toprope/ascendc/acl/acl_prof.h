// Profiling marks of a host program: accepted and ignored, because `toprope run` times every launch anyway.
#pragma once

#include "acl.h"

inline constexpr uint16_t ACL_PROF_EVENT_ATTR_VERSION = 1;
enum aclprofMessageType { ACL_PROF_MESSAGE_TYPE_ASCII = 0, ACL_PROF_MESSAGE_TYPE_TENSOR_INFO = 1 };
struct aclprofTensor {
    uint32_t type, format, dataType, shapeDim, shape[8];
};
struct aclprofTensorInfo {
    uint64_t opName, opType;
    uint32_t attributes, tensorCount, reserved, blockDim;
    void* stream;
    aclprofTensor* tensors;
};
struct aclprofEventAttributes {
    uint16_t version, size;
    uint32_t messageType;
    void* message;
};
typedef void* aclprofConfig;
typedef void* aclprofStepInfo;

extern "C" {
inline uint64_t aclprofStr2Id(const char* text) {
    uint64_t id = 1469598103934665603ull;
    for (; *text != 0; ++text) id = (id ^ static_cast<uint8_t>(*text)) * 1099511628211ull;
    return id;
}
inline aclError aclprofRangePushEx(const aclprofEventAttributes*) { return ACL_SUCCESS; }
inline aclError aclprofRangePop() { return ACL_SUCCESS; }
inline aclError aclprofInit(const char*, size_t) { return ACL_SUCCESS; }
inline aclError aclprofFinalize() { return ACL_SUCCESS; }
inline aclError aclprofStart(const aclprofConfig*) { return ACL_SUCCESS; }
inline aclError aclprofStop(const aclprofConfig*) { return ACL_SUCCESS; }
}
