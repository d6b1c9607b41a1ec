// Synchronisation between cores. A waiting core gives its turn to the others; if none can go on, the deadlock report tells what it waits
// for and who has not done their part. Pages: 同步控制/核间同步/*.md.
#pragma once

#include "../machine/vector.h"
#include "registers.h"
#include "sync.h"
#include "system.h"

#include <cstdio>

namespace toprope {

inline constexpr Op kCrossSet{"CrossCoreSetFlag", Pipe::s, Kind::cross_set, "cross_set"};
inline constexpr Op kCrossWait{"CrossCoreWaitFlag", Pipe::s, Kind::cross_wait, "cross_wait"};
inline constexpr Op kSoftSet{"SoftSyncSet", Pipe::mte3, Kind::cross_set, "sync_soft_set"};
inline constexpr Op kSoftWait{"SoftSyncWait", Pipe::s, Kind::cross_wait, "sync_soft_wait"};

// Flag numbers in the trace of what is synchronised through GM: 16 is the software SyncAll (everybody with everybody, mode 0);
// from 32 on each number is one slot, and its n-th wait comes after its n-th set (mode 3).
inline constexpr uint32_t kSoftAllFlag = 16, kFirstSlotFlag = 32, kSlotFlags = 224, kSlotMode = 3;

inline const char* core_type_name(CoreType type) { return type == CoreType::aic ? "AIC" : (type == CoreType::aiv ? "AIV" : "core"); }
// The number GetBlockIdx gives on that core.
inline uint32_t block_index_of(const Core& core) {
    return core.type == CoreType::aiv ? core.block * launch_info.ratio + core.sub : core.block;
}

// ---- flags in hardware ---------------------------------------------------------------------------------------------------

// Who must report before anybody is released: mode 0 all cores of one type, mode 1 the AIVs of one AI core, mode 2 one side of an AI core.
inline bool reports_with(const Core& core, const Core& reporter, uint32_t mode) {
    if (core.type != reporter.type) return false;
    return mode == 0 || core.block == reporter.block;
}
inline bool released_by(const Core& core, const Core& reporter, uint32_t mode) {
    if (mode == 2) return core.block == reporter.block && core.type != reporter.type;
    return reports_with(core, reporter, mode);
}

inline void cross_core_set(uint32_t mode, Pipe pipe, uint32_t flag, Site site) {
    if (flag >= kCrossFlags) {
        report("cross-flag-id-out-of-range", site, &kCrossSet,
               "CrossCoreSetFlag: flag %u, but flags go from 0 to 15; the hardware uses the low four bits, %u", flag, flag % kCrossFlags);
        flag %= kCrossFlags;
    }
    if (pipe == Pipe::s || pipe == Pipe::all)
        report("cross-flag-pipe", site, &kCrossSet, "CrossCoreSetFlag on pipe %s: it must be one of V, M, MTE1, MTE2, MTE3, FIX",
               kPipeNames[static_cast<int>(pipe)]);
    if (mode == 2 && !launch_info.mixed)
        report("cross-flag-without-partner", site, &kCrossSet,
               "CrossCoreSetFlag in mode 2 speaks to the %s of the AI core, and this kernel runs on its %s alone",
               self->type == CoreType::aic ? "vector cores" : "cube core", self->type == CoreType::aic ? "cube core" : "vector cores");
    record(kCrossSet, pipe, site, mode << 8 | flag, mode);
    ++self->cross_reported[mode][flag];
    for (uint32_t i = 0; i < core_count(); ++i)
        if (reports_with(*core_at(i), *self, mode) && core_at(i)->cross_reported[mode][flag] == 0) return;
    for (uint32_t i = 0; i < core_count(); ++i) {
        Core& core = *core_at(i);
        if (reports_with(core, *self, mode)) --core.cross_reported[mode][flag];
        if (!released_by(core, *self, mode)) continue;
        if (core.cross_flag[flag] != 0xff) ++core.cross_flag[flag];  // the check of the trace reports more than a counter holds
    }
}

// What a blocked core waits for, kept up to date for the deadlock report.
struct CrossWait {
    Core* core;
    uint32_t flag;
    char text[200];
};

inline void describe_cross_wait(CrossWait& w) {
    int used = std::snprintf(w.text, sizeof w.text, "flag %u (CrossCoreWaitFlag on %s %u)", w.flag, core_type_name(w.core->type),
                             block_index_of(*w.core));
    const auto append = [&](auto... arguments) {
        if (used >= 0 && used < static_cast<int>(sizeof w.text))
            used += std::snprintf(w.text + used, sizeof w.text - static_cast<size_t>(used), arguments...);
    };
    // A set that is not complete names its missing cores; without any, nobody has set the flag.
    for (uint32_t mode = 0; mode < kCrossModes; ++mode)
        for (uint32_t i = 0; i < core_count(); ++i) {
            const Core& reporter = *core_at(i);
            if (reporter.cross_reported[mode][w.flag] == 0 || !released_by(*w.core, reporter, mode)) continue;
            append("; mode %u set, but not by", mode);
            for (uint32_t j = 0; j < core_count(); ++j)
                if (reports_with(*core_at(j), reporter, mode) && core_at(j)->cross_reported[mode][w.flag] == 0)
                    append(" %s %u", core_type_name(core_at(j)->type), block_index_of(*core_at(j)));
            return;
        }
    append("; no core that could release it has set it");
}

inline void cross_core_wait(uint32_t flag, Site site) {
    if (flag >= kCrossFlags) {
        report("cross-flag-id-out-of-range", site, &kCrossWait,
               "CrossCoreWaitFlag: flag %u, but flags go from 0 to 15; the hardware uses the low four bits, %u", flag, flag % kCrossFlags);
        flag %= kCrossFlags;
    }
    CrossWait w{self, flag, {}};
    const auto ready = [](void* argument) {
        auto& wait = *static_cast<CrossWait*>(argument);
        if (wait.core->cross_flag[wait.flag] != 0) return true;
        describe_cross_wait(wait);
        return false;
    };
    wait_until(ready, &w, w.text, site);
    --self->cross_flag[flag];
    record(kCrossWait, site, flag, 0);
}

// ---- flags in GM ---------------------------------------------------------------------------------------------------------

inline constexpr uint64_t kSlotBytes = 32;

// Slot `index` of a workspace in GM: one 32-byte piece, of which the first int32 counts. Null after a report if it lies outside.
inline int32_t* sync_slot(const AscendC::GlobalTensor<int32_t>& gm, uint64_t index, const Op& op, Site site) {
    auto* at = reinterpret_cast<uint8_t*>(gm.pointer()) + index * kSlotBytes;
    return gm_address(at, kSlotBytes, op, site, true) != 0 ? reinterpret_cast<int32_t*>(at) : nullptr;
}

struct SlotWait {
    const int32_t* first;
    uint32_t slots;  // kSlotBytes apart
    int32_t value;
    bool at_least;
    const char* caller;
    uint32_t who;
    char text[160];
    bool holds(uint32_t i) const { return at_least ? first[i * 8] >= value : first[i * 8] == value; }
};

inline void wait_slots(SlotWait w, Site site) {
    const auto ready = [](void* argument) {
        auto& wait = *static_cast<SlotWait*>(argument);
        for (uint32_t i = 0; i < wait.slots; ++i)
            if (!wait.holds(i)) {
                std::snprintf(wait.text, sizeof wait.text, "%s on AIV %u: slot %u of the workspace is %d, it must become %d", wait.caller,
                              wait.who, i, wait.first[i * 8], wait.value);
                return false;
            }
        return true;
    };
    wait_until(ready, &w, w.text, site);
}

template <typename T>
bool require_sync_buffer(const Op& op, const AscendC::LocalTensor<T>& ub, uint64_t bytes, Site site) {
    return require_operand(op, "ubWorkspace", ub, bytes, kBlockBytes, site);
}

// Both workspaces count as used; what passes through them is modelled as flags, not as copies.
inline void touch_workspaces(const AscendC::GlobalTensor<int32_t>& gm, const AscendC::LocalTensor<int32_t>& ub, Site site) {
    touch_spared(ub);
    const uint64_t address = gm_address(gm.pointer(), kSlotBytes, kSoftSet, site, true);
    if (self->instrs.size != 0) touch(self->instrs.data[self->instrs.size - 1], Space::gm, Mode::read, address, 0);
}

inline uint32_t slot_flag(uint32_t slot) { return kFirstSlotFlag + slot % kSlotFlags; }
inline bool has_vector_unit() { return self->type != CoreType::aic; }

}  // namespace toprope

namespace AscendC {

//: CrossCoreSetFlag | reports to the other cores of its group that a pipe's earlier instructions are done | any | A2 A3 | 同步控制/核间同步/CrossCoreSetFlag(ISASI).md
template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::kChip.cross_modes != 0 || modeId > 255,
                  "CrossCoreSetFlag: this chip has no flags between cores; use SyncAll or IBSet/IBWait with a workspace");
    static_assert(modeId < toprope::kChip.cross_modes || toprope::kChip.cross_modes == 0,
                  "CrossCoreSetFlag: this chip has modes 0, 1 and 2 (950: 0, 1, 2 and 4)");
    toprope::cross_core_set(modeId, toprope::pipe_of(pipe), flagId, site);
}
//: CrossCoreWaitFlag | holds the core back until its group has reported, and counts the flag down | any | A2 A3 | 同步控制/核间同步/CrossCoreWaitFlag(ISASI).md
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::kChip.cross_modes != 0 || modeId > 255,
                  "CrossCoreWaitFlag: this chip has no flags between cores; use SyncAll or IBSet/IBWait with a workspace");
    toprope::cross_core_wait(flagId, site);
}

struct SyncAllConfig {
    pipe_t triggerPipe, waitPipe;
};
inline constexpr SyncAllConfig DEFAULT_SYNC_ALL_CONFIG = {PIPE_ALL, PIPE_ALL};

//: SyncAll | waits until all vector cores, or all cores, have come to this point | any | A2 A3 310P 910 | 同步控制/核间同步/SyncAll.md
template <bool isAIVOnly = true, const SyncAllConfig& config = DEFAULT_SYNC_ALL_CONFIG>
void SyncAll(toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(kChip.cross_modes != 0 || (isAIVOnly && !isAIVOnly),
                  "SyncAll without a workspace needs hardware flags, which this chip does not have");
    constexpr uint32_t all_aic = 11, to_aic = 12, to_aiv = 13, all_aiv = 14;  // the numbers the page reserves
    const Pipe trigger = isAIVOnly && config.triggerPipe != PIPE_ALL ? pipe_of(config.triggerPipe) : Pipe::mte3;
    if (!isAIVOnly || config.triggerPipe == PIPE_ALL) toprope::pipe_barrier(Pipe::all, site);
    if constexpr (isAIVOnly) {
        if (self->type == CoreType::aic) return;
        cross_core_set(0, trigger, all_aiv, site);
        cross_core_wait(all_aiv, site);
    } else if (self->type == CoreType::aic) {
        cross_core_wait(to_aic, site);
        cross_core_set(0, Pipe::fix, all_aic, site);
        cross_core_wait(all_aic, site);
        cross_core_set(2, Pipe::fix, to_aiv, site);
    } else {
        cross_core_set(2, Pipe::mte3, to_aic, site);
        cross_core_wait(to_aiv, site);
    }
}
// Through GM: every core counts its own slot up and waits until the slots of all have reached its count.
template <bool isAIVOnly = true>
void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace, const int32_t usedCores = 0,
             toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (!has_vector_unit()) return;
    const uint32_t all = launch_info.blocks * launch_info.ratio, cores = usedCores > 0 ? static_cast<uint32_t>(usedCores) : all,
                   me = block_index_of(*self);
    if (cores > all) report("too-many-cores", site, &kSoftSet, "SyncAll for %u cores, but the launch has %u", cores, all);
    toprope::pipe_barrier(Pipe::all, site);
    int32_t* first = sync_slot(gmWorkspace, 0, kSoftSet, site);
    int32_t* mine = sync_slot(gmWorkspace, me, kSoftSet, site);
    if (!require_sync_buffer(kSoftSet, ubWorkspace, uint64_t{cores} * kSlotBytes, site) || first == nullptr || mine == nullptr ||
        sync_slot(gmWorkspace, cores - 1, kSoftSet, site) == nullptr)
        return;
    if (special_register(kRegSoftSyncs)++ == 0 && *mine != 0)
        report("sync-workspace-not-zero", site, &kSoftSet,
               "SyncAll: slot %u of the workspace holds %d before the first SyncAll; all slots must start at 0", me, *mine);
    ++*mine;
    record(kSoftSet, site, kSoftAllFlag, 0);
    touch_workspaces(gmWorkspace, ubWorkspace, site);
    wait_slots({first, cores, *mine, true, "SyncAll", me, {}}, site);
    record(kSoftWait, site, kSoftAllFlag, 0);
}

//: IBSet | marks one slot of a workspace in GM for a core that waits with IBWait | int32 | A2 A3 310P 910 | 同步控制/核间同步/IBSet.md
template <bool isAIVOnly = true>
void IBSet(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace, int32_t blockIdx, int32_t eventID,
           toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (!has_vector_unit()) return;
    const uint32_t cores = launch_info.blocks * (isAIVOnly || !kChip.split ? 1 : 2),
                   slot = cores * static_cast<uint32_t>(eventID) + static_cast<uint32_t>(blockIdx);
    int32_t* at = sync_slot(gmWorkspace, slot, kSoftSet, site);
    if (!require_sync_buffer(kSoftSet, ubWorkspace, kSlotBytes, site) || at == nullptr) return;
    toprope::pipe_barrier(Pipe::all, site);
    wait_slots({at, 1, 0, false, "IBSet", block_index_of(*self), {}}, site);  // until the last mark has been taken
    *at = 1;
    record(kSoftSet, site, kSlotMode << 8 | slot_flag(slot), 0);
    touch_workspaces(gmWorkspace, ubWorkspace, site);
}
//: IBWait | waits for the mark that another core sets with IBSet, and takes it | int32 | A2 A3 310P 910 | 同步控制/核间同步/IBWait.md
template <bool isAIVOnly = true>
void IBWait(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace, int32_t blockIdx, int32_t eventID,
            toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (!has_vector_unit()) return;
    const uint32_t cores = launch_info.blocks * (isAIVOnly || !kChip.split ? 1 : 2),
                   slot = cores * static_cast<uint32_t>(eventID) + static_cast<uint32_t>(blockIdx);
    int32_t* at = sync_slot(gmWorkspace, slot, kSoftWait, site);
    if (!require_sync_buffer(kSoftWait, ubWorkspace, kSlotBytes, site) || at == nullptr) return;
    toprope::pipe_barrier(Pipe::all, site);
    wait_slots({at, 1, 1, false, "IBWait", block_index_of(*self), {}}, site);
    *at = 0;
    record(kSoftWait, site, slot_flag(slot), 0);
    touch_workspaces(gmWorkspace, ubWorkspace, site);
}

//: InitDetermineComputeWorkspace | prepares the workspace of WaitPreBlock and NotifyNextBlock | int32 | A2 A3 310P | 同步控制/核间同步/InitDetermineComputeWorkspace.md
inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t>& gmWorkspace, LocalTensor<int32_t>& ubWorkspace,
                                          toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (!has_vector_unit()) return;
    const uint32_t cores = launch_info.blocks * launch_info.ratio, me = block_index_of(*self);
    int32_t* first = sync_slot(gmWorkspace, 0, kSoftSet, site);
    if (!require_sync_buffer(kSoftSet, ubWorkspace, cores * kSlotBytes + kSlotBytes, site) || first == nullptr ||
        sync_slot(gmWorkspace, cores - 1, kSoftSet, site) == nullptr)
        return;
    const uint64_t round = ++special_register(kRegOrderedInits);
    if (me == 0) {
        for (uint32_t i = 0; i < cores; ++i) first[i * 8] = i == 0 ? 1 : 0;
        record(kSoftSet, site, kSlotMode << 8 | slot_flag(0), 0);
        touch_workspaces(gmWorkspace, ubWorkspace, site);
        return;
    }
    struct Wait {
        uint64_t round;
    } w{round};
    const auto ready = [](void* argument) {  // core 0 fills the workspace for all
        for (uint32_t i = 0; i < core_count(); ++i)
            if (core_at(i)->type != CoreType::aic && block_index_of(*core_at(i)) == 0)
                return core_at(i)->registers[kRegOrderedInits] >= static_cast<Wait*>(argument)->round;
        return true;
    };
    wait_until(ready, &w, "InitDetermineComputeWorkspace of core 0", site);
}
//: WaitPreBlock | waits until the core before this one has passed NotifyNextBlock | int32 | A2 A3 310P | 同步控制/核间同步/WaitPreBlock.md
inline void WaitPreBlock(GlobalTensor<int32_t>& gmWorkspace, LocalTensor<int32_t>& ubWorkspace,
                         toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (!has_vector_unit()) return;
    const uint32_t me = block_index_of(*self);
    int32_t* mine = sync_slot(gmWorkspace, me, kSoftWait, site);
    if (!require_sync_buffer(kSoftWait, ubWorkspace, kSlotBytes, site) || mine == nullptr) return;
    toprope::pipe_barrier(Pipe::all, site);
    wait_slots({mine, 1, 1, false, "WaitPreBlock", me, {}}, site);
    record(kSoftWait, site, slot_flag(me), 0);
    touch_workspaces(gmWorkspace, ubWorkspace, site);
}
//: NotifyNextBlock | lets the next core pass WaitPreBlock; the last core lets the first one pass | int32 | A2 A3 310P | 同步控制/核间同步/NotifyNextBlock.md
inline void NotifyNextBlock(GlobalTensor<int32_t>& gmWorkspace, LocalTensor<int32_t>& ubWorkspace,
                            toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (!has_vector_unit()) return;
    const uint32_t cores = launch_info.blocks * launch_info.ratio, me = block_index_of(*self), next = (me + 1) % cores;
    int32_t* mine = sync_slot(gmWorkspace, me, kSoftSet, site);
    int32_t* other = sync_slot(gmWorkspace, next, kSoftSet, site);
    if (!require_sync_buffer(kSoftSet, ubWorkspace, kSlotBytes, site) || mine == nullptr || other == nullptr) return;
    toprope::pipe_barrier(Pipe::all, site);
    *mine = 0;
    *other = 1;
    record(kSoftSet, site, kSlotMode << 8 | slot_flag(next), 0);
    touch_workspaces(gmWorkspace, ubWorkspace, site);
}

}  // namespace AscendC
