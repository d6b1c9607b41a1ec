// Keywords of the Ascend C dialect that mean nothing to an ordinary compiler, and the architecture macros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// The build passes __NPU_ARCH__ (2201 = A2/A3, 3510 = 950, 3002 = 310B, 2002 = 310P) and, on split chips, which of the two core types this
// build is for.
#ifndef __NPU_ARCH__
#define __NPU_ARCH__ 2201
#endif
#if !defined(TOPROPE_AIC) && !defined(TOPROPE_AIV) && !defined(TOPROPE_COUPLED)
#if __NPU_ARCH__ == 2201 || __NPU_ARCH__ == 3510
#define TOPROPE_AIV 1
#else
#define TOPROPE_COUPLED 1
#endif
#endif

#if __NPU_ARCH__ == 2201
#define __CCE_AICORE__ 220
#define __DAV_C220__ 1
#ifdef TOPROPE_AIC
#define __DAV_C220_CUBE__ 1
#define __DAV_CUBE__ 1
#else
#define __DAV_C220_VEC__ 1
#define __DAV_VEC__ 1
#endif
#elif __NPU_ARCH__ == 3510
#define __CCE_AICORE__ 310
#define __DAV_C310__ 1
#define __DAV_35_FAMILY__ 1
#ifdef TOPROPE_AIC
#define __DAV_C310_CUBE__ 1
#define __DAV_CUBE__ 1
#else
#define __DAV_C310_VEC__ 1
#define __DAV_VEC__ 1
#endif
#elif __NPU_ARCH__ == 3002
#define __CCE_AICORE__ 300
#define __DAV_M300__ 1
#elif __NPU_ARCH__ == 2002
#define __CCE_AICORE__ 200
#define __DAV_M200__ 1
#elif __NPU_ARCH__ == 1001
#define __CCE_AICORE__ 100
#define __DAV_C100__ 1
#else
#error "toprope: this __NPU_ARCH__ is not supported; supported are 2201 (A2/A3), 3510 (950), 3002 (310B), 2002 (310P) and 1001 (910)"
#endif

#define __aicore__
#define __global__
#define __host_aicore__
#define __vector__
#define __cube__
#define __mix__(...)
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __biasbuf__
#define __inline__ inline
// In front of `inline`: a variable of which each core has its own. Where object files are not ELF, all cores share one.
#ifdef __ELF__
#define __BLOCK_LOCAL__ __attribute__((section("toprope_block_local")))
#else
#define __BLOCK_LOCAL__
#endif
#define __force_inline__ inline
#ifndef __restrict__
#define __restrict__ __restrict
#endif
#define __in_pipe__(...)
#define __out_pipe__(...)
#define __inout_pipe__(...)
#define __sync_noalias__
#define __sync_alias__
#define __check_sync_alias__
#define __kfc_workspace__
#define __no_simd_vf_fusion__
#define __simd_vf__
#define __simd_callee__
#define __local_mem__
#define ASCENDC_INTERNAL_CORE_TYPE

#define GM_ADDR uint8_t*  // a macro, as in the vendor's headers: `const GM_ADDR` points to constant bytes

// Loops over tensors may alias only when both operands are the same range, which vectorises safely.
#if defined(__clang__)
#define TOPROPE_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TOPROPE_IVDEP _Pragma("GCC ivdep")
#endif
#define TOPROPE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TOPROPE_COLD __attribute__((cold, noinline))
#define TOPROPE_INLINE inline __attribute__((always_inline))
// Elements of the vectors `a` and `b`, which have type V, numbered through both. GCC has the first form from version 12 on.
#if defined(__clang__) || __GNUC__ >= 12
#define TOPROPE_SHUFFLE(V, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TOPROPE_SHUFFLE(V, a, b, ...) __builtin_shuffle(a, b, (decltype(V{} == V{})){__VA_ARGS__})
#endif

namespace toprope {

// What differs between the chips' cores, apart from sizes that the chip file states. Whoever asks for a property that a chip does not state
// does not compile for it. Sources: the pages 架构规格/NPU架构版本*.md, the support tables of the functions' pages, 2201到3510架构变更.md.
//
//   version               what GetArchVersion gives
//   split                 cube and vector cores are cores of their own, with flags between them
//   a2_types              functions take the element types of A2, and L0C leaves through Fixpipe into GM
//   bias_table            C2 is the bias table, filled from L1
//   scratch_in_ub         CO2 lies in UB
//   l0c_to_ub_by_copy     DataCopy goes from L0C to UB
//   l1_to_gm              a copy that the chip has
//   l1_to_ub              the same
//   always_saturates      arithmetic of half has no Inf/NaN mode
//   pads                  DataCopyPad
//   atomic_narrow         atomic addition of int8, int32 and bfloat16
//   transpose_needs_space Transpose of planes takes temporary space
//   cube_mixes_signs      Mmad takes uint8 with int8
//   cube_half_sums        Mmad into half
//   cube_int4             Mmad of int4
//   l0a_column_major      fractals of A run down the columns of L0A (NZ), not along its rows (ZZ)
//   event_ids             of one pair of pipes
//   cross_modes           modes 0, 1, ... of CrossCoreSetFlag; 0: it does not exist
//   ub_bytes              that a kernel may use
//   l0c_bytes
//   gather_patterns       fixed patterns of GatherMask
template <int arch>
struct Chip;
template <>
struct Chip<2201> {
    static constexpr uint32_t version = 0x2201, cross_modes = 3, ub_bytes = 192 * 1024, l0c_bytes = 128 * 1024;
    static constexpr bool split = true, a2_types = true, bias_table = true, scratch_in_ub = false, l0c_to_ub_by_copy = false,
                          l1_to_gm = true, l1_to_ub = false, always_saturates = false, pads = true, atomic_narrow = true,
                          transpose_needs_space = true, cube_mixes_signs = false, cube_half_sums = false, cube_int4 = true,
                          l0a_column_major = false;
    static constexpr int32_t event_ids = 8;
    static constexpr int gather_patterns = 7;
};
template <>
struct Chip<3510> {
    static constexpr uint32_t version = 0x3510, cross_modes = 3, ub_bytes = 248 * 1024, l0c_bytes = 256 * 1024;
    static constexpr bool split = true, a2_types = true, bias_table = true, scratch_in_ub = false, l0c_to_ub_by_copy = false,
                          l1_to_gm = false, l1_to_ub = true, always_saturates = false, pads = true, atomic_narrow = true,
                          transpose_needs_space = true, cube_mixes_signs = false, cube_half_sums = false, cube_int4 = false,
                          l0a_column_major = true;
    static constexpr int32_t event_ids = 8;
    static constexpr int gather_patterns = 7;
};
template <>
struct Chip<3002> {
    static constexpr uint32_t version = 0x3002, cross_modes = 0, ub_bytes = 256 * 1024, l0c_bytes = 256 * 1024;
    static constexpr bool split = false, a2_types = true, bias_table = true, scratch_in_ub = true, l0c_to_ub_by_copy = true,
                          l1_to_gm = true, l1_to_ub = true, always_saturates = true, pads = false, atomic_narrow = false,
                          transpose_needs_space = false, cube_mixes_signs = true, cube_half_sums = true, cube_int4 = true,
                          l0a_column_major = false;
    static constexpr int32_t event_ids = 8;
    static constexpr int gather_patterns = 7;
};
template <>
struct Chip<2002> {
    static constexpr uint32_t version = 0x2002, cross_modes = 0, ub_bytes = 256 * 1024, l0c_bytes = 256 * 1024;
    static constexpr bool split = false, a2_types = false, bias_table = false, scratch_in_ub = true, l0c_to_ub_by_copy = true,
                          l1_to_gm = false, l1_to_ub = true, always_saturates = true, pads = false, atomic_narrow = false,
                          transpose_needs_space = false, cube_mixes_signs = true, cube_half_sums = true, cube_int4 = true,
                          l0a_column_major = false;
    static constexpr int32_t event_ids = 8;
    static constexpr int gather_patterns = 6;
};
template <>
struct Chip<1001> {
    static constexpr uint32_t version = 0x1001, cross_modes = 0, ub_bytes = 256 * 1024, l0c_bytes = 256 * 1024;
    static constexpr bool split = false, a2_types = false, bias_table = false, scratch_in_ub = true, l0c_to_ub_by_copy = true,
                          l1_to_gm = false, l1_to_ub = true, always_saturates = true, pads = false, atomic_narrow = false,
                          transpose_needs_space = false, cube_mixes_signs = true, cube_half_sums = true, cube_int4 = true,
                          l0a_column_major = false;
    static constexpr int32_t event_ids = 4;
    static constexpr int gather_patterns = 7;
};
inline constexpr Chip<__NPU_ARCH__> kChip{};

// A vector from and to memory of any alignment. Through memcpy, GCC moves one that is wider than 16 bytes in pieces over the stack.
template <typename V>
struct __attribute__((packed, may_alias)) Unaligned {
    V value;
};
template <typename V>
TOPROPE_INLINE V load_vector(const void* from) {
    return static_cast<const Unaligned<V>*>(from)->value;
}
template <typename V>
TOPROPE_INLINE void store_vector(void* to, V value) {
    static_cast<Unaligned<V>*>(to)->value = value;
}

}  // namespace toprope
