// The softmax family over rows of a matrix. Pages: 高阶API/激活函数/SoftMax接口/*.md. All arithmetic is float; half is converted on the way
// in and out. A row value (max, sum) is a 32-byte block of equal elements, or one element with SOFTMAX_OUTPUT_WITHOUT_BRC.
#pragma once

#include "row_split.h"
#include "rows.h"
#include "tiling_structs.h"

namespace AscendC {

struct SoftMaxShapeInfo {
    uint32_t srcM = 0, srcK = 0, oriSrcM = 0, oriSrcK = 0;
};
enum class SoftmaxMode { SOFTMAX_NORMAL = 0, SOFTMAX_OUTPUT_WITHOUT_BRC = 1 };
struct SoftmaxConfig {
    bool isCheckTiling = true;
    uint32_t oriSrcM = 0, oriSrcK = 0;
    SoftmaxMode mode = SoftmaxMode::SOFTMAX_NORMAL;
};
inline constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {true, 0, 0, SoftmaxMode::SOFTMAX_NORMAL};

}  // namespace AscendC

namespace toprope {

inline AscendC::SoftMaxShapeInfo softmax_shape(AscendC::SoftMaxShapeInfo given, const AscendC::SoftMaxTiling& tiling) {
    if (given.srcM == 0 || given.srcK == 0) given = {tiling.srcM, tiling.srcK, tiling.srcM, tiling.srcK};
    if (given.oriSrcM == 0) given.oriSrcM = given.srcM;
    if (given.oriSrcK == 0 || given.oriSrcK > given.srcK) given.oriSrcK = given.srcK;
    return given;
}

// One round of rows of a softmax function: where its pieces lie.
struct SoftmaxRound {
    Rows rows;
    uint32_t first, n;   // first row, elements that count in a reduction
    bool packed_values;  // SOFTMAX_OUTPUT_WITHOUT_BRC
    const RowScratch& s;
    Steps<float> values() const { return rows.all(8); }

    // The matrix rows of a tensor as floats: the tensor itself, or converted into `room`.
    template <typename T>
    FloatTensor matrix(const AscendC::LocalTensor<T>& t, const FloatTensor& room) const {
        if constexpr (std::is_same_v<T, float>)
            return t[first * rows.width];
        else
            return rows.all().cast(room, t[first * rows.width]), room;
    }
    template <typename T>
    void store_matrix(const AscendC::LocalTensor<T>& t, const FloatTensor& from) const {
        if constexpr (!std::is_same_v<T, float>) rows.all().cast_out(t[first * rows.width], from);
    }
    // Row values of a tensor as blocks of eight floats in `room`.
    template <typename T>
    void load_values(const FloatTensor& room, const AscendC::LocalTensor<T>& t) const {
        if (packed_values) {
            const Steps<float> v{static_cast<int32_t>(rows.rows), rows.site};
            if constexpr (std::is_same_v<T, float>)
                v.copy(s.packed, t[first]);
            else
                v.cast(s.packed, t[first]);
            rows.spread(room, s.packed);
        } else if constexpr (std::is_same_v<T, float>)
            values().copy(room, t[first * 8]);
        else {  // sixteen halves per row: convert, keep every second block
            rows.all(16).cast(s.partial, t[first * 16]);
            rows.copy_blocks(room, s.partial, 1, 2);
        }
    }
    template <typename T>
    void store_values(const AscendC::LocalTensor<T>& t, const FloatTensor& from) const {
        if (packed_values)
            rows.pack(t[first], from, s.partial);
        else if constexpr (std::is_same_v<T, float>)
            values().copy(t[first * 8], from);
        else {
            rows.copy_blocks(s.partial, from, 2, 1);
            rows.copy_blocks(s.partial[8], from, 2, 1);
            rows.all(16).cast_out(t[first * 16], s.partial);
        }
    }
};

// Calls body(round) for as many rows at a time as the scratch allows. Packed row values are loaded from tensors of V, (m, 1) as the page
// SoftmaxFlashV2 says, so that a round begins at a whole block of them.
template <typename V, typename F>
void softmax_rounds(Scratch scratch, RowTemporaries t, const AscendC::SoftMaxShapeInfo& shape, bool packed_values, Site site,
                    const F& body) {
    if (self->type == CoreType::aic || shape.srcM == 0 || shape.srcK == 0) return;
    const RowScratch s(scratch, shape.srcM, shape.srcK, t.block_tensors, t.data_tensors, packed_values, site);
    constexpr uint32_t kBlock = 32 / sizeof(V);
    const uint32_t step = packed_values && s.rows < shape.srcM ? s.rows / kBlock * kBlock : s.rows;
    if (s.rows > 0 && step == 0)
        report("temporary-space-too-small", site, &kOpScratch,
               "softmax with one value per row works on %u rows at a time, but the temporary space holds %u", kBlock, s.rows);
    for (uint32_t first = 0; step > 0 && first < shape.srcM; first += step) {
        const uint32_t rows = shape.srcM - first < step ? shape.srcM - first : step;
        body(SoftmaxRound{Rows{rows, shape.srcK, site}, first, shape.oriSrcK, packed_values, s});
    }
}

template <typename T>
inline constexpr uint32_t kConverted = sizeof(T) < 4 ? 1 : 0;
template <const AscendC::SoftmaxConfig& config>
inline constexpr bool kPackedValues = config.mode == AscendC::SoftmaxMode::SOFTMAX_OUTPUT_WITHOUT_BRC;

// y = exp(x - max), with blocks[0] the maximum; the exponentials stay in the returned tensor.
template <typename T>
FloatTensor exponentials(const SoftmaxRound& r, const AscendC::LocalTensor<T>& dst, const FloatTensor& x) {
    const FloatTensor y = kConverted<T> ? r.s.data[0] : r.matrix(dst, r.s.data[0]);
    r.rows.sub_blocks(y, x, r.s.blocks[0]);
    r.rows.all().exp(y, y);
    return y;
}

// logarithm: the result is the decimal logarithm of the softmax, as the page LogSoftMax says.
template <typename T, typename V>
void softmax(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<V>* sum, const AscendC::LocalTensor<V>* max,
             const AscendC::LocalTensor<T>& src, const AscendC::SoftMaxShapeInfo& shape, bool packed_values, Site site,
             bool logarithm = false) {
    static_assert(kLibraryFloat<T> && kLibraryFloat<V>, "SoftMax: half and float only (see `toprope api SoftMax`)");
    softmax_rounds<V>(scratch, softmax_temporaries(sizeof(T)), shape, packed_values, site, [&](const SoftmaxRound& r) {
        const FloatTensor x = r.matrix(src, r.s.data[0]);
        r.rows.template reduce<Fold::MAX>(r.s.blocks[0], x, r.n, r.s.partial, r.s.packed);
        const FloatTensor y = exponentials(r, dst, x);
        r.rows.template reduce<Fold::SUM>(r.s.blocks[1], y, r.n, r.s.partial, r.s.packed);
        r.rows.div_blocks(y, y, r.s.blocks[1]);
        if (logarithm) {
            r.rows.all().log(y, y);
            r.rows.all().mul(y, y, 0.434294482f);
        }
        r.store_matrix(dst, y);
        if (max != nullptr) r.store_values(*max, r.s.blocks[0]);
        if (sum != nullptr) r.store_values(*sum, r.s.blocks[1]);
    });
}

// FlashAttention's running softmax. divide = true is the older form, which keeps the result normalised.
template <typename T, typename V>
struct FlashTensors {
    const AscendC::LocalTensor<T>&dst, &src, &exp_max;
    const AscendC::LocalTensor<V>&sum, &max, &in_sum, &in_max;
    const AscendC::LocalTensor<V>* reduce_max;
};
template <typename T, typename V>
void softmax_flash(Scratch scratch, const FlashTensors<T, V>& t, bool update, bool divide, const AscendC::SoftMaxShapeInfo& shape,
                   bool packed_values, Site site) {
    static_assert(kLibraryFloat<T> && kLibraryFloat<V>, "SoftmaxFlash: half and float only (see `toprope api SoftmaxFlashV2`)");
    softmax_rounds<V>(scratch, flash_temporaries(sizeof(T)), shape, packed_values, site, [&](const SoftmaxRound& r) {
        const FloatTensor &max = r.s.blocks[0], &sum = r.s.blocks[1], &scale = r.s.blocks[2], x = r.matrix(t.src, r.s.data[0]);
        const Steps<float> v = r.values();
        r.rows.template reduce<Fold::MAX>(max, x, r.n, r.s.partial, r.s.packed);
        if (t.reduce_max != nullptr) r.store_values(*t.reduce_max, max);
        if (update) {
            r.load_values(scale, t.in_max);
            v.max(max, max, scale);
            v.sub(scale, scale, max);
            v.exp(scale, scale);
        }
        const FloatTensor y = exponentials(r, t.dst, x);
        r.rows.template reduce<Fold::SUM>(sum, y, r.n, r.s.partial, r.s.packed);
        if (update) {
            const FloatTensor& old = r.s.partial[r.rows.rows * 32];  // the second half of partial is free here
            r.load_values(old, t.in_sum);
            v.mul(old, old, scale);
            v.add(sum, sum, old);
            if (divide) v.div(scale, old, sum);
            r.store_values(t.exp_max, scale);
        }
        if (divide) r.rows.div_blocks(y, y, sum);
        r.store_matrix(t.dst, y);
        r.store_values(t.max, max);
        r.store_values(t.sum, sum);
    });
}

template <typename T, typename V>
void simple_softmax(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<V>& sum,
                    const AscendC::LocalTensor<V>& max, const AscendC::LocalTensor<T>& src, const AscendC::SoftMaxShapeInfo& shape,
                    bool packed_values, Site site) {
    softmax_rounds<V>(scratch, softmax_temporaries(sizeof(T)), shape, packed_values, site, [&](const SoftmaxRound& r) {
        const FloatTensor x = r.matrix(src, r.s.data[0]);
        r.load_values(r.s.blocks[0], max);
        r.load_values(r.s.blocks[1], sum);
        const FloatTensor y = exponentials(r, dst, x);
        r.rows.div_blocks(y, y, r.s.blocks[1]);
        r.store_matrix(dst, y);
    });
}

// front: dst holds one value per row, the sum of grad * src; otherwise dst = (grad - that) * src.
template <typename T>
void softmax_grad(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& grad,
                  const AscendC::LocalTensor<T>& src, bool front, const AscendC::SoftMaxShapeInfo& shape, Site site) {
    static_assert(kLibraryFloat<T>, "SoftmaxGrad: half and float only (see `toprope api SoftmaxGrad`)");
    softmax_rounds<T>(scratch, kSoftmaxGradTemporaries, shape, false, site, [&](const SoftmaxRound& r) {
        const FloatTensor &product = r.s.data[0], g = r.matrix(grad, r.s.data[0]), y = r.matrix(src, r.s.data[1]);
        const Steps<float> v = r.rows.all();
        v.mul(product, g, y);
        r.rows.template reduce<Fold::SUM>(r.s.blocks[0], product, r.n, r.s.partial, r.s.packed);
        if (front) return r.store_values(dst, r.s.blocks[0]);
        const FloatTensor again = r.matrix(grad, r.s.data[0]);
        r.rows.sub_blocks(product, again, r.s.blocks[0]);
        v.mul(product, product, y);
        if constexpr (kConverted<T>)
            r.store_matrix(dst, product);
        else
            v.copy(dst[r.first * r.rows.width], product);
    });
}

}  // namespace toprope

#define TOPROPE_SOFTMAX_ND static_assert(!isDataFormatNZ, "softmax: the NZ format is not supported yet; use ND")

namespace AscendC {

//: LogSoftMax | the decimal logarithm of SoftMax, with the row values max and sum | half float | A2 A3 310P | LogSoftMax
template <typename T, bool isReuseSource = false, bool isDataFormatNZ = false, typename Tiling>
void LogSoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& sum, const LocalTensor<T>& max, const LocalTensor<T>& src,
                const LocalTensor<uint8_t>& sharedTmpBuffer, const Tiling& tiling, const SoftMaxShapeInfo& softmaxShapeInfo = {},
                toprope::Site site = toprope::Site::here()) {
    TOPROPE_SOFTMAX_ND;
    SoftMaxTiling shape;
    shape.srcM = tiling.srcM;
    shape.srcK = tiling.srcK;
    toprope::softmax(toprope::Scratch("LogSoftMax", sharedTmpBuffer, site), dst, &sum, &max, src,
                     toprope::softmax_shape(softmaxShapeInfo, shape), false, site, true);
}

#define TOPROPE_SOFTMAX_FORMS(TMP, SCRATCH)                                                                                                \
    template <typename T = void, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,                       \
              const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename D, typename V>                                                   \
    void SoftMax(const LocalTensor<D>& dst, const LocalTensor<V>& sum, const LocalTensor<V>& max, const LocalTensor<D>& src TMP,           \
                 const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, toprope::Site site = toprope::Site::here()) {            \
        TOPROPE_SOFTMAX_ND;                                                                                                                \
        toprope::softmax(SCRATCH("SoftMax"), dst, &sum, &max, src, toprope::softmax_shape(shape, tiling), toprope::kPackedValues<config>,  \
                         site);                                                                                                            \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false, bool isBasicBlock = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>        \
    void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src TMP, const SoftMaxTiling& tiling,                                    \
                 const SoftMaxShapeInfo& shape = {}, toprope::Site site = toprope::Site::here()) {                                         \
        toprope::softmax<T, T>(SCRATCH("SoftMax"), dst, nullptr, nullptr, src, toprope::softmax_shape(shape, tiling), false, site);        \
    }                                                                                                                                      \
    template <typename T = void, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,                       \
              const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename D, typename V>                                                   \
    void SimpleSoftMax(const LocalTensor<D>& dst, const LocalTensor<V>& inSum, const LocalTensor<V>& inMax, const LocalTensor<D>& src TMP, \
                       const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, toprope::Site site = toprope::Site::here()) {      \
        TOPROPE_SOFTMAX_ND;                                                                                                                \
        toprope::simple_softmax(SCRATCH("SimpleSoftMax"), dst, inSum, inMax, src, toprope::softmax_shape(shape, tiling),                   \
                                toprope::kPackedValues<config>, site);                                                                     \
    }                                                                                                                                      \
    template <typename T = void, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,                             \
              bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename D, typename V>                      \
    void SoftmaxFlashV2(const LocalTensor<D>& dst, const LocalTensor<V>& expSum, const LocalTensor<V>& max, const LocalTensor<D>& src,     \
                        const LocalTensor<D>& expMax, const LocalTensor<V>& inExpSum, const LocalTensor<V>& inMax TMP,                     \
                        const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, toprope::Site site = toprope::Site::here()) {     \
        TOPROPE_SOFTMAX_ND;                                                                                                                \
        toprope::softmax_flash<D, V>(SCRATCH("SoftmaxFlashV2"), {dst, src, expMax, expSum, max, inExpSum, inMax, nullptr}, isUpdate,       \
                                     false, toprope::softmax_shape(shape, tiling), toprope::kPackedValues<config>, site);                  \
    }                                                                                                                                      \
    template <typename T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,       \
              const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>                                                                           \
    void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<T>& outReduceMax, const LocalTensor<T>& outExpSum,                    \
                        const LocalTensor<T>& outMax, const LocalTensor<T>& src, const LocalTensor<T>& outExpMax,                          \
                        const LocalTensor<T>& inExpSum, const LocalTensor<T>& inMax TMP, const SoftMaxTiling& tiling,                      \
                        const SoftMaxShapeInfo& shape = {}, toprope::Site site = toprope::Site::here()) {                                  \
        TOPROPE_SOFTMAX_ND;                                                                                                                \
        toprope::softmax_flash<T, T>(SCRATCH("SoftmaxFlashV2"), {dst, src, outExpMax, outExpSum, outMax, inExpSum, inMax, &outReduceMax},  \
                                     isUpdate, false, toprope::softmax_shape(shape, tiling), toprope::kPackedValues<config>, site);        \
    }                                                                                                                                      \
    template <typename T = void, bool isReuseSource = false, bool isBasicBlock = false, typename D, typename V>                            \
    void SoftmaxFlash(const LocalTensor<D>& dst, const LocalTensor<V>& sum, const LocalTensor<V>& max, const LocalTensor<D>& src,          \
                      const LocalTensor<D>& expMax, const LocalTensor<V>& inSum, const LocalTensor<V>& inMax TMP,                          \
                      const SoftMaxTiling& tiling, bool isUpdate = false, const SoftMaxShapeInfo& shape = {},                              \
                      toprope::Site site = toprope::Site::here()) {                                                                        \
        toprope::softmax_flash<D, V>(SCRATCH("SoftmaxFlash"), {dst, src, expMax, sum, max, inSum, inMax, nullptr}, isUpdate, true,         \
                                     toprope::softmax_shape(shape, tiling), false, site);                                                  \
    }                                                                                                                                      \
    template <typename T, bool isReuseSource = false, bool isDataFormatNZ = false>                                                         \
    void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src TMP, const SoftMaxTiling& tiling,    \
                     bool isFront = false, const SoftMaxShapeInfo& shape = {}, toprope::Site site = toprope::Site::here()) {               \
        TOPROPE_SOFTMAX_ND;                                                                                                                \
        toprope::softmax_grad(SCRATCH("SoftmaxGrad"), dst, grad, src, isFront, toprope::softmax_shape(shape, tiling), site);               \
    }                                                                                                                                      \
    template <typename T, bool isBasicBlock = false, bool isDataFormatNZ = false>                                                          \
    void SoftmaxGradFront(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src TMP,                            \
                          const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, toprope::Site site = toprope::Site::here()) {   \
        TOPROPE_SOFTMAX_ND;                                                                                                                \
        toprope::softmax_grad(SCRATCH("SoftmaxGradFront"), dst, grad, src, true, toprope::softmax_shape(shape, tiling), site);             \
    }
//: SoftMax | each row of src as exp(x - max) / sum, with the row values max and sum | half float | A2 A3 310P | SoftMax
//: SimpleSoftMax | exp(src - max) / sum with the row values given | half float | A2 A3 310P | SimpleSoftMax
//: SoftmaxFlashV2 | exp(src - running max), the running max and sum, and the factor that corrects earlier results | half float | A2 A3 310P | SoftmaxFlashV2
//: SoftmaxFlash | the older running softmax, normalised at every step | half float | A2 A3 310P | SoftmaxFlash
//: SoftmaxGrad | (grad - sum(grad * src)) * src row by row, or that sum alone | half float | A2 A3 310P | SoftmaxGrad
//: SoftmaxGradFront | the row sums of grad * src | half float | A2 A3 310P | SoftmaxGradFront
TOPROPE_SOFTMAX_FORMS(, TOPROPE_REST_SCRATCH)
TOPROPE_SOFTMAX_FORMS(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_SOFTMAX_FORMS

// Kernels that learn their shapes at run time compute the structure themselves. Sizes of elements and of the space in bytes; the space may
// also be given in whatever the caller's tensor counts, which then only makes rounds smaller. Pages: the Tiling pages beside the functions.
inline SoftMaxTiling SoftMaxFlashV2TilingFunc(const SoftMaxShapeInfo& shapeInfo, uint32_t dataTypeSize1, uint32_t dataTypeSize2,
                                              uint32_t localWorkSpaceSize, bool = false, bool = false, bool = false, bool = false) {
    SoftMaxTiling tiling;
    toprope::split_softmax({shapeInfo.srcM, shapeInfo.srcK}, dataTypeSize2, toprope::flash_temporaries(dataTypeSize1), localWorkSpaceSize,
                           tiling);
    return tiling;
}
// The name under which kernels call it with rows and columns.
inline SoftMaxTiling SoftMaxFlashV2TilingFuncImpl(uint32_t srcM, uint32_t srcK, uint32_t dataTypeSize1, uint32_t dataTypeSize2,
                                                  uint32_t localWorkSpaceSize, bool = false, bool = false, bool = false, bool = false) {
    return SoftMaxFlashV2TilingFunc({srcM, srcK, srcM, srcK}, dataTypeSize1, dataTypeSize2, localWorkSpaceSize);
}
inline SoftMaxTiling SoftMaxTilingFunc(const SoftMaxShapeInfo& shapeInfo, uint32_t dataTypeSize1, uint32_t dataTypeSize2,
                                       uint32_t localWorkSpaceSize, bool = false, bool = false) {
    SoftMaxTiling tiling;
    toprope::split_softmax({shapeInfo.srcM, shapeInfo.srcK}, dataTypeSize2, toprope::softmax_temporaries(dataTypeSize1), localWorkSpaceSize,
                           tiling);
    return tiling;
}
inline SoftMaxTiling SoftMaxGradTilingFunc(const SoftMaxShapeInfo& shapeInfo, uint32_t dataTypeSize, uint32_t localWorkSpaceSize,
                                           bool = false, bool = false, bool = false) {
    SoftMaxTiling tiling;
    toprope::split_softmax({shapeInfo.srcM, shapeInfo.srcK}, dataTypeSize, toprope::kSoftmaxGradTemporaries, localWorkSpaceSize, tiling);
    return tiling;
}

//: AdjustSoftMaxRes | rows of softMaxRes whose max has the bits `from` become `to`; says whether there were any | half float | A2 A3 310P | AdjustSoftMaxRes
template <typename T1, typename T2, bool isDataFormatNZ = false, uint8_t stepSizeMode = 0>
bool AdjustSoftMaxRes(const LocalTensor<T1>& softMaxRes, const LocalTensor<T2>& maxTensor, const uint32_t from, const T1 to,
                      const SoftMaxShapeInfo& softmaxShapeInfo, toprope::Site site = toprope::Site::here()) {
    TOPROPE_SOFTMAX_ND;
    constexpr uint32_t kStep = stepSizeMode == 0 ? 32 / sizeof(T2) : 1;
    bool found = false;
    toprope::order_pipes(HardEvent::V_S, site);
    for (uint32_t row = 0; row < softmaxShapeInfo.srcM; ++row) {
        if (__builtin_bit_cast(toprope::BitsOf<T2>, maxTensor.GetValue(row * kStep, site)) != static_cast<toprope::BitsOf<T2>>(from))
            continue;
        found = true;
        Duplicate(softMaxRes[row * softmaxShapeInfo.srcK], to, static_cast<int32_t>(softmaxShapeInfo.srcK), site);
    }
    toprope::order_pipes(HardEvent::S_V, site);
    return found;
}

}  // namespace AscendC
