// Activation functions of the advanced library. Pages: 高阶API/激活函数/*. Gelu uses the tanh form x / (1 + exp(-1.5957691 (x + 0.044715
// x^3))).
#pragma once

#include "math.h"

namespace toprope {

// y = a / (1 + exp(-slope b)), for a and b not among t[0], t[1]; y may be a or b.
template <typename V>
void over_logistic(const V& v, const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>& a,
                   const AscendC::LocalTensor<float>& b, float slope, const AscendC::LocalTensor<float>& t) {
    v.mul(t, b, -slope);
    v.exp(t, t);
    v.add(t, t, 1.f);
    v.div(y, a, t);
}
// t[0] = gelu(x), tanh form; uses t[0..1].
template <typename V>
void gelu_of(const V& v, const AscendC::LocalTensor<float>& x, const AscendC::LocalTensor<float>* t) {
    v.mul(t[0], x, x);
    v.mul(t[0], t[0], x);
    v.mul(t[0], t[0], 0.044715f);
    v.add(t[0], t[0], x);
    over_logistic(v, t[0], x, t[0], 1.59576912f, t[1]);
}
struct SwishBody {
    float slope;
    template <typename V>
    void operator()(const V& v, const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>* x,
                    const AscendC::LocalTensor<float>* t) const {
        over_logistic(v, y, x[0], x[0], slope, t[0]);
    }
};
// y = x[0] * swish(x[1])
struct SwiGluBody {
    float slope;
    template <typename V>
    void operator()(const V& v, const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>* x,
                    const AscendC::LocalTensor<float>* t) const {
        over_logistic(v, t[0], x[1], x[1], slope, t[1]);
        v.mul(y, x[0], t[0]);
    }
};

}  // namespace toprope

TOPROPE_LIB_UNARY(Sigmoid, "dst = 1 / (1 + e^-src)", kSigmoidTemporaries, (half, float), (), {
    v.mul(t[0], x[0], -1.f);
    v.exp(t[0], t[0]);
    v.add(t[0], t[0], 1.f);
    v.fill(t[1], 1.f);
    v.div(y, t[1], t[0]);
})
TOPROPE_LIB_UNARY(Silu, "dst = src / (1 + e^-src)", kSigmoidTemporaries, (half, float), (),
                  { toprope::over_logistic(v, y, x[0], x[0], 1.f, t[0]); })
TOPROPE_LIB_UNARY(Gelu, "dst = src times the normal distribution at src (tanh form)", kGeluTemporaries, (half, float),
                  (, bool highPerformance = false), {
                      toprope::gelu_of(v, x[0], t);
                      v.copy(y, t[0]);
                  })
TOPROPE_LIB_UNARY(FasterGelu, "dst = src / (1 + e^(-1.702 src))", kGeluTemporaries, (half, float), (, bool highPerformance = false),
                  { toprope::over_logistic(v, y, x[0], x[0], 1.702f, t[0]); })
// 0.5 src (1 + sign(src) (0.5 + ... )) as the FastGeluV2 page: src * (sign(src) * (-0.1444 (min(|0.7071 src|, 1.769) - 1.769)^2 + 0.5) +
// 0.5)
TOPROPE_LIB_UNARY(FasterGeluV2, "dst = src times a parabola that stands for the normal distribution", kGeluTemporaries, (half, float),
                  (, bool highPerformance = false), {
                      v.mul(t[0], x[0], 0.70710678f);
                      v.abs(t[0], t[0]);
                      v.min(t[0], t[0], 1.769f);
                      v.add(t[0], t[0], -1.769f);
                      v.mul(t[0], t[0], t[0]);
                      v.mul(t[0], t[0], -0.1444f);
                      v.add(t[0], t[0], 0.5f);
                      v.sign(t[1], x[0]);
                      v.mul(t[0], t[0], t[1]);
                      v.add(t[0], t[0], 0.5f);
                      v.mul(y, x[0], t[0]);
                  })
TOPROPE_LIB_BINARY(GeGLU, "dst = src0 * gelu(src1)", kGatedTemporaries, (half, float), (), {
    toprope::gelu_of(v, x[1], t);
    v.mul(y, x[0], t[0]);
})
TOPROPE_LIB_BINARY(ReGlu, "dst = src0 * max(src1, 0)", kGatedTemporaries, (half, float), (), {
    v.relu(t[0], x[1]);
    v.mul(y, x[0], t[0]);
})

namespace AscendC {

//: Swish | dst = src / (1 + e^(-scalarValue src)) | half float | A2 A3 310P | Swish
template <typename T, bool isReuseSource = false>
void Swish(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize, const T scalarValue,
           toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::kLibraryFloat<T>, "Swish: half and float only (see `toprope api Swish`)");
    toprope::Scratch scratch("Swish", site);
    toprope::by_pieces<toprope::kSigmoidTemporaries>(scratch, dst, {src}, dataSize, site,
                                                     toprope::SwishBody{static_cast<float>(scalarValue)});
}

//: SwiGLU | dst = src0 * src1 / (1 + e^(-scalarValue src1)) | half float | A2 A3 310P | SwiGLU
template <typename T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount, toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::kLibraryFloat<T>, "SwiGLU: half and float only (see `toprope api SwiGLU`)");
    toprope::Scratch scratch("SwiGLU", sharedTmpBuffer, site);
    toprope::by_pieces<toprope::kGatedTemporaries>(scratch, dst, {src0, src1}, calCount, site, toprope::SwiGluBody{scalarValue});
}
template <typename T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            const LocalTensor<uint8_t>& sharedTmpBuffer, toprope::Site site = toprope::Site::here()) {
    SwiGLU<T>(dst, src0, src1, scalarValue, sharedTmpBuffer, src0.GetSize(), site);
}
template <typename T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            const uint32_t calCount, toprope::Site site = toprope::Site::here()) {
    toprope::Scratch scratch("SwiGLU", site);
    toprope::by_pieces<toprope::kGatedTemporaries>(scratch, dst, {src0, src1}, calCount, site, toprope::SwiGluBody{scalarValue});
}
template <typename T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            toprope::Site site = toprope::Site::here()) {
    SwiGLU<T>(dst, src0, src1, scalarValue, src0.GetSize(), site);
}

}  // namespace AscendC
