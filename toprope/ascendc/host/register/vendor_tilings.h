// The library's own tiling structs as members of macro-defined tiling data: the plain struct, saved as it lies in memory. TCubeTiling also
// has the set_ and get_ functions that operators call; the others are filled by the library's tiling functions.
#pragma once

#include "../../lib/tiling_structs.h"
#include "tilingdata_base.h"

namespace optiling {

template <class Plain>
class LibraryTiling : public TilingDef, public Plain {
public:
    LibraryTiling() : TilingDef("", __FILE__, __LINE__) { end_ = sizeof(Plain); }

protected:
    void save(uint8_t* to) const override { std::memcpy(to, static_cast<const Plain*>(this), sizeof(Plain)); }
};

#define TOPROPE_LIBRARY_TILING(Name) \
    class Name : public LibraryTiling<::AscendC::tiling::Name> {}
TOPROPE_LIBRARY_TILING(SoftMaxTiling);
TOPROPE_LIBRARY_TILING(LogSoftMaxTiling);
TOPROPE_LIBRARY_TILING(RmsNormTiling);
TOPROPE_LIBRARY_TILING(LayerNormTiling);
TOPROPE_LIBRARY_TILING(LayerNormSeparateTiling);
TOPROPE_LIBRARY_TILING(LayerNormGradTiling);
TOPROPE_LIBRARY_TILING(LayerNormGradBetaTiling);
TOPROPE_LIBRARY_TILING(DeepNormTiling);
TOPROPE_LIBRARY_TILING(GroupNormTiling);
TOPROPE_LIBRARY_TILING(BatchNormTiling);
TOPROPE_LIBRARY_TILING(TopkTiling);
TOPROPE_LIBRARY_TILING(ConfusionTransposeTiling);
TOPROPE_LIBRARY_TILING(PadTiling);
TOPROPE_LIBRARY_TILING(UnPadTiling);
#undef TOPROPE_LIBRARY_TILING

class TCubeTiling : public LibraryTiling<::AscendC::tiling::TCubeTiling> {
public:
#define TOPROPE_FIELD(name)                     \
    int32_t get_##name() const { return name; } \
    void set_##name(int32_t value) { name = value; }
    TOPROPE_FIELD(usedCoreNum);
    TOPROPE_FIELD(M);
    TOPROPE_FIELD(N);
    TOPROPE_FIELD(Ka);
    TOPROPE_FIELD(Kb);
    TOPROPE_FIELD(singleCoreM);
    TOPROPE_FIELD(singleCoreN);
    TOPROPE_FIELD(singleCoreK);
    TOPROPE_FIELD(baseM);
    TOPROPE_FIELD(baseN);
    TOPROPE_FIELD(baseK);
    TOPROPE_FIELD(depthA1);
    TOPROPE_FIELD(depthB1);
    TOPROPE_FIELD(stepM);
    TOPROPE_FIELD(stepN);
    TOPROPE_FIELD(isBias);
    TOPROPE_FIELD(transLength);
    TOPROPE_FIELD(iterateOrder);
    TOPROPE_FIELD(shareMode);
    TOPROPE_FIELD(shareL1Size);
    TOPROPE_FIELD(shareL0CSize);
    TOPROPE_FIELD(shareUbSize);
    TOPROPE_FIELD(batchM);
    TOPROPE_FIELD(batchN);
    TOPROPE_FIELD(singleBatchM);
    TOPROPE_FIELD(singleBatchN);
    TOPROPE_FIELD(stepKa);
    TOPROPE_FIELD(stepKb);
    TOPROPE_FIELD(depthAL1CacheUB);
    TOPROPE_FIELD(depthBL1CacheUB);
    TOPROPE_FIELD(dbL0A);
    TOPROPE_FIELD(dbL0B);
    TOPROPE_FIELD(dbL0C);
    TOPROPE_FIELD(ALayoutInfoB);
    TOPROPE_FIELD(ALayoutInfoS);
    TOPROPE_FIELD(ALayoutInfoN);
    TOPROPE_FIELD(ALayoutInfoG);
    TOPROPE_FIELD(ALayoutInfoD);
    TOPROPE_FIELD(BLayoutInfoB);
    TOPROPE_FIELD(BLayoutInfoS);
    TOPROPE_FIELD(BLayoutInfoN);
    TOPROPE_FIELD(BLayoutInfoG);
    TOPROPE_FIELD(BLayoutInfoD);
    TOPROPE_FIELD(CLayoutInfoB);
    TOPROPE_FIELD(CLayoutInfoS1);
    TOPROPE_FIELD(CLayoutInfoN);
    TOPROPE_FIELD(CLayoutInfoG);
    TOPROPE_FIELD(CLayoutInfoS2);
    TOPROPE_FIELD(BatchNum);
    TOPROPE_FIELD(mxTypePara);
#undef TOPROPE_FIELD
};

}  // namespace optiling
