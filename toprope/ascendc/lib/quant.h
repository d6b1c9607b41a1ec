// Quantisation: AscendQuant to int8, AscendDequant from int32, AscendAntiQuant from int8 and int4. Pages: 高阶API/量化操作/*.
#pragma once

#include "steps.h"

namespace AscendC {

struct AscendQuantConfig {
    uint32_t calcCount = 0, offsetCount = 0, scaleCount = 0, workLocalSize = 0;
};
inline constexpr AscendQuantConfig ASCEND_QUANT_DEFAULT_CFG = {0, 0, 0, 0};
struct DequantParams {
    uint32_t m = 0, n = 0, calCount = 0;
};
enum class DeQuantMode { DEQUANT_WITH_SINGLE_ROW = 0, DEQUANT_WITH_MULTI_ROW };
struct AntiQuantShapeInfo {
    uint32_t offsetHeight = 0, offsetWidth = 0, scaleHeight = 0, scaleWidth = 0;
};

}  // namespace AscendC

namespace toprope {

// A factor or a summand of a quantisation: one number, or a tensor whose elements belong to the columns.
template <typename T>
struct PerColumn {
    const AscendC::LocalTensor<T>* tensor = nullptr;
    float scalar = 0;
};

// dst = round(half(src) * scale + offset) as int8, in half as the page says; `columns` elements share the scale tensor.
template <typename T>
void quantise(Scratch scratch, const AscendC::LocalTensor<int8_t>& dst, const AscendC::LocalTensor<T>& src, PerColumn<T> scale,
              PerColumn<T> offset, uint32_t columns, uint32_t count, Site site) {
    static_assert(kLibraryFloat<T>, "AscendQuant: half and float only (see `toprope api AscendQuant`)");
    if (self->type == CoreType::aic || count == 0) return;
    using Half = AscendC::LocalTensor<half>;
    const bool tensors = scale.tensor != nullptr;
    Half factor, summand;
    const auto as_half = [&](const AscendC::LocalTensor<T>& t) {
        if constexpr (std::is_same_v<T, half>)
            return t;
        else {
            const Half room = scratch.take<half>(columns);
            if (scratch.enough()) Steps<half>{static_cast<int32_t>(columns), site}.cast(room, t, AscendC::RoundMode::CAST_RINT);
            return room;
        }
    };
    if (tensors) factor = as_half(*scale.tensor);
    if (offset.tensor != nullptr) summand = as_half(*offset.tensor);
    const uint32_t room = scratch.left() / 2 / 128 * 128;
    const uint32_t piece = tensors ? columns : room == 0 ? 128 : room < count ? room : (count + 127) / 128 * 128;
    const Half value = scratch.take<half>(piece);
    if (!scratch.enough()) return;
    for (uint32_t begin = 0; begin < count; begin += piece) {
        const Steps<half> v{static_cast<int32_t>(count - begin < piece ? count - begin : piece), site};
        AscendC::LocalTensor<half> x = value;
        if constexpr (std::is_same_v<T, half>)
            x = src[begin];
        else
            v.cast(value, src[begin], AscendC::RoundMode::CAST_RINT);
        if (tensors)
            v.mul(value, x, factor);
        else
            v.mul(value, x, static_cast<half>(scale.scalar));
        if (offset.tensor != nullptr)
            v.add(value, value, summand);
        else
            v.add(value, value, static_cast<half>(offset.scalar));
        v.cast_out(dst[begin], value);
    }
}

// dst[row, i] = float(src[row, i]) * scale[i] in dst's type, for the first calCount elements of each row.
template <typename D, typename S>
void dequantise(Scratch scratch, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<int32_t>& src,
                const AscendC::LocalTensor<S>* scale, float scalar, AscendC::DequantParams p, bool split_single_row, Site site) {
    static_assert(is_one_of<D, half, float, bfloat16_t>,
                  "AscendDequant: dst is half, bfloat16_t or float (see `toprope api AscendDequant`)");
    if (self->type == CoreType::aic || p.m == 0 || p.calCount == 0) return;
    constexpr uint32_t kPer = 32 / sizeof(D);
    if (split_single_row && p.m == 1 && p.calCount % kPer == 0 && p.n % p.calCount == 0) p = {p.n / p.calCount, p.calCount, p.calCount};
    const uint32_t dst_width = (p.n + kPer - 1) / kPer * kPer, n = p.calCount;
    AscendC::LocalTensor<float> factor;
    const Steps<float> v{static_cast<int32_t>(n), site};
    if (scale != nullptr) {
        if constexpr (std::is_same_v<S, float>)
            factor = *scale;
        else {
            factor = scratch.take<float>((n + 63) / 64 * 64);
            if (!scratch.enough()) return;
            if constexpr (sizeof(S) == 8) {  // the low word holds the bits of the float
                uint64_t kept = 0;
                AscendC::GatherMask(factor, scale->template ReinterpretCast<float>(), static_cast<uint8_t>(1), true, n * 2,
                                    AscendC::GatherMaskParams(1, 1, 8, 0), kept, site);
                v.wait();
            } else
                v.cast(factor, *scale);
        }
    }
    const AscendC::LocalTensor<float> value = scratch.take<float>(n);
    if (!scratch.enough()) return;
    for (uint32_t row = 0; row < p.m; ++row) {
        AscendC::LocalTensor<float> y = value;
        if constexpr (std::is_same_v<D, float>) y = dst[row * dst_width];
        v.cast(value, src[row * p.n]);
        if (scale != nullptr)
            v.mul(y, value, factor);
        else
            v.mul(y, value, scalar);
        if constexpr (!std::is_same_v<D, float>) v.cast_out(dst[row * dst_width], y);
    }
}
inline float dequant_scalar(uint64_t bits) { return bits_float(static_cast<uint32_t>(bits)); }
inline float dequant_scalar(float value) { return value; }
inline float dequant_scalar(bfloat16_t value) { return value; }

// dst = (src + offset) * scale. Not transposed: src is [k, columns], offset and scale belong to the columns (groups of k / height rows
// share a row of them); transposed: src is [rows, k], each row has its own pair. half is computed in half, bfloat16_t in float.
template <typename S, typename D>
void antiquantise(Scratch scratch, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src, PerColumn<D> offset,
                  PerColumn<D> scale, bool transposed, uint32_t k, const AscendC::AntiQuantShapeInfo& shape, Site site) {
    static_assert(is_one_of<S, int8_t, AscendC::int4b_t> && is_one_of<D, half, bfloat16_t>,
                  "AscendAntiQuant: int8_t or int4b_t to half or bfloat16_t (see `toprope api AscendAntiQuant`)");
    using C = std::conditional_t<std::is_same_v<D, half>, half, float>;
    if (self->type == CoreType::aic || k == 0) return;
    const bool by_tensor = scale.tensor != nullptr, has_offset = offset.tensor != nullptr || offset.scalar != 0;
    const uint32_t total = src.GetSize(), width = !by_tensor || transposed ? k : shape.scaleWidth,
                   rows = by_tensor && !transposed ? k : total / k;
    const uint32_t group = by_tensor && !transposed && shape.scaleHeight > 0 ? k / shape.scaleHeight : 1;
    const AscendC::LocalTensor<half> narrow = scratch.take<half>(std::is_same_v<C, half> ? 16 : width);
    const AscendC::LocalTensor<C> value = scratch.take<C>(width), factor = scratch.take<C>(width), summand = scratch.take<C>(width);
    if (!scratch.enough()) return;
    const Steps<C> v{static_cast<int32_t>(width), site};
    const auto in_c = [&](const AscendC::LocalTensor<D>& t, const AscendC::LocalTensor<C>& room) {
        if constexpr (std::is_same_v<C, D>)
            return t;
        else
            return v.cast(room, t), room;
    };
    for (uint32_t row = 0; row < rows; ++row) {
        if constexpr (std::is_same_v<C, half>)
            v.cast(value, src[row * width]);
        else
            Steps<half>{v.n, site}.cast(narrow, src[row * width]), v.cast(value, narrow);
        if (by_tensor && transposed) {
            order_pipes(AscendC::HardEvent::V_S, site);
            const C s = static_cast<C>(static_cast<float>(scale.tensor->GetValue(row, site))),
                    o = offset.tensor ? static_cast<C>(static_cast<float>(offset.tensor->GetValue(row, site))) : C(0);
            order_pipes(AscendC::HardEvent::S_V, site);
            v.add(value, value, o);
            v.mul(value, value, s);
        } else if (by_tensor) {
            if (offset.tensor != nullptr) v.add(value, value, in_c((*offset.tensor)[row / group * width], summand));
            v.mul(value, value, in_c((*scale.tensor)[row / group * width], factor));
        } else {
            if (has_offset) v.add(value, value, static_cast<C>(offset.scalar));
            v.mul(value, value, static_cast<C>(scale.scalar));
        }
        if constexpr (std::is_same_v<C, D>)
            v.copy(dst[row * width], value);
        else
            v.cast_out(dst[row * width], value);
    }
}

}  // namespace toprope

namespace AscendC {

//: AscendQuant | dst = round(src * scale + offset) as int8_t | half float | A2 A3 310P | AscendQuant
//: AscendDequant | dst = src * deqScale, from int32_t | int32_t to half bfloat16_t float | A2 A3 310P | AscendDequant
//: AscendAntiQuant | dst = (src + offset) * scale, from int8_t or int4b_t | int8_t int4b_t to half bfloat16_t | A2 A3 310P | AscendAntiQuant
#define TOPROPE_QUANT(TMP, SCRATCH)                                                                                                       \
    template <typename T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>                         \
    void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src TMP, const float scale, const float offset,                \
                     const uint32_t calCount, toprope::Site site = toprope::Site::here()) {                                               \
        toprope::quantise<T>(SCRATCH("AscendQuant"), dst, src, {nullptr, scale}, {nullptr, offset}, calCount, calCount, site);            \
    }                                                                                                                                     \
    template <typename T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>                         \
    void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src TMP, const float scale, const float offset,                \
                     toprope::Site site = toprope::Site::here()) {                                                                        \
        toprope::quantise<T>(SCRATCH("AscendQuant"), dst, src, {nullptr, scale}, {nullptr, offset}, src.GetSize(), src.GetSize(), site);  \
    }                                                                                                                                     \
    template <typename T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>                         \
    void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src TMP, const LocalTensor<T>& scaleTensor, const T offset,    \
                     const uint32_t scaleCount, const uint32_t calCount, toprope::Site site = toprope::Site::here()) {                    \
        toprope::quantise<T>(SCRATCH("AscendQuant"), dst, src, {&scaleTensor, 0}, {nullptr, static_cast<float>(offset)}, scaleCount,      \
                             calCount, site);                                                                                             \
    }                                                                                                                                     \
    template <typename T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>                         \
    void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src TMP, const LocalTensor<T>& scaleTensor,                    \
                     const LocalTensor<T>& offsetTensor, const uint32_t scaleCount, const uint32_t, const uint32_t calCount,              \
                     toprope::Site site = toprope::Site::here()) {                                                                        \
        toprope::quantise<T>(SCRATCH("AscendQuant"), dst, src, {&scaleTensor, 0}, {&offsetTensor, 0}, scaleCount, calCount, site);        \
    }                                                                                                                                     \
    template <typename T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>                         \
    void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src TMP, const LocalTensor<T>& scaleTensor, const T offset,    \
                     toprope::Site site = toprope::Site::here()) {                                                                        \
        toprope::quantise<T>(SCRATCH("AscendQuant"), dst, src, {&scaleTensor, 0}, {nullptr, static_cast<float>(offset)},                  \
                             scaleTensor.GetSize(), src.GetSize(), site);                                                                 \
    }                                                                                                                                     \
    template <typename T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>                         \
    void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src TMP, const LocalTensor<T>& scaleTensor,                    \
                     const LocalTensor<T>& offsetTensor, toprope::Site site = toprope::Site::here()) {                                    \
        toprope::quantise<T>(SCRATCH("AscendQuant"), dst, src, {&scaleTensor, 0}, {&offsetTensor, 0}, scaleTensor.GetSize(),              \
                             src.GetSize(), site);                                                                                        \
    }                                                                                                                                     \
    template <typename D, typename S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>                                            \
    void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const LocalTensor<S>& deqScale TMP,                    \
                       DequantParams params, toprope::Site site = toprope::Site::here()) {                                                \
        toprope::dequantise<D, S>(SCRATCH("AscendDequant"), dst, src, &deqScale, 0, params, mode == DeQuantMode::DEQUANT_WITH_SINGLE_ROW, \
                                  site);                                                                                                  \
    }                                                                                                                                     \
    template <typename D, typename S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>                                            \
    void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const S deqScale TMP, DequantParams params,            \
                       toprope::Site site = toprope::Site::here()) {                                                                      \
        toprope::dequantise<D, float>(SCRATCH("AscendDequant"), dst, src, nullptr, toprope::dequant_scalar(deqScale), params,             \
                                      mode == DeQuantMode::DEQUANT_WITH_SINGLE_ROW, site);                                                \
    }                                                                                                                                     \
    template <typename D, typename S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>                                            \
    void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const LocalTensor<S>& deqScale TMP,                    \
                       const uint32_t calCount, toprope::Site site = toprope::Site::here()) {                                             \
        toprope::dequantise<D, S>(SCRATCH("AscendDequant"), dst, src, &deqScale, 0, {1, src.GetSize(), calCount}, true, site);            \
    }                                                                                                                                     \
    template <typename D, typename S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>                                            \
    void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const LocalTensor<S>& deqScale TMP,                    \
                       toprope::Site site = toprope::Site::here()) {                                                                      \
        toprope::dequantise<D, S>(SCRATCH("AscendDequant"), dst, src, &deqScale, 0, {1, src.GetSize(), deqScale.GetSize()}, true, site);  \
    }                                                                                                                                     \
    template <typename S, typename D, bool isTranspose>                                                                                   \
    void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<D>& offset,                              \
                         const LocalTensor<D>& scale TMP, const uint32_t k, const AntiQuantShapeInfo& shapeInfo = {},                     \
                         toprope::Site site = toprope::Site::here()) {                                                                    \
        toprope::antiquantise<S, D>(SCRATCH("AscendAntiQuant"), dst, src, {&offset, 0}, {&scale, 0}, isTranspose, k, shapeInfo, site);    \
    }                                                                                                                                     \
    template <typename S, typename D, bool isTranspose>                                                                                   \
    void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<D>& scale TMP, const uint32_t k,         \
                         const AntiQuantShapeInfo& shapeInfo = {}, toprope::Site site = toprope::Site::here()) {                          \
        toprope::antiquantise<S, D>(SCRATCH("AscendAntiQuant"), dst, src, {nullptr, 0}, {&scale, 0}, isTranspose, k, shapeInfo, site);    \
    }                                                                                                                                     \
    template <typename S, typename D, bool isTranspose>                                                                                   \
    void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const D offset, const D scale TMP, const uint32_t k,       \
                         const AntiQuantShapeInfo& = {}, toprope::Site site = toprope::Site::here()) {                                    \
        toprope::antiquantise<S, D>(SCRATCH("AscendAntiQuant"), dst, src, {nullptr, static_cast<float>(offset)},                          \
                                    {nullptr, static_cast<float>(scale)}, isTranspose, k, {}, site);                                      \
    }
TOPROPE_QUANT(, TOPROPE_REST_SCRATCH)
TOPROPE_QUANT(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_QUANT

}  // namespace AscendC
