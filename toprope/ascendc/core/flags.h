// Events inside a core: SetFlag, WaitFlag and PipeBarrier, as the queues and the user call them.
#pragma once

#include "tensor.h"

namespace toprope {

inline constexpr Op kSetFlag{"SetFlag", Pipe::s, Kind::set_flag, "set_flag"};
inline constexpr Op kWaitFlag{"WaitFlag", Pipe::s, Kind::wait_flag, "wait_flag"};
inline constexpr Op kPipeBarrier{"PipeBarrier", Pipe::s, Kind::barrier, "barrier"};

struct EventPipes {
    Pipe source, target;
    const char* name;
};
inline constexpr EventPipes kEvents[] = {
    {Pipe::mte2, Pipe::mte1, "MTE2_MTE1"},
    {Pipe::mte1, Pipe::mte2, "MTE1_MTE2"},
    {Pipe::mte1, Pipe::m, "MTE1_M"},
    {Pipe::m, Pipe::mte1, "M_MTE1"},
    {Pipe::mte2, Pipe::v, "MTE2_V"},
    {Pipe::v, Pipe::mte2, "V_MTE2"},
    {Pipe::mte3, Pipe::v, "MTE3_V"},
    {Pipe::v, Pipe::mte3, "V_MTE3"},
    {Pipe::m, Pipe::v, "M_V"},
    {Pipe::v, Pipe::m, "V_M"},
    {Pipe::v, Pipe::v, "V_V"},
    {Pipe::mte3, Pipe::mte1, "MTE3_MTE1"},
    {Pipe::mte1, Pipe::mte3, "MTE1_MTE3"},
    {Pipe::mte1, Pipe::v, "MTE1_V"},
    {Pipe::mte2, Pipe::m, "MTE2_M"},
    {Pipe::m, Pipe::mte2, "M_MTE2"},
    {Pipe::v, Pipe::mte1, "V_MTE1"},
    {Pipe::m, Pipe::fix, "M_FIX"},
    {Pipe::fix, Pipe::m, "FIX_M"},
    {Pipe::mte3, Pipe::mte2, "MTE3_MTE2"},
    {Pipe::mte2, Pipe::mte3, "MTE2_MTE3"},
    {Pipe::s, Pipe::v, "S_V"},
    {Pipe::v, Pipe::s, "V_S"},
    {Pipe::s, Pipe::mte2, "S_MTE2"},
    {Pipe::mte2, Pipe::s, "MTE2_S"},
    {Pipe::s, Pipe::mte3, "S_MTE3"},
    {Pipe::mte3, Pipe::s, "MTE3_S"},
    {Pipe::mte2, Pipe::fix, "MTE2_FIX"},
    {Pipe::fix, Pipe::mte2, "FIX_MTE2"},
    {Pipe::fix, Pipe::s, "FIX_S"},
    {Pipe::m, Pipe::s, "M_S"},
    {Pipe::fix, Pipe::mte3, "FIX_MTE3"},
    {Pipe::mte1, Pipe::fix, "MTE1_FIX"},
    {Pipe::fix, Pipe::mte1, "FIX_MTE1"},
    {Pipe::fix, Pipe::fix, "FIX_FIX"},
    {Pipe::fix, Pipe::v, "FIX_V"},
};
static_assert(sizeof(kEvents) / sizeof(kEvents[0]) == static_cast<size_t>(AscendC::HardEvent::MAX));

inline bool core_has(Pipe pipe) {
    switch (pipe) {
        case Pipe::v:
            return self->type != CoreType::aic;
        case Pipe::m:
        case Pipe::mte1:
        case Pipe::fix:
            return self->type != CoreType::aiv;
        default:
            return true;
    }
}

// Events of a unit that this core does not have are ignored, as the hardware does.
inline bool event_applies(AscendC::HardEvent event) {
    const EventPipes& e = kEvents[static_cast<int>(event)];
    return core_has(e.source) && core_has(e.target);
}

// Work of a flag instruction in the trace: source pipe << 16 | target pipe << 8 | id (the same for set and wait of a pair).
inline uint32_t flag_work(AscendC::HardEvent event, int32_t id) {
    const EventPipes& e = kEvents[static_cast<int>(event)];
    return static_cast<uint32_t>(e.source) << 16 | static_cast<uint32_t>(e.target) << 8 | static_cast<uint32_t>(id & 0xff);
}

inline bool flag_id_valid(const Op& op, AscendC::HardEvent event, int32_t id, Site site) {
    constexpr int32_t ids = __NPU_ARCH__ == 1001 ? 4 : kEventIds;
    if (id >= 0 && id < ids) return true;
    report("event-id-out-of-range", site, &op, "%s<%s>(%d): event ids go from 0 to %d", op.name, kEvents[static_cast<int>(event)].name, id,
           ids - 1);
    return false;
}

inline void set_flag(AscendC::HardEvent event, int32_t id, Site site) {
    if (!event_applies(event) || !flag_id_valid(kSetFlag, event, id, site)) return;
    const EventPipes& e = kEvents[static_cast<int>(event)];
    uint8_t& state = self->flag[static_cast<int>(event)][id];
    if (TOPROPE_UNLIKELY(state != 0))
        report("flag-set-twice", site, &kSetFlag, "SetFlag<%s>(%d) while the flag is still set: nobody has waited for the first one",
               e.name, id);
    state = 1;
    record(kSetFlag, e.source, site, flag_work(event, id), static_cast<uint32_t>(event));
}

inline void wait_flag(AscendC::HardEvent event, int32_t id, Site site) {
    if (!event_applies(event) || !flag_id_valid(kWaitFlag, event, id, site)) return;
    const EventPipes& e = kEvents[static_cast<int>(event)];
    uint8_t& state = self->flag[static_cast<int>(event)][id];
    if (TOPROPE_UNLIKELY(state == 0)) {
        report("flag-wait-without-set", site, &kWaitFlag,
               "WaitFlag<%s>(%d), but no SetFlag<%s>(%d) comes before it: pipe %s would wait for ever", e.name, id, e.name, id,
               kPipeNames[static_cast<int>(e.target)]);
        return;
    }
    state = 0;
    record(kWaitFlag, e.target, site, flag_work(event, id), static_cast<uint32_t>(event));
}

inline void pipe_barrier(Pipe pipe, Site site) {
    if (pipe != Pipe::all && !core_has(pipe)) return;
    record(kPipeBarrier, pipe, site, 0, 0);
}

constexpr Pipe pipe_of(pipe_t pipe) {
    switch (pipe) {
        case PIPE_S:
            return Pipe::s;
        case PIPE_V:
            return Pipe::v;
        case PIPE_M:
            return Pipe::m;
        case PIPE_MTE1:
            return Pipe::mte1;
        case PIPE_MTE2:
            return Pipe::mte2;
        case PIPE_MTE3:
            return Pipe::mte3;
        case PIPE_FIX:
            return Pipe::fix;
        default:
            return Pipe::all;
    }
}

}  // namespace toprope
