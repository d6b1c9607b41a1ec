// Who and where this core is.
#pragma once

#include "../core/queue.h"

namespace AscendC {

inline int64_t GetBlockNum() { return toprope::launch_info.blocks; }
inline int64_t GetBlockIdx() {
    const toprope::Core& core = *toprope::self;
    return core.type == toprope::CoreType::aiv ? core.block * toprope::launch_info.ratio + core.sub : core.block;
}

}  // namespace AscendC

using AscendC::GetBlockIdx;
using AscendC::GetBlockNum;
