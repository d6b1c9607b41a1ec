// Sizes of the chip by context (opbase: Ops::Base).
#pragma once

#include "../exe_graph/runtime/tiling_context.h"
#include "../exe_graph/runtime/tiling_parse_context.h"
#include "../log/log.h"
#include "../tiling/platform/platform_ascendc.h"

namespace Ops {
namespace Base {

template <typename Context>
platform_ascendc::PlatformAscendC platform_of(const Context* context) {
    return platform_ascendc::PlatformAscendC(context == nullptr ? nullptr : context->GetPlatformInfo());
}
template <typename Context>
uint32_t GetAivCoreNum(const Context* context) {
    return platform_of(context).GetCoreNumAiv();
}
template <typename Context>
uint32_t GetAicCoreNum(const Context* context) {
    return platform_of(context).GetCoreNumAic();
}
template <typename Context>
uint32_t GetUbSize(const Context* context) {
    uint64_t bytes = 0;
    platform_of(context).GetCoreMemSize(platform_ascendc::CoreMemType::UB, bytes);
    return static_cast<uint32_t>(bytes);
}
template <typename Context>
uint32_t GetWorkspaceSize(const Context* context) {
    return platform_of(context).GetLibApiWorkSpaceSize();
}
template <typename Context>
uint32_t GetUbBlockSize(const Context*) {
    return 32;
}
template <typename Context>
uint32_t GetVRegSize(const Context*) {
    return 256;
}
template <typename Context>
uint32_t GetCacheLineSize(const Context*) {
    return 256;
}
template <typename Context>
uint32_t GetSectorCacheLineSize(const Context*) {
    return 128;
}
template <typename Context>
uint32_t GetSimtMaxThreadNum(const Context*) {
    return 2048;
}
template <typename Context>
uint32_t GetSimtMaxDCacheSize(const Context*) {
    return 128 * 1024;
}
template <typename Context>
uint32_t GetNddmaDcacheSize(const Context*) {
    return 8192;
}
// Whether the chip has vector registers that programs address (Ascend 950).
template <typename Context>
bool IsRegbaseSocVersion(const Context* context) {
    return platform_of(context).GetVecRegLen() != 0;
}

}  // namespace Base
}  // namespace Ops
