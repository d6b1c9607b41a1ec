// Names of cube and mixed kernels without a page of their own: event calls between the cores of a group, unit-flag values, constants.
#pragma once

#include "cross_core.h"
#include "load_data.h"
#include "mmad.h"

// Unit flag of Mmad and Fixpipe: off, and the modes check and check-and-set. Page: UnitFlag.
enum unit_flag_t : uint8_t { UFMode0 = 0, UFMode1, UFMode2, UFMode3 };

namespace AscendC {

// Flag numbers that SyncAll keeps for itself. Page: CrossCoreSetFlag(ISASI).
inline constexpr uint16_t SYNC_AIC_FLAG = 11, SYNC_AIV_FLAG = 12, SYNC_AIC_AIV_FLAG = 13, SYNC_AIV_ONLY_ALL = 14;
inline constexpr int32_t HALF_FACTOR = 2;
inline constexpr uint32_t RESERVED_WORKSPACE = 16 * 1024 * 1024;

//: NotifyEvent, WaitEvent | CrossCoreSetFlag in mode 2 and CrossCoreWaitFlag: between the cube core and its vector cores | - | A2 A3 | AIV核上的ND2NZ格式转换
template <pipe_t pipe>
void NotifyEvent(uint16_t flagId, toprope::Site site = toprope::Site::here()) {
    CrossCoreSetFlag<2, pipe>(flagId, site);
}
template <pipe_t pipe = PIPE_S>
void WaitEvent(uint16_t flagId, toprope::Site site = toprope::Site::here()) {
    CrossCoreWaitFlag<0, pipe>(flagId, site);
}

// The functions below LoadData and Mmad, called by name in some kernels.
template <typename T, typename Params>
void LoadDataImpl(const LocalTensor<T>& dst, const LocalTensor<T>& src, const Params& params, toprope::Site site = toprope::Site::here()) {
    LoadData(dst, src, params, site);
}
template <typename T, typename U, typename S>
void MmadImpl(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const MmadParams& params,
              toprope::Site site = toprope::Site::here()) {
    Mmad(dst, fm, filter, params, site);
}
inline void Load3DSetFMatrixCal(uint16_t l1H, uint16_t l1W, const uint8_t padList[4]) { toprope::FeatureMap::store(l1H, l1W, padList); }
// Where the hardware keeps the flags between cores: the launcher's business here.
inline void SetSyncBaseAddr(uint64_t) {}

// An element type of later chips, so that templates which ask for it compile.
struct fp8_e8m0_t {
    uint8_t bits;
};

struct TrueType {};
struct FalseType {};

}  // namespace AscendC

using AscendC::FalseType;
using AscendC::NotifyEvent;
using AscendC::TrueType;
using AscendC::WaitEvent;

// Tells the vendor's build that the operator has a deterministic variant.
#define ENABLE_DETERMINISTIC()
