// Names that functions of registers have in older sources; each does what the documented function does.
#pragma once

#include "move.h"
#include "rearrange.h"

namespace AscendC {
namespace Reg {

#define TOPROPE_REG_LoadAlign DataCopy
#define TOPROPE_REG_LoadUnAlignPre DataCopyUnAlignPre
#define TOPROPE_REG_LoadUnAlign DataCopyUnAlign
#define TOPROPE_REG_StoreAlign DataCopy
#define TOPROPE_REG_StoreUnAlign DataCopyUnAlign
#define TOPROPE_REG_StoreUnAlignPost DataCopyUnAlignPost
#include "moves.h"
#undef TOPROPE_REG_LoadAlign
#undef TOPROPE_REG_LoadUnAlignPre
#undef TOPROPE_REG_LoadUnAlign
#undef TOPROPE_REG_StoreAlign
#undef TOPROPE_REG_StoreUnAlign
#undef TOPROPE_REG_StoreUnAlignPost

template <typename T0 = DefaultType, typename T1, typename T2 = DefaultType, typename T3, typename T4>
void DataCopyGather(T3& dstReg, T1* baseAddr, T4& index, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Gather<T0, T1, T2>(dstReg, baseAddr, index, mask, site);
}
template <typename T = DefaultType, typename U = DefaultType, typename S, typename V>
void DataCopyScatter(T* baseAddr, S& srcReg, V& index, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Scatter<T, U>(baseAddr, srcReg, index, mask, site);
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::MERGING, typename U, toprope::IfRegister<U> = 0>
void Copy(U& dstReg, U& srcReg, MaskReg mask, toprope::Site site = toprope::Site::here()) {
    Move<T, mode>(dstReg, srcReg, mask, site);
}
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void Copy(U& dstReg, U& srcReg, toprope::Site site = toprope::Site::here()) {
    Move<T>(dstReg, srcReg, site);
}
template <typename T = DefaultType, CMPMODE mode = CMPMODE::EQ, typename U, typename S>
void CompareScalar(MaskReg& dst, U& srcReg, S scalarValue, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Compares<T, mode>(dst, srcReg, scalarValue, mask, site);
}
template <typename T = DefaultType, typename U = DefaultType, RegLayout layout = RegLayout::ZERO,
          MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V>
void FusedExpSub(S& dstReg, V& srcReg0, V& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    ExpSub<T, U, layout, mode>(dstReg, srcReg0, srcReg1, mask, site);
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U>
void FusedMulDstAdd(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    MulDstAdd<T, mode>(dstReg, srcReg0, srcReg1, mask, site);
}
template <typename T = DefaultType, typename U = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V>
void ReduceSum(S& dstReg, V& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Reduce<ReduceType::SUM, T, U, mode>(dstReg, srcReg, mask, site);
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U, typename V>
void ReduceSumWithDataBlock(U& dstReg, V& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    ReduceDataBlock<ReduceType::SUM, T, mode>(dstReg, srcReg, mask, site);
}
template <typename T = DefaultType, typename U = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V>
void ReduceMax(S& dstReg, V& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Reduce<ReduceType::MAX, T, U, mode>(dstReg, srcReg, mask, site);
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U, typename V>
void ReduceMaxWithDataBlock(U& dstReg, V& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    ReduceDataBlock<ReduceType::MAX, T, mode>(dstReg, srcReg, mask, site);
}
template <typename T = DefaultType, typename U = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V>
void ReduceMin(S& dstReg, V& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Reduce<ReduceType::MIN, T, U, mode>(dstReg, srcReg, mask, site);
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U, typename V>
void ReduceMinWithDataBlock(U& dstReg, V& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    ReduceDataBlock<ReduceType::MIN, T, mode>(dstReg, srcReg, mask, site);
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U>
void PairReduceSum(U& dstReg, U& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    PairReduceElem<PairReduce::SUM, T, mode>(dstReg, srcReg, mask, site);
}
template <typename T = DefaultType, GatherMaskMode store = GatherMaskMode::NO_STORE_REG, typename U>
void GatherMask(U& dstReg, U& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Squeeze<T, store>(dstReg, srcReg, mask, site);
}
template <HighLowPart part = HighLowPart::LOWEST>
void MaskPack(MaskReg& dst, MaskReg& src, toprope::Site site = toprope::Site::here()) {
    Pack<part>(dst, src, site);
}
template <HighLowPart part = HighLowPart::LOWEST>
void MaskUnPack(MaskReg& dst, MaskReg& src, toprope::Site site = toprope::Site::here()) {
    UnPack<part>(dst, src, site);
}
inline void MaskAnd(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    And(dst, src0, src1, mask, site);
}
inline void MaskOr(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Or(dst, src0, src1, mask, site);
}
inline void MaskXor(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Xor(dst, src0, src1, mask, site);
}
inline void MaskNot(MaskReg& dst, MaskReg& src, MaskReg& mask, toprope::Site site = toprope::Site::here()) { Not(dst, src, mask, site); }
inline void MaskSel(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    Select(dst, src0, src1, mask, site);
}
inline void MaskMov(MaskReg& dst, MaskReg& src, toprope::Site site = toprope::Site::here()) { Move(dst, src, site); }
template <typename T>
void MaskInterleave(MaskReg& dst0, MaskReg& dst1, MaskReg& src0, MaskReg& src1, toprope::Site site = toprope::Site::here()) {
    Interleave<T>(dst0, dst1, src0, src1, site);
}
template <typename T>
void MaskDeInterleave(MaskReg& dst0, MaskReg& dst1, MaskReg& src0, MaskReg& src1, toprope::Site site = toprope::Site::here()) {
    DeInterleave<T>(dst0, dst1, src0, src1, site);
}

}  // namespace Reg
}  // namespace AscendC
