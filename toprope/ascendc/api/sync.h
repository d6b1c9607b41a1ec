// Synchronisation inside a core. Pages: 同步控制/核内同步/*.md, 任务间同步/*.md.
#pragma once

#include "../machine/queue.h"

namespace toprope {

inline constexpr Op kOpDataSyncBarrier{"DataSyncBarrier", Pipe::s, Kind::barrier, "data_sync_barrier"};
inline constexpr Op kOpTaskStart{"SetNextTaskStart", Pipe::s, Kind::mark, "scalar"};
inline constexpr Op kOpTaskEnd{"WaitPreTaskEnd", Pipe::s, Kind::mark, "scalar"};

constexpr AscendC::HardEvent event_between(Pipe source, Pipe target) {
    for (int i = 0; i < static_cast<int>(AscendC::HardEvent::MAX); ++i)
        if (kEvents[i].source == source && kEvents[i].target == target) return static_cast<AscendC::HardEvent>(i);
    return AscendC::HardEvent::MAX;
}

}  // namespace toprope

namespace AscendC {

//: SetFlag | marks that the source pipe's earlier instructions are done | any | A2 A3 310P 910 | 同步控制/核内同步/SetFlag-WaitFlag(ISASI).md
template <HardEvent event>
void SetFlag(int32_t eventID, toprope::Site site = toprope::Site::here()) {
    toprope::set_flag(event, eventID, site);
}
//: WaitFlag | holds the target pipe back until the flag is set, and clears it | any | A2 A3 310P 910 | 同步控制/核内同步/SetFlag-WaitFlag(ISASI).md
template <HardEvent event>
void WaitFlag(int32_t eventID, toprope::Site site = toprope::Site::here()) {
    toprope::wait_flag(event, eventID, site);
}
//: PipeBarrier | orders the instructions before and after it inside one pipe, or all pipes | any | A2 A3 310P 910 | 同步控制/核内同步/PipeBarrier(ISASI).md
template <pipe_t pipe>
void PipeBarrier(toprope::Site site = toprope::Site::here()) {
    toprope::pipe_barrier(toprope::pipe_of(pipe), site);
}
//: DataSyncBarrier | holds the scalar unit back until its earlier accesses to a memory are done | any | A2 A3 | 同步控制/核内同步/DataSyncBarrier(ISASI).md
template <MemDsbT arg0>
void DataSyncBarrier(toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpDataSyncBarrier, toprope::Pipe::s, site, 1, static_cast<uint32_t>(arg0));
}

//: TQueSync | SetFlag and WaitFlag of one pair of pipes | any | A2 A3 310P | 同步控制/核内同步/TQueSync模板参数.md
template <pipe_t src, pipe_t dst>
class TQueSync {
    static constexpr HardEvent kEvent = toprope::event_between(toprope::pipe_of(src), toprope::pipe_of(dst));
    static_assert(kEvent != HardEvent::MAX, "TQueSync: there is no event between these two pipes");

public:
    void SetFlag(TEventID id, toprope::Site site = toprope::Site::here()) { toprope::set_flag(kEvent, id, site); }
    void WaitFlag(TEventID id, toprope::Site site = toprope::Site::here()) { toprope::wait_flag(kEvent, id, site); }
};

//: SetNextTaskStart | lets the next kernel of a fused launch start; alone it does nothing | any | A2 A3 310P 910 | 同步控制/任务间同步/SetNextTaskStart.md
template <pipe_t AIV_PIPE = PIPE_MTE3, pipe_t AIC_PIPE = PIPE_FIX, bool FORCE = false>
void SetNextTaskStart(toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpTaskStart, site, 1, 0);
}
//: WaitPreTaskEnd | waits for the kernel before this one in a fused launch; alone it does nothing | any | A2 A3 310P 910 | 同步控制/任务间同步/WaitPreTaskEnd.md
template <bool FORCE = false>
void WaitPreTaskEnd(toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpTaskEnd, site, 1, 0);
}

}  // namespace AscendC

// The built-in spellings of the same three; the flag forms take the pipes.
inline void pipe_barrier(pipe_t pipe, toprope::Site site = toprope::Site::here()) { toprope::pipe_barrier(toprope::pipe_of(pipe), site); }
inline void set_flag(pipe_t source, pipe_t target, int32_t id, toprope::Site site = toprope::Site::here()) {
    toprope::set_flag(toprope::event_between(toprope::pipe_of(source), toprope::pipe_of(target)), id, site);
}
inline void wait_flag(pipe_t source, pipe_t target, int32_t id, toprope::Site site = toprope::Site::here()) {
    toprope::wait_flag(toprope::event_between(toprope::pipe_of(source), toprope::pipe_of(target)), id, site);
}
