// Synchronisation inside a core. Pages: SetFlag/WaitFlag(ISASI), PipeBarrier(ISASI).
#pragma once

#include "../core/queue.h"

namespace AscendC {

template <HardEvent event> void SetFlag(int32_t eventID, toprope::Site site = toprope::Site::here()) { toprope::set_flag(event, eventID, site); }
template <HardEvent event> void WaitFlag(int32_t eventID, toprope::Site site = toprope::Site::here()) { toprope::wait_flag(event, eventID, site); }
template <pipe_t pipe> void PipeBarrier(toprope::Site site = toprope::Site::here()) { toprope::pipe_barrier(toprope::pipe_of(pipe), site); }

}  // namespace AscendC
