// Names that public kernels use and this library does not have: using one is a compile error that says so. One row each, kept true by hand;
// `toprope api` lists what there is. Rows of other chips say which chip has them.
#pragma once

#define TOPROPE_NOT_YET(Name, why)                                                                                        \
    namespace AscendC {                                                                                                   \
    template <typename... X, typename... A>                                                                               \
    void Name(A&&...) {                                                                                                   \
        static_assert(sizeof...(A) + sizeof...(X) == 0xffffff, #Name ": " why "; `toprope api` lists what is supported"); \
    }                                                                                                                     \
    template <auto value, typename... A>                                                                                  \
    void Name(A&&...) {                                                                                                   \
        static_assert(sizeof...(A) == 0xffffff, #Name ": " why "; `toprope api` lists what is supported");                \
    }                                                                                                                     \
    }

TOPROPE_NOT_YET(AllocMutexID, "Ascend 950 only")
TOPROPE_NOT_YET(ReleaseMutexID, "Ascend 950 only")
TOPROPE_NOT_YET(DataCopyL1ToUB, "Ascend 950 only")
TOPROPE_NOT_YET(SetLoopModePara, "Ascend 950 only")
TOPROPE_NOT_YET(ResetLoopModePara, "Ascend 950 only")
TOPROPE_NOT_YET(NdDmaDci, "Ascend 950 only")
TOPROPE_NOT_YET(GetSsbufBaseAddr, "Ascend 950 only")
TOPROPE_NOT_YET(AtomicAdd, "Ascend 950 only; on this chip use SetAtomicAdd and a copy")
TOPROPE_NOT_YET(AtomicMax, "Ascend 950 only; on this chip use SetAtomicMax and a copy")
TOPROPE_NOT_YET(AtomicMin, "Ascend 950 only; on this chip use SetAtomicMin and a copy")
TOPROPE_NOT_YET(AtomicCas, "Ascend 950 only")
TOPROPE_NOT_YET(AtomicExch, "Ascend 950 only")
TOPROPE_NOT_YET(GetSpr, "not supported yet")
TOPROPE_NOT_YET(ClearSpr, "not supported yet")
TOPROPE_NOT_YET(CheckLocalMemoryIA, "not supported; toprope checks every access anyway")
TOPROPE_NOT_YET(GetHcclContext, "communication between chips is not supported yet")
TOPROPE_NOT_YET(MakeTensorTrait, "TensorTrait is not supported yet")
TOPROPE_NOT_YET(ConfusionTranspose, "its tiling is not supported yet; use Transpose, TransDataTo5HD or DataCopy with strides")
