// Mathematical functions of the advanced library over tensors of half and float. Pages: 高阶API/数学计算/*.
// Trigonometric arguments are reduced with pi in three parts; polynomial coefficients are Taylor's (sine) and those of Abramowitz and
// Stegun, Handbook of Mathematical Functions, 4.4.49 (arctangent) and 7.1.26 (error function).
#pragma once

#include "steps.h"

namespace AscendC {

// Choices of algorithm that the vendor's functions take as a template argument.
enum class SinAlgo { POLYNOMIAL_APPROXIMATION = 0, RADIAN_REDUCTION };
enum class CosAlgo { POLYNOMIAL_APPROXIMATION = 0, RADIAN_REDUCTION };
enum class TanhAlgo { INTRINSIC = 0, SUBSECTION_COMPENSATION };
enum class ErfAlgo { PADE_APPROXIMATION = 0, SUBSECTION_POLYNOMIAL_APPROXIMATION };
enum class PowerAlgo { INTRINSIC = 0, DOUBLE_FLOAT_TECH };
enum class FmodAlgo { NORMAL = 0, ITERATION_COMPENSATION = 1 };
struct SinConfig {
    SinAlgo algo = SinAlgo::POLYNOMIAL_APPROXIMATION;
};
struct CosConfig {
    CosAlgo algo = CosAlgo::POLYNOMIAL_APPROXIMATION;
};
struct TanhConfig {
    TanhAlgo algo = TanhAlgo::INTRINSIC;
};
struct ErfConfig {
    ErfAlgo algo = ErfAlgo::PADE_APPROXIMATION;
};
struct PowerConfig {
    PowerAlgo algo = PowerAlgo::INTRINSIC;
};
struct FmodConfig {
    FmodAlgo algo = FmodAlgo::NORMAL;
    uint32_t iterationNum = 11;
};
inline constexpr SinConfig DEFAULT_SIN_CONFIG, defaultSinConfig;
inline constexpr CosConfig DEFAULT_COS_CONFIG, defaultCosConfig;
inline constexpr TanhConfig DEFAULT_TANH_CONFIG;
inline constexpr ErfConfig defaultErfConfig;
inline constexpr PowerConfig defaultPowerConfig;
inline constexpr FmodConfig DEFAULT_FMOD_CONFIG;

}  // namespace AscendC

namespace toprope {

inline constexpr float kPi = 3.14159265f, kHalfPi = 1.57079633f;

// r = x + half_turns * pi - k pi in [-pi/2, pi/2], k the nearest whole number (left in k). pi = 201/64 + two small parts, so that k pi is
// exact.
template <typename V>
void reduce_by_pi(const V& v, const AscendC::LocalTensor<float>& r, const AscendC::LocalTensor<float>& k,
                  const AscendC::LocalTensor<float>& t, const AscendC::LocalTensor<float>& x, float half_turns) {
    v.mul(k, x, 1 / kPi);
    v.add(k, k, half_turns);
    v.round(k, k, AscendC::RoundMode::CAST_RINT);
    v.add(t, k, -half_turns);
    v.mul(r, t, -3.140625f);
    v.add(r, r, x);
    v.mul(t, t, -9.67502593994140625e-4f);
    v.add(r, r, t);
    v.add(t, k, -half_turns);
    v.mul(t, t, -1.509957990e-7f);
    v.add(r, r, t);
}
// s = sin(r) for |r| <= pi/2; t is overwritten, s must not be r.
template <typename V>
void sine_of(const V& v, const AscendC::LocalTensor<float>& s, const AscendC::LocalTensor<float>& t, const AscendC::LocalTensor<float>& r) {
    v.mul(t, r, r);
    v.polynomial(s, t, {1.f, -1.6666667e-1f, 8.3333333e-3f, -1.9841270e-4f, 2.7557319e-6f, -2.5052108e-8f});
    v.mul(s, s, r);
}
// y = s, or -s where k is odd; t is overwritten.
template <typename V>
void negate_odd(const V& v, const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>& t,
                const AscendC::LocalTensor<float>& s, const AscendC::LocalTensor<float>& k) {
    v.mul(t, k, 0.5f);
    v.round(t, t, AscendC::RoundMode::CAST_FLOOR);
    v.mul(t, t, 4.f);
    v.mul(k, k, -2.f);
    v.add(t, t, k);
    v.add(t, t, 1.f);
    v.mul(y, s, t);
}
// y = atan(x); uses t[0..2]; y may be x.
template <typename V>
void arc_tangent(const V& v, const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>& x,
                 const AscendC::LocalTensor<float>* t) {
    v.abs(t[0], x);
    v.max(t[1], t[0], 1.17549435e-38f);
    v.fill(t[2], 1.f);
    v.div(t[1], t[2], t[1]);
    v.min(t[0], t[0], t[1]);  // min(|x|, 1/|x|)
    v.mul(t[1], t[0], t[0]);
    v.polynomial(t[2], t[1],
                 {1.f, -.3333314528f, .1999355085f, -.1420889944f, .1065626393f, -.0752896400f, .0429096138f, -.0161657367f, .0028662257f});
    v.mul(t[2], t[2], t[0]);
    v.abs(t[0], x);
    v.add(t[0], t[0], -1.f);
    v.mul(t[0], t[0], 1e30f);
    v.clamp(t[0], t[0], 0.f, 1.f);  // 1 where |x| > 1
    v.mul(t[1], t[2], -2.f);
    v.add(t[1], t[1], kHalfPi);
    v.mul(t[1], t[1], t[0]);
    v.add(t[2], t[2], t[1]);
    v.sign(t[0], x);
    v.mul(y, t[2], t[0]);
}
// t[0] = 1 - erf(|x|), that is the polynomial times exp(-x^2); uses t[0..2].
template <typename V>
void error_tail(const V& v, const AscendC::LocalTensor<float>& x, const AscendC::LocalTensor<float>* t) {
    v.abs(t[0], x);
    v.mul(t[0], t[0], 0.3275911f);
    v.add(t[0], t[0], 1.f);
    v.invert(t[1], t[0], t[2]);
    v.polynomial(t[0], t[1], {0.254829592f, -0.284496736f, 1.421413741f, -1.453152027f, 1.061405429f});
    v.mul(t[0], t[0], t[1]);
    v.mul(t[1], x, x);
    v.mul(t[1], t[1], -1.f);
    v.exp(t[1], t[1]);
    v.mul(t[0], t[0], t[1]);
}

}  // namespace toprope

TOPROPE_LIB_UNARY(Log, "dst = the natural logarithm of src", kNoTemporaries, (half, float), (), { v.log(y, x[0]); })
TOPROPE_LIB_UNARY(Log2, "dst = the logarithm of src to base 2", kNoTemporaries, (half, float), (), {
    v.log(y, x[0]);
    v.mul(y, y, 1.44269504f);
})
TOPROPE_LIB_UNARY(Log10, "dst = the logarithm of src to base 10", kNoTemporaries, (half, float), (), {
    v.log(y, x[0]);
    v.mul(y, y, 0.434294482f);
})
TOPROPE_LIB_UNARY(Floor, "dst = the largest whole number not above src", kNoTemporaries, (half, float), (),
                  { v.round(y, x[0], AscendC::RoundMode::CAST_FLOOR); })
TOPROPE_LIB_UNARY(Ceil, "dst = the smallest whole number not below src", kNoTemporaries, (half, float), (),
                  { v.round(y, x[0], AscendC::RoundMode::CAST_CEIL); })
TOPROPE_LIB_UNARY(Trunc, "dst = the whole part of src", kNoTemporaries, (half, float), (),
                  { v.round(y, x[0], AscendC::RoundMode::CAST_TRUNC); })
TOPROPE_LIB_UNARY(Round, "dst = the nearest whole number, halves to even", kNoTemporaries, (half, float), (),
                  { v.round(y, x[0], AscendC::RoundMode::CAST_RINT); })
TOPROPE_LIB_UNARY(Rint, "dst = the nearest whole number, halves to even", kNoTemporaries, (half, float), (),
                  { v.round(y, x[0], AscendC::RoundMode::CAST_RINT); })
TOPROPE_LIB_UNARY(Frac, "dst = src without its whole part", kRoundTemporaries, (half, float), (), {
    v.round(t[0], x[0], AscendC::RoundMode::CAST_TRUNC);
    v.sub(y, x[0], t[0]);
})
TOPROPE_LIB_UNARY(Sign, "dst = -1, 0 or 1", kSignTemporaries, (half, float), (), {
    v.sign(t[0], x[0]);
    v.copy(y, t[0]);
})
TOPROPE_LIB_UNARY(Sin, "dst = sin(src)", kTrigTemporaries, (half, float), (TOPROPE_CONFIG), {
    toprope::reduce_by_pi(v, t[0], t[1], t[2], x[0], 0.f);
    toprope::sine_of(v, t[3], t[2], t[0]);
    toprope::negate_odd(v, y, t[2], t[3], t[1]);
})
TOPROPE_LIB_UNARY(Cos, "dst = cos(src)", kTrigTemporaries, (half, float), (TOPROPE_CONFIG), {
    toprope::reduce_by_pi(v, t[0], t[1], t[2], x[0], 0.5f);  // cos(x) = sin(x + pi/2)
    toprope::sine_of(v, t[3], t[2], t[0]);
    toprope::negate_odd(v, y, t[2], t[3], t[1]);
})
TOPROPE_LIB_UNARY(Tan, "dst = tan(src)", kTanTemporaries, (half, float), (), {
    toprope::reduce_by_pi(v, t[0], t[1], t[2], x[0], 0.f);
    toprope::sine_of(v, t[3], t[2], t[0]);
    v.abs(t[0], t[0]);
    v.mul(t[0], t[0], -1.f);
    v.add(t[0], t[0], toprope::kHalfPi);  // cos(r) = sin(pi/2 - |r|)
    toprope::sine_of(v, t[1], t[2], t[0]);
    v.div(y, t[3], t[1]);
})
TOPROPE_LIB_UNARY(Atan, "dst = the angle whose tangent is src", kArcTemporaries, (half, float), (),
                  { toprope::arc_tangent(v, y, x[0], t); })
TOPROPE_LIB_UNARY(Asin, "dst = the angle whose sine is src", kArcTemporaries, (half, float), (), {
    v.mul(t[3], x[0], x[0]);
    v.mul(t[3], t[3], -1.f);
    v.add(t[3], t[3], 1.f);
    v.sqrt(t[3], t[3]);
    v.div(t[3], x[0], t[3]);
    toprope::arc_tangent(v, y, t[3], t);
})
TOPROPE_LIB_UNARY(Acos, "dst = the angle whose cosine is src", kArcTemporaries, (half, float), (), {
    v.mul(t[3], x[0], x[0]);
    v.mul(t[3], t[3], -1.f);
    v.add(t[3], t[3], 1.f);
    v.sqrt(t[3], t[3]);
    v.div(t[3], x[0], t[3]);
    toprope::arc_tangent(v, t[3], t[3], t);
    v.mul(t[3], t[3], -1.f);
    v.add(y, t[3], toprope::kHalfPi);
})
TOPROPE_LIB_UNARY(Sinh, "dst = (e^src - e^-src) / 2", kHyperbolicTemporaries, (half, float), (), {
    v.exp(t[0], x[0]);
    v.mul(t[1], x[0], -1.f);
    v.exp(t[1], t[1]);
    v.sub(t[0], t[0], t[1]);
    v.mul(y, t[0], 0.5f);
})
TOPROPE_LIB_UNARY(Cosh, "dst = (e^src + e^-src) / 2", kHyperbolicTemporaries, (half, float), (), {
    v.exp(t[0], x[0]);
    v.mul(t[1], x[0], -1.f);
    v.exp(t[1], t[1]);
    v.add(t[0], t[0], t[1]);
    v.mul(y, t[0], 0.5f);
})
TOPROPE_LIB_UNARY(Tanh, "dst = the hyperbolic tangent of src", kTanhTemporaries, (half, float), (TOPROPE_CONFIG), {
    v.clamp(t[0], x[0], -8.8f, 8.8f);
    v.mul(t[0], t[0], 2.f);
    v.exp(t[0], t[0]);
    v.add(t[1], t[0], -1.f);
    v.add(t[0], t[0], 1.f);
    v.div(y, t[1], t[0]);
})
TOPROPE_LIB_UNARY(Asinh, "dst = the number whose hyperbolic sine is src", kHyperbolicTemporaries, (half, float), (), {
    v.mul(t[0], x[0], x[0]);
    v.add(t[0], t[0], 1.f);
    v.sqrt(t[0], t[0]);
    v.abs(t[1], x[0]);
    v.add(t[0], t[0], t[1]);
    v.log(t[0], t[0]);
    v.sign(t[1], x[0]);
    v.mul(y, t[0], t[1]);
})
TOPROPE_LIB_UNARY(Acosh, "dst = the number whose hyperbolic cosine is src", kHyperbolicTemporaries, (half, float), (), {
    v.mul(t[0], x[0], x[0]);
    v.add(t[0], t[0], -1.f);
    v.sqrt(t[0], t[0]);
    v.add(t[0], t[0], x[0]);
    v.log(y, t[0]);
})
TOPROPE_LIB_UNARY(Atanh, "dst = the number whose hyperbolic tangent is src", kHyperbolicTemporaries, (half, float), (), {
    v.add(t[0], x[0], 1.f);
    v.mul(t[1], x[0], -1.f);
    v.add(t[1], t[1], 1.f);
    v.div(t[0], t[0], t[1]);
    v.log(t[0], t[0]);
    v.mul(y, t[0], 0.5f);
})
TOPROPE_LIB_UNARY(Erf, "dst = the error function of src", kErfTemporaries, (half, float), (TOPROPE_CONFIG), {
    toprope::error_tail(v, x[0], t);
    v.mul(t[0], t[0], -1.f);
    v.add(t[0], t[0], 1.f);
    v.sign(t[1], x[0]);
    v.mul(y, t[0], t[1]);
})
TOPROPE_LIB_UNARY(Erfc, "dst = 1 - the error function of src", kErfTemporaries, (half, float), (TOPROPE_CONFIG), {
    toprope::error_tail(v, x[0], t);
    v.sign(t[1], x[0]);
    v.mul(t[0], t[0], t[1]);
    v.mul(t[1], t[1], -1.f);
    v.add(t[1], t[1], 1.f);
    v.add(y, t[0], t[1]);
})
TOPROPE_LIB_BINARY(Fmod, "dst = the remainder of src0 / src1, with the sign of src0", kFmodTemporaries, (half, float), (TOPROPE_CONFIG), {
    v.div(t[0], x[0], x[1]);
    v.round(t[0], t[0], AscendC::RoundMode::CAST_TRUNC);
    v.mul(t[0], t[0], x[1]);
    v.sub(y, x[0], t[0]);
})
