// x to the power y in float, to about one unit in the last place, with every special case of IEEE 754 pow.
//
// exp(y * ln x) turns the absolute error of y * ln x into a relative error of the result, so the logarithm is kept as a sum of two floats
// (hi + lo), its product with y is exact to the last bit of lo, and exp takes both parts. pow_naive.cpp does none of this.
#include "kernel_operator.h"

using namespace AscendC;
using V = LocalTensor<float>;

constexpr uint32_t TILE = 1024;
constexpr float LN2_HIGH = 0.693145751953125f;     // 15 bits: its product with a whole number below 2^9 is exact
constexpr float LN2_LOW = 1.4286068203094172e-6f;  // ln 2 = LN2_HIGH + LN2_LOW
constexpr float LARGEST_Y = 4294967296.0f;         // 2^32: beyond it the result is 0, 1 or infinite, as at 2^32, which is even like they

class KernelPow {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t length) {
        const uint32_t tiles = (length + TILE - 1) / TILE, share = (tiles + GetBlockNum() - 1) / GetBlockNum();
        const uint32_t begin = share * GetBlockIdx() * TILE;
        length_ = begin >= length ? 0 : (length - begin < share * TILE ? length - begin : share * TILE);
        xGm.SetGlobalBuffer((__gm__ float*)x + begin, length_);
        yGm.SetGlobalBuffer((__gm__ float*)y + begin, length_);
        zGm.SetGlobalBuffer((__gm__ float*)z + begin, length_);
        pipe.InitBuffer(xQueue, 1, TILE * sizeof(float));
        pipe.InitBuffer(yQueue, 1, TILE * sizeof(float));
        pipe.InitBuffer(zQueue, 1, TILE * sizeof(float));
        pipe.InitBuffer(room, ROOMS * TILE * sizeof(float));
        pipe.InitBuffer(bits, 2 * TILE / 8);
        for (uint32_t i = 0; i < ROOMS; i++) t[i] = room.Get<float>()[i * TILE];
        mask = bits.Get<uint8_t>();
        other = mask[TILE / 8];
    }

    __aicore__ inline void Process() {
        for (uint32_t at = 0; at < length_; at += TILE) {
            const uint32_t count = length_ - at < TILE ? length_ - at : TILE;
            const DataCopyExtParams copy{1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0};
            V x = xQueue.AllocTensor<float>(), y = yQueue.AllocTensor<float>();
            if (count < TILE) {  // the rest of the last tile computes 1 to the power 1
                Duplicate(x, 1.0f, TILE);
                Duplicate(y, 1.0f, TILE);
                SetFlag<HardEvent::V_MTE2>(EVENT_ID0);
                WaitFlag<HardEvent::V_MTE2>(EVENT_ID0);
            }
            DataCopyPad(x, xGm[at], copy, {false, 0, 0, 0.0f});
            DataCopyPad(y, yGm[at], copy, {false, 0, 0, 0.0f});
            xQueue.EnQue(x);
            yQueue.EnQue(y);
            x = xQueue.DeQue<float>();
            y = yQueue.DeQue<float>();
            V z = zQueue.AllocTensor<float>();
            Compute(z, x, y);
            zQueue.EnQue(z);
            z = zQueue.DeQue<float>();
            DataCopyPad(zGm[at], z, copy);
            xQueue.FreeTensor(x);
            yQueue.FreeTensor(y);
            zQueue.FreeTensor(z);
        }
    }

private:
    static constexpr uint32_t ROOMS = 15;

    __aicore__ inline void Compute(const V& z, const V& x, const V& y) {
        V high = t[0], low = t[1], power = t[2];
        Exponent(power, x, y);
        Logarithm(high, low, x);
        Product(high, low, power);
        Exponential(z, high, low);
        Specials(z, x, y, power);
    }

    // y within +-2^32. For a base of 0 or infinity any y but 0 counts as large: the logarithm of such a base is only about 100.
    __aicore__ inline void Exponent(const V& power, const V& x, const V& y) {
        V size = t[3], factor = t[4];
        Abs(size, x, TILE);
        Duplicate(factor, 1.0f, TILE);
        CompareScalar(mask, size, 0.0f, CMPMODE::NE, TILE);
        Select(factor, mask, factor, 3e38f, SELMODE::VSEL_TENSOR_SCALAR_MODE, TILE);
        CompareScalar(mask, size, 3.4028235e38f, CMPMODE::LE, TILE);
        Select(factor, mask, factor, 3e38f, SELMODE::VSEL_TENSOR_SCALAR_MODE, TILE);
        Mul(power, y, factor, TILE);
        Mul(power, power, factor, TILE);
        Mins(power, power, LARGEST_Y, TILE);
        Maxs(power, power, -LARGEST_Y, TILE);
    }

    // high + low = ln |x| to about 30 bits: |x| = 2^k * m with m around 1, ln m = 2 atanh(s), s = (m - 1) / (m + 1).
    __aicore__ inline void Logarithm(const V& high, const V& low, const V& x) {
        V m = t[3], k = t[4], s = t[5], sLow = t[6], d = t[7], e = t[8], p = t[9], q = t[10];
        LocalTensor<int32_t> mBits = m.ReinterpretCast<int32_t>(), kBits = k.ReinterpretCast<int32_t>(),
                             whole = s.ReinterpretCast<int32_t>();
        // Subnormal numbers get 24 more bits.
        Abs(m, x, TILE);
        CompareScalar(mask, m, 1.17549435e-38f, CMPMODE::GE, TILE);
        Muls(k, m, 16777216.0f, TILE);
        Select(m, mask, m, k, SELMODE::VSEL_TENSOR_TENSOR_MODE, TILE);
        Duplicate(e, 0.0f, TILE);
        Select(e, mask, e, -24.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, TILE);
        Adds(kBits, mBits, -0x3f3504f3, TILE);  // the bits of sqrt(1/2)
        ShiftRight(kBits, kBits, 23, TILE);
        ShiftLeft(whole, kBits, 23, TILE);
        Sub(mBits, mBits, whole, TILE);
        Cast(k, kBits, RoundMode::CAST_NONE, TILE);
        Add(k, k, e, TILE);
        // s + sLow = (m - 1) / (m + 1), and m + 1 = d + e without error.
        Adds(m, m, -1.0f, TILE);
        Adds(d, m, 2.0f, TILE);
        Adds(e, d, -2.0f, TILE);
        Sub(e, m, e, TILE);
        Div(s, m, d, TILE);
        ExactProduct(p, q, s, d);
        Sub(sLow, m, p, TILE);
        Sub(sLow, sLow, q, TILE);
        Mul(q, s, e, TILE);
        Sub(sLow, sLow, q, TILE);
        Div(sLow, sLow, d, TILE);
        // q = the series behind its first term
        Mul(p, s, s, TILE);
        Muls(q, p, 2.0f / 13, TILE);
        constexpr float series[] = {2.0f / 11, 2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3};
        for (float c : series) {
            Adds(q, q, c, TILE);
            Mul(q, q, p, TILE);
        }
        Mul(q, q, s, TILE);
        // The whole: k * LN2_HIGH and 2 s are exact, their sum is kept with its error.
        Muls(s, s, 2.0f, TILE);
        Muls(sLow, sLow, 2.0f, TILE);
        Muls(d, k, LN2_HIGH, TILE);
        ExactSum(high, e, d, s);
        Muls(k, k, LN2_LOW, TILE);
        Add(low, sLow, k, TILE);
        Add(low, low, q, TILE);
        Add(low, low, e, TILE);
        ExactSum(d, e, high, low);
        Copy(high, d);
        Copy(low, e);
    }

    // (high, low) times power.
    __aicore__ inline void Product(const V& high, const V& low, const V& power) {
        V p = t[9], q = t[10];
        ExactProduct(p, q, high, power);
        Mul(low, low, power, TILE);
        Add(low, low, q, TILE);
        Copy(high, p);
    }

    // exp(high + low) = 2^n * exp(r): r is small, 2^n is applied in two halves so that only the last product can round.
    __aicore__ inline void Exponential(const V& z, const V& high, const V& low) {
        V n = t[3], r = t[4], p = t[5], half = t[6];
        LocalTensor<int32_t> nBits = p.ReinterpretCast<int32_t>(), halfBits = half.ReinterpretCast<int32_t>();
        // Beyond these ends the result is infinite or 0 anyway; low would be infinite or NaN where high overflowed.
        CompareScalar(mask, high, 95.0f, CMPMODE::LE, TILE);
        CompareScalar(other, high, -110.0f, CMPMODE::GE, TILE);
        Select(low, mask, low, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, TILE);
        Select(low, other, low, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, TILE);
        Mins(high, high, 95.0f, TILE);
        Maxs(high, high, -110.0f, TILE);
        Muls(n, high, 1.44269504f, TILE);
        Cast(n, n, RoundMode::CAST_RINT, TILE);
        Muls(p, n, LN2_HIGH, TILE);
        Sub(r, high, p, TILE);  // exact
        Muls(p, n, LN2_LOW, TILE);
        Sub(low, low, p, TILE);
        Add(r, r, low, TILE);
        Muls(z, r, 1.0f / 40320, TILE);
        constexpr float series[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f};
        for (float c : series) {
            Adds(z, z, c, TILE);
            Mul(z, z, r, TILE);
        }
        Mul(z, z, r, TILE);
        Add(z, z, r, TILE);
        Adds(z, z, 1.0f, TILE);
        Muls(half, n, 0.5f, TILE);
        Cast(half, half, RoundMode::CAST_FLOOR, TILE);
        Sub(n, n, half, TILE);
        Scale(z, half, nBits);
        Scale(z, n, halfBits);
    }

    // z times two to the power n, a whole number between -126 and 127.
    __aicore__ inline void Scale(const V& z, const V& n, const LocalTensor<int32_t>& room32) {
        Cast(room32, n, RoundMode::CAST_RINT, TILE);
        Adds(room32, room32, 127, TILE);
        ShiftLeft(room32, room32, 23, TILE);
        Mul(z, z, room32.ReinterpretCast<float>(), TILE);
    }

    __aicore__ inline void Specials(const V& z, const V& x, const V& y, const V& power) {
        V sign = t[3], odd = t[4], p = t[5], q = t[6];
        LocalTensor<int32_t> signBits = sign.ReinterpretCast<int32_t>(), xBits = x.ReinterpretCast<int32_t>();
        // other: y is a whole number; odd: 1 if it is odd, else 0.
        Mins(power, y, LARGEST_Y, TILE);
        Maxs(power, power, -LARGEST_Y, TILE);
        Cast(p, power, RoundMode::CAST_RINT, TILE);
        Compare(other, p, power, CMPMODE::EQ, TILE);
        Muls(odd, power, 0.5f, TILE);
        Cast(p, odd, RoundMode::CAST_RINT, TILE);
        Sub(odd, odd, p, TILE);
        Abs(odd, odd, TILE);
        Select(odd, other, odd, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, TILE);
        // A negative base (also -0) to an odd power is negative.
        ShiftRight(signBits, xBits, 31, TILE);
        Cast(sign, signBits, RoundMode::CAST_NONE, TILE);
        Mul(sign, sign, odd, TILE);
        Muls(sign, sign, 4.0f, TILE);
        Adds(sign, sign, 1.0f, TILE);
        Mul(z, z, sign, TILE);
        // A negative, finite base to a broken power is NaN. x + 0 * x is NaN for an infinite x, which is then not below 0.
        Duplicate(q.ReinterpretCast<int32_t>(), 0x7fc00000, TILE);
        Select(q, other, z, q, SELMODE::VSEL_TENSOR_TENSOR_MODE, TILE);
        Muls(p, x, 0.0f, TILE);
        Add(p, p, x, TILE);
        CompareScalar(mask, p, 0.0f, CMPMODE::LT, TILE);
        Select(z, mask, q, z, SELMODE::VSEL_TENSOR_TENSOR_MODE, TILE);
        // NaN stays NaN ...
        Compare(mask, x, x, CMPMODE::EQ, TILE);
        Select(z, mask, z, x, SELMODE::VSEL_TENSOR_TENSOR_MODE, TILE);
        Compare(mask, y, y, CMPMODE::EQ, TILE);
        Select(z, mask, z, y, SELMODE::VSEL_TENSOR_TENSOR_MODE, TILE);
        // ... but 1 to any power and any base to the power 0 are 1.
        CompareScalar(mask, x, 1.0f, CMPMODE::NE, TILE);
        Select(z, mask, z, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, TILE);
        CompareScalar(mask, y, 0.0f, CMPMODE::NE, TILE);
        Select(z, mask, z, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, TILE);
    }

    // p + e = a * b without error (Dekker): the factors are cut into halves whose products are exact.
    __aicore__ inline void ExactProduct(const V& p, const V& e, const V& a, const V& b) {
        V aHigh = t[11], aLow = t[12], bHigh = t[13], bLow = e, sum = t[14];
        Mul(p, a, b, TILE);
        Cut(aHigh, aLow, a);
        Cut(bHigh, bLow, b);
        Mul(sum, aHigh, bHigh, TILE);
        Sub(sum, sum, p, TILE);
        Mul(aHigh, aHigh, bLow, TILE);
        Add(sum, sum, aHigh, TILE);
        Mul(bHigh, aLow, bHigh, TILE);
        Add(sum, sum, bHigh, TILE);
        Mul(aLow, aLow, bLow, TILE);
        Add(e, sum, aLow, TILE);
    }
    __aicore__ inline void Cut(const V& high, const V& low, const V& a) {
        Muls(low, a, 4097.0f, TILE);
        Sub(high, low, a, TILE);
        Sub(high, low, high, TILE);
        Sub(low, a, high, TILE);
    }
    // s + e = a + b without error (Knuth); the results are other tensors than the terms.
    __aicore__ inline void ExactSum(const V& s, const V& e, const V& a, const V& b) {
        V p = t[11], q = t[12];
        Add(s, a, b, TILE);
        Sub(p, s, a, TILE);  // b as it came in
        Sub(q, s, p, TILE);  // a as it came in
        Sub(q, a, q, TILE);
        Sub(p, b, p, TILE);
        Add(e, p, q, TILE);
    }
    __aicore__ inline void Copy(const V& to, const V& from) { Adds(to, from, 0.0f, TILE); }

    TPipe pipe;
    TQue<TPosition::VECIN, 1> xQueue, yQueue;
    TQue<TPosition::VECOUT, 1> zQueue;
    TBuf<TPosition::VECCALC> room, bits;
    GlobalTensor<float> xGm, yGm, zGm;
    V t[ROOMS];
    LocalTensor<uint8_t> mask, other;
    uint32_t length_ = 0;
};

extern "C" __global__ __aicore__ void pow_compensated(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t length) {
    KernelPow op;
    op.Init(x, y, z, length);
    op.Process();
}
