// Versions, options and limits that programs ask for or set at their start. What is set is kept and given back; none of it changes how
// kernels run here.
#include <string.h>

#include <cstring>

#include "link.h"
#include "state.h"

using namespace toprope::device;

namespace {
struct PackageVersion {
    char version[128], parts[4][64], reserved[128];
};
struct MemoryUse {
    char name[32];
    uint64_t now, peak;
    size_t reserved[8];
};
constexpr const char* kVersion = "8.5.0";
std::map<int, std::string>& compile_options() {
    static auto& all = *new std::map<int, std::string>;
    return all;
}
aclError with_stream(aclrtStream stream) { return stream_of(stream) == nullptr ? ACL_ERROR_RT_PARAM_INVALID : ACL_SUCCESS; }
}  // namespace

extern "C" {
aclError aclsysGetCANNVersion(int, PackageVersion* out) {
    if (out == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    memset(out, 0, sizeof *out);
    strcpy(out->version, kVersion);
    strcpy(out->parts[0], "8"), strcpy(out->parts[1], "5"), strcpy(out->parts[2], "0"), strcpy(out->parts[3], "");
    return ACL_SUCCESS;
}
aclError aclsysGetVersionNum(char*, int32_t* number) {
    if (number == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *number = 80500000;
    return ACL_SUCCESS;
}
aclError aclsysGetVersionStr(char*, char* text) {
    if (text == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    strcpy(text, kVersion);
    return ACL_SUCCESS;
}
aclError aclGetCannAttributeList(const int** list, size_t* n) {
    if (list == nullptr || n == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    static const int none = 0;
    *list = &none, *n = 0;
    return ACL_SUCCESS;
}
aclError aclGetCannAttribute(int, int32_t* value) {
    if (value == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *value = 0;
    return ACL_SUCCESS;
}
aclError aclSetCompileopt(int option, const char* value) {
    TOPROPE_CALL;
    compile_options()[option] = value == nullptr ? "" : value;
    return ACL_SUCCESS;
}
size_t aclGetCompileoptSize(int option) {
    TOPROPE_CALL;
    return compile_options()[option].size() + 1;
}
aclError aclGetCompileopt(int option, char* value, size_t room) {
    TOPROPE_CALL;
    if (value == nullptr || room <= compile_options()[option].size()) return ACL_ERROR_RT_PARAM_INVALID;
    strcpy(value, compile_options()[option].c_str());
    return ACL_SUCCESS;
}
aclError aclopSetCompileFlag(int) { return ACL_SUCCESS; }
aclError aclrtDeviceGetStreamPriorityRange(int32_t* least, int32_t* greatest) {
    if (least != nullptr) *least = 7;
    if (greatest != nullptr) *greatest = 0;
    return ACL_SUCCESS;
}
aclError aclrtGetErrorVerbose(int32_t, void*) { return ACL_ERROR_RT_FEATURE_NOT_SUPPORT; }
aclError aclrtCmoAsync(void*, size_t, int, aclrtStream stream) {  // a hint for the cache
    TOPROPE_CALL;
    return with_stream(stream);
}
aclError aclrtRegDeviceStateCallback(const char*, void*, void*) { return ACL_SUCCESS; }
aclError aclrtRegStreamStateCallback(const char*, void*, void*) { return ACL_SUCCESS; }
aclError aclrtSetDeviceTaskAbortCallback(const char*, void*, void*) { return ACL_SUCCESS; }
aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
    TOPROPE_CALL;
    return with_stream(stream);
}
aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream) {
    TOPROPE_CALL;
    return with_stream(stream);
}
aclError aclrtGetMemUsageInfo(int32_t, MemoryUse* rows, size_t room, size_t* n) {
    TOPROPE_CALL;
    if (rows == nullptr || n == nullptr || room == 0) return ACL_ERROR_RT_PARAM_INVALID;
    memset(rows, 0, sizeof *rows);
    strcpy(rows->name, "device");
    rows->now = state().live_bytes, rows->peak = state().peak_bytes;
    *n = 1;
    return ACL_SUCCESS;
}
aclError aclrtGetDeviceCapability(int32_t, int, int32_t* value) {
    if (value == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *value = 0;
    return ACL_SUCCESS;
}
aclError aclrtMemSetAccess(void*, size_t, void*, size_t) { return ACL_SUCCESS; }
aclError aclrtGetEventAvailNum(uint32_t* n) {
    if (n == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *n = 65536 - static_cast<uint32_t>(state().events.size());
    return ACL_SUCCESS;
}
aclError aclrtSetOpExecuteTimeOutV2(uint64_t limit, uint64_t* actual) {
    if (actual != nullptr) *actual = limit;
    return ACL_SUCCESS;
}
aclError aclrtFreeWithDevSync(void* at) {
    TOPROPE_CALL;
    wait_for_all();
    return aclrtFree(at);
}
aclError aclrtFreeHostWithDevSync(void* at) {
    TOPROPE_CALL;
    wait_for_all();
    return aclrtFreeHost(at);
}
aclError aclrtDeviceGetBareTgid(int32_t* id) {
    if (id == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *id = static_cast<int32_t>(getpid());
    return ACL_SUCCESS;
}
// Settings of collective communication are kept by nobody: there is none.
struct HcclValue {
    int32_t value;
};
int HcclSetConfig(int, HcclValue) { return 0; }
int HcclGetConfig(int, HcclValue* out) {
    if (out == nullptr) return 1;
    out->value = 0;
    return 0;
}
}
