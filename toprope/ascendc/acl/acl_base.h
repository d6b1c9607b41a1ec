// Types and descriptors of the ACL interface: error codes, data types, formats, tensors, scalars and arrays. Plain C.
#ifndef TOPROPE_ACL_BASE_H
#define TOPROPE_ACL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl_sites.h"

#define ACL_FUNC_VISIBILITY __attribute__((visibility("default")))

typedef int aclError;
typedef void* aclrtStream;
typedef void* aclrtEvent;
typedef void* aclrtContext;
typedef void* aclrtNotify;
typedef void* aclrtCntNotify;
typedef void* aclrtLabel;
typedef void* aclrtLabelList;
typedef void* aclrtTaskGrp;
typedef void* aclrtAllocator;
typedef uint16_t aclFloat16;
typedef int32_t aclnnStatus;

static const int ACL_SUCCESS = 0;
static const int ACL_ERROR_NONE = 0;
static const int ACL_ERROR_INVALID_PARAM = 100000;
static const int ACL_ERROR_UNINITIALIZE = 100001;
static const int ACL_ERROR_REPEAT_INITIALIZE = 100002;
static const int ACL_ERROR_INVALID_FILE = 100003;
static const int ACL_ERROR_OP_NOT_FOUND = 100024;
static const int ACL_ERROR_UNSUPPORTED_DATA_TYPE = 100026;
static const int ACL_ERROR_KERNEL_NOT_FOUND = 100029;
static const int ACL_ERROR_REPEAT_SUBSCRIBE = 100033;
static const int ACL_ERROR_STREAM_NOT_SUBSCRIBE = 100034;
static const int ACL_ERROR_THREAD_NOT_SUBSCRIBE = 100035;
static const int ACL_ERROR_WAIT_CALLBACK_TIMEOUT = 100036;
static const int ACL_ERROR_REPEAT_FINALIZE = 100037;
static const int ACL_ERROR_RT_PARAM_INVALID = 107000;
static const int ACL_ERROR_RT_INVALID_DEVICEID = 107001;
static const int ACL_ERROR_RT_CONTEXT_NULL = 107002;
static const int ACL_ERROR_RT_STREAM_CONTEXT = 107003;
static const int ACL_ERROR_RT_INVALID_HANDLE = 107017;
static const int ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 107020;
static const int ACL_ERROR_BAD_ALLOC = 200000;
static const int ACL_ERROR_API_NOT_SUPPORT = 200001;
static const int ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000;
static const int ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;
static const int ACL_ERROR_RT_RESOURCE_ALLOC_FAIL = 207007;
static const int ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 507910;
static const int ACL_ERROR_STORAGE_OVER_LIMIT = 300000;
static const int ACL_ERROR_INTERNAL_ERROR = 500000;
static const int ACL_ERROR_FAILURE = 500001;
static const int ACL_ERROR_RT_INTERNAL_ERROR = 507000;
static const int ACL_ERROR_RT_AICORE_TIMEOUT = 507014;
static const int ACL_ERROR_RT_AICORE_EXCEPTION = 507015;
static const int ACL_ERROR_RT_VECTOR_CORE_EXCEPTION = 507035;

typedef enum {
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
    ACL_FLOAT8_E8M0 = 37,
    ACL_FLOAT6_E3M2 = 38,
    ACL_FLOAT6_E2M3 = 39,
    ACL_FLOAT4_E2M1 = 40,
    ACL_FLOAT4_E1M2 = 41
} aclDataType;

typedef enum {
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
    ACL_FORMAT_NCL = 47,
    ACL_FORMAT_FRACTAL_NZ_C0_16 = 50,
    ACL_FORMAT_FRACTAL_NZ_C0_32 = 51
} aclFormat;

typedef enum { ACL_DEBUG = 0, ACL_INFO = 1, ACL_WARNING = 2, ACL_ERROR = 3 } aclLogLevel;
typedef enum { ACL_MEMTYPE_DEVICE = 0, ACL_MEMTYPE_HOST = 1, ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT } aclMemType;

typedef struct aclDataBuffer aclDataBuffer;
typedef struct aclTensorDesc aclTensorDesc;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef struct aclOpExecutor aclOpExecutor;

#ifdef __cplusplus
extern "C" {
#endif
size_t aclDataTypeSize(aclDataType type);
aclFloat16 aclFloatToFloat16(float value);
float aclFloat16ToFloat(aclFloat16 value);
void aclAppLog(aclLogLevel level, const char* function, const char* file, uint32_t line, const char* format, ...);

aclTensor* aclCreateTensor(const int64_t* dims, uint64_t n, aclDataType type, const int64_t* strides, int64_t offset, aclFormat format,
                           const int64_t* storage, uint64_t storage_n, void* data);
aclError aclDestroyTensor(const aclTensor* tensor);
aclScalar* aclCreateScalar(void* value, aclDataType type);
aclError aclDestroyScalar(const aclScalar* scalar);
aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t n);
aclError aclDestroyIntArray(const aclIntArray* array);
aclFloatArray* aclCreateFloatArray(const float* values, uint64_t n);
aclError aclDestroyFloatArray(const aclFloatArray* array);
aclBoolArray* aclCreateBoolArray(const bool* values, uint64_t n);
aclError aclDestroyBoolArray(const aclBoolArray* array);
aclTensorList* aclCreateTensorList(const aclTensor* const* items, uint64_t n);
aclError aclDestroyTensorList(const aclTensorList* list);
aclScalarList* aclCreateScalarList(const aclScalar* const* items, uint64_t n);
aclError aclDestroyScalarList(const aclScalarList* list);
aclError aclGetTensorListSize(const aclTensorList* list, uint64_t* n);
aclError aclGetIntArraySize(const aclIntArray* array, uint64_t* n);
aclError aclGetFloatArraySize(const aclFloatArray* array, uint64_t* n);
aclError aclGetBoolArraySize(const aclBoolArray* array, uint64_t* n);
aclError aclGetViewShape(const aclTensor* tensor, int64_t** dims, uint64_t* n);
aclError aclGetStorageShape(const aclTensor* tensor, int64_t** dims, uint64_t* n);
aclError aclGetViewStrides(const aclTensor* tensor, int64_t** strides, uint64_t* n);
aclError aclGetViewOffset(const aclTensor* tensor, int64_t* offset);
aclError aclGetFormat(const aclTensor* tensor, aclFormat* format);
aclError aclGetDataType(const aclTensor* tensor, aclDataType* type);
aclError aclGetRawTensorAddr(const aclTensor* tensor, void** address);
aclError aclSetRawTensorAddr(aclTensor* tensor, void* address);
aclError aclInitTensor(aclTensor* tensor, const int64_t* dims, uint64_t n, aclDataType type, const int64_t* strides, int64_t offset,
                       aclFormat format, const int64_t* storage, uint64_t storage_n, void* data);

aclTensorDesc* aclCreateTensorDesc(aclDataType type, int n, const int64_t* dims, aclFormat format);
void aclDestroyTensorDesc(const aclTensorDesc* desc);
aclDataType aclGetTensorDescType(const aclTensorDesc* desc);
aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc);
size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);
int64_t aclGetTensorDescDim(const aclTensorDesc* desc, size_t i);
aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t i, int64_t* size);
size_t aclGetTensorDescElementCount(const aclTensorDesc* desc);
size_t aclGetTensorDescSize(const aclTensorDesc* desc);
void aclSetTensorDescName(aclTensorDesc* desc, const char* name);
const char* aclGetTensorDescName(aclTensorDesc* desc);
aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format);
aclError aclSetTensorShape(aclTensorDesc* desc, int n, const int64_t* dims);
aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType type);
aclDataBuffer* aclCreateDataBuffer(void* data, size_t bytes);
aclError aclDestroyDataBuffer(const aclDataBuffer* buffer);
aclError aclUpdateDataBuffer(aclDataBuffer* buffer, void* data, size_t bytes);
void* aclGetDataBufferAddr(const aclDataBuffer* buffer);
uint32_t aclGetDataBufferSize(const aclDataBuffer* buffer);
size_t aclGetDataBufferSizeV2(const aclDataBuffer* buffer);
#ifdef __cplusplus
}
#endif

#define ACL_APP_LOG(level, format, ...) aclAppLog(level, __FUNCTION__, __FILE__, __LINE__, format, ##__VA_ARGS__)

#ifndef TOPROPE_NO_SITES
#define aclCreateTensor(...) TOPROPE_AT(aclCreateTensor)(__VA_ARGS__)
#define aclDestroyTensor(...) TOPROPE_AT(aclDestroyTensor)(__VA_ARGS__)
#define aclCreateScalar(...) TOPROPE_AT(aclCreateScalar)(__VA_ARGS__)
#define aclCreateIntArray(...) TOPROPE_AT(aclCreateIntArray)(__VA_ARGS__)
#define aclCreateFloatArray(...) TOPROPE_AT(aclCreateFloatArray)(__VA_ARGS__)
#define aclCreateBoolArray(...) TOPROPE_AT(aclCreateBoolArray)(__VA_ARGS__)
#define aclCreateTensorList(...) TOPROPE_AT(aclCreateTensorList)(__VA_ARGS__)
#define aclCreateScalarList(...) TOPROPE_AT(aclCreateScalarList)(__VA_ARGS__)
#define aclCreateTensorDesc(...) TOPROPE_AT(aclCreateTensorDesc)(__VA_ARGS__)
#define aclDestroyTensorDesc(...) TOPROPE_AT(aclDestroyTensorDesc)(__VA_ARGS__)
#define aclCreateDataBuffer(...) TOPROPE_AT(aclCreateDataBuffer)(__VA_ARGS__)
#endif

#endif
