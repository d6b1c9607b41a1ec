// Keywords of the Ascend C dialect that mean nothing to an ordinary compiler, and the architecture macros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// The build passes __NPU_ARCH__ (2201 = A2/A3, 3002 = 310B, 2002 = 310P) and, on split chips, which of the two core types this build is
// for.
#ifndef __NPU_ARCH__
#define __NPU_ARCH__ 2201
#endif
#if !defined(TOPROPE_AIC) && !defined(TOPROPE_AIV) && !defined(TOPROPE_COUPLED)
#if __NPU_ARCH__ == 2201
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
#error "toprope: this __NPU_ARCH__ is not supported yet; supported are 2201 (A2/A3), 3002 (310B), 2002 (310P) and 1001 (910)"
#endif

// Chips whose functions take the element types of A2 and whose L0C leaves through Fixpipe: A2, A3, and 310B with both units in one core.
#define TOPROPE_LIKE_A2 (__NPU_ARCH__ == 2201 || __NPU_ARCH__ == 3002)

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
