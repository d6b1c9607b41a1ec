// Tensor descriptions and data buffers: what the older samples keep beside their tensors.
#pragma once

#include "acl_base.h"

struct aclTensorDesc {
    aclDataType type;
    std::vector<int64_t> dims;
    aclFormat format;
    std::string name;
};
struct aclDataBuffer {
    void* data;
    size_t bytes;
};

extern "C" {
inline aclTensorDesc* aclCreateTensorDesc(aclDataType type, int n, const int64_t* dims, aclFormat format) {
    return toprope::acl::kept("aclTensorDesc",
                              new aclTensorDesc{type, toprope::acl::row(dims, static_cast<uint64_t>(n < 0 ? 0 : n)), format, {}});
}
inline void aclDestroyTensorDesc(const aclTensorDesc* d) {
    if (d != nullptr) toprope::acl::dropped("aclTensorDesc", d);
}
inline aclDataType aclGetTensorDescType(const aclTensorDesc* d) { return d == nullptr ? ACL_DT_UNDEFINED : d->type; }
inline aclFormat aclGetTensorDescFormat(const aclTensorDesc* d) { return d == nullptr ? ACL_FORMAT_UNDEFINED : d->format; }
inline size_t aclGetTensorDescNumDims(const aclTensorDesc* d) { return d == nullptr ? 0 : d->dims.size(); }
inline int64_t aclGetTensorDescDim(const aclTensorDesc* d, size_t i) { return d == nullptr || i >= d->dims.size() ? -1 : d->dims[i]; }
inline aclError aclGetTensorDescDimV2(const aclTensorDesc* d, size_t i, int64_t* size) {
    if (d == nullptr || size == nullptr || i >= d->dims.size()) return ACL_ERROR_INVALID_PARAM;
    *size = d->dims[i];
    return ACL_SUCCESS;
}
inline size_t aclGetTensorDescElementCount(const aclTensorDesc* d) {
    if (d == nullptr) return 0;
    size_t count = 1;
    for (int64_t n : d->dims) count *= static_cast<size_t>(n);
    return count;
}
inline size_t aclGetTensorDescSize(const aclTensorDesc* d) {
    return d == nullptr ? 0 : aclGetTensorDescElementCount(d) * aclDataTypeSize(d->type);
}
inline void aclSetTensorDescName(aclTensorDesc* d, const char* name) {
    if (d != nullptr && name != nullptr) d->name = name;
}
inline const char* aclGetTensorDescName(aclTensorDesc* d) { return d == nullptr ? "" : d->name.c_str(); }

inline aclDataBuffer* aclCreateDataBuffer(void* data, size_t bytes) {
    return toprope::acl::kept("aclDataBuffer", new aclDataBuffer{data, bytes});
}
inline aclError aclDestroyDataBuffer(const aclDataBuffer* b) { return toprope::acl::dropped("aclDataBuffer", b); }
inline void* aclGetDataBufferAddr(const aclDataBuffer* b) { return b == nullptr ? nullptr : b->data; }
inline size_t aclGetDataBufferSizeV2(const aclDataBuffer* b) { return b == nullptr ? 0 : b->bytes; }
}

#define aclCreateTensorDesc(...) toprope_at(__FILE__, __LINE__, aclCreateTensorDesc)(__VA_ARGS__)
#define aclDestroyTensorDesc(...) toprope_at(__FILE__, __LINE__, aclDestroyTensorDesc)(__VA_ARGS__)
#define aclCreateDataBuffer(...) toprope_at(__FILE__, __LINE__, aclCreateDataBuffer)(__VA_ARGS__)
