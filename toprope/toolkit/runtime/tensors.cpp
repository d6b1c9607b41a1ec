#include "tensors.h"

#include <stdarg.h>
#include <string.h>

#include <algorithm>

#include "machine/formats.h"
#include "link.h"
#include "state.h"

using namespace toprope::device;

namespace {

template <typename T>
T* kept(const char* kind, T* thing) {
    remember(thing, kind);
    return thing;
}
template <typename T>
aclError dropped(const char* kind, const T* thing) {
    if (thing == nullptr) return ACL_SUCCESS;
    if (!forget(thing, kind)) return ACL_ERROR_INVALID_PARAM;
    delete thing;
    return ACL_SUCCESS;
}
template <typename T>
std::vector<T> row(const T* from, uint64_t n) {
    return from == nullptr ? std::vector<T>() : std::vector<T>(from, from + n);
}
// The caller deletes what it is given.
aclError copied(const std::vector<int64_t>& from, int64_t** values, uint64_t* n) {
    if (values == nullptr || n == nullptr) return ACL_ERROR_INVALID_PARAM;
    *n = from.size();
    *values = new int64_t[from.size() + 1];
    std::copy(from.begin(), from.end(), *values);
    return ACL_SUCCESS;
}
std::vector<int64_t> strides_of(const aclTensor& t) {
    if (!t.strides.empty()) return t.strides;
    std::vector<int64_t> out(t.dims.size(), 1);
    for (size_t d = t.dims.size(); d-- > 1;) out[d - 1] = out[d] * t.dims[d];
    return out;
}

}  // namespace

extern "C" {
size_t aclDataTypeSize(aclDataType type) {
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
aclFloat16 aclFloatToFloat16(float value) { return toprope::float_to_half(value); }
float aclFloat16ToFloat(aclFloat16 value) { return toprope::half_to_float(value); }
void aclAppLog(aclLogLevel level, const char* function, const char* file, uint32_t line, const char* format, ...) {
    static const char* wanted = getenv("ASCEND_GLOBAL_LOG_LEVEL");
    if (static_cast<int>(level) < (wanted == nullptr ? 3 : atoi(wanted))) return;
    static const char* const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    std::fprintf(stderr, "[%s] %s:%u %s: ", names[std::clamp<int>(level, 0, 3)], file, line, function);
    va_list values;
    va_start(values, format);
    std::vfprintf(stderr, format, values);
    va_end(values);
    std::fputc('\n', stderr);
}

aclTensor* aclCreateTensor(const int64_t* dims, uint64_t n, aclDataType type, const int64_t* strides, int64_t offset, aclFormat format,
                           const int64_t* storage, uint64_t storage_n, void* data) {
    TOPROPE_CALL;
    return kept("aclTensor", new aclTensor{row(dims, n), row(strides, n), row(storage, storage_n), offset, type, format, data});
}
aclError aclInitTensor(aclTensor* tensor, const int64_t* dims, uint64_t n, aclDataType type, const int64_t* strides, int64_t offset,
                       aclFormat format, const int64_t* storage, uint64_t storage_n, void* data) {
    TOPROPE_CALL;
    if (tensor == nullptr) return ACL_ERROR_INVALID_PARAM;
    *tensor = {row(dims, n), row(strides, n), row(storage, storage_n), offset, type, format, data};
    return ACL_SUCCESS;
}
aclError aclDestroyTensor(const aclTensor* t) {
    TOPROPE_CALL;
    return dropped("aclTensor", t);
}
aclScalar* aclCreateScalar(void* value, aclDataType type) {
    TOPROPE_CALL;
    if (value == nullptr) return nullptr;
    auto* made = new aclScalar{{}, type};
    std::memcpy(made->bytes, value, aclDataTypeSize(type));
    return kept("aclScalar", made);
}
aclError aclDestroyScalar(const aclScalar* s) {
    TOPROPE_CALL;
    return dropped("aclScalar", s);
}
aclIntArray* aclCreateIntArray(const int64_t* v, uint64_t n) {
    TOPROPE_CALL;
    return kept("aclIntArray", new aclIntArray{row(v, n)});
}
aclError aclDestroyIntArray(const aclIntArray* a) {
    TOPROPE_CALL;
    return dropped("aclIntArray", a);
}
aclFloatArray* aclCreateFloatArray(const float* v, uint64_t n) {
    TOPROPE_CALL;
    return kept("aclFloatArray", new aclFloatArray{row(v, n)});
}
aclError aclDestroyFloatArray(const aclFloatArray* a) {
    TOPROPE_CALL;
    return dropped("aclFloatArray", a);
}
aclBoolArray* aclCreateBoolArray(const bool* v, uint64_t n) {
    TOPROPE_CALL;
    return kept("aclBoolArray", new aclBoolArray{std::vector<uint8_t>(v, v + n)});
}
aclError aclDestroyBoolArray(const aclBoolArray* a) {
    TOPROPE_CALL;
    return dropped("aclBoolArray", a);
}
aclTensorList* aclCreateTensorList(const aclTensor* const* items, uint64_t n) {
    TOPROPE_CALL;
    return kept("aclTensorList", new aclTensorList{row(items, n)});
}
// A list owns its tensors.
aclError aclDestroyTensorList(const aclTensorList* list) {
    TOPROPE_CALL;
    if (list != nullptr && known(list, "aclTensorList"))
        for (const aclTensor* t : list->items)
            if (t != nullptr) dropped("aclTensor", t);
    return dropped("aclTensorList", list);
}
aclScalarList* aclCreateScalarList(const aclScalar* const* items, uint64_t n) {
    TOPROPE_CALL;
    return kept("aclScalarList", new aclScalarList{row(items, n)});
}
aclError aclDestroyScalarList(const aclScalarList* list) {
    TOPROPE_CALL;
    if (list != nullptr && known(list, "aclScalarList"))
        for (const aclScalar* s : list->items)
            if (s != nullptr) dropped("aclScalar", s);
    return dropped("aclScalarList", list);
}
#define TOPROPE_SIZE(type, members)                                          \
    aclError aclGet##type##Size(const acl##type* list, uint64_t* n) {        \
        if (list == nullptr || n == nullptr) return ACL_ERROR_INVALID_PARAM; \
        *n = list->members.size();                                           \
        return ACL_SUCCESS;                                                  \
    }
TOPROPE_SIZE(TensorList, items)
TOPROPE_SIZE(IntArray, values)
TOPROPE_SIZE(FloatArray, values)
TOPROPE_SIZE(BoolArray, values)
#undef TOPROPE_SIZE
aclError aclGetViewShape(const aclTensor* t, int64_t** dims, uint64_t* n) {
    TOPROPE_CALL;
    execute_all();  // work that has been issued may tell it
    return t == nullptr ? ACL_ERROR_INVALID_PARAM : copied(t->dims, dims, n);
}
aclError aclGetStorageShape(const aclTensor* t, int64_t** dims, uint64_t* n) {
    return t == nullptr ? ACL_ERROR_INVALID_PARAM : copied(t->storage, dims, n);
}
aclError aclGetViewStrides(const aclTensor* t, int64_t** strides, uint64_t* n) {
    return t == nullptr ? ACL_ERROR_INVALID_PARAM : copied(strides_of(*t), strides, n);
}
aclError aclGetViewOffset(const aclTensor* t, int64_t* offset) {
    if (t == nullptr || offset == nullptr) return ACL_ERROR_INVALID_PARAM;
    *offset = t->offset;
    return ACL_SUCCESS;
}
aclError aclGetFormat(const aclTensor* t, aclFormat* format) {
    if (t == nullptr || format == nullptr) return ACL_ERROR_INVALID_PARAM;
    *format = t->format;
    return ACL_SUCCESS;
}
aclError aclGetDataType(const aclTensor* t, aclDataType* type) {
    if (t == nullptr || type == nullptr) return ACL_ERROR_INVALID_PARAM;
    *type = t->type;
    return ACL_SUCCESS;
}
aclError aclGetRawTensorAddr(const aclTensor* t, void** address) {
    if (t == nullptr || address == nullptr) return ACL_ERROR_INVALID_PARAM;
    *address = t->data;
    return ACL_SUCCESS;
}
aclError aclSetRawTensorAddr(aclTensor* t, void* address) {
    if (t == nullptr) return ACL_ERROR_INVALID_PARAM;
    t->data = address;
    return ACL_SUCCESS;
}

aclTensorDesc* aclCreateTensorDesc(aclDataType type, int n, const int64_t* dims, aclFormat format) {
    TOPROPE_CALL;
    return kept("aclTensorDesc", new aclTensorDesc{type, row(dims, static_cast<uint64_t>(n < 0 ? 0 : n)), format, {}});
}
void aclDestroyTensorDesc(const aclTensorDesc* d) {
    TOPROPE_CALL;
    dropped("aclTensorDesc", d);
}
aclDataType aclGetTensorDescType(const aclTensorDesc* d) { return d == nullptr ? ACL_DT_UNDEFINED : d->type; }
aclFormat aclGetTensorDescFormat(const aclTensorDesc* d) { return d == nullptr ? ACL_FORMAT_UNDEFINED : d->format; }
size_t aclGetTensorDescNumDims(const aclTensorDesc* d) { return d == nullptr ? 0 : d->dims.size(); }
int64_t aclGetTensorDescDim(const aclTensorDesc* d, size_t i) { return d == nullptr || i >= d->dims.size() ? -1 : d->dims[i]; }
aclError aclGetTensorDescDimV2(const aclTensorDesc* d, size_t i, int64_t* size) {
    if (d == nullptr || size == nullptr || i >= d->dims.size()) return ACL_ERROR_INVALID_PARAM;
    *size = d->dims[i];
    return ACL_SUCCESS;
}
size_t aclGetTensorDescElementCount(const aclTensorDesc* d) {
    if (d == nullptr) return 0;
    size_t count = 1;
    for (int64_t n : d->dims) count *= static_cast<size_t>(n);
    return count;
}
size_t aclGetTensorDescSize(const aclTensorDesc* d) {
    return d == nullptr ? 0 : aclGetTensorDescElementCount(d) * aclDataTypeSize(d->type);
}
void aclSetTensorDescName(aclTensorDesc* d, const char* name) {
    if (d != nullptr && name != nullptr) d->name = name;
}
const char* aclGetTensorDescName(aclTensorDesc* d) { return d == nullptr ? "" : d->name.c_str(); }
aclError aclSetTensorFormat(aclTensorDesc* d, aclFormat format) {
    if (d == nullptr) return ACL_ERROR_INVALID_PARAM;
    d->format = format;
    return ACL_SUCCESS;
}
aclError aclSetTensorShape(aclTensorDesc* d, int n, const int64_t* dims) {
    if (d == nullptr || n < 0) return ACL_ERROR_INVALID_PARAM;
    d->dims = row(dims, static_cast<uint64_t>(n));
    return ACL_SUCCESS;
}
aclError aclSetTensorPlaceMent(aclTensorDesc* d, aclMemType type) {
    if (d == nullptr) return ACL_ERROR_INVALID_PARAM;
    d->place = type;
    return ACL_SUCCESS;
}
aclDataBuffer* aclCreateDataBuffer(void* data, size_t bytes) {
    TOPROPE_CALL;
    return kept("aclDataBuffer", new aclDataBuffer{data, bytes});
}
aclError aclDestroyDataBuffer(const aclDataBuffer* b) {
    TOPROPE_CALL;
    return dropped("aclDataBuffer", b);
}
aclError aclUpdateDataBuffer(aclDataBuffer* b, void* data, size_t bytes) {
    if (b == nullptr) return ACL_ERROR_INVALID_PARAM;
    b->data = data, b->bytes = bytes;
    return ACL_SUCCESS;
}
void* aclGetDataBufferAddr(const aclDataBuffer* b) { return b == nullptr ? nullptr : b->data; }
size_t aclGetDataBufferSizeV2(const aclDataBuffer* b) { return b == nullptr ? 0 : b->bytes; }
uint32_t aclGetDataBufferSize(const aclDataBuffer* b) { return b == nullptr ? 0 : static_cast<uint32_t>(b->bytes); }
}
