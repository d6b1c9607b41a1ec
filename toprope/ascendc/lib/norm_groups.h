// Normalisation over other sets than rows: BatchNorm over the batch, GroupNorm over the channels of a group. Pages:
// 高阶API/归一化操作/{BatchNorm,GroupNorm}. All arithmetic is float.
#pragma once

#include "norm.h"

namespace toprope {

// A value of gamma or beta for the scalar unit.
template <typename T>
float scalar_of(const AscendC::LocalTensor<T>& t, uint32_t index, Site site) {
    return static_cast<float>(t.GetValue(index, site));
}

// src[b, i] for every feature i of `features`, normalised over b; gamma and beta have one value per b. A piece of features at a time.
template <typename T>
void batch_norm(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& mean,
                const AscendC::LocalTensor<T>& variance, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& gamma,
                const AscendC::LocalTensor<T>& beta, float epsilon, uint32_t batch, uint32_t features, Site site) {
    static_assert(kLibraryFloat<T>, "BatchNorm: half and float only (see `toprope api BatchNorm`)");
    if (self->type == CoreType::aic || batch == 0 || features == 0) return;
    const uint32_t room = scratch.left() / (kBatchNormTemporaries * 4) / kPieceLanes * kPieceLanes,
                   wanted = (features + kPieceLanes - 1) / kPieceLanes * kPieceLanes,
                   piece = room == 0       ? kPieceLanes
                           : room < wanted ? room
                                           : wanted;
    const FloatTensor m = scratch.take<float>(piece), d = scratch.take<float>(piece), x = scratch.take<float>(piece);
    if (!scratch.enough()) return;
    const float share = 1.f / static_cast<float>(batch);
    const auto load = [&](const Steps<float>& v, uint32_t at) {
        if constexpr (std::is_same_v<T, float>)
            v.copy(x, src[at]);
        else
            v.cast(x, src[at]);
    };
    const auto store = [&](const Steps<float>& v, const AscendC::LocalTensor<T>& to, const FloatTensor& from) {
        if constexpr (std::is_same_v<T, float>)
            v.copy(to, from);
        else
            v.cast_out(to, from);
    };
    for (uint32_t begin = 0; begin < features; begin += piece) {
        const Steps<float> v{static_cast<int32_t>(features - begin < piece ? features - begin : piece), site};
        v.fill(m, 0.f);
        v.fill(d, 0.f);
        for (uint32_t b = 0; b < batch; ++b) {
            load(v, b * features + begin);
            v.mul(x, x, share);
            v.add(m, m, x);
        }
        for (uint32_t b = 0; b < batch; ++b) {
            load(v, b * features + begin);
            v.sub(x, x, m);
            v.mul(x, x, x);
            v.mul(x, x, share);
            v.add(d, d, x);
        }
        store(v, mean[begin], m);
        store(v, variance[begin], d);
        v.add(d, d, epsilon);
        v.sqrt(d, d);
        for (uint32_t b = 0; b < batch; ++b) {
            load(v, b * features + begin);
            v.sub(x, x, m);
            v.div(x, x, d);
            v.mul(x, x, scalar_of(gamma, b, site));
            v.add(x, x, scalar_of(beta, b, site));
            store(v, dst[b * features + begin], x);
        }
    }
}

struct GroupShape {
    uint32_t images, channels, area, groups;
};
// src[n, c, :] normalised over the channels of a group, then scaled and shifted for each channel.
template <typename T>
void group_norm(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& mean,
                const AscendC::LocalTensor<T>& variance, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& gamma,
                const AscendC::LocalTensor<T>& beta, float epsilon, const GroupShape& shape, Site site) {
    static_assert(kLibraryFloat<T>, "GroupNorm: half and float only (see `toprope api GroupNorm`)");
    if (self->type == CoreType::aic || shape.groups == 0 || shape.area == 0) return;
    const uint32_t per_group = shape.channels / shape.groups, n = per_group * shape.area, padded = (n + 7) / 8 * 8;
    const RowScratch s(scratch, 1, padded, kLayerNormTemporaries.block_tensors, kLayerNormTemporaries.data_tensors, false, site);
    if (s.rows == 0) return;
    const Rows r{1, padded, site};
    const Steps<float> v{static_cast<int32_t>(n), site}, values = r.all(8);
    const Steps<float> line{static_cast<int32_t>(shape.area), site};
    const float share = 1.f / static_cast<float>(n);
    r.all().fill(s.data[0], 0.f);
    r.all().fill(s.data[1], 0.f);  // elements behind n take part in operations on whole blocks
    for (uint32_t group = 0; group < shape.images * shape.groups; ++group) {
        const AscendC::LocalTensor<T> from = src[group * n], to = dst[group * n];
        if constexpr (std::is_same_v<T, float>)
            v.copy(s.data[0], from);
        else
            v.cast(s.data[0], from);
        v.mul(s.data[1], s.data[0], share);
        r.template reduce<Fold::SUM>(s.blocks[0], s.data[1], n, s.partial, s.packed);
        r.sub_blocks(s.data[0], s.data[0], s.blocks[0]);
        v.mul(s.data[1], s.data[0], s.data[0]);
        v.mul(s.data[1], s.data[1], share);
        r.template reduce<Fold::SUM>(s.blocks[1], s.data[1], n, s.partial, s.packed);
        r.pack(mean[group], s.blocks[0], s.partial);
        r.pack(variance[group], s.blocks[1], s.partial);
        values.add(s.blocks[1], s.blocks[1], epsilon);
        values.sqrt(s.blocks[1], s.blocks[1]);
        r.div_blocks(s.data[0], s.data[0], s.blocks[1]);
        for (uint32_t c = 0; c < per_group; ++c) {
            const uint32_t channel = group % shape.groups * per_group + c;
            const FloatTensor part = s.data[0][c * shape.area];
            line.mul(part, part, scalar_of(gamma, channel, site));
            line.add(part, part, scalar_of(beta, channel, site));
        }
        if constexpr (std::is_same_v<T, float>)
            v.copy(to, s.data[0]);
        else
            v.cast_out(to, s.data[0]);
    }
}

}  // namespace toprope

namespace AscendC {

//: BatchNorm | (src - mean) / sqrt(variance + epsilon) over the batch, times gamma plus beta of the batch entry | half float | A2 A3 310P | BatchNorm
//: GroupNorm | (src - mean) / sqrt(variance + epsilon) over the channels of a group, times gamma plus beta of the channel | half float | A2 A3 310P | GroupNorm
#define TOPROPE_GROUP_NORMS(TMP, SCRATCH)                                                                                               \
    template <typename T, bool isReuseSource = false, bool isBasicBlock = false>                                                        \
    void BatchNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,                \
                   const LocalTensor<T>& inputX, const LocalTensor<T>& gamm, const LocalTensor<T>& beta TMP, const T epsilon,           \
                   BatchNormTiling& tiling, toprope::Site site = toprope::Site::here()) {                                               \
        toprope::batch_norm(SCRATCH("BatchNorm"), output, outputMean, outputVariance, inputX, gamm, beta, static_cast<float>(epsilon),  \
                            tiling.originalBLength, tiling.meanVarSize, site);                                                          \
    }                                                                                                                                   \
    template <typename T, bool isReuseSource = false>                                                                                   \
    void GroupNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,                \
                   const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta TMP, const T epsilon,          \
                   GroupNormTiling& tiling, toprope::Site site = toprope::Site::here()) {                                               \
        toprope::group_norm(SCRATCH("GroupNorm"), output, outputMean, outputVariance, inputX, gamma, beta, static_cast<float>(epsilon), \
                            {tiling.n, tiling.c, tiling.hw, tiling.g}, site);                                                           \
    }
TOPROPE_GROUP_NORMS(, TOPROPE_REST_SCRATCH)
TOPROPE_GROUP_NORMS(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_GROUP_NORMS

}  // namespace AscendC
