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
TOPROPE_NOT_YET(GetSpr, "Ascend 950 only")
TOPROPE_NOT_YET(ClearSpr, "Ascend 950 only")
TOPROPE_NOT_YET(Conv2D, "deprecated, and not on A2 and A3; use LoadData with LoadData3DParamsV2 and Mmad, as examples/13_conv2d does")
TOPROPE_NOT_YET(Gemm, "deprecated, and not on A2 and A3; use LoadData and Mmad, or a Matmul object")
TOPROPE_NOT_YET(SetAippFunctions, "the image unit (colour conversion, scaling of pixels) is not supported; convert the image on the host")
TOPROPE_NOT_YET(LoadImageToLocal, "the image unit is not supported; convert the image on the host and load it with DataCopy")
TOPROPE_NOT_YET(GetUintDivMagicAndShift, "its numbers are for UintDiv of SIMT code, Ascend 950 only; divide with /")
TOPROPE_NOT_YET(CheckLocalMemoryIA, "not supported; toprope checks every access anyway")

// Functions on tensors. Kernels write their own under such names: "..." loses against every parameter of theirs.
#define TOPROPE_NOT_YET_ON_TENSORS(Name, why)                                                    \
    namespace AscendC {                                                                          \
    template <typename T, typename... X>                                                         \
    void Name(const LocalTensor<T>&, ...) {                                                      \
        static_assert(sizeof(T) == 0, #Name ": " why "; `toprope api` lists what is supported"); \
    }                                                                                            \
    template <typename T, bool, typename... X>                                                   \
    void Name(const LocalTensor<T>&, ...) {                                                      \
        static_assert(sizeof(T) == 0, #Name ": " why "; `toprope api` lists what is supported"); \
    }                                                                                            \
    }

TOPROPE_NOT_YET_ON_TENSORS(IsNan, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(IsInf, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(IsFinite, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(Hypot, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(SinCos, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(Fma, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(Clamp, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(Where, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(LogicalAnd, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(LogicalAnds, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(LogicalOr, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(LogicalOrs, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(LogicalXor, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(LogicalNot, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(BitwiseAnd, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(BitwiseOr, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(BitwiseXor, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(BitwiseNot, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(Quantize, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(Dequantize, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(AntiQuantize, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(PhiloxRandom, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(Subs, "Ascend 950 only")
TOPROPE_NOT_YET_ON_TENSORS(Divs, "Ascend 950 only")

#undef TOPROPE_NOT_YET_ON_TENSORS
