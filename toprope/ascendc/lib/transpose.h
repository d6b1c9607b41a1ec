// Whole tensors in another order: Transpose with a tiling structure (page 高阶API/张量变换/Transpose-96, its scenarios 1 to 7) and
// TransData (page TransData). The chip turns 16 x 16 squares with vnchwconv, through temporary space; here one instruction stands for a
// call, its work that of the squares.
#pragma once

#include "../api/tensor_layout.h"
#include "../api/vector_transpose.h"
#include "steps.h"
#include "transpose_space.h"

namespace AscendC {

template <typename T, typename U>
struct TransDataParams {
    T srcLayout;
    U dstLayout;
};

}  // namespace AscendC

namespace toprope {

template <bool first, typename A, typename B>
constexpr const auto& pick(const A& a, const B& b) {
    if constexpr (first)
        return a;
    else
        return b;
}

inline constexpr Op kOpTransData{"TransData", Pipe::v, Kind::compute, "vnchwconv"};

// Rows of a tensor in UB, in elements: `rows` of `length`, `pitch` apart.
struct TensorRows {
    uint64_t rows, length, pitch;
    uint64_t elements() const { return rows * pitch; }
    static TensorRows whole(uint64_t elements) { return {1, elements, elements}; }
};

// One instruction that reads `from` and writes all of `to`: move(out, in) copies the elements, what it leaves becomes 0.
template <typename T, typename F>
void reorder(const Op& op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint8_t>& tmp,
             uint64_t tmp_bytes, const TensorRows& to, const TensorRows& from, Site site, const F& move) {
    const uint64_t src_bytes = from.elements() * sizeof(T), dst_bytes = to.elements() * sizeof(T);
    if (self->type == CoreType::aic || src_bytes == 0) return;
    if (tmp_bytes > tmp.length_bytes())
        return report("temporary-space-too-small", site, &kOpScratch, "%s needs %llu bytes of temporary space, but has %u", op.name,
                      static_cast<unsigned long long>(tmp_bytes), tmp.length_bytes());
    if (!(require_ub(op, "dst", dst, dst_bytes, kBlockBytes, site) & require_ub(op, "src", src, src_bytes, kBlockBytes, site) &
          require_ub(op, "sharedTmpBuffer", tmp, tmp_bytes, kBlockBytes, site)))
        return;
    const uint64_t most = src_bytes > dst_bytes ? src_bytes : dst_bytes;
    Instr& instr = record(op, site, static_cast<uint32_t>((most + 511) / 512) * 2, vector_arg<T>());
    touch(instr, Space::ub, Mode::read, src.address(), from.length * sizeof(T), from.rows, static_cast<int64_t>(from.pitch * sizeof(T)));
    if (tmp_bytes > 0) touch(instr, Space::ub, Mode::write, tmp.address(), tmp_bytes, 1, 0, false, true);
    touch(instr, Space::ub, Mode::write, dst.address(), dst_bytes);
    if (!self->execute) return;
    std::memset(dst.host(), 0, dst_bytes);
    move(reinterpret_cast<T*>(dst.host()), reinterpret_cast<const T*>(src.host()));
}

// b images of n heads of s rows of h columns, as a matrix a head or, heads side by side, a matrix an image; plain rows padded to whole
// blocks of 16, or fractals of 16 x 16. rows_of_heads: rows first, [b, s, n, h].
enum class HeadForm : uint8_t { head_rows, head_fractals, image_rows, image_fractals, rows_of_heads, fractals_of_heads };
struct HeadForms {
    HeadForm src, dst;
};
constexpr HeadForms head_forms(AscendC::TransposeType type) {
    switch (type) {
        case AscendC::TransposeType::TRANSPOSE_NZ2ND_0213:
            return {HeadForm::head_fractals, HeadForm::rows_of_heads};
        case AscendC::TransposeType::TRANSPOSE_NZ2NZ_0213:
            return {HeadForm::head_fractals, HeadForm::fractals_of_heads};
        case AscendC::TransposeType::TRANSPOSE_NZ2NZ_012_WITH_N:
            return {HeadForm::image_fractals, HeadForm::head_fractals};
        case AscendC::TransposeType::TRANSPOSE_NZ2ND_012_WITH_N:
            return {HeadForm::image_fractals, HeadForm::head_rows};
        case AscendC::TransposeType::TRANSPOSE_NZ2ND_012_WITHOUT_N:
            return {HeadForm::head_fractals, HeadForm::image_rows};
        default:  // TRANSPOSE_NZ2NZ_012_WITHOUT_N
            return {HeadForm::head_fractals, HeadForm::image_fractals};
    }
}
// Where elements lie in one of these forms.
struct HeadPlaces {
    HeadForm form;
    HeadShape shape;

    uint64_t head_width() const { return padded_to_16(shape.h); }
    uint64_t image_width() const { return padded_to_16(uint64_t{shape.n} * shape.h); }
    bool joined() const { return form == HeadForm::image_rows || form == HeadForm::image_fractals; }
    uint64_t elements() const { return uint64_t{shape.b} * shape.s * (joined() ? image_width() : shape.n * head_width()); }
    bool possible() const {
        const bool rows_first = form == HeadForm::rows_of_heads || form == HeadForm::fractals_of_heads;
        return shape.s % 16 == 0 && !(rows_first && shape.h % 16 != 0) && !(form == HeadForm::fractals_of_heads && shape.n % 16 != 0);
    }
    uint64_t of(uint64_t image, uint64_t head, uint64_t row, uint64_t column) const {
        const auto fractals = [](uint64_t rows, uint64_t r, uint64_t c) { return c / 16 * rows * 16 + r * 16 + c % 16; };
        const uint64_t wide = image_width(), narrow = head_width(), along = head * shape.h + column;
        const uint64_t heads = (image * shape.n + head) * shape.s * narrow, images = image * shape.s * wide;
        switch (form) {
            case HeadForm::head_rows:
                return heads + row * narrow + column;
            case HeadForm::head_fractals:
                return heads + fractals(shape.s, row, column);
            case HeadForm::image_rows:
                return images + row * wide + along;
            case HeadForm::image_fractals:
                return images + fractals(shape.s, row, along);
            case HeadForm::rows_of_heads:
                return images + row * wide + along;
            default:  // fractals_of_heads
                return images + row * wide + fractals(shape.n, head, column);
        }
    }
};

// Scenarios 1 to 6 of Transpose.
template <typename T>
void transpose_heads(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint8_t>& tmp,
                     AscendC::TransposeType type, const HeadShape& shape, Site site) {
    const HeadForms forms = head_forms(type);
    const HeadPlaces from{forms.src, shape}, to{forms.dst, shape};
    if (from.elements() == 0 || !from.possible() || !to.possible())
        return report(
            "transpose-type", site, &kOpTransposeAxes,
            "Transpose: transposeType %d of [B, N, S, H/N] = [%u, %u, %u, %u] (from GetTransposeTilingInfo): S, and what the type "
            "turns into rows or fractals, must be multiples of 16",
            static_cast<int>(type), shape.b, shape.n, shape.s, shape.h);
    reorder(kOpTransposeAxes, dst, src, tmp, transpose_space(static_cast<uint32_t>(type), shape.s, sizeof(T)),
            TensorRows::whole(to.elements()), TensorRows::whole(from.elements()), site, [&](T* out, const T* in) {
                for (uint64_t image = 0; image < shape.b; ++image)
                    for (uint64_t head = 0; head < shape.n; ++head)
                        for (uint64_t row = 0; row < shape.s; ++row)
                            for (uint64_t column = 0; column < shape.h; ++column)
                                out[to.of(image, head, row, column)] = in[from.of(image, head, row, column)];
            });
}

// Between NCDHW, whose planes are padded to whole blocks, and NDC1HWC0 or FRACTAL_Z_3D, whose channels (and images) come in sixteens.
template <typename T>
void trans_data(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint8_t>& tmp,
                const VolumeShape& shape, bool fractal_z, bool to_blocks, Site site) {
    const uint64_t n = shape.n, c = shape.c, d = shape.d, hw = uint64_t{shape.h} * shape.w, pitch = padded_to_16(hw);
    const uint64_t c1 = (c + 15) / 16, n1 = (n + 15) / 16;
    const TensorRows planes{n * c * d, hw, pitch}, blocks = TensorRows::whole(d * c1 * hw * 16 * (fractal_z ? n1 * 16 : n));
    const TensorRows &from = to_blocks ? planes : blocks, &to = to_blocks ? blocks : planes;
    reorder(kOpTransData, dst, src, tmp, trans_data_space(hw), to, from, site, [&](T* out, const T* in) {
        for (uint64_t image = 0; image < n; ++image)
            for (uint64_t channel = 0; channel < c; ++channel)
                for (uint64_t depth = 0; depth < d; ++depth)
                    for (uint64_t at = 0; at < hw; ++at) {
                        const uint64_t plane = ((image * c + channel) * d + depth) * pitch + at;
                        const uint64_t pixel = (fractal_z ? depth : image * d + depth) * c1 * hw + channel / 16 * hw + at;
                        const uint64_t block = (fractal_z ? pixel * n1 * 16 + image : pixel) * 16 + channel % 16;
                        if (to_blocks)
                            out[block] = in[plane];
                        else
                            out[plane] = in[block];
                    }
    });
}

// The extents of a layout's shape as numbers.
template <size_t i, typename L>
constexpr uint32_t extent_of(const L& layout) {
    return static_cast<uint32_t>(std::get<i>(layout.GetShape()));
}
template <typename L>
inline constexpr size_t kDimensions = std::tuple_size_v<std::decay_t<decltype(std::declval<const L&>().GetShape())>>;

template <const AscendC::TransDataConfig& config, typename T, typename U, typename S>
void trans_data_checked(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint8_t>& tmp,
                        const AscendC::TransDataParams<U, S>& params, Site site) {
    using AscendC::DataFormat;
    constexpr bool to_blocks = config.srcFormat == DataFormat::NCDHW;
    constexpr DataFormat other = to_blocks ? config.dstFormat : config.srcFormat;
    constexpr bool fractal_z = other == DataFormat::FRACTAL_Z_3D;
    static_assert(toprope::kChip.split || sizeof(T) == 0, "TransData: A2 and A3 only (see `toprope api TransData`)");
    static_assert(is_one_of<T, int16_t, uint16_t, half, bfloat16_t>, "TransData: elements of 16 bits only (see `toprope api TransData`)");
    static_assert((to_blocks || config.dstFormat == DataFormat::NCDHW) && (fractal_z || other == DataFormat::NDC1HWC0),
                  "TransData: between NCDHW and NDC1HWC0 or FRACTAL_Z_3D only (page TransData)");
    // Two declarations: their types differ.
    const auto& volume = pick<to_blocks>(params.srcLayout, params.dstLayout);
    const auto& blocks = pick<to_blocks>(params.dstLayout, params.srcLayout);
    static_assert(kDimensions<std::decay_t<decltype(volume)>> == 5, "TransData: an NCDHW layout has five dimensions");
    static_assert(kDimensions<std::decay_t<decltype(blocks)>> == (fractal_z ? 7 : 6),
                  "TransData: an NDC1HWC0 layout has six dimensions, a FRACTAL_Z_3D layout seven");
    const VolumeShape shape{extent_of<0>(volume), extent_of<1>(volume), extent_of<2>(volume), extent_of<3>(volume), extent_of<4>(volume)};
    bool agrees;
    if constexpr (fractal_z)
        agrees = extent_of<0>(blocks) == shape.d && extent_of<1>(blocks) == (shape.c + 15) / 16 && extent_of<2>(blocks) == shape.h &&
                 extent_of<3>(blocks) == shape.w && extent_of<4>(blocks) == (shape.n + 15) / 16 && extent_of<5>(blocks) == 16 &&
                 extent_of<6>(blocks) == 16;
    else
        agrees = extent_of<0>(blocks) == shape.n && extent_of<1>(blocks) == shape.d && extent_of<2>(blocks) == (shape.c + 15) / 16 &&
                 extent_of<3>(blocks) == shape.h && extent_of<4>(blocks) == shape.w && extent_of<5>(blocks) == 16;
    if (!agrees)
        return report("layout-mismatch", site, &kOpTransData,
                      "TransData: srcLayout and dstLayout are not the same tensor: NCDHW is [%u, %u, %u, %u, %u]", shape.n, shape.c,
                      shape.d, shape.h, shape.w);
    trans_data(dst, src, tmp, shape, fractal_z, to_blocks, site);
}

}  // namespace toprope

namespace AscendC {

// With a tiling structure of GetTransposeTilingInfo. Its fields have no documented meaning; public kernels that fill it themselves set
// param1 and param2 of TRANSPOSE_ND2ND_ONLY, rows and columns. For the other types they are [B, N, S, H/N].
template <typename T, typename Tiling>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
               TransposeType transposeType, Tiling& tiling, toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::is_one_of<T, int16_t, uint16_t, half, int32_t, uint32_t, float>,
                  "Transpose: this chip has no Transpose for this element type (see `toprope api Transpose`)");
    if (transposeType >= TransposeType::TRANSPOSE_NZ2ND_0213 && transposeType <= TransposeType::TRANSPOSE_NZ2NZ_012_WITHOUT_N)
        return toprope::transpose_heads(dst, src, sharedTmpBuffer, transposeType,
                                        {tiling.param0, tiling.param1, tiling.param2, tiling.param3}, site);
    if (transposeType != TransposeType::TRANSPOSE_ND2ND_ONLY || tiling.param1 % 16 != 0 || tiling.param2 % 16 != 0)
        return toprope::report("transpose-type", site, &toprope::kOpTransposeAxes,
                               "Transpose: transposeType %d of %u x %u; with a tiling structure this chip has the NZ types and "
                               "TRANSPOSE_ND2ND_ONLY of multiples of 16",
                               static_cast<int>(transposeType), tiling.param1, tiling.param2);
    toprope::transpose_planes(dst, src, sharedTmpBuffer, 0, 1, tiling.param1, tiling.param2, site);
}
//: ConfusionTranspose | older name of Transpose with a tiling structure: a transposed matrix, heads split from or joined to NZ matrices | int16_t uint16_t half int32_t uint32_t float | A2 A3 310P | Transpose
template <typename T, typename Tiling>
void ConfusionTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                        TransposeType transposeType, Tiling& tiling, toprope::Site site = toprope::Site::here()) {
    Transpose(dst, src, sharedTmpBuffer, transposeType, tiling, site);
}
template <typename T, typename Tiling>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, TransposeType transposeType, Tiling& tiling,
               toprope::Site site = toprope::Site::here()) {
    toprope::Scratch scratch("Transpose", site);
    Transpose(dst, src, scratch.take<uint8_t>(toprope::transpose_space(static_cast<uint32_t>(transposeType), tiling.param2, sizeof(T))),
              transposeType, tiling, site);
}
template <typename T, typename Tiling>
void ConfusionTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, TransposeType transposeType, Tiling& tiling,
                        toprope::Site site = toprope::Site::here()) {
    Transpose(dst, src, transposeType, tiling, site);
}

//: TransData | NCDHW to NDC1HWC0 or FRACTAL_Z_3D and back; planes of NCDHW are padded to 32 bytes, missing channels and images are 0 | int16_t uint16_t half bfloat16_t | A2 A3 | TransData
template <const TransDataConfig& config, typename T, typename U, typename S>
void TransData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
               const TransDataParams<U, S>& params, toprope::Site site = toprope::Site::here()) {
    toprope::trans_data_checked<config>(dst, src, sharedTmpBuffer, params, site);
}
template <const TransDataConfig& config, typename T, typename U, typename S>
void TransData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const TransDataParams<U, S>& params,
               toprope::Site site = toprope::Site::here()) {
    toprope::Scratch scratch("TransData", site);
    const auto& volume = toprope::pick<config.srcFormat == DataFormat::NCDHW>(params.srcLayout, params.dstLayout);
    const uint64_t plane = uint64_t{toprope::extent_of<3>(volume)} * toprope::extent_of<4>(volume);
    TransData<config>(dst, src, scratch.take<uint8_t>(toprope::trans_data_space(plane)), params, site);
}

}  // namespace AscendC
