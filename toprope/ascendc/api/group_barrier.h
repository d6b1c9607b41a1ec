// GroupBarrier: a group of vector cores goes on after another group has arrived. Pages: Cube分组管理（ISASI）/GroupBarrier/*.md.
#pragma once

#include "cross_core.h"

namespace AscendC {

enum class PipeMode : uint8_t { SCALAR_MODE = 0, MTE3_MODE = 1, MAX };

//: GroupBarrier | Arrive of one group of vector cores and Wait of another, through a workspace in GM of zeros, 512-byte aligned | - | A2 A3 | GroupBarrier/GroupBarrier.md
template <PipeMode pipeMode>
class GroupBarrier {
    static_assert(pipeMode == PipeMode::MTE3_MODE, "GroupBarrier: only PipeMode::MTE3_MODE");

public:
    GroupBarrier(GM_ADDR groupWorkspace, uint32_t arriveSizeIn, uint32_t waitSizeIn)
        : arriving_(arriveSizeIn), waiting_(waitSizeIn), across_((waitSizeIn + kAlign - 1) / kAlign * kAlign) {
        gm_.SetGlobalBuffer(reinterpret_cast<int32_t*>(groupWorkspace), GetWorkspaceLen() / sizeof(int32_t));
    }
    void Arrive(uint32_t arriveIndex, toprope::Site site = toprope::Site::here()) {
        using namespace toprope;
        if (!has_vector_unit() || !require(arriveIndex, arriving_, "Arrive", site)) return;
        for (uint32_t w = 0; w < waiting_; ++w) {
            int32_t* slot = sync_slot(gm_, arriveIndex * across_ + w, kSoftSet, site);
            if (slot == nullptr) return;
            ++*slot;
            record(kSoftSet, Pipe::mte3, site, kSlotMode << 8 | flag(slot), 0);
        }
    }
    void Wait(uint32_t waitIndex, toprope::Site site = toprope::Site::here()) {
        using namespace toprope;
        if (!has_vector_unit() || !require(waitIndex, waiting_, "Wait", site)) return;
        ++rounds_;
        for (uint32_t a = 0; a < arriving_; ++a) {
            const int32_t* slot = sync_slot(gm_, a * across_ + waitIndex, kSoftWait, site);
            if (slot == nullptr) return;
            wait_slots({slot, 1, rounds_, true, "GroupBarrier.Wait", block_index_of(*self), {}}, site);
            record(kSoftWait, site, flag(slot), 0);
        }
    }
    uint64_t GetWorkspaceLen() const { return uint64_t{arriving_} * across_ * toprope::kSlotBytes; }

private:
    static constexpr uint32_t kAlign = 16;  // slots in 512 bytes

    static bool require(uint32_t index, uint32_t size, const char* what, toprope::Site site) {
        if (index < size) return true;
        toprope::report("too-many-cores", site, &toprope::kSoftSet, "GroupBarrier.%s: index %u, but the group has %u cores", what, index,
                        size);
        return false;
    }
    uint32_t flag(const int32_t* slot) const {
        return toprope::slot_flag(
            static_cast<uint32_t>(toprope::gm_address(slot, 4, toprope::kSoftSet, toprope::Site::here(), false) / toprope::kSlotBytes));
    }

    GlobalTensor<int32_t> gm_;
    uint32_t arriving_, waiting_, across_;
    int32_t rounds_ = 0;
};

}  // namespace AscendC

using AscendC::GroupBarrier;
using AscendC::PipeMode;
