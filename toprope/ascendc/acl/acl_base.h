// Types and descriptors of the ACL interface: error codes, data types, formats, tensors, scalars and arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/formats.h"
#include "state.h"

typedef int aclError;
typedef void* aclrtStream;
typedef void* aclrtEvent;
typedef void* aclrtContext;
typedef void* aclrtNotify;
typedef uint16_t aclFloat16;

inline constexpr aclError ACL_SUCCESS = 0, ACL_ERROR_NONE = 0, ACL_ERROR_INVALID_PARAM = 100000, ACL_ERROR_UNINITIALIZE = 100001,
                          ACL_ERROR_REPEAT_INITIALIZE = 100002, ACL_ERROR_INVALID_FILE = 100003, ACL_ERROR_RT_PARAM_INVALID = 107000,
                          ACL_ERROR_RT_INVALID_DEVICEID = 107001, ACL_ERROR_RT_CONTEXT_NULL = 107002, ACL_ERROR_RT_STREAM_CONTEXT = 107003,
                          ACL_ERROR_BAD_ALLOC = 200000, ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000, ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
                          ACL_ERROR_FAILURE = 500000, ACL_ERROR_INTERNAL_ERROR = 500000;

enum aclDataType {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_STRING = 13,
    ACL_COMPLEX64 = 16,
    ACL_COMPLEX128 = 17,
    ACL_BF16 = 27,
    ACL_INT4 = 29,
    ACL_UINT1 = 30,
    ACL_COMPLEX32 = 33,
    ACL_HIFLOAT8 = 34,
    ACL_FLOAT8_E5M2 = 35,
    ACL_FLOAT8_E4M3FN = 36,
    ACL_FLOAT8_E8M0 = 37
};
enum aclFormat {
    ACL_FORMAT_UNDEFINED = -1,
    ACL_FORMAT_NCHW = 0,
    ACL_FORMAT_NHWC = 1,
    ACL_FORMAT_ND = 2,
    ACL_FORMAT_NC1HWC0 = 3,
    ACL_FORMAT_FRACTAL_Z = 4,
    ACL_FORMAT_NC1HWC0_C04 = 12,
    ACL_FORMAT_HWCN = 16,
    ACL_FORMAT_NDHWC = 27,
    ACL_FORMAT_FRACTAL_NZ = 29,
    ACL_FORMAT_NCDHW = 30,
    ACL_FORMAT_NDC1HWC0 = 32,
    ACL_FRACTAL_Z_3D = 33,
    ACL_FORMAT_NC = 35,
    ACL_FORMAT_NCL = 47
};

// Bytes of one element; half bytes are given as 1.
extern "C" inline size_t aclDataTypeSize(aclDataType type) {
    switch (type) {
        case ACL_DOUBLE:
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_COMPLEX64:
            return 8;
        case ACL_COMPLEX128:
            return 16;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
        case ACL_COMPLEX32:
            return 4;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16:
            return 2;
        case ACL_DT_UNDEFINED:
            return 0;
        default:
            return 1;
    }
}

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

namespace toprope::acl {

inline std::string& error_text() {
    static std::string text;
    return text;
}
inline const char* last_error() { return error_text().c_str(); }

// Adds to the list of things that have to be destroyed, and destroys.
template <typename T>
T* kept(const char* kind, T* thing) {
    new_thing(kind, thing);
    return thing;
}
template <typename T>
aclError dropped(const char* kind, const T* thing) {
    if (!forget_thing(const_cast<T*>(thing), kind)) return ACL_ERROR_INVALID_PARAM;
    delete thing;
    return ACL_SUCCESS;
}
template <typename T>
std::vector<T> row(const T* from, uint64_t n) {
    return from == nullptr ? std::vector<T>() : std::vector<T>(from, from + n);
}

}  // namespace toprope::acl

extern "C" {
inline aclTensor* aclCreateTensor(const int64_t* dims, uint64_t n, aclDataType type, const int64_t* strides, int64_t offset,
                                  aclFormat format, const int64_t* storage, uint64_t storage_n, void* data) {
    using toprope::acl::row;
    return toprope::acl::kept("aclTensor",
                              new aclTensor{row(dims, n), row(strides, n), row(storage, storage_n), offset, type, format, data});
}
inline aclError aclDestroyTensor(const aclTensor* t) { return toprope::acl::dropped("aclTensor", t); }
inline aclScalar* aclCreateScalar(void* value, aclDataType type) {
    auto* made = new aclScalar{{}, type};
    std::memcpy(made->bytes, value, aclDataTypeSize(type));
    return toprope::acl::kept("aclScalar", made);
}
inline aclError aclDestroyScalar(const aclScalar* s) { return toprope::acl::dropped("aclScalar", s); }
inline aclIntArray* aclCreateIntArray(const int64_t* v, uint64_t n) {
    return toprope::acl::kept("aclIntArray", new aclIntArray{toprope::acl::row(v, n)});
}
inline aclError aclDestroyIntArray(const aclIntArray* a) { return toprope::acl::dropped("aclIntArray", a); }
inline aclFloatArray* aclCreateFloatArray(const float* v, uint64_t n) {
    return toprope::acl::kept("aclFloatArray", new aclFloatArray{toprope::acl::row(v, n)});
}
inline aclError aclDestroyFloatArray(const aclFloatArray* a) { return toprope::acl::dropped("aclFloatArray", a); }
inline aclBoolArray* aclCreateBoolArray(const bool* v, uint64_t n) {
    return toprope::acl::kept("aclBoolArray", new aclBoolArray{std::vector<uint8_t>(v, v + n)});
}
inline aclError aclDestroyBoolArray(const aclBoolArray* a) { return toprope::acl::dropped("aclBoolArray", a); }
inline aclTensorList* aclCreateTensorList(const aclTensor* const* items, uint64_t n) {
    return toprope::acl::kept("aclTensorList", new aclTensorList{toprope::acl::row(items, n)});
}
// A list owns its tensors.
inline aclError aclDestroyTensorList(const aclTensorList* list) {
    if (list != nullptr && toprope::acl::state().things.count(const_cast<aclTensorList*>(list)) != 0)
        for (const aclTensor* t : list->items)
            if (t != nullptr) aclDestroyTensor(t);
    return toprope::acl::dropped("aclTensorList", list);
}
inline aclScalarList* aclCreateScalarList(const aclScalar* const* items, uint64_t n) {
    return toprope::acl::kept("aclScalarList", new aclScalarList{toprope::acl::row(items, n)});
}
inline aclError aclDestroyScalarList(const aclScalarList* list) {
    if (list != nullptr && toprope::acl::state().things.count(const_cast<aclScalarList*>(list)) != 0)
        for (const aclScalar* s : list->items)
            if (s != nullptr) aclDestroyScalar(s);
    return toprope::acl::dropped("aclScalarList", list);
}
inline aclError aclGetViewShape(const aclTensor* t, int64_t** dims, uint64_t* n) {
    if (t == nullptr || dims == nullptr || n == nullptr) return ACL_ERROR_INVALID_PARAM;
    *n = t->dims.size();
    *dims = new int64_t[t->dims.size() + 1];  // the caller deletes it
    std::copy(t->dims.begin(), t->dims.end(), *dims);
    return ACL_SUCCESS;
}
inline aclError aclGetDataType(const aclTensor* t, aclDataType* type) {
    if (t == nullptr || type == nullptr) return ACL_ERROR_INVALID_PARAM;
    *type = t->type;
    return ACL_SUCCESS;
}
inline aclFloat16 aclFloatToFloat16(float value) { return toprope::float_to_half(value); }
inline float aclFloat16ToFloat(aclFloat16 value) { return toprope::half_to_float(value); }
}

#define aclCreateTensor(...) toprope_at(__FILE__, __LINE__, aclCreateTensor)(__VA_ARGS__)
#define aclDestroyTensor(...) toprope_at(__FILE__, __LINE__, aclDestroyTensor)(__VA_ARGS__)
#define aclCreateScalar(...) toprope_at(__FILE__, __LINE__, aclCreateScalar)(__VA_ARGS__)
#define aclCreateIntArray(...) toprope_at(__FILE__, __LINE__, aclCreateIntArray)(__VA_ARGS__)
#define aclCreateFloatArray(...) toprope_at(__FILE__, __LINE__, aclCreateFloatArray)(__VA_ARGS__)
#define aclCreateBoolArray(...) toprope_at(__FILE__, __LINE__, aclCreateBoolArray)(__VA_ARGS__)
#define aclCreateTensorList(...) toprope_at(__FILE__, __LINE__, aclCreateTensorList)(__VA_ARGS__)
#define aclCreateScalarList(...) toprope_at(__FILE__, __LINE__, aclCreateScalarList)(__VA_ARGS__)
