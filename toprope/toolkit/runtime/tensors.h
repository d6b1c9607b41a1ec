// The descriptors behind the opaque types of ACL.
#pragma once

#include <string>
#include <vector>

#include "acl/acl.h"

struct aclTensor {
    std::vector<int64_t> dims, strides, storage;
    int64_t offset;
    aclDataType type;
    aclFormat format;
    void* data;
};
struct aclScalar {
    uint8_t bytes[16];
    aclDataType type;
};
struct aclIntArray {
    std::vector<int64_t> values;
};
struct aclFloatArray {
    std::vector<float> values;
};
struct aclBoolArray {
    std::vector<uint8_t> values;
};
struct aclTensorList {
    std::vector<const aclTensor*> items;
};
struct aclScalarList {
    std::vector<const aclScalar*> items;
};
struct aclTensorDesc {
    aclDataType type;
    std::vector<int64_t> dims;
    aclFormat format;
    std::string name;
    aclMemType place = ACL_MEMTYPE_DEVICE;
};
struct aclDataBuffer {
    void* data;
    size_t bytes;
};
