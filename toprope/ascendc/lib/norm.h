// Normalisation over rows: LayerNorm and RmsNorm. Pages: 高阶API/归一化操作/{LayerNorm,RmsNorm}. All arithmetic is float.
#pragma once

#include "rows.h"
#include "tiling_structs.h"

namespace toprope {

// Gamma or beta as floats.
template <typename T>
AscendC::LocalTensor<float> vector_in_float(Scratch& scratch, const AscendC::LocalTensor<T>& t, uint32_t n, Site site) {
    if constexpr (std::is_same_v<T, float>)
        return t;
    else {
        const AscendC::LocalTensor<float> room = scratch.take<float>(n);
        if (scratch.enough()) Steps<float>{static_cast<int32_t>(n), site}.cast(room, t);
        return room;
    }
}
template <typename T>
void store_rows(const Rows& r, const AscendC::LocalTensor<T>& dst, uint32_t first, const AscendC::LocalTensor<float>& from) {
    if constexpr (std::is_same_v<T, float>)
        r.all().copy(dst[first * r.width], from);
    else
        r.all().cast_out(dst[first * r.width], from);
}
template <typename T>
void load_rows(const Rows& r, const AscendC::LocalTensor<float>& to, const AscendC::LocalTensor<T>& src, uint32_t first) {
    if constexpr (std::is_same_v<T, float>)
        r.all().copy(to, src[first * r.width]);
    else
        r.all().cast(to, src[first * r.width]);
}
// Shape of a normalisation: rows of width elements, of which n count.
struct NormShape {
    uint32_t rows, width, n;
};

template <typename T>
void layer_norm(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& mean,
                const AscendC::LocalTensor<T>& variance, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& gamma,
                const AscendC::LocalTensor<T>& beta, float epsilon, const NormShape& shape, Site site) {
    static_assert(kLibraryFloat<T>, "LayerNorm: half and float only (see `toprope api LayerNorm`)");
    if (self->type == CoreType::aic || shape.rows == 0 || shape.n == 0) return;
    const auto g = vector_in_float(scratch, gamma, shape.width, site), b = vector_in_float(scratch, beta, shape.width, site);
    const RowScratch s(scratch, shape.rows, shape.width, kLayerNormTemporaries, site);
    const float share = 1.f / static_cast<float>(shape.n);
    for (uint32_t first = 0; s.rows > 0 && first < shape.rows; first += s.rows) {
        const Rows r{shape.rows - first < s.rows ? shape.rows - first : s.rows, shape.width, site};
        const Steps<float> v = r.all(), values = r.all(8);
        load_rows(r, s.data[0], src, first);
        v.mul(s.data[1], s.data[0], share);
        r.template reduce<Fold::SUM>(s.blocks[0], s.data[1], shape.n, s.partial, s.packed);
        r.sub_blocks(s.data[0], s.data[0], s.blocks[0]);
        v.mul(s.data[1], s.data[0], s.data[0]);
        v.mul(s.data[1], s.data[1], share);
        r.template reduce<Fold::SUM>(s.blocks[1], s.data[1], shape.n, s.partial, s.packed);
        r.pack(mean[first], s.blocks[0], s.partial);
        r.pack(variance[first], s.blocks[1], s.partial);
        values.add(s.blocks[1], s.blocks[1], epsilon);
        values.sqrt(s.blocks[1], s.blocks[1]);
        r.div_blocks(s.data[0], s.data[0], s.blocks[1]);
        r.mul_vector(s.data[0], s.data[0], g);
        r.add_vector(s.data[0], s.data[0], b);
        store_rows(r, dst, first, s.data[0]);
    }
}

template <typename T>
void rms_norm(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& gamma,
              float epsilon, const NormShape& shape, Site site) {
    static_assert(kLibraryFloat<T>, "RmsNorm: half and float only (see `toprope api RmsNorm`)");
    if (self->type == CoreType::aic || shape.rows == 0 || shape.n == 0) return;
    const auto g = vector_in_float(scratch, gamma, shape.width, site);
    const RowScratch s(scratch, shape.rows, shape.width, kRmsNormTemporaries, site);
    for (uint32_t first = 0; s.rows > 0 && first < shape.rows; first += s.rows) {
        const Rows r{shape.rows - first < s.rows ? shape.rows - first : s.rows, shape.width, site};
        const Steps<float> v = r.all(), values = r.all(8);
        load_rows(r, s.data[0], src, first);
        v.mul(s.data[1], s.data[0], s.data[0]);
        v.mul(s.data[1], s.data[1], 1.f / static_cast<float>(shape.n));
        r.template reduce<Fold::SUM>(s.blocks[0], s.data[1], shape.n, s.partial, s.packed);
        values.add(s.blocks[0], s.blocks[0], epsilon);
        values.sqrt(s.blocks[0], s.blocks[0]);
        r.div_blocks(s.data[0], s.data[0], s.blocks[0]);
        r.mul_vector(s.data[0], s.data[0], g);
        store_rows(r, dst, first, s.data[0]);
    }
}
template <typename Tiling>
NormShape norm_shape(const Tiling& t) {
    return {t.bLength * t.sLength, t.hLength, t.originalHLength == 0 ? t.hLength : t.originalHLength};
}

}  // namespace toprope

namespace AscendC {

//: LayerNorm | (src - mean) / sqrt(variance + epsilon) * gamma + beta over the last axis, with mean and variance | half float | A2 A3 310P | LayerNorm
//: RmsNorm | src / sqrt(mean of squares + epsilon) * gamma over the last axis | half float | A2 A3 310P | RmsNorm
#define TOPROPE_NORMS(TMP, SCRATCH)                                                                                                     \
    template <typename T, bool isReuseSource = false>                                                                                   \
    void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,                \
                   const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta TMP, const T epsilon,          \
                   LayerNormTiling& tiling, toprope::Site site = toprope::Site::here()) {                                               \
        toprope::layer_norm(SCRATCH("LayerNorm"), output, outputMean, outputVariance, inputX, gamma, beta, static_cast<float>(epsilon), \
                            toprope::norm_shape(tiling), site);                                                                         \
    }                                                                                                                                   \
    template <typename T, bool isBasicBlock = false>                                                                                    \
    void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma TMP, const T epsilon,                \
                 const RmsNormTiling& tiling, toprope::Site site = toprope::Site::here()) {                                             \
        toprope::rms_norm(SCRATCH("RmsNorm"), dst, src, gamma, static_cast<float>(epsilon), toprope::norm_shape(tiling), site);         \
    }
TOPROPE_NORMS(, TOPROPE_REST_SCRATCH)
TOPROPE_NORMS(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_NORMS

}  // namespace AscendC
