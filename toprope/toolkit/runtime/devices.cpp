// Devices, contexts, and what can be asked about them.
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "state.h"

namespace toprope::device {

namespace {
thread_local aclrtContext current_context = nullptr;
std::map<aclrtContext, int>& contexts() {
    static auto& all = *new std::map<aclrtContext, int>;
    return all;
}
std::map<int, int64_t>& options() {
    static auto& all = *new std::map<int, int64_t>;
    return all;
}
aclError use_device(int32_t id) {
    State& s = state();
    static const char* count = getenv("TOPROPE_DEVICES");
    if (count != nullptr) s.devices = atoi(count);
    if (id < 0 || id >= s.devices)
        return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d of %d; TOPROPE_DEVICES sets how many there are", id, s.devices);
    s.device = id;
    if (!s.device_was_used) {
        s.device_was_used = true;
        chip();
        open_link();
    }
    return ACL_SUCCESS;
}
}  // namespace

aclError no_device() {
    if (state().device >= 0) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_CONTEXT_NULL, "no device is set: call aclrtSetDevice first");
}

}  // namespace toprope::device

using namespace toprope::device;

extern "C" {
aclError aclInit(const char* config) {
    TOPROPE_CALL;
    State& s = state();
    if (s.initialised) return fail(ACL_ERROR_REPEAT_INITIALIZE, "it has been called already");
    if (config != nullptr && *config != 0) {
        FILE* file = fopen(config, "r");
        if (file == nullptr) return fail(ACL_ERROR_INVALID_FILE, "the configuration file %s cannot be read", config);
        fclose(file);
    }
    s.initialised = true;
    return ACL_SUCCESS;
}
aclError aclFinalize() {
    TOPROPE_CALL;
    State& s = state();
    if (!s.initialised) return fail(ACL_ERROR_UNINITIALIZE, "aclInit has not been called");
    s.initialised = false;
    return ACL_SUCCESS;
}
aclError aclFinalizeReference(uint64_t* count) {
    TOPROPE_CALL;
    if (count != nullptr) *count = 0;
    state().initialised = false;
    return ACL_SUCCESS;
}
aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
    if (major == nullptr || minor == nullptr || patch == nullptr) return ACL_ERROR_INVALID_PARAM;
    *major = ACL_MAJOR_VERSION, *minor = ACL_MINOR_VERSION, *patch = ACL_PATCH_VERSION;
    return ACL_SUCCESS;
}
aclError aclrtSetDevice(int32_t id) {
    TOPROPE_CALL;
    const aclError code = use_device(id);
    if (code == ACL_SUCCESS) ++state().device_uses[id];
    return code;
}
aclError aclrtResetDevice(int32_t id) {
    TOPROPE_CALL;
    if (id < 0 || id >= state().devices) return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d of %d", id, state().devices);
    const aclError code = wait_for_all();
    int& uses = state().device_uses[id];
    if (uses > 0) --uses;
    return code;
}
aclError aclrtResetDeviceForce(int32_t id) {
    TOPROPE_CALL;
    state().device_uses[id] = 1;
    return aclrtResetDevice(id);
}
aclError aclrtGetDevice(int32_t* id) {
    TOPROPE_CALL;
    if (id == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    *id = state().device;
    return no_device();
}
aclError aclrtGetDeviceCount(uint32_t* count) {
    TOPROPE_CALL;
    if (count == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    const char* wanted = getenv("TOPROPE_DEVICES");
    *count = wanted == nullptr ? 1 : static_cast<uint32_t>(atoi(wanted));
    return ACL_SUCCESS;
}
aclError aclrtGetUserDevIdByLogicDevId(int32_t logic, int32_t* user) {
    *user = logic;
    return ACL_SUCCESS;
}
aclError aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t* logic) {
    *logic = user;
    return ACL_SUCCESS;
}
aclError aclrtGetDeviceInfo(uint32_t, aclrtDevAttr attribute, int64_t* value) {
    TOPROPE_CALL;
    if (value == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    const Chip& c = chip();
    switch (attribute) {
        case ACL_DEV_ATTR_AICPU_CORE_NUM:
            *value = 0;
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_AICORE_CORE_NUM:
        case ACL_DEV_ATTR_CUBE_CORE_NUM:
            *value = c.aic;
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_VECTOR_CORE_NUM:
            *value = c.aiv;
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
            *value = c.space_bytes[c.split ? 0 : 2][1];
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
            *value = static_cast<int64_t>(c.memory_bytes);
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_L2_CACHE_SIZE:
            *value = static_cast<int64_t>(c.l2_bytes);
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_NPU_ARCH:
            *value = c.npu_arch;
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_IS_VIRTUAL:
        case ACL_DEV_ATTR_PHY_CHIP_ID:
        case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
            *value = 0;
            return ACL_SUCCESS;
        default:
            return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "attribute %d of the device is not known", static_cast<int>(attribute));
    }
}
aclError aclGetDeviceCapability(uint32_t id, aclDeviceInfo info, int64_t* value) {
    TOPROPE_CALL;
    return aclrtGetDeviceInfo(id,
                              info == ACL_DEVICE_INFO_AI_CORE_NUM       ? ACL_DEV_ATTR_CUBE_CORE_NUM
                              : info == ACL_DEVICE_INFO_VECTOR_CORE_NUM ? ACL_DEV_ATTR_VECTOR_CORE_NUM
                                                                        : ACL_DEV_ATTR_L2_CACHE_SIZE,
                              value);
}
aclError aclrtQueryDeviceStatus(int32_t, aclrtDeviceStatus* status) {
    if (status == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *status = ACL_RT_DEVICE_STATUS_NORMAL;
    return ACL_SUCCESS;
}
aclError aclrtGetRunMode(aclrtRunMode* mode) {
    if (mode == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *mode = ACL_HOST;
    return ACL_SUCCESS;
}
const char* aclrtGetSocName() {
    TOPROPE_CALL;
    return chip().shown.c_str();
}
aclError aclrtCreateContext(aclrtContext* context, int32_t device) {
    TOPROPE_CALL;
    if (context == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    const aclError code = use_device(device);
    if (code != ACL_SUCCESS) return code;
    *context = current_context = new_handle("context");
    contexts()[*context] = device;
    return ACL_SUCCESS;
}
aclError aclrtDestroyContext(aclrtContext context) {
    TOPROPE_CALL;
    wait_for_all();
    if (current_context == context) current_context = nullptr;
    return forget(context, "context") ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}
aclError aclrtSetCurrentContext(aclrtContext context) {
    TOPROPE_CALL;
    if (context == nullptr) return fail(ACL_ERROR_RT_CONTEXT_NULL, "a null context");
    const auto found = contexts().find(context);
    if (found != contexts().end() && !known(context, "context") &&
        context != reinterpret_cast<void*>(static_cast<intptr_t>(0x1000 + found->second))) {
        report("acl-use-after-free", here(), "uses", {}, "", "a context that is destroyed already");
        return ACL_ERROR_RT_CONTEXT_NULL;
    }
    current_context = context;
    return found == contexts().end() ? ACL_SUCCESS : use_device(found->second);
}
aclError aclrtGetCurrentContext(aclrtContext* context) {
    TOPROPE_CALL;
    if (context == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    if (no_device() != ACL_SUCCESS) return ACL_ERROR_RT_CONTEXT_NULL;
    if (current_context == nullptr) {  // the device's own context
        current_context = reinterpret_cast<void*>(static_cast<intptr_t>(0x1000 + state().device));
        contexts()[current_context] = state().device;
    }
    *context = current_context;
    return ACL_SUCCESS;
}
aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
    TOPROPE_CALL;
    if (stream == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "a null pointer");
    *stream = nullptr;
    return no_device();
}
aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* active) {
    TOPROPE_CALL;
    if (flags != nullptr) *flags = 0;
    if (active != nullptr) *active = state().device_uses.count(device) != 0 && state().device_uses[device] > 0;
    return ACL_SUCCESS;
}
aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t, int32_t) {
    *can = 1;
    return ACL_SUCCESS;
}
aclError aclrtDeviceEnablePeerAccess(int32_t, uint32_t) { return ACL_SUCCESS; }
aclError aclrtDeviceDisablePeerAccess(int32_t) { return ACL_SUCCESS; }
aclError aclrtSetTsDevice(int32_t) { return ACL_SUCCESS; }
aclError aclrtGetSysParamOpt(aclSysParamOpt option, int64_t* value) {
    TOPROPE_CALL;
    if (value == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    *value = options()[option];
    return ACL_SUCCESS;
}
aclError aclrtSetSysParamOpt(aclSysParamOpt option, int64_t value) {
    TOPROPE_CALL;
    options()[option] = value;
    return ACL_SUCCESS;
}
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt option, int64_t* value) { return aclrtGetSysParamOpt(option, value); }
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt option, int64_t value) { return aclrtSetSysParamOpt(option, value); }
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
    TOPROPE_CALL;
    options()[1000] = mode;
    return ACL_SUCCESS;
}
aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
    TOPROPE_CALL;
    const auto found = options().find(1000);
    *mode = found == options().end() ? ACL_RT_OVERFLOW_MODE_INFNAN : static_cast<aclrtFloatOverflowMode>(found->second);
    return ACL_SUCCESS;
}
aclError aclrtSetStreamOverflowSwitch(aclrtStream, uint32_t flag) {
    TOPROPE_CALL;
    options()[1001] = flag;
    return ACL_SUCCESS;
}
aclError aclrtGetStreamOverflowSwitch(aclrtStream, uint32_t* flag) {
    TOPROPE_CALL;
    *flag = static_cast<uint32_t>(options()[1001]);
    return ACL_SUCCESS;
}
aclError aclrtSetOpWaitTimeout(uint32_t) { return ACL_SUCCESS; }
aclError aclrtSetOpExecuteTimeOut(uint32_t) { return ACL_SUCCESS; }
aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t) { return ACL_SUCCESS; }
aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback) { return ACL_SUCCESS; }
aclError aclrtGetDeviceUtilizationRate(int32_t, aclrtUtilizationInfo* info) {
    if (info == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
    memset(info, 0, sizeof *info);
    info->memoryUtilization = static_cast<int32_t>(100 * state().live_bytes / (chip().memory_bytes + 1));
    return ACL_SUCCESS;
}
aclError aclrtGetDeviceResLimit(int32_t, aclrtDevResLimitType type, uint32_t* value) {
    *value = static_cast<uint32_t>(type == ACL_RT_DEV_RES_CUBE_CORE ? chip().aic : chip().aiv);
    return ACL_SUCCESS;
}
aclError aclrtGetStreamResLimit(aclrtStream, aclrtDevResLimitType type, uint32_t* value) { return aclrtGetDeviceResLimit(0, type, value); }
aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) { return aclrtGetDeviceResLimit(0, type, value); }

// Profiling marks and switches: accepted and without effect, because everything is timed anyway.
uint64_t aclprofStr2Id(const char* text) {
    uint64_t id = 1469598103934665603ull;
    for (; *text != 0; ++text) id = (id ^ static_cast<uint8_t>(*text)) * 1099511628211ull;
    return id;
}
aclError aclprofRangePushEx(const void*) { return ACL_SUCCESS; }
aclError aclprofRangePop() { return ACL_SUCCESS; }
aclError aclprofInit(const char*, size_t) { return ACL_SUCCESS; }
aclError aclprofFinalize() { return ACL_SUCCESS; }
aclError aclprofStart(const void*) { return ACL_SUCCESS; }
aclError aclprofStop(const void*) { return ACL_SUCCESS; }
void* aclprofCreateConfig(uint32_t*, uint32_t, int, const void*, uint64_t) { return const_cast<char*>("profile"); }
aclError aclprofDestroyConfig(const void*) { return ACL_SUCCESS; }
aclError aclprofSetConfig(int, const char*, size_t) { return ACL_SUCCESS; }
aclError aclmdlInitDump() { return ACL_SUCCESS; }
aclError aclmdlSetDump(const char*) { return ACL_SUCCESS; }
aclError aclmdlFinalizeDump() { return ACL_SUCCESS; }

uint64_t MsprofSysCycleTime() { return 0; }
uint64_t MsprofGetHashId(const char* text, size_t) { return aclprofStr2Id(text); }
int32_t MsprofRegisterCallback(uint32_t, void*) { return 0; }
int32_t MsprofReportApi(uint32_t, const void*) { return 0; }
int32_t MsprofReportAdditionalInfo(uint32_t, const void*, uint32_t) { return 0; }
int32_t MsprofReportCompactInfo(uint32_t, const void*, uint32_t) { return 0; }

// What the platform headers ask for: the chip as host/state.h lays it out, a name of 32 characters and numbers.
void toprope_present_chip(void* chip_out, size_t bytes) {
    std::lock_guard<std::recursive_mutex> hold(state().lock);
    const Chip& c = chip();
    if (bytes != 32 + sizeof c.host) return;
    memset(chip_out, 0, bytes);
    std::snprintf(static_cast<char*>(chip_out), 32, "%s", c.shown.c_str());
    memcpy(static_cast<char*>(chip_out) + 32, c.host, sizeof c.host);
}
}
