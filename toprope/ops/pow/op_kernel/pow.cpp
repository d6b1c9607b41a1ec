// z = x to the power y, with every special case of IEEE 754 pow; in float to about one unit in the last place.
//   pow_exact  three parts of a tile at once (lanes.h), loads and stores overlap; 16-bit types take exp(y ln x) in float, which is enough
//   pow_naive  one part at a time, one buffer, and the long way for all types
// exp(y ln x) turns the absolute error of y ln x into a relative error of the result, so in float the logarithm is kept as a sum of two
// numbers (high + low), its product with y is exact to the last bit of low, and exp takes both.
#include "lanes.h"
#include "pow_tiling_data.h"

#ifndef DTYPE_X1
#define DTYPE_X1 float
#endif

constexpr float LN2_HIGH = 0.693145751953125f;     // 15 bits: its product with a whole number below 2^9 is exact
constexpr float LN2_LOW = 1.4286068203094172e-6f;  // ln 2 = LN2_HIGH + LN2_LOW
constexpr float LARGEST_Y = 4294967296.0f;         // 2^32: beyond it the result is 0, 1 or infinite, as at 2^32, which is even like they

template <typename T, uint32_t parts, int buffers, bool precise>
class KernelPow {
    using L = Lanes<parts>;
    static constexpr uint32_t TILE = L::TILE;

public:
    __aicore__ inline void Run(GM_ADDR x1, GM_ADDR x2, GM_ADDR z, const PowTilingData& tiling) {
        const uint64_t begin = tiling.coreLength * GetBlockIdx();
        if (begin >= tiling.length) return;
        const uint64_t left = tiling.length - begin, length = left < tiling.coreLength ? left : tiling.coreLength;
        xGm.SetGlobalBuffer((__gm__ T*)x1 + begin, length);
        yGm.SetGlobalBuffer((__gm__ T*)x2 + begin, length);
        zGm.SetGlobalBuffer((__gm__ T*)z + begin, length);
        pipe.InitBuffer(xQueue, buffers, TILE * sizeof(T));
        pipe.InitBuffer(yQueue, buffers, TILE * sizeof(T));
        pipe.InitBuffer(zQueue, 1, TILE * sizeof(T));
        lanes.Open(pipe);
        for (uint32_t i = 0; i < WORK; i++) t[i] = lanes.At(i);
        x = lanes.At(WORK);
        y = lanes.At(WORK + 1);
        result = lanes.At(WORK + 2);
        mask = lanes.BitsAt(0);
        other = lanes.BitsAt(1);
        for (int b = 0; b < buffers; b++) Blank(length);
        Load(0, length);
        for (uint64_t at = 0; at < length; at += TILE) {
            if (buffers > 1 && at + TILE < length) Load(at + TILE, length);  // asked for before the vector unit's queue is full
            Tile(at, length);
            if (buffers == 1 && at + TILE < length) Load(at + TILE, length);
        }
    }

private:
    static constexpr uint32_t WORK = 15;

    // What a last, shorter tile does not fill computes 1 to the power 1.
    __aicore__ inline void Blank(uint64_t length) {
        if (length % TILE == 0) return;
        LocalTensor<T> a = xQueue.template AllocTensor<T>(), b = yQueue.template AllocTensor<T>();
        Duplicate(a, static_cast<T>(1.0f), static_cast<int32_t>(TILE));
        Duplicate(b, static_cast<T>(1.0f), static_cast<int32_t>(TILE));
        xQueue.FreeTensor(a);
        yQueue.FreeTensor(b);
    }
    __aicore__ static inline DataCopyExtParams Bytes(uint64_t at, uint64_t length) {
        return {1, static_cast<uint32_t>((length - at < TILE ? length - at : TILE) * sizeof(T)), 0, 0, 0};
    }
    __aicore__ inline void Load(uint64_t at, uint64_t length) {
        LocalTensor<T> a = xQueue.template AllocTensor<T>(), b = yQueue.template AllocTensor<T>();
        DataCopyPad(a, xGm[at], Bytes(at, length), {false, 0, 0, 0});
        DataCopyPad(b, yGm[at], Bytes(at, length), {false, 0, 0, 0});
        xQueue.EnQue(a);
        yQueue.EnQue(b);
    }
    __aicore__ inline void Tile(uint64_t at, uint64_t length) {
        LocalTensor<T> a = xQueue.template DeQue<T>(), b = yQueue.template DeQue<T>();
        L::Take(x, a);
        L::Take(y, b);
        xQueue.FreeTensor(a);
        yQueue.FreeTensor(b);
        if constexpr (precise) {
            Exponent(t[2]);
            Logarithm(t[1], t[0]);
            Product(t[1], t[0], t[2]);
            Exponential(t[1], t[0]);
        } else {
            L::Abs(t[0], x);
            L::Ln(t[0], t[0]);
            Clamp(t[2], y);
            L::Mul(t[0], t[0], t[2]);
            L::Exp(result, t[0]);
        }
        Specials(t[2]);
        LocalTensor<T> z = zQueue.template AllocTensor<T>();
        L::Give(z, result);
        zQueue.EnQue(z);
        z = zQueue.template DeQue<T>();
        DataCopyPad(zGm[at], z, Bytes(at, length));
        zQueue.FreeTensor(z);
    }

    __aicore__ static inline void Clamp(const V& d, const V& a) {
        L::Mins(d, a, LARGEST_Y);
        L::Maxs(d, d, -LARGEST_Y);
    }
    // y within +-2^32. For a base of 0 or infinity any y but 0 counts as large: the logarithm of such a base comes out as only about 100.
    __aicore__ inline void Exponent(const V& power) {
        V size = t[3], factor = t[4];
        L::Abs(size, x);
        L::Fill(factor, 1.0f);
        L::Test(mask, size, CMPMODE::NE, 0.0f);
        L::Choose(factor, mask, factor, 3e38f);
        L::Test(mask, size, CMPMODE::LE, 3.4028235e38f);
        L::Choose(factor, mask, factor, 3e38f);
        L::Mul(power, y, factor);
        L::Mul(power, power, factor);
        Clamp(power, power);
    }

    // high + low = ln |x| to about 30 bits: |x| = 2^k * m with m around 1, ln m = 2 atanh(s), s = (m - 1) / (m + 1).
    __aicore__ inline void Logarithm(const V& high, const V& low) {
        V m = t[3], k = t[4], s = t[5], sLow = t[6], e = t[7], d = t[8], q = t[9], p = t[10];
        // Subnormal numbers get 24 more bits.
        L::Abs(m, x);
        L::Test(mask, m, CMPMODE::GE, 1.17549435e-38f);
        L::Muls(k, m, 16777216.0f);
        L::Choose(m, mask, m, k);
        L::Fill(e, 0.0f);
        L::Choose(e, mask, e, -24.0f);
        L::IntAdds(k, m, -0x3f3504f3);  // the bits of sqrt(1/2)
        L::Right(k, k, 23);
        L::Left(s, k, 23);
        L::IntSub(m, m, s);
        L::ToFloats(k, k);
        L::Add(k, k, e);
        // s + sLow = (m - 1) / (m + 1), and m + 1 = d + e without error.
        L::Adds(m, m, -1.0f);
        L::Adds(d, m, 2.0f);
        L::Adds(e, d, -2.0f);
        L::Sub(e, m, e);
        L::Div(s, m, d);
        ExactProduct(p, q, s, d);
        L::Sub(sLow, m, p);
        L::Sub(sLow, sLow, q);
        L::Mul(q, s, e);
        L::Sub(sLow, sLow, q);
        L::Div(sLow, sLow, d);
        // q = the series behind its first term
        L::Mul(p, s, s);
        L::Muls(q, p, 2.0f / 13);
        constexpr float series[] = {2.0f / 11, 2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3};
        for (float c : series) {
            L::Adds(q, q, c);
            L::Mul(q, q, p);
        }
        L::Mul(q, q, s);
        // The whole: k * LN2_HIGH and 2 s are exact, their sum is kept with its error.
        L::Muls(s, s, 2.0f);
        L::Muls(sLow, sLow, 2.0f);
        L::Muls(d, k, LN2_HIGH);
        ExactSum(m, e, d, s);
        L::Muls(k, k, LN2_LOW);
        L::Add(sLow, sLow, k);
        L::Add(sLow, sLow, q);
        L::Add(sLow, sLow, e);
        ExactSum(high, low, sLow, m);
    }

    // (high, low) times power.
    __aicore__ inline void Product(const V& high, const V& low, const V& power) {
        V q = t[9], p = t[10];
        ExactProduct(p, q, high, power);
        L::Mul(low, low, power);
        L::Add(low, low, q);
        L::Copy(high, p);
    }

    // exp(high + low) = 2^n * exp(r): r is small, 2^n is applied in two halves so that only the last product can round.
    __aicore__ inline void Exponential(const V& high, const V& low) {
        V n = t[3], r = t[4], p = t[5], half_ = t[6];
        // Beyond these ends the result is infinite or 0 anyway; low would be infinite or NaN where high overflowed.
        L::Test(mask, high, CMPMODE::LE, 95.0f);
        L::Test(other, high, CMPMODE::GE, -110.0f);
        L::Choose(low, mask, low, 0.0f);
        L::Choose(low, other, low, 0.0f);
        L::Mins(high, high, 95.0f);
        L::Maxs(high, high, -110.0f);
        L::Muls(n, high, 1.44269504f);
        L::Round(n, n, RoundMode::CAST_RINT);
        L::Muls(p, n, LN2_HIGH);
        L::Sub(r, high, p);  // exact
        L::Muls(p, n, LN2_LOW);
        L::Sub(low, low, p);
        L::Add(r, r, low);
        L::Muls(result, r, 1.0f / 40320);
        constexpr float series[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f};
        for (float c : series) {
            L::Adds(result, result, c);
            L::Mul(result, result, r);
        }
        L::Mul(result, result, r);
        L::Add(result, result, r);
        L::Adds(result, result, 1.0f);
        L::Muls(half_, n, 0.5f);
        L::Round(half_, half_, RoundMode::CAST_FLOOR);
        L::Sub(n, n, half_);
        Scale(half_, p);
        Scale(n, p);
    }
    // The result times two to the power n, a whole number between -126 and 127.
    __aicore__ inline void Scale(const V& n, const V& room) {
        L::ToInts(room, n);
        L::IntAdds(room, room, 127);
        L::Left(room, room, 23);
        L::Mul(result, result, room);
    }

    __aicore__ inline void Specials(const V& power) {
        V sign = t[3], odd = t[4], p = t[5], q = t[6];
        // other: y is a whole number; odd: 1/2 if it is odd, else 0.
        Clamp(power, y);
        L::Round(p, power, RoundMode::CAST_RINT);
        L::Test(other, p, CMPMODE::EQ, power);
        L::Muls(odd, power, 0.5f);
        L::Round(p, odd, RoundMode::CAST_RINT);
        L::Sub(odd, odd, p);
        L::Abs(odd, odd);
        L::Choose(odd, other, odd, 0.0f);
        // A negative base (also -0) to an odd power is negative.
        L::Right(sign, x, 31);
        L::ToFloats(sign, sign);
        L::Mul(sign, sign, odd);
        L::Muls(sign, sign, 4.0f);
        L::Adds(sign, sign, 1.0f);
        L::Mul(result, result, sign);
        // A negative, finite base to a broken power is NaN. x + 0 * x is NaN for an infinite x, which is then not below 0.
        L::FillBits(q, 0x7fc00000);
        L::Choose(q, other, result, q);
        L::Muls(p, x, 0.0f);
        L::Add(p, p, x);
        L::Test(mask, p, CMPMODE::LT, 0.0f);
        L::Choose(result, mask, q, result);
        // NaN stays NaN ...
        L::Test(mask, x, CMPMODE::EQ, x);
        L::Choose(result, mask, result, x);
        L::Test(mask, y, CMPMODE::EQ, y);
        L::Choose(result, mask, result, y);
        // ... but 1 to any power and any base to the power 0 are 1.
        L::Test(mask, x, CMPMODE::NE, 1.0f);
        L::Choose(result, mask, result, 1.0f);
        L::Test(mask, y, CMPMODE::NE, 0.0f);
        L::Choose(result, mask, result, 1.0f);
    }

    // p + e = a * b without error (Dekker): the factors are cut into halves whose products are exact.
    __aicore__ inline void ExactProduct(const V& p, const V& e, const V& a, const V& b) {
        V aHigh = t[12], aLow = t[14], bHigh = t[11], sum = t[13];
        L::Mul(p, a, b);
        Cut(aHigh, aLow, a);
        Cut(bHigh, e, b);
        L::Mul(sum, aHigh, bHigh);
        L::Sub(sum, sum, p);
        L::Mul(aHigh, aHigh, e);
        L::Add(sum, sum, aHigh);
        L::Mul(bHigh, aLow, bHigh);
        L::Add(sum, sum, bHigh);
        L::Mul(aLow, aLow, e);
        L::Add(e, sum, aLow);
    }
    __aicore__ inline void Cut(const V& high, const V& low, const V& a) {
        L::Muls(low, a, 4097.0f);
        L::Sub(high, low, a);
        L::Sub(high, low, high);
        L::Sub(low, a, high);
    }
    // s + e = a + b without error (Knuth); the results are other vectors than the terms.
    __aicore__ inline void ExactSum(const V& s, const V& e, const V& a, const V& b) {
        V p = t[12], q = t[11];
        L::Add(s, a, b);
        L::Sub(p, s, a);  // b as it came in
        L::Sub(q, s, p);  // a as it came in
        L::Sub(q, a, q);
        L::Sub(p, b, p);
        L::Add(e, p, q);
    }

    TPipe pipe;
    TQue<TPosition::VECIN, 2> xQueue, yQueue;
    TQue<TPosition::VECOUT, 1> zQueue;
    GlobalTensor<T> xGm, yGm, zGm;
    L lanes;
    V t[WORK], x, y, result;
    Bits mask, other;
};

extern "C" __global__ __aicore__ void pow_exact(GM_ADDR x1, GM_ADDR x2, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(PowTilingData);
    GET_TILING_DATA(data, tiling);
    KernelPow<DTYPE_X1, 3, 2, sizeof(DTYPE_X1) == 4>().Run(x1, x2, z, data);
}

extern "C" __global__ __aicore__ void pow_naive(GM_ADDR x1, GM_ADDR x2, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(PowTilingData);
    GET_TILING_DATA(data, tiling);
    KernelPow<DTYPE_X1, 1, 1, true>().Run(x1, x2, z, data);
}
