// Normalisation with statistics that come or go separately: LayerNorm with the reciprocal deviation, Normalize, DeepNorm, and Welford's
// running mean and variance. Pages: 高阶API/归一化操作/{LayerNorm,Normalize,DeepNorm,WelfordUpdate,WelfordFinalize}. Arithmetic is float.
#pragma once

#include "norm.h"

namespace AscendC {

struct LayerNormConfig {
    bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false, isOutputRstd = true;
};
inline constexpr LayerNormConfig LNCFG_NORM = {false, false, false, true};
struct LayerNormPara {
    uint32_t aLength = 0, rLength = 0, rLengthWithPadding = 0;
};
struct NormalizeConfig {
    ReducePattern reducePattern = ReducePattern::AR;
    int32_t aLength = -1;
    bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false;
};
inline constexpr NormalizeConfig NLCFG_NORM = {ReducePattern::AR, -1, false, false, false};
struct NormalizePara {
    uint32_t aLength = 0, rLength = 0, rLengthWithPadding = 0;
};
struct WelfordUpdateConfig {
    bool isInplace = false;
};
inline constexpr WelfordUpdateConfig WFUPDATE_DEFAULT_CFG = {false};
struct WelfordUpdateParam {
    uint32_t rnLength = 1, abLength = 0, abComputeLength = 0;
    float nRec = 0;
};
struct WelfordFinalizeConfig {
    bool isCorrection = false;
};
inline constexpr WelfordFinalizeConfig WFFINALIZE_DEFAULT_CFG = {false};
struct WelfordFinalizePara {
    uint32_t rnLength = 0, abLength = 0, headCount = 0, headCountLength = 0, tailCount = 0, tailCountLength = 0;
    float abRec = 0, rRec = 0, rRecWithCorrection = 0;
};

}  // namespace AscendC

namespace toprope {

// Scale and shift of a normalisation; null: left out.
template <typename U>
struct Affine {
    const AscendC::LocalTensor<U>*gamma, *beta;
};
// The same as floats.
struct FloatAffine {
    AscendC::LocalTensor<float> gamma, beta;
    bool scales, shifts;
    template <typename U>
    FloatAffine(Scratch& scratch, const Affine<U>& a, uint32_t width, Site site) : scales(a.gamma != nullptr), shifts(a.beta != nullptr) {
        if (scales) gamma = vector_in_float(scratch, *a.gamma, width, site);
        if (shifts) beta = vector_in_float(scratch, *a.beta, width, site);
    }
};

// Rows per round when row values are packed tensors of `bytes` an element: every round begins at a whole block of them.
inline uint32_t aligned_rows(const RowScratch& s, uint32_t total, uint32_t bytes) {
    const uint32_t per = 32 / bytes;
    return s.rows >= total || s.rows < per ? s.rows : s.rows / per * per;
}
// blocks = the packed row values of `from`, as floats.
template <typename T>
void load_row_values(const Rows& r, const RowScratch& s, const AscendC::LocalTensor<float>& blocks, const AscendC::LocalTensor<T>& from) {
    const Steps<float> v{static_cast<int32_t>(r.rows), r.site};
    if constexpr (std::is_same_v<T, float>)
        v.copy(s.packed, from);
    else
        v.cast(s.packed, from);
    r.spread(blocks, s.packed);
}
// blocks[1] = 1 / sqrt(blocks[1] + epsilon); blocks[2] is overwritten.
inline void invert_deviation(const Rows& r, const RowScratch& s, float epsilon) {
    const Steps<float> v = r.all(8);
    v.add(s.blocks[1], s.blocks[1], epsilon);
    v.sqrt(s.blocks[1], s.blocks[1]);
    v.invert(s.blocks[1], s.blocks[1], s.blocks[2]);
}
// data[0], centred already, times blocks[1] times gamma plus beta.
inline void scale_and_shift(const Rows& r, const RowScratch& s, const FloatAffine& affine) {
    r.mul_blocks(s.data[0], s.data[0], s.blocks[1]);
    if (affine.scales) r.mul_vector(s.data[0], s.data[0], affine.gamma);
    if (affine.shifts) r.add_vector(s.data[0], s.data[0], affine.beta);
}

// LayerNorm of the rows that load(rows, first, data, spare) puts into `data`. mean and rstd may be null; without `reciprocal`, rstd is the
// variance.
template <typename T, typename M, typename U, typename F>
void layer_norm_rows(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<M>* mean,
                     const AscendC::LocalTensor<M>* rstd, const Affine<U>& given, bool reciprocal, float epsilon, const NormShape& shape,
                     Site site, const F& load) {
    if (self->type == CoreType::aic || shape.rows == 0 || shape.n == 0) return;
    const FloatAffine affine(scratch, given, shape.width, site);
    const RowScratch s(scratch, shape.rows, shape.width, kStatisticsTemporaries, site);
    const float share = 1.f / static_cast<float>(shape.n);
    for (uint32_t first = 0; s.rows > 0 && first < shape.rows; first += s.rows) {
        const Rows r{shape.rows - first < s.rows ? shape.rows - first : s.rows, shape.width, site};
        const Steps<float> v = r.all();
        load(r, first, s.data[0], s.data[1]);
        v.mul(s.data[1], s.data[0], share);
        r.template reduce<Fold::SUM>(s.blocks[0], s.data[1], shape.n, s.partial, s.packed);
        r.sub_blocks(s.data[0], s.data[0], s.blocks[0]);
        v.mul(s.data[1], s.data[0], s.data[0]);
        v.mul(s.data[1], s.data[1], share);
        r.template reduce<Fold::SUM>(s.blocks[1], s.data[1], shape.n, s.partial, s.packed);
        if (mean != nullptr) r.pack((*mean)[first], s.blocks[0], s.partial);
        if (rstd != nullptr && !reciprocal) r.pack((*rstd)[first], s.blocks[1], s.partial);
        invert_deviation(r, s, epsilon);
        if (rstd != nullptr && reciprocal) r.pack((*rstd)[first], s.blocks[1], s.partial);
        scale_and_shift(r, s, affine);
        store_rows(r, dst, first, s.data[0]);
    }
}

// (src - mean) / sqrt(variance + epsilon) * gamma + beta with given statistics.
template <typename T, typename U>
void normalize_rows(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<float>* rstd,
                    const AscendC::LocalTensor<float>& mean, const AscendC::LocalTensor<float>& variance,
                    const AscendC::LocalTensor<T>& src, const Affine<U>& given, float epsilon, const NormShape& shape, Site site) {
    static_assert(kLibraryFloat<T> && kLibraryFloat<U>, "Normalize: half and float only (see `toprope api Normalize`)");
    if (self->type == CoreType::aic || shape.rows == 0 || shape.n == 0) return;
    const FloatAffine affine(scratch, given, shape.width, site);
    const RowScratch s(scratch, shape.rows, shape.width, kStatisticsTemporaries.block_tensors, kStatisticsTemporaries.data_tensors, true,
                       site);
    const uint32_t step = aligned_rows(s, shape.rows, 4);
    for (uint32_t first = 0; step > 0 && first < shape.rows; first += step) {
        const Rows r{shape.rows - first < step ? shape.rows - first : step, shape.width, site};
        load_row_values(r, s, s.blocks[0], mean[first]);
        load_row_values(r, s, s.blocks[1], variance[first]);
        invert_deviation(r, s, epsilon);
        if (rstd != nullptr) r.pack((*rstd)[first], s.blocks[1], s.partial);
        load_rows(r, s.data[0], src, first);
        r.sub_blocks(s.data[0], s.data[0], s.blocks[0]);
        scale_and_shift(r, s, affine);
        store_rows(r, dst, first, s.data[0]);
    }
}

// mean += (x - mean) * share; variance += (x - old mean) * (x - new mean), lane by lane.
template <typename T>
void welford_update(Scratch scratch, const AscendC::LocalTensor<float>& out_mean, const AscendC::LocalTensor<float>& out_variance,
                    const AscendC::LocalTensor<float>& mean, const AscendC::LocalTensor<float>& variance,
                    const AscendC::LocalTensor<T>& src, uint32_t count, float share, Site site) {
    static_assert(kLibraryFloat<T>, "WelfordUpdate: half and float only (see `toprope api WelfordUpdate`)");
    if (self->type == CoreType::aic || count == 0) return;
    constexpr uint32_t kTensors = sizeof(T) < 4 ? 3 : 2;
    const uint32_t room = scratch.left() / (kTensors * 4) / kPieceLanes * kPieceLanes;
    const uint32_t piece = room == 0 ? kPieceLanes : room < count ? room : (count + kPieceLanes - 1) / kPieceLanes * kPieceLanes;
    const AscendC::LocalTensor<float> delta = scratch.take<float>(piece), after = scratch.take<float>(piece);
    AscendC::LocalTensor<float> x;
    if constexpr (sizeof(T) < 4) x = scratch.take<float>(piece);
    if (!scratch.enough()) return;
    for (uint32_t begin = 0; begin < count; begin += piece) {
        const Steps<float> v{static_cast<int32_t>(count - begin < piece ? count - begin : piece), site};
        if constexpr (sizeof(T) < 4)
            v.cast(x, src[begin]);
        else
            x = src[begin];
        v.sub(delta, x, mean[begin]);
        v.mul(after, delta, share);
        v.add(out_mean[begin], mean[begin], after);
        v.sub(after, x, out_mean[begin]);
        v.mul(after, after, delta);
        v.add(out_variance[begin], variance[begin], after);
    }
}

// One mean and variance from those of the lanes, each of which stands for a number of elements.
inline void welford_finalize(Scratch scratch, const AscendC::LocalTensor<float>& out_mean, const AscendC::LocalTensor<float>& out_variance,
                             const AscendC::LocalTensor<float>& mean, const AscendC::LocalTensor<float>& variance,
                             const AscendC::LocalTensor<int32_t>* counts, const AscendC::WelfordFinalizePara& p, Site site) {
    const uint32_t n = p.abLength;
    if (self->type == CoreType::aic || n == 0) return;
    const RowScratch s(scratch, 1, n, 2, 2, false, site);
    if (s.rows == 0) return;
    const Rows r{1, n, site};
    const Steps<float> v = r.all();
    const bool even = counts == nullptr && p.tailCountLength == 0;
    const AscendC::LocalTensor<float>&weight = s.data[1], &value = s.data[0];
    if (counts != nullptr)
        v.cast(weight, *counts);
    else {
        v.fill(weight, static_cast<float>(even ? p.rnLength : p.tailCount));
        if (!even && p.headCountLength > 0)
            Steps<float>{static_cast<int32_t>(p.headCountLength), site}.fill(weight, static_cast<float>(p.headCount));
    }
    if (even)
        v.mul(value, mean, p.abRec);
    else {
        v.mul(value, mean, weight);
        v.mul(value, value, p.rRec);
    }
    r.reduce<Fold::SUM>(s.blocks[0], value, n, s.partial, s.packed);
    r.sub_blocks(value, mean, s.blocks[0]);
    v.mul(value, value, value);
    v.mul(value, value, weight);
    v.add(value, value, variance);
    v.mul(value, value, p.rRec);
    r.reduce<Fold::SUM>(s.blocks[1], value, n, s.partial, s.packed);
    r.pack(out_mean, s.blocks[0], s.partial);
    r.pack(out_variance, s.blocks[1], s.partial);
}

}  // namespace toprope

namespace AscendC {

//: Normalize | (src - mean) / sqrt(variance + epsilon) * gamma + beta with given statistics, and the reciprocal deviation | half float | A2 A3 310P | Normalize
//: DeepNorm | LayerNorm of alpha * src + gx, with mean and reciprocal deviation | half float | A2 A3 310P | DeepNorm
//: WelfordUpdate | takes one more value per lane into a running mean and variance | half float | A2 A3 310P | WelfordUpdate
//: WelfordFinalize | one mean and variance from those of the lanes | float | A2 A3 310P | WelfordFinalize
#define TOPROPE_STATISTICS(TMP, SCRATCH)                                                                                                  \
    template <typename U, typename T, bool isReuseSource = false, const LayerNormConfig& config = LNCFG_NORM, typename Tiling>            \
    void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& outputMean, const LocalTensor<float>& outputRstd,              \
                   const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta, const float epsilon TMP,        \
                   const LayerNormPara& para, const Tiling&, toprope::Site site = toprope::Site::here()) {                                \
        static_assert(toprope::kLibraryFloat<T> && toprope::kLibraryFloat<U>,                                                             \
                      "LayerNorm: half and float only (see `toprope api LayerNorm`)");                                                    \
        toprope::layer_norm_rows<T, float, U>(SCRATCH("LayerNorm"), output, config.isOnlyOutput ? nullptr : &outputMean,                  \
                                              config.isOnlyOutput ? nullptr : &outputRstd,                                                \
                                              {config.isNoGamma ? nullptr : &gamma, config.isNoBeta ? nullptr : &beta},                   \
                                              config.isOutputRstd, epsilon, {para.aLength, para.rLengthWithPadding, para.rLength}, site,  \
                                              [&](const toprope::Rows& r, uint32_t first, const LocalTensor<float>& data,                 \
                                                  const LocalTensor<float>&) { toprope::load_rows(r, data, inputX, first); });            \
    }                                                                                                                                     \
    template <typename U, typename T, bool isReuseSource = false, const NormalizeConfig& config = NLCFG_NORM>                             \
    void Normalize(const LocalTensor<T>& output, const LocalTensor<float>& outputRstd, const LocalTensor<float>& inputMean,               \
                   const LocalTensor<float>& inputVariance, const LocalTensor<T>& inputX, const LocalTensor<U>& gamma,                    \
                   const LocalTensor<U>& beta TMP, const float epsilon, const NormalizePara& para,                                        \
                   toprope::Site site = toprope::Site::here()) {                                                                          \
        static_assert(config.reducePattern == ReducePattern::AR, "Normalize: pattern AR only");                                           \
        toprope::normalize_rows<T, U>(                                                                                                    \
            SCRATCH("Normalize"), output, config.isOnlyOutput ? nullptr : &outputRstd, inputMean, inputVariance, inputX,                  \
            {config.isNoGamma ? nullptr : &gamma, config.isNoBeta ? nullptr : &beta}, epsilon,                                            \
            {config.aLength == -1 ? para.aLength : static_cast<uint32_t>(config.aLength), para.rLengthWithPadding, para.rLength}, site);  \
    }                                                                                                                                     \
    template <typename T, bool isReuseSrc = false, bool isBasicBlock = false, typename Tiling>                                            \
    void DeepNorm(const LocalTensor<T>& dstLocal, const LocalTensor<T>& meanLocal, const LocalTensor<T>& rstdLocal,                       \
                  const LocalTensor<T>& srcLocal, const LocalTensor<T>& gxLocal, const LocalTensor<T>& betaLocal,                         \
                  const LocalTensor<T>& gammaLocal TMP, const T alpha, const T epsilon, Tiling& tiling,                                   \
                  toprope::Site site = toprope::Site::here()) {                                                                           \
        static_assert(toprope::kLibraryFloat<T>, "DeepNorm: half and float only (see `toprope api DeepNorm`)");                           \
        toprope::layer_norm_rows<T, T, T>(                                                                                                \
            SCRATCH("DeepNorm"), dstLocal, &meanLocal, &rstdLocal, {&gammaLocal, &betaLocal}, true, static_cast<float>(epsilon),          \
            toprope::norm_shape(tiling), site,                                                                                            \
            [&](const toprope::Rows& r, uint32_t first, const LocalTensor<float>& data, const LocalTensor<float>& spare) {                \
                toprope::load_rows(r, data, srcLocal, first), toprope::load_rows(r, spare, gxLocal, first);                               \
                r.all().mul(data, data, static_cast<float>(alpha)), r.all().add(data, data, spare);                                       \
            });                                                                                                                           \
    }                                                                                                                                     \
    template <typename T, typename U, bool isReuseSource = false, const WelfordUpdateConfig& config = WFUPDATE_DEFAULT_CFG>               \
    void WelfordUpdate(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance, const LocalTensor<U>& inputMean,           \
                       const LocalTensor<U>& inputVariance, const LocalTensor<T>& inputX TMP, const WelfordUpdateParam& para,             \
                       toprope::Site site = toprope::Site::here()) {                                                                      \
        toprope::welford_update<T>(SCRATCH("WelfordUpdate"), outputMean, outputVariance, inputMean, inputVariance, inputX,                \
                                   para.abComputeLength, para.nRec, site);                                                                \
        const uint32_t done = (para.abComputeLength + 7) / 8 * 8;                                                                         \
        if (!config.isInplace || done >= para.abLength) return;                                                                           \
        const toprope::Steps<U> rest{static_cast<int32_t>(para.abLength - done), site};                                                   \
        rest.copy(outputMean[done], inputMean[done]), rest.copy(outputVariance[done], inputVariance[done]);                               \
    }                                                                                                                                     \
    template <bool isReuseSource = false, const WelfordFinalizeConfig& config = WFFINALIZE_DEFAULT_CFG>                                   \
    void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,                                  \
                         const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance TMP, WelfordFinalizePara& para,     \
                         toprope::Site site = toprope::Site::here()) {                                                                    \
        toprope::welford_finalize(SCRATCH("WelfordFinalize"), outputMean, outputVariance, inputMean, inputVariance, nullptr, para, site); \
    }                                                                                                                                     \
    template <bool isReuseSource = false, const WelfordFinalizeConfig& config = WFFINALIZE_DEFAULT_CFG>                                   \
    void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,                                  \
                         const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,                                    \
                         const LocalTensor<int32_t>& counts TMP, WelfordFinalizePara& para, toprope::Site site = toprope::Site::here()) { \
        toprope::welford_finalize(SCRATCH("WelfordFinalize"), outputMean, outputVariance, inputMean, inputVariance, &counts, para, site); \
    }
TOPROPE_STATISTICS(, TOPROPE_REST_SCRATCH)
TOPROPE_STATISTICS(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_STATISTICS

}  // namespace AscendC
