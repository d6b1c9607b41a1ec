// DataCopy with enhancement parameters: on 310P and 910 the way from L0C to UB, with scaling to a narrower type on the way.
// Everywhere else they change nothing. Page: DataCopy（L0C到UB数据搬运）.
#pragma once

#include "data_copy.h"
#include "scalar.h"

namespace toprope {

inline constexpr Op kL0cToUbOp{"DataCopy", Pipe::v, Kind::copy, "l0c_to_ub"};

// Fields of deqValue. M scales, N shifts right, offset and sign belong to 8-bit results.
struct DeqFields {
    float m;
    int32_t n, offset;
    bool shift_first, is_signed;
    explicit DeqFields(uint64_t v)
        : m(bits_float(static_cast<uint32_t>(v))),
          n(static_cast<int32_t>(v >> 32 & 15) + 1),
          offset(static_cast<int32_t>(v >> 37 & 0x1ff)),
          shift_first(v >> 36 & 1),
          is_signed(v >> 46 & 1) {
        if (offset >= 256) offset -= 512;
    }
    float scaled(int32_t value) const { return static_cast<float>(shift_first ? static_cast<int16_t>(value >> n) : value) * m; }
};

inline float clamp_to(float v, float low, float high) { return v != v ? 0.0f : (v < low ? low : (v > high ? high : v)); }

// One element on its way out of L0C.
template <typename T, typename U>
T dequantised(U value, const AscendC::DataCopyEnhancedParams& e) {
    using AscendC::DeqScale;
    if constexpr (std::is_same_v<T, U>) {
        if constexpr (std::is_same_v<T, half>) {
            if (e.deqScale == DeqScale::DEQ) return half(static_cast<float>(value) * half_to_float(static_cast<uint16_t>(e.deqValue)));
        }
        return value;
    } else if constexpr (std::is_same_v<U, float>) {
        return T(value);
    } else {
        const DeqFields f(e.deqValue);
        if constexpr (std::is_same_v<T, half>) {
            if (e.deqScale == DeqScale::DEQ) return half(static_cast<float>(value) * half_to_float(static_cast<uint16_t>(e.deqValue)));
            return half(f.scaled(value));
        } else if constexpr (std::is_same_v<T, int16_t>) {
            return static_cast<int16_t>(clamp_to(static_cast<float>(value >> f.n), -32768.0f, 32767.0f));
        } else {
            const float rounded = __builtin_rintf(f.scaled(value)) + static_cast<float>(f.offset);
            return f.is_signed ? static_cast<T>(static_cast<int8_t>(clamp_to(rounded, -128.0f, 127.0f)))
                               : static_cast<T>(static_cast<uint8_t>(clamp_to(rounded, 0.0f, 255.0f)));
        }
    }
}

template <typename T, typename U>
void copy_out_of_l0c(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, const AscendC::DataCopyParams& p,
                     const AscendC::DataCopyEnhancedParams& e, Site site) {
    using AscendC::BlockMode;
    using AscendC::DeqScale;
    const Op& op = kL0cToUbOp;
    if (self->bytes[static_cast<int>(Space::l0c)] == 0 || self->bytes[static_cast<int>(Space::ub)] == 0) return;
    require_fields(op,
                   {{"blockCount", p.blockCount.meant, 0, kMaxBlockCount},
                    {"blockLen", p.blockLen.meant, 0, kMax16},
                    {"srcStride", p.srcStride.meant, 0, kMax16},
                    {"dstStride", p.dstStride.meant, 0, kMax16}},
                   site);
    const bool vector_mode = e.deqScale == DeqScale::VDEQ || e.deqScale == DeqScale::VDEQ8 || e.deqScale == DeqScale::VDEQ16;
    if (vector_mode || (e.blockMode != BlockMode::BLOCK_MODE_MATRIX && e.blockMode != BlockMode::BLOCK_MODE_VECTOR)) {
        report("copy-mode-not-modelled", site, &op,
               "blockMode %d with deqScale %d is not modelled; matrix and vector blocks with one scale are", static_cast<int>(e.blockMode),
               static_cast<int>(e.deqScale));
        return;
    }
    constexpr uint64_t fractal = 256 * sizeof(U), row = 16;
    const uint64_t groups = uint64_t{p.blockLen} * (e.blockMode == BlockMode::BLOCK_MODE_MATRIX ? 16 : 1);  // of 16 elements
    const bool half_blocks = sizeof(T) == 1 && e.sidStoreMode != 2;
    const uint64_t group_bytes = half_blocks ? kBlockBytes : row * sizeof(T), shift = half_blocks && e.sidStoreMode == 1 ? 16 : 0;
    const CopyRows rows{p.blockCount, groups * row * sizeof(U), groups * row * sizeof(U) + p.srcStride * fractal,
                        groups * group_bytes + uint64_t{p.dstStride} * kBlockBytes};
    if (rows.count == 0 || groups == 0) return;
    CopyEnd d, s;
    const uint64_t dst_bytes = groups * group_bytes;
    if (!(open_end(d, op, "dst", dst, (rows.count - 1) * rows.dst_step + dst_bytes, true, site) &
          open_end(s, op, "src", src, rows.span(rows.src_step), false, site)))
        return;
    Instr& instr = record(op, site, static_cast<uint32_t>(rows.count), copy_arg(dtype_of<U>, d, s, kFormPlain));
    touch_rows(instr, s, Mode::read, 0, rows.bytes, rows.count, rows.src_step);
    touch_rows(instr, d, Mode::write, 0, dst_bytes, rows.count, rows.dst_step);
    if (!self->execute) return;
    const bool relu = e.isRelu || ((e.deqScale == DeqScale::DEQ8 || e.deqScale == DeqScale::DEQ16) && (e.deqValue >> 47 & 1));
    for (uint64_t r = 0; r < rows.count; ++r)
        for (uint64_t i = 0; i < groups * row; ++i) {
            U value;
            std::memcpy(static_cast<void*>(&value), s.host + r * rows.src_step + i * sizeof(U), sizeof(U));
            T result = dequantised<T>(value, e);
            if (relu && static_cast<Lane<T>>(result) < Lane<T>{}) result = T{};
            std::memcpy(d.host + r * rows.dst_step + i / row * group_bytes + shift + i % row * sizeof(T), static_cast<const void*>(&result),
                        sizeof(T));
        }
}

}  // namespace toprope

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& intriParams, const DataCopyEnhancedParams&,
              toprope::Site site = toprope::Site::here()) {
    toprope::copy_blocks<T>(dst, src, intriParams, site);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& intriParams, const DataCopyEnhancedParams&,
              toprope::Site site = toprope::Site::here()) {
    toprope::copy_blocks<T>(dst, src, intriParams, site);
}
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& intriParams,
              const DataCopyEnhancedParams& enhancedParams, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    if (kChip.l0c_to_ub_by_copy && src.space() == Space::l0c && dst.space() == Space::ub) {
        static_assert(std::is_same_v<T, U> || (std::is_same_v<U, float> && std::is_same_v<T, half>) ||
                          (std::is_same_v<U, int32_t> && is_one_of<T, int8_t, uint8_t, int16_t, half>),
                      "DataCopy from L0C to UB converts float to half and int32_t to int8_t, uint8_t, int16_t and half");
        return copy_out_of_l0c(dst, src, intriParams, enhancedParams, site);
    }
    if constexpr (std::is_same_v<T, U>)
        copy_blocks<T>(dst, src, intriParams, site);
    else
        route(src.space(), dst.space(), "DataCopy with conversion", site);
}
// L1 to the bias table with conversion: half becomes float. Lengths count the bias table's 64-byte pieces.
template <typename T, typename U>
auto DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& repeatParams,
              toprope::Site site = toprope::Site::here()) -> std::enable_if_t<!std::is_same_v<T, U>> {
    using namespace toprope;
    static_assert(std::is_same_v<T, float> && std::is_same_v<U, half>, "DataCopy from L1 to the bias table converts half to float");
    if (route(src.space(), dst.space(), "DataCopy with conversion", site) != Path::l1_bias) return;
    const Op& op = kCopyOps[static_cast<int>(Path::l1_bias)];
    const uint64_t count = repeatParams.blockCount, elements = uint64_t{repeatParams.blockLen} * 16;
    if (count == 0 || elements == 0) return;
    const CopyRows rows{count, elements * 2, elements * 2 + uint64_t{repeatParams.srcGap} * 32,
                        elements * 4 + uint64_t{repeatParams.dstGap} * 64};
    CopyEnd d, s;
    if (!(open_end(d, op, "dst", dst, (count - 1) * rows.dst_step + elements * 4, true, site) &
          open_end(s, op, "src", src, rows.span(rows.src_step), false, site)))
        return;
    Instr& instr = record(op, site, static_cast<uint32_t>(count), copy_arg(dtype_of<U>, d, s, kFormPlain));
    touch_rows(instr, s, Mode::read, 0, rows.bytes, count, rows.src_step);
    touch_rows(instr, d, Mode::write, 0, elements * 4, count, rows.dst_step);
    if (!self->execute) return;
    for (uint64_t r = 0; r < count; ++r)
        half_to_float_n(reinterpret_cast<float*>(d.host + r * rows.dst_step), reinterpret_cast<const uint16_t*>(s.host + r * rows.src_step),
                        elements);
}

}  // namespace AscendC
