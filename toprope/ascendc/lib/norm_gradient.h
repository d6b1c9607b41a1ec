// Gradients of LayerNorm. Pages: 高阶API/归一化操作/{LayerNormGrad,LayerNormGradBeta}. All arithmetic is float.
#pragma once

#include "norm_statistics.h"

namespace AscendC {

struct LayerNormGradShapeInfo {
    DataFormat dataFormat = DataFormat::ND;
};

}  // namespace AscendC

namespace toprope {

template <typename T>
struct LayerNormGradTensors {
    const AscendC::LocalTensor<T>&dx, &for_gamma, &dy, &x, &variance, &mean, &gamma;
};
// With g = dy * gamma, c = x - mean, d = 1 / sqrt(variance + epsilon) and sums over a row of n:
//   pv = -d^3 / 2 * sum(g c);  pm = -d * sum(g) - 2 pv / n * sum(c);  dx = g d + 2 pv / n * c + pm / n;  for_gamma = c d
template <typename T>
void layer_norm_grad(Scratch scratch, const LayerNormGradTensors<T>& t, float epsilon, const NormShape& shape, Site site) {
    static_assert(kLibraryFloat<T>, "LayerNormGrad: half and float only (see `toprope api LayerNormGrad`)");
    if (self->type == CoreType::aic || shape.rows == 0 || shape.n == 0) return;
    const auto gamma = vector_in_float(scratch, t.gamma, shape.width, site);
    const RowScratch s(scratch, shape.rows, shape.width, kNormGradTemporaries.block_tensors, kNormGradTemporaries.data_tensors, true, site);
    const float share = 1.f / static_cast<float>(shape.n);
    const uint32_t step = aligned_rows(s, shape.rows, sizeof(T));
    const AscendC::LocalTensor<float>&g = s.data[0], &c = s.data[1], &product = s.data[2], &d = s.blocks[1], &pv = s.blocks[2];
    for (uint32_t first = 0; step > 0 && first < shape.rows; first += step) {
        const Rows r{shape.rows - first < step ? shape.rows - first : step, shape.width, site};
        const Steps<float> v = r.all(), values = r.all(8);
        load_row_values(r, s, s.blocks[0], t.mean[first]);
        load_row_values(r, s, d, t.variance[first]);
        invert_deviation(r, s, epsilon);
        load_rows(r, c, t.x, first);
        r.sub_blocks(c, c, s.blocks[0]);
        load_rows(r, g, t.dy, first);
        r.mul_vector(g, g, gamma);
        v.mul(product, g, c);
        r.template reduce<Fold::SUM>(pv, product, shape.n, s.partial, s.packed);
        values.mul(pv, pv, d);
        values.mul(pv, pv, d);
        values.mul(pv, pv, d);
        values.mul(pv, pv, -share);                                              // 2 pv / n
        const AscendC::LocalTensor<float>&pm = s.blocks[0], &sum = s.blocks[3];  // pm / n, negated
        r.template reduce<Fold::SUM>(sum, c, shape.n, s.partial, s.packed);
        r.template reduce<Fold::SUM>(pm, g, shape.n, s.partial, s.packed);
        values.mul(pm, pm, d);
        values.mul(sum, sum, pv);
        values.add(pm, pm, sum);
        values.mul(pm, pm, share);
        r.mul_blocks(g, g, d);
        r.mul_blocks(product, c, pv);
        v.add(g, g, product);
        r.sub_blocks(g, g, pm);
        r.mul_blocks(c, c, d);
        store_rows(r, t.dx, first, g);
        store_rows(r, t.for_gamma, first, c);
    }
}

// dgamma = the column sums of for_gamma * dy, dbeta = those of dy.
template <typename T>
void layer_norm_grad_beta(Scratch scratch, const AscendC::LocalTensor<T>& dgamma, const AscendC::LocalTensor<T>& dbeta,
                          const AscendC::LocalTensor<T>& for_gamma, const AscendC::LocalTensor<T>& dy, const NormShape& shape, Site site) {
    static_assert(kLibraryFloat<T>, "LayerNormGradBeta: half and float only (see `toprope api LayerNormGradBeta`)");
    if (self->type == CoreType::aic || shape.rows == 0 || shape.n == 0) return;
    const AscendC::LocalTensor<float> x = scratch.take<float>(shape.width), y = scratch.take<float>(shape.width),
                                      gammas = scratch.take<float>(shape.width), betas = scratch.take<float>(shape.width);
    if (!scratch.enough()) return;
    const Rows line{1, shape.width, site};
    const Steps<float> v = line.all();
    v.fill(gammas, 0.f);
    v.fill(betas, 0.f);
    for (uint32_t row = 0; row < shape.rows; ++row) {
        load_rows(line, x, for_gamma, row);
        load_rows(line, y, dy, row);
        v.mul(x, x, y);
        v.add(gammas, gammas, x);
        v.add(betas, betas, y);
    }
    store_rows(line, dgamma, 0, gammas);
    store_rows(line, dbeta, 0, betas);
}

}  // namespace toprope

namespace AscendC {

//: LayerNormGrad | the gradient of LayerNorm for its input, and what LayerNormGradBeta needs for gamma | half float | A2 A3 310P | LayerNormGrad
//: LayerNormGradBeta | the gradients of LayerNorm for gamma and beta | half float | A2 A3 310P | LayerNormGradBeta
#define TOPROPE_NORM_GRADIENTS(TMP, SCRATCH)                                                                                           \
    template <typename T, bool isReuseSource = false, typename Tiling>                                                                 \
    void LayerNormGrad(const LocalTensor<T>& outputPdX, const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,              \
                       const LocalTensor<T>& inputX, const LocalTensor<T>& inputVariance, const LocalTensor<T>& inputMean,             \
                       const LocalTensor<T>& inputGamma TMP, T epsilon, Tiling& tiling, const LayerNormGradShapeInfo& = {},            \
                       toprope::Site site = toprope::Site::here()) {                                                                   \
        toprope::layer_norm_grad<T>(SCRATCH("LayerNormGrad"),                                                                          \
                                    {outputPdX, resForGamma, inputDy, inputX, inputVariance, inputMean, inputGamma},                   \
                                    static_cast<float>(epsilon), toprope::norm_shape(tiling), site);                                   \
    }                                                                                                                                  \
    template <typename T, bool isReuseSource = false, typename Tiling>                                                                 \
    void LayerNormGradBeta(const LocalTensor<T>& outputPdGamma, const LocalTensor<T>& outputPdBeta, const LocalTensor<T>& resForGamma, \
                           const LocalTensor<T>& inputDy TMP, const Tiling& tiling, toprope::Site site = toprope::Site::here()) {      \
        toprope::layer_norm_grad_beta(SCRATCH("LayerNormGradBeta"), outputPdGamma, outputPdBeta, resForGamma, inputDy,                 \
                                      toprope::norm_shape(tiling), site);                                                              \
    }
TOPROPE_NORM_GRADIENTS(, TOPROPE_REST_SCRATCH)
TOPROPE_NORM_GRADIENTS(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_NORM_GRADIENTS

}  // namespace AscendC
