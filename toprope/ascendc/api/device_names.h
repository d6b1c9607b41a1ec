// Names that public kernels use and whose values no page states, unless a line names its page: scalar arithmetic of the device compiler,
// branch hints, type spellings, constants that follow from the hardware's sizes, and forms of functions whose address is taken.
#pragma once

#include <math.h>

#include "raw_addresses.h"

using float32_t = float;
#ifndef __BFLT16_MANT_DIG__
#define __bf16 bfloat16_t
#endif
#define __forceinline__ inline

// Not templates, so that a kernel's own min and max templates do not become ambiguous.
#define TOPROPE_SCALAR_PAIR(T)                          \
    constexpr T min(T a, T b) { return b < a ? b : a; } \
    constexpr T max(T a, T b) { return a < b ? b : a; }
TOPROPE_SCALAR_PAIR(int32_t)
TOPROPE_SCALAR_PAIR(uint32_t)
TOPROPE_SCALAR_PAIR(int64_t)
TOPROPE_SCALAR_PAIR(uint64_t)
TOPROPE_SCALAR_PAIR(float)
#undef TOPROPE_SCALAR_PAIR
constexpr bool likely(bool condition) { return __builtin_expect(condition, 1); }
constexpr bool unlikely(bool condition) { return __builtin_expect(condition, 0); }

namespace toprope {

// The running block as the device compiler's variable of that name.
struct BlockIndex {
    operator int64_t() const { return AscendC::GetBlockIdx(); }
};
// Two integers (or fields that hold one), given to a variadic template: a kernel's own function of the same name is the better match.
template <typename A>
inline constexpr bool kInteger = std::is_convertible_v<A, uint64_t> && !std::is_floating_point_v<A> && !is_float16<A>;
template <typename... A>
inline constexpr bool kTwoIntegers = sizeof...(A) == 2 && (kInteger<std::decay_t<A>> && ...);
template <typename A, typename B>
constexpr auto divide_up(A a, B b) {
    return b == 0 ? a + b : (a + b - 1) / b;
}

}  // namespace toprope

inline constexpr toprope::BlockIndex block_idx;
using AscendC::GetTPipePtr;
using AscendC::pad_t;

namespace AscendC {

inline constexpr TEventID INVALID_TEVENTID = -1;
inline constexpr uint64_t FULL_MASK = ~0ull;
inline constexpr int32_t DEFAULT_DATA_COPY_NBURST = 1, DEFAULT_DATA_COPY_STRIDE = 0;
inline constexpr int32_t ONE_BLK_FLOAT_NUM = 8, ONE_BLK_HALF_NUM = 16, ONE_REPEAT_FLOAT_SIZE = 64, ONE_REPEAT_HALF_SIZE = 128;
inline constexpr int32_t B32_DATA_NUM_PER_BLOCK = 8, B16_DATA_NUM_PER_BLOCK = 16, B32_DATA_NUM_PER_REPEAT = 64,
                         B16_DATA_NUM_PER_REPEAT = 128;
inline constexpr int32_t ONE_BYTE_BIT_SIZE = 8, B16_BYTE_SIZE = 2, B32_BYTE_SIZE = 4, BRCB_BROADCAST_NUMBER = 8, BRCB_MAX_REPEAT_SIZE = 254;
inline constexpr uint32_t TOTAL_L1_SIZE = 512 * 1024, TOTAL_L0A_SIZE = 64 * 1024, TOTAL_L0B_SIZE = 64 * 1024;
inline constexpr uint32_t TOTAL_L0C_SIZE = toprope::kChip.l0c_bytes, TOTAL_UB_SIZE = toprope::kChip.ub_bytes;
inline constexpr float F32_NEG_INF = -__builtin_inff(), F32_INF = __builtin_inff();
inline constexpr uint8_t ONE_FOURTH_DEFAULT_REPEAT_STRIDE = 2;
inline constexpr uint64_t CACHE_LINE_SIZE = 64;  // of the scalar cache; page DataCacheCleanAndInvalid

template <bool condition, typename A, typename B>
using Conditional = std::conditional<condition, A, B>;

// The same bits as another type of the same or a larger size.
template <typename From, typename To = uint64_t>
To GetScalarBitcodeValue(From value) {
    To out{};
    std::memcpy(&out, &value, sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));
    return out;
}

template <typename... A, std::enable_if_t<toprope::kTwoIntegers<A...>, int> = 0>
constexpr auto Ceil(A... numbers) {
    return toprope::divide_up(numbers...);
}
template <typename... A, std::enable_if_t<toprope::kTwoIntegers<A...>, int> = 0>
constexpr auto CeilDiv(A... numbers) {
    return toprope::divide_up(numbers...);
}
template <typename... A, std::enable_if_t<toprope::kTwoIntegers<A...>, int> = 0>
constexpr auto CeilAlign(A... numbers) {
    return toprope::divide_up(numbers...) * [](auto, auto unit) { return unit; }(numbers...);
}

// Forms whose address has the vendor's type: without the call site that every call passes, for kernels that take functions as template
// arguments. A call prefers the form that knows its site, because that one is more specialised.
#define TOPROPE_ADDRESS_OF_COUNT_FORM(Name)                                                                               \
    template <typename T, bool isReuseSource = false, typename N, std::enable_if_t<std::is_same_v<N, uint32_t>, int> = 0> \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, N calCount) {                                         \
        Name(dst, src, static_cast<uint32_t>(calCount), toprope::Site::here());                                           \
    }
#define TOPROPE_ADDRESS_OF_UNARY(Name)                                                       \
    template <typename T, typename N, std::enable_if_t<std::is_same_v<N, int32_t>, int> = 0> \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const N& count) {        \
        Name(dst, src, static_cast<int32_t>(count), toprope::Site::here());                  \
    }
#define TOPROPE_ADDRESS_OF_BINARY(Name)                                                                                    \
    template <typename T, typename N, std::enable_if_t<std::is_same_v<N, int32_t>, int> = 0>                               \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const N& count) {         \
        Name(dst, src0, src1, static_cast<int32_t>(count), toprope::Site::here());                                         \
    }                                                                                                                      \
    template <typename T, bool isSetMask = true, typename N, typename R,                                                   \
              std::enable_if_t<std::is_same_v<N, uint64_t> && std::is_same_v<R, uint8_t>, int> = 0>                        \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, N mask, R repeatTime,     \
              const BinaryRepeatParams& repeatParams) {                                                                    \
        Name<T, isSetMask>(dst, src0, src1, static_cast<uint64_t>(mask), repeatTime, repeatParams, toprope::Site::here()); \
    }
TOPROPE_ADDRESS_OF_UNARY(Exp)
TOPROPE_ADDRESS_OF_UNARY(Ln)
TOPROPE_ADDRESS_OF_UNARY(Abs)
TOPROPE_ADDRESS_OF_UNARY(Sqrt)
TOPROPE_ADDRESS_OF_UNARY(Rsqrt)
TOPROPE_ADDRESS_OF_UNARY(Reciprocal)
TOPROPE_ADDRESS_OF_UNARY(Relu)
TOPROPE_ADDRESS_OF_BINARY(Add)
TOPROPE_ADDRESS_OF_BINARY(Sub)
TOPROPE_ADDRESS_OF_BINARY(Mul)
TOPROPE_ADDRESS_OF_BINARY(Div)
TOPROPE_ADDRESS_OF_BINARY(Max)
TOPROPE_ADDRESS_OF_BINARY(Min)

}  // namespace AscendC

#ifndef KERNEL_LOG
#define KERNEL_LOG(level, ...) static_cast<void>(0)
#endif
// assert with a message, for kernels only.
#define ASSERT_MSG(condition, ...) assert(condition, ##__VA_ARGS__)
