// Which end of the exchange an object is in this build, and constants that overlay its tiling.
#pragma once

#include "job.h"

namespace toprope {

// What an object does in this build. `remote` asks the cube core; `absent`: cube-only code on a vector core does nothing.
enum class MatmulRole : uint8_t { here, remote, absent };

template <bool here_always, bool dual_master>
constexpr MatmulRole matmul_role() {
#ifdef ASCENDC_CUBE_ONLY
    constexpr bool cube_only = true;
#else
    constexpr bool cube_only = here_always;
#endif
#ifdef TOPROPE_AIV
    return cube_only ? MatmulRole::absent : MatmulRole::remote;
#else
    return (void)cube_only, MatmulRole::here;
#endif
}
// A cube core whose vector cores drive it runs no calls of its own.
template <bool here_always, bool dual_master>
bool matmul_is_driven() {
#if defined(TOPROPE_AIC) && !defined(ASCENDC_CUBE_ONLY)
    return !here_always && !dual_master && launch_info.mixed;
#else
    return false;
#endif
}

struct NoEngine {
    void init(const AscendC::tiling::TCubeTiling&, AscendC::TPipe*, Site) {}
    void serve(const MatmulJob&, Site) {}
    void finish(Site) {}
};

inline void overlay(AscendC::tiling::TCubeTiling&, const AscendC::MatmulConfig& c, int32_t& base_m, int32_t& base_n, int32_t& base_k) {
    if (!c.doBasicBlock && !c.doSpecialBasicBlock) return;
    base_m = static_cast<int32_t>(c.basicM);
    base_n = static_cast<int32_t>(c.basicN);
    base_k = static_cast<int32_t>(c.basicK);
}
inline void overlay_constants(AscendC::tiling::TCubeTiling& t, const AscendC::MatmulConfig& c) { overlay(t, c, t.baseM, t.baseN, t.baseK); }
inline void overlay_constants(AscendC::tiling::TCubeTiling& t, const AscendC::MatmulApiStaticTiling& s) {
    const auto set = [](int32_t& field, int32_t constant) {
        if (constant >= 0) field = constant;
    };
    set(t.usedCoreNum, s.usedCoreNum);
    set(t.M, s.M);
    set(t.N, s.N);
    set(t.Ka, s.Ka);
    set(t.Kb, s.Kb);
    set(t.singleCoreM, s.singleCoreM);
    set(t.singleCoreN, s.singleCoreN);
    set(t.singleCoreK, s.singleCoreK);
    set(t.baseM, s.baseM);
    set(t.baseN, s.baseN);
    set(t.baseK, s.baseK);
    set(t.depthA1, s.depthA1);
    set(t.depthB1, s.depthB1);
    set(t.stepM, s.stepM);
    set(t.stepN, s.stepN);
    set(t.stepKa, s.stepKa);
    set(t.stepKb, s.stepKb);
    set(t.isBias, s.isBias);
    set(t.iterateOrder, s.iterateOrder);
    set(t.dbL0A, s.dbL0A);
    set(t.dbL0B, s.dbL0B);
    set(t.dbL0C, s.dbL0C);
    if (t.M == 0) t.M = t.singleCoreM;
    if (t.N == 0) t.N = t.singleCoreN;
    if (t.Ka == 0) t.Ka = t.singleCoreK;
    if (t.Kb == 0) t.Kb = t.singleCoreK;
}

}  // namespace toprope
