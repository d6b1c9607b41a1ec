// The runtime part of ACL: device, memory, copies, streams, events, kernels in files. Plain C. What stands here is there; other documented
// names are in the library too, and end the program with a message.
#ifndef TOPROPE_ACL_RT_H
#define TOPROPE_ACL_RT_H

#include "acl_base.h"

#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 17
#define ACL_PATCH_VERSION 0
#define ACL_EVENT_SYNC 0x00000001u
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002u
#define ACL_EVENT_TIME_LINE 0x00000008u
#define ACL_EVENT_DEVICE_USE_ONLY 0x00000010u
#define ACL_EVENT_EXTERNAL 0x00000020u
#define ACL_EVENT_IPC 0x00000040u
#define ACL_STREAM_FAST_LAUNCH 0x00000001u
#define ACL_STREAM_FAST_SYNC 0x00000002u
#define ACL_STREAM_PERSISTENT 0x00000004u
#define ACL_STREAM_HUGE 0x00000008u
#define ACL_STREAM_CPU_SCHEDULE 0x00000010u
#define ACL_STREAM_DEVICE_USE_ONLY 0x00000020u
#define ACL_CONTINUE_ON_FAILURE 0x00000000u
#define ACL_STOP_ON_FAILURE 0x00000001u
#define ACL_HOST_REG_MAPPED 0x2ul
#define ACL_HOST_REG_IOMEMORY 0x4ul
#define ACL_HOST_REG_READONLY 0x8ul
#define ACL_HOST_REG_PINNED 0x10000000ul

typedef enum {
    ACL_MEM_MALLOC_HUGE_FIRST,
    ACL_MEM_MALLOC_HUGE_ONLY,
    ACL_MEM_MALLOC_NORMAL_ONLY,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P,
    ACL_MEM_MALLOC_HUGE1G_ONLY,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
    ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000
} aclrtMemMallocPolicy;
typedef enum {
    ACL_MEMCPY_HOST_TO_HOST,
    ACL_MEMCPY_HOST_TO_DEVICE,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_DEVICE_TO_DEVICE,
    ACL_MEMCPY_DEFAULT,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE
} aclrtMemcpyKind;
typedef enum { ACL_DEVICE, ACL_HOST } aclrtRunMode;
typedef enum { ACL_EVENT_RECORDED_STATUS_NOT_READY = 0, ACL_EVENT_RECORDED_STATUS_COMPLETE = 1 } aclrtEventRecordedStatus;
typedef enum { ACL_EVENT_STATUS_COMPLETE = 0, ACL_EVENT_STATUS_NOT_READY = 1, ACL_EVENT_STATUS_RESERVED = 2 } aclrtEventStatus;
typedef enum {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
    ACL_EVENT_WAIT_STATUS_RESERVED = 0xffff
} aclrtEventWaitStatus;
typedef enum { ACL_STREAM_STATUS_COMPLETE = 0, ACL_STREAM_STATUS_NOT_READY = 1, ACL_STREAM_STATUS_RESERVED = 0xffff } aclrtStreamStatus;
typedef enum { ACL_CALLBACK_NO_BLOCK, ACL_CALLBACK_BLOCK } aclrtCallbackBlockType;
typedef enum { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;
typedef enum {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
    ACL_DEV_ATTR_WARP_SIZE = 202,
    ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204,
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
    ACL_DEV_ATTR_PHY_CHIP_ID = 402,
    ACL_DEV_ATTR_SUPER_POD_DEVICE_ID = 403,
    ACL_DEV_ATTR_CUST_OP_PRIVILEGE = 406,
    ACL_DEV_ATTR_IS_VIRTUAL = 501,
    ACL_DEV_ATTR_NPU_ARCH = 601
} aclrtDevAttr;
typedef enum {
    ACL_DEVICE_INFO_UNDEFINED = -1,
    ACL_DEVICE_INFO_AI_CORE_NUM = 0,
    ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
    ACL_DEVICE_INFO_L2_SIZE = 2
} aclDeviceInfo;
typedef enum {
    ACL_DDR_MEM,
    ACL_HBM_MEM,
    ACL_DDR_MEM_HUGE,
    ACL_DDR_MEM_NORMAL,
    ACL_HBM_MEM_HUGE,
    ACL_HBM_MEM_NORMAL,
    ACL_DDR_MEM_P2P_HUGE,
    ACL_DDR_MEM_P2P_NORMAL,
    ACL_HBM_MEM_P2P_HUGE,
    ACL_HBM_MEM_P2P_NORMAL
} aclrtMemAttr;
typedef enum { ACL_HOST_REGISTER_MAPPED = 0, ACL_HOST_REGISTER_IOMEMORY = 4, ACL_HOST_REGISTER_READONLY = 8 } aclrtHostRegisterType;
typedef enum {
    ACL_MEM_LOCATION_TYPE_HOST = 0,
    ACL_MEM_LOCATION_TYPE_DEVICE,
    ACL_MEM_LOCATION_TYPE_UNREGISTERED,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4
} aclrtMemLocationType;
typedef struct {
    uint32_t id;
    aclrtMemLocationType type;
} aclrtMemLocation;
typedef struct {
    aclrtMemLocation location;
    uint32_t pageSize;
    uint32_t rsv[4];
} aclrtPtrAttributes;
typedef enum { ACL_MEM_ALLOCATION_TYPE_PINNED = 0 } aclrtMemAllocationType;
typedef enum { ACL_MEM_HANDLE_TYPE_NONE = 0, ACL_MEM_HANDLE_TYPE_POSIX = 2 } aclrtMemHandleType;
typedef struct {
    aclrtMemHandleType handleType;
    aclrtMemAllocationType allocationType;
    aclrtMemAttr memAttr;
    aclrtMemLocation location;
    uint64_t reserve;
} aclrtPhysicalMemProp;
typedef enum {
    ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM,
    ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED,
    ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 0xffff
} aclrtMemGranularityOptions;
typedef void* aclrtDrvMemHandle;
typedef struct aclrtMallocConfig aclrtMallocConfig;
typedef enum { ACL_OPT_DETERMINISTIC = 0, ACL_OPT_ENABLE_DEBUG_KERNEL = 1, ACL_OPT_STRONG_CONSISTENCY = 2 } aclSysParamOpt;
typedef enum { ACL_RT_OVERFLOW_MODE_SATURATION = 0, ACL_RT_OVERFLOW_MODE_INFNAN, ACL_RT_OVERFLOW_MODE_UNDEF } aclrtFloatOverflowMode;
typedef enum { ACL_RT_DEVICE_STATUS_NORMAL = 0, ACL_RT_DEVICE_STATUS_ABNORMAL, ACL_RT_DEVICE_STATUS_END = 0xffff } aclrtDeviceStatus;
typedef enum {
    ACL_STREAM_ATTR_FAILURE_MODE = 1,
    ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2,
    ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3
} aclrtStreamAttr;
typedef union {
    uint64_t failureMode;
    uint32_t overflowSwitch, userCustomTag, reserve[4];
} aclrtStreamAttrValue;
typedef struct {
    int32_t cubeUtilization, vectorUtilization, aicpuUtilization, memoryUtilization;
    void* utilizationExtend;
} aclrtUtilizationInfo;
typedef enum { ACL_RT_DEV_RES_CUBE_CORE = 0, ACL_RT_DEV_RES_VECTOR_CORE } aclrtDevResLimitType;

typedef void (*aclrtCallback)(void* userData);
typedef void (*aclrtHostFunc)(void* args);
typedef struct rtExceptionInfo aclrtExceptionInfo;
typedef void (*aclrtExceptionInfoCallback)(aclrtExceptionInfo* info);

typedef void* aclrtBinary;
typedef void* aclrtBinHandle;
typedef void* aclrtFuncHandle;
typedef void* aclrtArgsHandle;
typedef void* aclrtParamHandle;
typedef enum {
    ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD = 1,
    ACL_RT_BINARY_LOAD_OPT_LAZY_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE = 3
} aclrtBinaryLoadOptionType;
typedef union {
    uint32_t isLazyLoad, magic, rsv[4];
    int32_t cpuKernelMode;
} aclrtBinaryLoadOptionValue;
typedef struct {
    aclrtBinaryLoadOptionType type;
    aclrtBinaryLoadOptionValue value;
} aclrtBinaryLoadOption;
typedef struct {
    aclrtBinaryLoadOption* options;
    size_t numOpt;
} aclrtBinaryLoadOptions;
#define ACL_RT_BINARY_MAGIC_ELF_AICORE 0x43554245u
#define ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE 0x41415246u
#define ACL_RT_BINARY_MAGIC_ELF_CUBE_CORE 0x41494343u
typedef struct aclrtLaunchKernelCfg aclrtLaunchKernelCfg;
typedef struct {
    uint32_t addrOffset, dataOffset;
} aclrtPlaceHolderInfo;

#ifdef __cplusplus
extern "C" {
#endif
aclError aclrtSetDevice(int32_t id);
aclError aclrtResetDevice(int32_t id);
aclError aclrtResetDeviceForce(int32_t id);
aclError aclrtGetDevice(int32_t* id);
aclError aclrtGetDeviceCount(uint32_t* count);
aclError aclrtGetDeviceInfo(uint32_t id, aclrtDevAttr attribute, int64_t* value);
aclError aclGetDeviceCapability(uint32_t id, aclDeviceInfo info, int64_t* value);
aclError aclrtQueryDeviceStatus(int32_t id, aclrtDeviceStatus* status);
aclError aclrtGetRunMode(aclrtRunMode* mode);
const char* aclrtGetSocName(void);
aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch);
aclError aclrtCreateContext(aclrtContext* context, int32_t device);
aclError aclrtDestroyContext(aclrtContext context);
aclError aclrtSetCurrentContext(aclrtContext context);
aclError aclrtGetCurrentContext(aclrtContext* context);
aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream);
aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* active);
aclError aclrtGetMemInfo(aclrtMemAttr attribute, size_t* free, size_t* total);
aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t device, int32_t peer);
aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags);
aclError aclrtDeviceDisablePeerAccess(int32_t peer);
aclError aclrtSetTsDevice(int32_t id);
aclError aclrtGetSysParamOpt(aclSysParamOpt option, int64_t* value);
aclError aclrtSetSysParamOpt(aclSysParamOpt option, int64_t value);
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt option, int64_t* value);
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt option, int64_t value);
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);
aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode);
aclError aclrtSetOpWaitTimeout(uint32_t seconds);
aclError aclrtSetOpExecuteTimeOut(uint32_t seconds);
aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback);
aclError aclrtGetLastError(aclrtLastErrLevel level);
aclError aclrtPeekAtLastError(aclrtLastErrLevel level);

aclError aclrtMalloc(void** at, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtMallocAlign32(void** at, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtMallocCached(void** at, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtMallocWithCfg(void** at, size_t bytes, aclrtMemMallocPolicy policy, aclrtMallocConfig* config);
aclError aclrtMallocHost(void** at, size_t bytes);
aclError aclrtMallocHostWithCfg(void** at, uint64_t bytes, aclrtMallocConfig* config);
aclError aclrtFree(void* at);
aclError aclrtFreeHost(void* at);
aclError aclrtMemFlush(void* at, size_t bytes);
aclError aclrtMemInvalidate(void* at, size_t bytes);
aclError aclrtHostRegister(void* at, uint64_t bytes, aclrtHostRegisterType type, void** device);
aclError aclrtHostRegisterV2(void* at, uint64_t bytes, uint32_t flag);
aclError aclrtHostGetDevicePointer(void* at, void** device, uint32_t flag);
aclError aclrtHostUnregister(void* at);
aclError aclrtPointerGetAttributes(const void* at, aclrtPtrAttributes* attributes);
aclError aclrtReserveMemAddress(void** at, size_t bytes, size_t alignment, void* wanted, uint64_t flags);
aclError aclrtReleaseMemAddress(void* at);
aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t bytes, const aclrtPhysicalMemProp* prop, uint64_t flags);
aclError aclrtFreePhysical(aclrtDrvMemHandle handle);
aclError aclrtMapMem(void* at, size_t bytes, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);
aclError aclrtUnmapMem(void* at);
aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop, aclrtMemGranularityOptions option, size_t* bytes);
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemcpyAsyncWithCondition(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemcpy2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, aclrtMemcpyKind kind);
aclError aclrtMemcpy2dAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemset(void* at, size_t room, int32_t value, size_t bytes);
aclError aclrtMemsetAsync(void* at, size_t room, int32_t value, size_t bytes, aclrtStream stream);

aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flags);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtDestroyStreamForce(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t ms);
aclError aclrtSynchronizeDevice(void);
aclError aclrtSynchronizeDeviceWithTimeout(int32_t ms);
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status);
aclError aclrtStreamAbort(aclrtStream stream);
aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t* priority);
aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t* flags);
aclError aclrtStreamGetId(aclrtStream stream, int32_t* id);
aclError aclrtGetStreamAvailableNum(uint32_t* count);
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);
aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr attribute, aclrtStreamAttrValue* value);

aclError aclrtCreateEvent(aclrtEvent* event);
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flags);
aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flags);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t ms);
aclError aclrtSynchronizeEvent(aclrtEvent event);
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t ms);
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status);
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status);
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status);
aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end);
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* microseconds);
aclError aclrtCreateNotify(aclrtNotify* notify, uint64_t flags);
aclError aclrtDestroyNotify(aclrtNotify notify);
aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);
aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t ms);

aclError aclrtSubscribeReport(uint64_t thread, aclrtStream stream);
aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream stream);
aclError aclrtLaunchCallback(aclrtCallback function, void* data, aclrtCallbackBlockType block, aclrtStream stream);
aclError aclrtProcessReport(int32_t ms);
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc function, void* data);

aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options, aclrtBinHandle* handle);
aclError aclrtBinaryLoadFromData(const void* data, size_t bytes, const aclrtBinaryLoadOptions* options, aclrtBinHandle* handle);
aclError aclrtBinaryUnLoad(aclrtBinHandle handle);
aclError aclrtBinaryGetFunction(const aclrtBinHandle handle, const char* name, aclrtFuncHandle* function);
aclError aclrtGetFunctionName(aclrtFuncHandle function, uint32_t room, char* name);
aclError aclrtKernelArgsInit(aclrtFuncHandle function, aclrtArgsHandle* arguments);
aclError aclrtKernelArgsAppend(aclrtArgsHandle arguments, void* value, size_t bytes, aclrtParamHandle* parameter);
aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle arguments, aclrtParamHandle parameter, void* value, size_t bytes);
aclError aclrtKernelArgsFinalize(aclrtArgsHandle arguments);
aclError aclrtLaunchKernel(aclrtFuncHandle function, uint32_t blocks, const void* values, size_t bytes, aclrtStream stream);
aclError aclrtLaunchKernelV2(aclrtFuncHandle function, uint32_t blocks, const void* values, size_t bytes, aclrtLaunchKernelCfg* config,
                             aclrtStream stream);
aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* config,
                                     aclrtArgsHandle arguments, void* reserved);
#ifdef __cplusplus
}
#endif

#ifndef TOPROPE_NO_SITES
#define aclrtMalloc(...) TOPROPE_AT(aclrtMalloc)(__VA_ARGS__)
#define aclrtMallocAlign32(...) TOPROPE_AT(aclrtMallocAlign32)(__VA_ARGS__)
#define aclrtMallocCached(...) TOPROPE_AT(aclrtMallocCached)(__VA_ARGS__)
#define aclrtMallocHost(...) TOPROPE_AT(aclrtMallocHost)(__VA_ARGS__)
#define aclrtFree(...) TOPROPE_AT(aclrtFree)(__VA_ARGS__)
#define aclrtFreeHost(...) TOPROPE_AT(aclrtFreeHost)(__VA_ARGS__)
#define aclrtHostRegister(...) TOPROPE_AT(aclrtHostRegister)(__VA_ARGS__)
#define aclrtHostUnregister(...) TOPROPE_AT(aclrtHostUnregister)(__VA_ARGS__)
#define aclrtMallocPhysical(...) TOPROPE_AT(aclrtMallocPhysical)(__VA_ARGS__)
#define aclrtFreePhysical(...) TOPROPE_AT(aclrtFreePhysical)(__VA_ARGS__)
#define aclrtMapMem(...) TOPROPE_AT(aclrtMapMem)(__VA_ARGS__)
#define aclrtUnmapMem(...) TOPROPE_AT(aclrtUnmapMem)(__VA_ARGS__)
#define aclrtMemcpy(...) TOPROPE_AT(aclrtMemcpy)(__VA_ARGS__)
#define aclrtMemcpyAsync(...) TOPROPE_AT(aclrtMemcpyAsync)(__VA_ARGS__)
#define aclrtMemset(...) TOPROPE_AT(aclrtMemset)(__VA_ARGS__)
#define aclrtMemsetAsync(...) TOPROPE_AT(aclrtMemsetAsync)(__VA_ARGS__)
#define aclrtCreateContext(...) TOPROPE_AT(aclrtCreateContext)(__VA_ARGS__)
#define aclrtCreateStream(...) TOPROPE_AT(aclrtCreateStream)(__VA_ARGS__)
#define aclrtCreateStreamWithConfig(...) TOPROPE_AT(aclrtCreateStreamWithConfig)(__VA_ARGS__)
#define aclrtDestroyStream(...) TOPROPE_AT(aclrtDestroyStream)(__VA_ARGS__)
#define aclrtDestroyStreamForce(...) TOPROPE_AT(aclrtDestroyStreamForce)(__VA_ARGS__)
#define aclrtSynchronizeStream(...) TOPROPE_AT(aclrtSynchronizeStream)(__VA_ARGS__)
#define aclrtCreateEvent(...) TOPROPE_AT(aclrtCreateEvent)(__VA_ARGS__)
#define aclrtCreateEventWithFlag(...) TOPROPE_AT(aclrtCreateEventWithFlag)(__VA_ARGS__)
#define aclrtCreateEventExWithFlag(...) TOPROPE_AT(aclrtCreateEventExWithFlag)(__VA_ARGS__)
#define aclrtDestroyEvent(...) TOPROPE_AT(aclrtDestroyEvent)(__VA_ARGS__)
#define aclrtRecordEvent(...) TOPROPE_AT(aclrtRecordEvent)(__VA_ARGS__)
#define aclrtStreamWaitEvent(...) TOPROPE_AT(aclrtStreamWaitEvent)(__VA_ARGS__)
#define aclrtLaunchKernel(...) TOPROPE_AT(aclrtLaunchKernel)(__VA_ARGS__)
#define aclrtLaunchKernelWithConfig(...) TOPROPE_AT(aclrtLaunchKernelWithConfig)(__VA_ARGS__)
#endif

#endif
