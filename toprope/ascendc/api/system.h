// Who and where this core is, how much memory it has, and the workspace. Pages: 工具接口/系统资源与变量/*.md, 资源管理/workspace/*.md.
#pragma once

#include "../machine/queue.h"
#include "registers.h"

namespace toprope {

inline constexpr Op kOpSystemCycle{"GetSystemCycle", Pipe::s, Kind::scalar, "scalar"};
inline constexpr Op kOpInitSocState{"InitSocState", Pipe::s, Kind::state, "set_state"};

}  // namespace toprope

namespace AscendC {

inline constexpr int32_t MIX = 0, AIC = 1, AIV = 2;

//: GetBlockNum | the number of blocks of the launch | any | A2 A3 310P 910 | 工具接口/系统资源与变量/GetBlockNum.md
inline int64_t GetBlockNum() { return toprope::launch_info.blocks; }
//: GetBlockIdx | the index of this core among the cores of its type | any | A2 A3 310P 910 | 工具接口/系统资源与变量/GetBlockIdx.md
inline int64_t GetBlockIdx() {
    const toprope::Core& core = *toprope::self;
    return core.type == toprope::CoreType::aiv ? core.block * toprope::launch_info.ratio + core.sub : core.block;
}
//: GetSubBlockIdx | the index of this vector core inside its AI core | any | A2 A3 | 工具接口/系统资源与变量/GetSubBlockIdx(ISASI).md
inline int64_t GetSubBlockIdx() { return toprope::self->sub; }
//: GetTaskRation | vector cores of an AI core, on a vector core; 1 on a cube core | any | A2 A3 310P | 工具接口/系统资源与变量/GetTaskRatio.md
inline int64_t GetTaskRation() { return toprope::self->type == toprope::CoreType::aiv ? toprope::launch_info.ratio : 1; }
//: GetTaskRatio | vector cores of an AI core, on a vector core; 1 on a cube core | any | A2 A3 310P | 工具接口/系统资源与变量/GetTaskRatio.md
inline int64_t GetTaskRatio() { return GetTaskRation(); }
//: GetSubBlockNum | vector cores of an AI core, on a vector core; 1 on a cube core | any | A2 A3 | 工具接口/系统资源与变量/GetSubBlockNum(ISASI).md
inline int64_t GetSubBlockNum() { return GetTaskRation(); }
//: GetDataBlockSizeInBytes | 32, the unit of on-chip addresses | any | A2 A3 310P 910 | 工具接口/系统资源与变量/GetDataBlockSizeInBytes.md
inline constexpr int16_t GetDataBlockSizeInBytes() { return 32; }
//: GetVecLen | 256, the bytes of one vector repeat | any | A2 A3 310P | 工具接口/系统资源与变量/GetVecLen.md
inline constexpr uint32_t GetVecLen() { return 256; }
//: GetArchVersion | the number behind __NPU_ARCH__, read as hexadecimal | any | A2 A3 310P 910 | 工具接口/系统资源与变量/GetArchVersion.md
inline void GetArchVersion(uint32_t& coreVersion) { coreVersion = toprope::kChip.version; }
//: GetProgramCounter | instructions issued so far; the same in every run | any | A2 A3 310P 910 | 工具接口/系统资源与变量/GetProgramCounter(ISASI).md
inline int64_t GetProgramCounter() { return static_cast<int64_t>(toprope::self->instrs.size); }
//: GetSystemCycle | a counter that goes up with every instruction; the same in every run, not a time | any | A2 A3 310P | 工具接口/系统资源与变量/GetSystemCycle(ISASI).md
inline int64_t GetSystemCycle(toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpSystemCycle, site, 1, 0);
    return static_cast<int64_t>(toprope::self->instrs.size);
}
//: GetUBSizeInBytes | bytes of the unified buffer of this chip | any | A2 A3 310P | 工具接口/系统资源与变量/GetUBSizeInBytes.md
inline constexpr uint32_t GetUBSizeInBytes() { return toprope::kChip.ub_bytes; }
//: GetRuntimeUBSize | bytes of the unified buffer of this core | any | A2 A3 | 工具接口/系统资源与变量/GetRuntimeUBSize.md
inline uint32_t GetRuntimeUBSize() { return toprope::self->bytes[static_cast<int>(toprope::Space::ub)]; }

//: InitSocState | resets masks, atomic mode and padding to the state a kernel starts in | any | A2 A3 310P 910 | 工具接口/系统初始化/InitSocState.md
inline void InitSocState(toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    record(kOpInitSocState, site, 1, 0);
    self->vector = {};
    self->atomic = toprope::AtomicOp::none;
    self->atomic_type = Dtype::none;
    special_register(kRegPadSet) = 0;
}

//: GetUserWorkspace | the user's part of the workspace; here the workspace argument has no system part in front | any | A2 A3 310P 910 | 资源管理/workspace/GetUserWorkspace.md
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }
//: SetSysWorkspace | names the workspace that GetSysWorkSpacePtr returns | any | A2 A3 310P 910 | 资源管理/workspace/SetSysWorkSpace.md
inline void SetSysWorkspace(GM_ADDR workspace) {
    toprope::special_register(toprope::kRegSystemWorkspace) = reinterpret_cast<uint64_t>(workspace);
}
//: SetSysWorkspaceForce | names the workspace that GetSysWorkSpacePtr returns, also if one is set | any | A2 A3 310P 910 | 资源管理/workspace/SetSysWorkSpace.md
inline void SetSysWorkspaceForce(GM_ADDR workspace) { SetSysWorkspace(workspace); }
//: GetSysWorkSpacePtr | the system workspace of the launch (16 MB on A2) | any | A2 A3 310P 910 | 资源管理/workspace/GetSysWorkSpacePtr.md
inline GM_ADDR GetSysWorkSpacePtr() {
    if (toprope::launch_info.system_workspace != nullptr) return toprope::launch_info.system_workspace;
    return reinterpret_cast<GM_ADDR>(toprope::special_register(toprope::kRegSystemWorkspace));
}
//: GetSysWorkSpaceSize | bytes of the system workspace | any | A2 A3 310P | 资源管理/workspace/GetSysWorkSpacePtr.md
inline uint64_t GetSysWorkSpaceSize() { return toprope::launch_info.system_workspace_bytes; }

//: GetHcclContext | the address that SetHcclContext named for a group, or null | any | A2 A3 | HCCL-Context/GetHcclContext
template <uint32_t index>
GM_ADDR GetHcclContext() {
    static_assert(index < 2, "GetHcclContext: a launch has groups 0 and 1");
    return reinterpret_cast<GM_ADDR>(toprope::self->registers[toprope::kRegHcclContext + index]);
}
//: SetHcclContext | names the context of a group | any | A2 A3 | HCCL-Context/SetHcclContext
template <uint32_t index>
void SetHcclContext(GM_ADDR context) {
    static_assert(index < 2, "SetHcclContext: a launch has groups 0 and 1");
    toprope::self->registers[toprope::kRegHcclContext + index] = reinterpret_cast<uint64_t>(context);
}

}  // namespace AscendC

#ifdef TOPROPE_AIC
inline constexpr int32_t g_coreType = AscendC::AIC;
#elif defined(TOPROPE_AIV)
inline constexpr int32_t g_coreType = AscendC::AIV;
#else
inline constexpr int32_t g_coreType = AscendC::MIX;
#endif

// Spellings without a namespace.
using AscendC::GetBlockIdx;
using AscendC::GetBlockNum;
using AscendC::GetSysWorkSpacePtr;
inline int64_t get_block_idx() { return toprope::self->block; }
inline int64_t get_block_num() { return AscendC::GetBlockNum(); }
inline int64_t get_subblockid() { return AscendC::GetSubBlockIdx(); }
inline int64_t get_subblockdim() { return AscendC::GetSubBlockNum(); }
