// Lgamma and Digamma. Pages: 高阶API/数学计算/{Lgamma,Digamma}接口. Arguments below 1/2 are reflected; the others are raised by eight
// (where they are small) and Stirling's series is used there: Abramowitz and Stegun, Handbook of Mathematical
// Functions, 6.1.17, 6.1.40, 6.3.7 and 6.3.18.
#pragma once

#include "math.h"

namespace toprope {

inline constexpr float kSmallArgument = 64.f, kRaise = 8.f, kHalfLogTwoPi = 0.918938533f, kLogPi = 1.14472989f;

// t[0] = 1 where x < 1/2, else 0; t[1] = x there reflected to 1 - x; t[2] = 1 where that is small, else 0.
template <typename V>
void reflect_small(const V& v, const AscendC::LocalTensor<float>& x, const AscendC::LocalTensor<float>* t) {
    v.mul(t[0], x, -1.f);
    v.add(t[0], t[0], 0.5f);
    v.mul(t[0], t[0], 1e38f);
    v.clamp(t[0], t[0], 0.f, 1.f);
    v.mul(t[1], x, -2.f);
    v.add(t[1], t[1], 1.f);
    v.mul(t[1], t[1], t[0]);
    v.add(t[1], t[1], x);
    v.mul(t[2], t[1], -1.f);
    v.add(t[2], t[2], kSmallArgument);
    v.mul(t[2], t[2], 1e38f);
    v.clamp(t[2], t[2], 0.f, 1.f);
}
// s = sin(pi x) and, if wanted, c = cos(pi x), exact to whole turns; k and u are overwritten.
template <typename V>
void sine_of_pi_times(const V& v, const AscendC::LocalTensor<float>& s, const AscendC::LocalTensor<float>& k,
                      const AscendC::LocalTensor<float>& u, const AscendC::LocalTensor<float>& x) {
    v.round(k, x, AscendC::RoundMode::CAST_RINT);
    v.sub(u, x, k);
    v.mul(u, u, kPi);
    v.mul(s, u, u);
    v.copy(k, s);
    v.polynomial(s, k, {1.f, -1.6666667e-1f, 8.3333333e-3f, -1.9841270e-4f, 2.7557319e-6f, -2.5052108e-8f});
    v.mul(s, s, u);  // the sign of a half turn does not matter to either function
}

}  // namespace toprope

TOPROPE_LIB_UNARY(Lgamma, "dst = the natural logarithm of |gamma(src)|", kGammaTemporaries, (half, float), (), {
    toprope::reflect_small(v, x[0], t);
    // t[3] = the product z (z + 1) ... (z + 7) of small z, t[4] = the raised argument
    v.min(t[5], t[1], toprope::kSmallArgument);
    v.copy(t[3], t[5]);
    for (int i = 1; i < static_cast<int>(toprope::kRaise); ++i) {
        v.add(t[5], t[5], 1.f);
        v.mul(t[3], t[3], t[5]);
    }
    v.mul(t[4], t[2], toprope::kRaise);
    v.add(t[4], t[4], t[1]);
    v.log(t[3], t[3]);
    v.mul(t[3], t[3], t[2]);
    v.fill(t[5], 1.f);
    v.div(t[5], t[5], t[4]);
    v.mul(t[2], t[5], t[5]);  // 1/z and its square
    v.mul(t[1], t[2], 7.9365079e-4f);
    v.add(t[1], t[1], -2.7777778e-3f);
    v.mul(t[1], t[1], t[2]);
    v.add(t[1], t[1], 8.3333333e-2f);
    v.mul(t[1], t[1], t[5]);
    v.log(t[5], t[4]);
    v.add(t[2], t[4], -0.5f);
    v.mul(t[5], t[5], t[2]);
    v.sub(t[5], t[5], t[4]);
    v.add(t[5], t[5], toprope::kHalfLogTwoPi);
    v.add(t[1], t[1], t[5]);
    v.sub(t[1], t[1], t[3]);  // log gamma of the reflected argument
    toprope::sine_of_pi_times(v, t[3], t[4], t[5], x[0]);
    v.abs(t[3], t[3]);
    v.max(t[3], t[3], 1.17549435e-38f);
    v.log(t[3], t[3]);
    v.mul(t[3], t[3], -1.f);
    v.add(t[3], t[3], toprope::kLogPi);
    v.mul(t[4], t[1], -2.f);
    v.add(t[3], t[3], t[4]);
    v.mul(t[3], t[3], t[0]);
    v.add(y, t[1], t[3]);
})

TOPROPE_LIB_UNARY(Digamma, "dst = the derivative of the logarithm of gamma(src)", kGammaTemporaries, (half, float), (), {
    toprope::reflect_small(v, x[0], t);
    // t[3] = the sum of 1 / (z + i) of small z, t[4] = the raised argument
    v.copy(t[4], t[1]);
    v.fill(t[3], 0.f);
    for (int i = 0; i < static_cast<int>(toprope::kRaise); ++i) {
        v.fill(t[5], 1.f);
        v.div(t[5], t[5], t[4]);
        v.mul(t[5], t[5], t[2]);
        v.add(t[3], t[3], t[5]);
        v.add(t[4], t[4], t[2]);
    }
    v.fill(t[5], 1.f);
    v.div(t[5], t[5], t[4]);
    v.mul(t[2], t[5], t[5]);
    v.mul(t[1], t[2], 3.9682540e-3f);
    v.mul(t[1], t[1], -1.f);
    v.add(t[1], t[1], 8.3333333e-3f);
    v.mul(t[1], t[1], t[2]);
    v.add(t[1], t[1], -8.3333333e-2f);
    v.mul(t[1], t[1], t[2]);
    v.mul(t[5], t[5], -0.5f);
    v.add(t[1], t[1], t[5]);
    v.log(t[5], t[4]);
    v.add(t[1], t[1], t[5]);
    v.sub(t[1], t[1], t[3]);
    // psi(x) = psi(1 - x) - pi cos(pi x) / sin(pi x)
    toprope::sine_of_pi_times(v, t[3], t[4], t[5], x[0]);
    v.mul(t[2], t[5], t[5]);
    v.polynomial(t[4], t[2], {1.f, -0.5f, 4.1666667e-2f, -1.3888889e-3f, 2.4801587e-5f, -2.7557319e-7f});
    v.mul(t[4], t[4], -toprope::kPi);
    v.mul(t[4], t[4], t[0]);
    v.mul(t[3], t[3], t[0]);
    v.add(t[3], t[3], 1.f);
    v.sub(t[3], t[3], t[0]);
    v.div(t[4], t[4], t[3]);
    v.add(y, t[1], t[4]);
})
