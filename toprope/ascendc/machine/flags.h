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

inline constexpr int32_t kEventIdsHere = kChip.event_ids;

// Bodies in queue.cpp, compiled with the runtime; `ids` is how many ids the kernel's chip has.
void set_flag(AscendC::HardEvent event, int32_t id, Site site, int32_t ids = kEventIdsHere);
void wait_flag(AscendC::HardEvent event, int32_t id, Site site, int32_t ids = kEventIdsHere);
void pipe_barrier(Pipe pipe, Site site);

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
