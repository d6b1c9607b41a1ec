// SoftmaxFlashV3, the running softmax of PASA: scores whose keys were shifted by a part of their mean get it back before the maximum.
// Pages: 高阶API/激活函数/SoftMax接口/SoftmaxFlashV3*.md; which columns a partial mean is taken from is the page's pseudo code, and that it
// is taken away from the i-th eighth of the row is the sample of that name in asc-devkit.
#pragma once

#include "softmax.h"

namespace AscendC {

struct SoftMaxParams {
    uint32_t srcM = 0, srcK = 0, oriSrcM = 0, oriSrcK = 0, loopCnt = 1, splitMeanCnt = 8;
    float alpha = 0.9375f;
};

}  // namespace AscendC

namespace toprope {

inline constexpr uint32_t kMeanParts = 8, kFirstColumns = 512;  // parts of a row; columns that are summed eight neighbours at a time

inline bool pasa_shape(const AscendC::SoftMaxParams& p, bool update, Site site) {
    if (p.splitMeanCnt == kMeanParts && p.srcM % 8 == 0 && p.srcK % 64 == 0 && p.srcK >= kFirstColumns && p.oriSrcM == p.srcM &&
        p.oriSrcK == p.srcK && !(update && p.loopCnt == 0))
        return true;
    report("softmax-shape", site, &kOpScratch,
           "SoftmaxFlashV3: %u (%u) rows of %u (%u) elements, splitMeanCnt %u, loopCnt %u; rows must be whole eights, elements whole "
           "sixty-fours from 512 on, nothing padded, splitMeanCnt 8, loopCnt at least 1",
           p.srcM, p.oriSrcM, p.srcK, p.oriSrcK, p.splitMeanCnt, p.loopCnt);
    return false;
}

// blocks[r] = the eight partial means of row r. Part i has columns 64 i to 64 i + 63, and from column 512 on block i of every 64 columns.
inline void partial_means(const Rows& rows, const FloatTensor& blocks, const FloatTensor& x, const FloatTensor& partial) {
    for (uint32_t r = 0; r < rows.rows; ++r) AscendC::BlockReduceSum<float>(partial[r * 64], x[r * rows.width], 8, 64, 1, 1, 8, rows.site);
    rows.wait();
    for (uint32_t column = kFirstColumns; column < rows.width; column += 64) {
        if (rows.rows_repeat())
            AscendC::Add(partial, partial, x[column], uint64_t{64}, static_cast<uint8_t>(rows.rows),
                         AscendC::BinaryRepeatParams(1, 1, 1, 8, 8, static_cast<uint8_t>(rows.width / 8)), rows.site);
        else
            for (uint32_t r = 0; r < rows.rows; ++r)
                AscendC::Add(partial[r * 64], partial[r * 64], x[r * rows.width + column], 64, rows.site);
        rows.wait();
    }
    AscendC::BlockReduceSum<float>(blocks, partial, static_cast<int32_t>(rows.rows), 64, 1, 1, 8, rows.site);
    rows.wait();
    Steps<float>{static_cast<int32_t>(rows.rows * 8), rows.site}.mul(blocks, blocks, 8.f / static_cast<float>(rows.width));
}

// x[r, part i] -= shifts[r][i], the parts being the eighths of a row.
inline void sub_parts(const Rows& rows, const FloatTensor& x, const FloatTensor& shifts, const FloatTensor& partial) {
    AscendC::Brcb(partial, shifts, static_cast<uint8_t>(rows.rows), AscendC::BrcbRepeatParams(1, 8), rows.site);
    rows.wait();
    const uint32_t part = rows.width / kMeanParts;
    for (uint32_t i = 0; i < kMeanParts; ++i)
        rows.with_blocks_of([&](auto&&... a) { AscendC::Sub(a..., rows.site); }, x, x, partial[i * 8], i * part, (i + 1) * part, 8);
}

struct PasaTensors {
    const AscendC::LocalTensor<half>&dst, &src, &exp_max;
    const AscendC::LocalTensor<float>&mean, &sum, &max, &in_mean, &in_sum, &in_max;
};
inline void softmax_pasa(Scratch scratch, const PasaTensors& t, bool update, const AscendC::SoftMaxParams& p, Site site) {
    if (!pasa_shape(p, update, site)) return;
    const float scale = p.alpha / (1.f - p.alpha), loops = static_cast<float>(p.loopCnt);
    softmax_rounds<float>(scratch, kPasaTemporaries, {p.srcM, p.srcK, p.srcM, p.srcK}, false, site, [&](const SoftmaxRound& r) {
        const FloatTensor &mean = r.s.blocks[0], &top = r.s.blocks[1], &old = r.s.blocks[2], &other = r.s.blocks[3];
        const FloatTensor x = r.matrix(t.src, r.s.data[0]);
        const Steps<float> v = r.values();
        partial_means(r.rows, top, x, r.s.partial);
        const Rows parts{r.rows.rows, kMeanParts, site};
        parts.reduce<Fold::SUM>(mean, top, kMeanParts, r.s.partial, r.s.packed);
        v.mul(mean, mean, 1.f / kMeanParts);
        v.sub(top, mean, top);
        v.mul(top, top, scale);
        sub_parts(r.rows, x, top, r.s.partial);
        r.rows.template reduce<Fold::MAX>(top, x, r.n, r.s.partial, r.s.packed);
        if (update) {
            r.load_values(old, t.in_mean);
            v.mul(other, old, loops - 1.f);
            v.add(other, other, mean);
            v.mul(other, other, 1.f / loops);
            r.store_values(t.mean, other);
            v.sub(mean, mean, other);
            v.mul(mean, mean, scale);
            v.sub(old, old, other);
            v.mul(old, old, scale);
            v.add(top, top, mean);
            r.load_values(other, t.in_max);
            v.add(other, other, old);
            v.max(top, top, other);
            v.sub(other, other, top);
            v.exp(other, other);
            r.store_values(t.exp_max, other);
            r.store_values(t.max, top);
            v.sub(top, top, mean);
        } else {
            r.store_values(t.mean, mean);
            r.store_values(t.max, top);
        }
        r.rows.sub_blocks(x, x, top);
        r.rows.all().exp(x, x);
        r.rows.template reduce<Fold::SUM>(mean, x, r.n, r.s.partial, r.s.packed);
        if (update) {
            r.load_values(old, t.in_sum);
            v.mul(old, old, other);
            v.add(mean, mean, old);
        }
        r.store_values(t.sum, mean);
        r.store_matrix(t.dst, x);
    });
}

}  // namespace toprope

namespace AscendC {

//: SoftmaxFlashV3 | the running softmax of PASA: SoftmaxFlashV2 after the eight partial means of each row are levelled, with the running mean | half, row values float | A2 A3 | SoftmaxFlashV3
#define TOPROPE_SOFTMAX_PASA(TMP, SCRATCH)                                                                                               \
    template <typename T, typename U, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,                      \
              bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>                                            \
    void SoftmaxFlashV3(const LocalTensor<T>& dstTensor, const LocalTensor<U>& meanTensor, const LocalTensor<U>& expSumTensor,           \
                        const LocalTensor<U>& maxTensor, const LocalTensor<T>& srcTensor, const LocalTensor<T>& expMaxTensor,            \
                        const LocalTensor<U>& inMeanTensor, const LocalTensor<U>& inExpSumTensor, const LocalTensor<U>& inMaxTensor TMP, \
                        const SoftMaxTiling&, const SoftMaxParams& params, toprope::Site site = toprope::Site::here()) {                 \
        static_assert(__NPU_ARCH__ == 2201 && std::is_same_v<T, half> && std::is_same_v<U, float> && !isDataFormatNZ,                    \
                      "SoftmaxFlashV3: half with row values of float, in ND, on A2 and A3 only (see `toprope api SoftmaxFlashV3`)");     \
        toprope::softmax_pasa(                                                                                                           \
            SCRATCH("SoftmaxFlashV3"),                                                                                                   \
            {dstTensor, srcTensor, expMaxTensor, meanTensor, expSumTensor, maxTensor, inMeanTensor, inExpSumTensor, inMaxTensor},        \
            isUpdate, params, site);                                                                                                     \
    }
TOPROPE_SOFTMAX_PASA(, TOPROPE_REST_SCRATCH)
TOPROPE_SOFTMAX_PASA(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_SOFTMAX_PASA

}  // namespace AscendC
