// Float vectors in UB that are worked on in several parts. An instruction waits for the one whose result it takes, but parts know nothing
// of each other: while one part's result is on its way, the others are worked on. All vectors of a part, and the
// bits of its comparisons, lie together. A vector is 88 blocks of 32 bytes, so that even and odd ones begin in different halves of the 16
// banks: an instruction that reads one of each takes a cycle a repeat, one that reads two of a kind takes two.
#pragma once

#include "kernel_operator.h"

using namespace AscendC;
using V = LocalTensor<float>;
using I = LocalTensor<int32_t>;
using Bits = LocalTensor<uint8_t>;

constexpr uint32_t PART = 704, VECTORS = 18, BIT_BYTES = 96;  // floats of a part; vectors; bytes of a part's comparison, whole blocks

template <uint32_t parts>
class Lanes {
public:
    static constexpr uint32_t TILE = parts * PART;

    __aicore__ inline void Open(TPipe& pipe) { pipe.InitBuffer(room, parts * STEP * sizeof(float)); }
    __aicore__ inline V At(uint32_t vector) { return room.Get<float>()[vector * PART]; }
    __aicore__ inline Bits BitsAt(uint32_t which) { return room.Get<uint8_t>()[VECTORS * PART * sizeof(float) + which * BIT_BYTES]; }
    __aicore__ static inline I AsInts(const V& v) { return v.ReinterpretCast<int32_t>(); }

    // Elements in and out: x of a queue is one piece, v lies in parts.
    template <typename T>
    __aicore__ static inline void Take(const V& v, const LocalTensor<T>& x) {
        for (uint32_t p = 0; p < parts; p++) {
            if constexpr (sizeof(T) == 4)
                AscendC::Muls(v[p * STEP], x[p * PART], 1.0f, PART);  // adding 0 would lose the sign of -0
            else
                AscendC::Cast(v[p * STEP], x[p * PART], RoundMode::CAST_NONE, PART);
        }
    }
    template <typename T>
    __aicore__ static inline void Give(const LocalTensor<T>& x, const V& v) {
        for (uint32_t p = 0; p < parts; p++) {
            if constexpr (sizeof(T) == 4)
                AscendC::Muls(x[p * PART], v[p * STEP], 1.0f, PART);
            else
                AscendC::Cast(x[p * PART], v[p * STEP], RoundMode::CAST_RINT, PART);
        }
    }

#define LANES_BINARY(Name)                                                   \
    __aicore__ static inline void Name(const V& d, const V& a, const V& b) { \
        Each([&](uint32_t p) { AscendC::Name(d[p], a[p], b[p], PART); });    \
    }
    LANES_BINARY(Add)
    LANES_BINARY(Sub)
    LANES_BINARY(Mul)
    LANES_BINARY(Div)
#undef LANES_BINARY
#define LANES_SCALAR(Name)                                                \
    __aicore__ static inline void Name(const V& d, const V& a, float s) { \
        Each([&](uint32_t p) { AscendC::Name(d[p], a[p], s, PART); });    \
    }
    LANES_SCALAR(Adds)
    LANES_SCALAR(Muls)
    LANES_SCALAR(Mins)
    LANES_SCALAR(Maxs)
#undef LANES_SCALAR
#define LANES_UNARY(Name)                                           \
    __aicore__ static inline void Name(const V& d, const V& a) {    \
        Each([&](uint32_t p) { AscendC::Name(d[p], a[p], PART); }); \
    }
    LANES_UNARY(Abs)
    LANES_UNARY(Exp)
    LANES_UNARY(Ln)
#undef LANES_UNARY
    __aicore__ static inline void Copy(const V& d, const V& a) { Adds(d, a, 0.0f); }
    __aicore__ static inline void Fill(const V& d, float s) {
        Each([&](uint32_t p) { Duplicate(d[p], s, PART); });
    }
    __aicore__ static inline void Round(const V& d, const V& a, RoundMode mode) {
        Each([&](uint32_t p) { Cast(d[p], a[p], mode, PART); });
    }
    // Whole numbers in the lanes of a vector.
    __aicore__ static inline void ToInts(const V& d, const V& a) {
        Each([&](uint32_t p) { Cast(AsInts(d[p]), a[p], RoundMode::CAST_RINT, PART); });
    }
    __aicore__ static inline void ToFloats(const V& d, const V& a) {
        Each([&](uint32_t p) { Cast(d[p], AsInts(a[p]), RoundMode::CAST_NONE, PART); });
    }
    __aicore__ static inline void IntAdds(const V& d, const V& a, int32_t s) {
        Each([&](uint32_t p) { AscendC::Adds(AsInts(d[p]), AsInts(a[p]), s, PART); });
    }
    __aicore__ static inline void IntSub(const V& d, const V& a, const V& b) {
        Each([&](uint32_t p) { AscendC::Sub(AsInts(d[p]), AsInts(a[p]), AsInts(b[p]), PART); });
    }
    __aicore__ static inline void Right(const V& d, const V& a, int32_t by) {
        Each([&](uint32_t p) { ShiftRight(AsInts(d[p]), AsInts(a[p]), by, PART); });
    }
    __aicore__ static inline void Left(const V& d, const V& a, int32_t by) {
        Each([&](uint32_t p) { ShiftLeft(AsInts(d[p]), AsInts(a[p]), by, PART); });
    }
    __aicore__ static inline void FillBits(const V& d, int32_t s) {
        Each([&](uint32_t p) { Duplicate(AsInts(d[p]), s, PART); });
    }

    __aicore__ static inline void Test(const Bits& m, const V& a, CMPMODE mode, float s) {
        for (uint32_t p = 0; p < parts; p++) CompareScalar(m[p * STEP * sizeof(float)], a[p * STEP], s, mode, PART);
    }
    __aicore__ static inline void Test(const Bits& m, const V& a, CMPMODE mode, const V& b) {
        for (uint32_t p = 0; p < parts; p++) Compare(m[p * STEP * sizeof(float)], a[p * STEP], b[p * STEP], mode, PART);
    }
    // d = m ? a : otherwise
    __aicore__ static inline void Choose(const V& d, const Bits& m, const V& a, float otherwise) {
        for (uint32_t p = 0; p < parts; p++)
            Select(d[p * STEP], m[p * STEP * sizeof(float)], a[p * STEP], otherwise, SELMODE::VSEL_TENSOR_SCALAR_MODE, PART);
    }
    __aicore__ static inline void Choose(const V& d, const Bits& m, const V& a, const V& otherwise) {
        for (uint32_t p = 0; p < parts; p++)
            Select(d[p * STEP], m[p * STEP * sizeof(float)], a[p * STEP], otherwise[p * STEP], SELMODE::VSEL_TENSOR_TENSOR_MODE, PART);
    }

private:
    static constexpr uint32_t STEP = VECTORS * PART + 2 * BIT_BYTES / sizeof(float);  // from a part of a vector to the next

    template <typename Use>
    __aicore__ static inline void Each(Use use) {
        for (uint32_t p = 0; p < parts; p++) use(p * STEP);
    }

    TBuf<TPosition::VECCALC> room;
};
