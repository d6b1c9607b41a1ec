// Functions that take on-chip addresses as plain pointers, as LocalTensor::GetPhyAddr gives them, and intrinsics of the device compiler.
// Public kernels call them; none has a page. Each does what the documented function on tensors does, named beside it.
#pragma once

#include "atomic.h"
#include "cross_core.h"
#include "data_copy_l0c.h"
#include "data_copy_pad.h"
#include "system.h"
#include "vector_binary.h"
#include "vector_compare.h"
#include "vector_fill.h"
#include "vector_reduce.h"
#include "vector_transpose.h"
#include "vector_unary.h"

namespace toprope {

// The tensor from an address in UB to the end of UB.
template <typename T>
AscendC::LocalTensor<std::remove_const_t<T>> at_ub(T* address) {
    const auto offset = ub_address(reinterpret_cast<uint64_t>(address));
    const uint32_t capacity = self->bytes[static_cast<int>(Space::ub)];
    return {AscendC::TPosition::VECCALC, offset, offset < capacity ? static_cast<uint32_t>((capacity - offset) / sizeof(T)) : 0};
}
template <typename T>
AscendC::GlobalTensor<std::remove_const_t<T>> at_gm(T* address) {
    AscendC::GlobalTensor<std::remove_const_t<T>> tensor;
    tensor.SetGlobalBuffer(const_cast<std::remove_const_t<T>*>(address));
    return tensor;
}

// mode | flag, as one number.
inline constexpr uint32_t kMessageModeShift = 8;

// A scalar copy out of GM or UB, recorded as one scalar access over the whole range.
inline void copy_by_scalar(void* dst, const void* src, uint64_t bytes, Site site) {
    const auto* from = static_cast<const uint8_t*>(src);
    const uint8_t* ub = self->memory[static_cast<int>(Space::ub)];
    if (from >= ub && from + bytes <= ub + self->bytes[static_cast<int>(Space::ub)]) {
        Instr& instr = record(kGetValue, site, 1, static_cast<uint32_t>(dtype_of<uint8_t>));
        touch(instr, Space::ub, Mode::read, static_cast<uint64_t>(from - ub), bytes);
    }
    std::memcpy(dst, src, bytes);
}

}  // namespace toprope

namespace AscendC {

// DataCopyPad and DataCopy.
template <typename T, typename Params, typename Pad>
void DataCopyPadGm2UBImpl(T* dst, T* src, const Params& copy, const Pad& pad, toprope::Site site = toprope::Site::here()) {
    DataCopyPad(toprope::at_ub(dst), toprope::at_gm(src), copy, pad, site);
}
template <typename T, typename Params>
void DataCopyPadUB2GMImpl(T* dst, T* src, const Params& copy, toprope::Site site = toprope::Site::here()) {
    DataCopyPad(toprope::at_gm(dst), toprope::at_ub(src), copy, site);
}
template <typename T>
void DataCopyUB2GMImpl(T* dst, T* src, const DataCopyParams& copy, toprope::Site site = toprope::Site::here()) {
    DataCopy(toprope::at_gm(dst), toprope::at_ub(src), copy, site);
}
template <typename T>
void DataCopyGM2UBImpl(T* dst, T* src, const DataCopyParams& copy, toprope::Site site = toprope::Site::here()) {
    DataCopy(toprope::at_ub(dst), toprope::at_gm(src), copy, site);
}
// TransDataTo5HD.
template <typename T>
void TransDataTo5HDImpl(T* (&dstList)[NCHW_CONV_ADDR_LIST_SIZE], T* (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                        const TransDataTo5HDParams& params, toprope::Site site = toprope::Site::here()) {
    uint64_t dst[NCHW_CONV_ADDR_LIST_SIZE], src[NCHW_CONV_ADDR_LIST_SIZE];
    for (int i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
        dst[i] = reinterpret_cast<uint64_t>(dstList[i]);
        src[i] = reinterpret_cast<uint64_t>(srcList[i]);
    }
    TransDataTo5HD<T>(dst, src, params, site);
}
// BlockReduceMax, BlockReduceSum and Compare under the mask that is set.
template <typename T>
void BlockReduceMaxIntrinsicsImpl(T* dst, T* src, int32_t repeatTime, int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride,
                                  toprope::Site site = toprope::Site::here()) {
    BlockReduceMax<T, false>(toprope::at_ub(dst), toprope::at_ub(src), repeatTime, 0, dstRepStride, srcBlkStride, srcRepStride, site);
}
template <typename T>
void BlockReduceSumIntrinsicsImpl(T* dst, T* src, int32_t repeatTime, int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride,
                                  toprope::Site site = toprope::Site::here()) {
    BlockReduceSum<T, false>(toprope::at_ub(dst), toprope::at_ub(src), repeatTime, 0, dstRepStride, srcBlkStride, srcRepStride, site);
}
template <typename T>
void VcmpvImpl(uint8_t* dst, T* src0, T* src1, CMPMODE mode, uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& params,
               toprope::Site site = toprope::Site::here()) {
    Compare(toprope::at_ub(dst), toprope::at_ub(src0), toprope::at_ub(src1), mode, mask, repeatTime, params, site);
}
template <typename T>
void NotImpl(T* dst, T* src, uint64_t mask, uint8_t repeatTime, const UnaryRepeatParams& params,
             toprope::Site site = toprope::Site::here()) {
    Not(toprope::at_ub(dst), toprope::at_ub(src), mask, repeatTime, params, site);
}
// Duplicate under the mask that is set.
template <typename T>
void DuplicateIntrinsicsImpl(T* dst, T scalar, uint8_t repeatTime, uint16_t dstBlkStride, uint8_t dstRepStride,
                             toprope::Site site = toprope::Site::here()) {
    Duplicate<T, false>(toprope::at_ub(dst), scalar, static_cast<uint64_t>(MASK_PLACEHOLDER), repeatTime, dstBlkStride, dstRepStride, site);
}
// SetFixpipeNz2ndFlag with its three fields of 16 bits in one number.
inline void SetNdParaImpl(uint64_t config, toprope::Site site = toprope::Site::here()) {
    SetFixpipeNz2ndFlag(static_cast<uint16_t>(config), static_cast<uint16_t>(config >> 16), static_cast<uint16_t>(config >> 32), site);
}
inline void SetMaskNormImpl(toprope::Site site = toprope::Site::here()) { SetMaskNorm(site); }
inline void SetMaskCountImpl(toprope::Site site = toprope::Site::here()) { SetMaskCount(site); }
inline int64_t GetBlockIdxImpl() { return GetBlockIdx(); }
inline int64_t GetSubBlockIdxImpl() { return GetSubBlockIdx(); }

// The device compiler's memory fence, and a check of an address that toprope makes at every access.
inline void Barrier() {}
template <typename T>
void OOMCheckAddrRange(T*, uint64_t) {}
// Prepares what printf and DumpTensor need, which is nothing here.
inline void InitDump(bool, GM_ADDR, uint32_t) {}

}  // namespace AscendC

using AscendC::Barrier;
// The device compiler's own: CrossCoreSetFlag and CrossCoreWaitFlag with the mode and the flag as run-time numbers; DataCopy, DataCopyPad.
inline uint64_t GetffstMsg(uint32_t mode, uint32_t flagId) { return mode << toprope::kMessageModeShift | flagId; }
inline void ffts_cross_core_sync(pipe_t pipe, uint64_t message, toprope::Site site = toprope::Site::here()) {
    const auto flag = static_cast<uint32_t>(message & ((1u << toprope::kMessageModeShift) - 1));
    toprope::cross_core_set(static_cast<uint32_t>(message >> toprope::kMessageModeShift), toprope::pipe_of(pipe), flag, site);
}
inline void wait_flag_dev(int64_t flagId, toprope::Site site = toprope::Site::here()) {
    toprope::cross_core_wait(static_cast<uint32_t>(flagId), site);
}
inline void set_atomic_none() { AscendC::SetAtomicNone(); }
// The address in UB with that number.
inline uint64_t get_imm(uint64_t offset) {
    return reinterpret_cast<uint64_t>(toprope::self->memory[static_cast<int>(toprope::Space::ub)]) + offset;
}
inline void copy_data_align64(uint8_t* dst, const uint8_t* src, uint64_t bytes, toprope::Site site = toprope::Site::here()) {
    toprope::copy_by_scalar(dst, src, bytes, site);
}
template <typename T, typename U>
void copy_gm_to_ubuf(T* dst, U* src, uint8_t, uint16_t nBurst, uint16_t lenBurst, uint16_t srcGap, uint16_t dstGap,
                     toprope::Site site = toprope::Site::here()) {
    AscendC::DataCopy(toprope::at_ub(reinterpret_cast<uint8_t*>(dst)), toprope::at_gm(reinterpret_cast<const uint8_t*>(src)),
                      AscendC::DataCopyParams(nBurst, lenBurst, srcGap, dstGap), site);
}
