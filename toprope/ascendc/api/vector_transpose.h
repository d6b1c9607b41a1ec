// Transposing blocks: 16 x 16 matrices, sixteen 32-byte rows at addresses (NCHW to NC1HWC0), and NCHW <-> NHWC.
// Source of the rules: reference pages Transpose, TransDataTo5HD.
#pragma once

#include "vector_reduce.h"

namespace AscendC {

inline constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16;

struct TransDataTo5HDParams {
    bool dstHighHalf = false, srcHighHalf = false;
    uint8_t repeatTimes = 1;
    uint16_t dstRepStride = 0, srcRepStride = 0;
    TransDataTo5HDParams() = default;
    constexpr TransDataTo5HDParams(bool dstHigh, bool srcHigh, uint8_t repeats, uint16_t dstRepeat, uint16_t srcRepeat)
        : dstHighHalf(dstHigh), srcHighHalf(srcHigh), repeatTimes(repeats), dstRepStride(dstRepeat), srcRepStride(srcRepeat) {}
};

enum class TransposeType : uint8_t {
    TRANSPOSE_TYPE_NONE,
    TRANSPOSE_NZ2ND_0213,
    TRANSPOSE_NZ2NZ_0213,
    TRANSPOSE_NZ2NZ_012_WITH_N,
    TRANSPOSE_NZ2ND_012_WITH_N,
    TRANSPOSE_NZ2ND_012_WITHOUT_N,
    TRANSPOSE_NZ2NZ_012_WITHOUT_N,
    TRANSPOSE_ND2ND_ONLY,
    TRANSPOSE_ND_UB_GM,
    TRANSPOSE_GRAD_ND_UB_GM,
    TRANSPOSE_ND2ND_B16,
    TRANSPOSE_NCHW2NHWC,
    TRANSPOSE_NHWC2NCHW
};

struct TransposeParamsExt {
    uint16_t nSize = 0, cSize = 0, hSize = 0, wSize = 0;
    TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;
    TransposeParamsExt() = default;
    constexpr TransposeParamsExt(uint16_t n, uint16_t c, uint16_t h, uint16_t w, TransposeType type)
        : nSize(n), cSize(c), hSize(h), wSize(w), transposeType(type) {}
};

}  // namespace AscendC

namespace toprope {

inline constexpr Op kOpTranspose{"Transpose", Pipe::v, Kind::compute, "vtranspose"};
inline constexpr Op kOpTransposeAxes{"Transpose", Pipe::v, Kind::compute, "vnchwconv"};
inline constexpr Op kOpTransDataTo5HD{"TransDataTo5HD", Pipe::v, Kind::compute, "vnchwconv"};

template <typename T>
void transpose_16x16(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, Site site) {
    if (self->type == CoreType::aic) return;
    if (!(require_ub(kOpTranspose, "dst", dst, 512, kBlockBytes, site) & require_ub(kOpTranspose, "src", src, 512, kBlockBytes, site)))
        return;
    Instr& instr = record(kOpTranspose, site, 1, vector_arg<T>());
    touch(instr, Space::ub, Mode::read, src.address(), 512);
    touch(instr, Space::ub, Mode::write, dst.address(), 512);
    if (!self->execute) return;
    uint16_t in[256], out[256];
    std::memcpy(in, src.host(), 512);
    for (uint32_t i = 0; i < 16; ++i)
        for (uint32_t j = 0; j < 16; ++j) out[j * 16 + i] = in[i * 16 + j];
    std::memcpy(dst.host(), out, 512);
}

// n planes of rows x columns become n planes of columns x rows. The chip does it with vnchwconv over 512-byte pieces and a temporary
// buffer.
template <typename T>
void transpose_planes(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint8_t>& tmp,
                      uint64_t tmp_bytes, uint32_t planes, uint32_t rows, uint32_t columns, Site site) {
    const Op& op = kOpTransposeAxes;
    const uint64_t plane = uint64_t{rows} * columns, bytes = planes * plane * sizeof(T);
    if (self->type == CoreType::aic || bytes == 0) return;
    if (!(require_ub(op, "dst", dst, bytes, kBlockBytes, site) & require_ub(op, "src", src, bytes, kBlockBytes, site) &
          require_ub(op, "sharedTmpBuffer", tmp, tmp_bytes, kBlockBytes, site)))
        return;
    Instr& instr = record(op, site, static_cast<uint32_t>((bytes + 511) / 512) * 2, vector_arg<T>());
    touch(instr, Space::ub, Mode::read, src.address(), bytes);
    if (tmp_bytes > 0) touch(instr, Space::ub, Mode::write, tmp.address(), tmp_bytes, 1, 0, false, true);
    touch(instr, Space::ub, Mode::write, dst.address(), bytes);
    if (!self->execute) return;
    const T* in = reinterpret_cast<const T*>(src.host());
    T* out = reinterpret_cast<T*>(dst.host());
    for (uint32_t n = 0; n < planes; ++n, in += plane, out += plane)
        for (uint32_t i = 0; i < rows; ++i)
            for (uint32_t j = 0; j < columns; ++j) out[uint64_t{j} * rows + i] = in[uint64_t{i} * columns + j];
}

struct BlockRows {
    uint32_t address[16];   // in UB
    uint32_t bytes, shift;  // of each row that takes part, and where they begin
    uint64_t repeat_stride;
    bool evenly_spaced() const {
        for (int i = 2; i < 16; ++i)
            if (address[i] - address[i - 1] != address[1] - address[0]) return false;
        return true;
    }
    void touch_in(Instr& instr, Mode mode, uint64_t first, uint32_t repeats) const {
        const auto stride = static_cast<int64_t>(repeat_stride);
        if (evenly_spaced()) {
            touch(instr, Space::ub, mode, address[0] + first + shift, bytes, 16, static_cast<int32_t>(address[1] - address[0]),
                  repeats > 1);
            if (repeats > 1) touch(instr, Space::ub, mode, 0, 0, repeats, stride);
            return;
        }
        for (const uint32_t row : address) touch(instr, Space::ub, mode, row + first + shift, bytes, repeats, stride);
    }
    bool require(const char* role, uint64_t first, uint32_t repeats, Site site) const {
        bool fits = true;
        for (const uint32_t row : address) {
            if (row % kBlockBytes != 0)
                report("misaligned-address", site, &kOpTransDataTo5HD,
                       "TransDataTo5HD: %s row at UB byte %u, which is not a multiple of 32", role, row);
            const uint64_t end = row + first + (repeats - 1) * repeat_stride + kBlockBytes;
            if (end <= self->bytes[static_cast<int>(Space::ub)]) continue;
            report("on-chip-out-of-bounds", site, &kOpTransDataTo5HD,
                   "TransDataTo5HD: %s row at UB byte %u reaches byte %llu, but UB has %u bytes", role, row,
                   static_cast<unsigned long long>(end), self->bytes[static_cast<int>(Space::ub)]);
            fits = false;
        }
        return fits;
    }
};

template <typename T>
void transpose_rows(BlockRows dst, BlockRows src, const AscendC::TransDataTo5HDParams& p, Site site) {
    if (self->type == CoreType::aic || p.repeatTimes == 0) return;
    constexpr bool bytes_only = sizeof(T) == 1;
    dst.bytes = src.bytes = bytes_only ? 16 : 32;
    dst.shift = bytes_only && p.dstHighHalf ? 16 : 0;
    src.shift = bytes_only && p.srcHighHalf ? 16 : 0;
    dst.repeat_stride = uint64_t{p.dstRepStride} * kBlockBytes;
    src.repeat_stride = uint64_t{p.srcRepStride} * kBlockBytes;
    // A single repeat starts one stride behind the addresses, as the page says.
    const uint64_t dst_first = p.repeatTimes == 1 ? dst.repeat_stride : 0, src_first = p.repeatTimes == 1 ? src.repeat_stride : 0;
    if (!(dst.require("dst", dst_first, p.repeatTimes, site) & src.require("src", src_first, p.repeatTimes, site))) return;
    Instr& instr = record(kOpTransDataTo5HD, site, p.repeatTimes, vector_arg<T>());
    src.touch_in(instr, Mode::read, src_first, p.repeatTimes);
    dst.touch_in(instr, Mode::write, dst_first, p.repeatTimes);
    if (!self->execute) return;
    uint8_t* ub = self->memory[static_cast<int>(Space::ub)];
    constexpr uint32_t kColumns = bytes_only ? 16 : kBlockBytes / sizeof(T);  // elements of a source row
    for (uint32_t r = 0; r < p.repeatTimes; ++r) {
        T out[kColumns * 16];
        for (uint32_t row = 0; row < 16; ++row) {
            T in[kColumns];
            std::memcpy(in, ub + src.address[row] + src_first + r * src.repeat_stride + src.shift, sizeof in);
            for (uint32_t c = 0; c < kColumns; ++c) out[c * 16 + row] = in[c];
        }
        // 16 results of a column fill one block of 16-bit elements, half a block of bytes, two blocks (rows 2c and 2c + 1) of 32-bit
        // elements.
        for (uint32_t row = 0; row < 16; ++row)
            std::memcpy(ub + dst.address[row] + dst_first + r * dst.repeat_stride + dst.shift,
                        reinterpret_cast<uint8_t*>(out) + row * dst.bytes, dst.bytes);
    }
}

inline uint32_t ub_address(uint64_t pointer) {
    return static_cast<uint32_t>(pointer - reinterpret_cast<uint64_t>(self->memory[static_cast<int>(Space::ub)]));
}

}  // namespace toprope

#define TOPROPE_5HD_DTYPES                                                                                   \
    static_assert(toprope::is_one_of<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>, \
                  "TransDataTo5HD: this chip has no TransDataTo5HD for this element type (see `toprope api TransDataTo5HD`)")

namespace AscendC {

//: Transpose | transposes a 16 x 16 matrix of 16-bit elements, or NCHW to NHWC and back | int16_t uint16_t half; NCHW forms also 8 and 32 bit | A2 A3 310P | Transpose
template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::is_one_of<T, int16_t, uint16_t, half>, "Transpose: the 16 x 16 form takes int16_t, uint16_t and half");
    toprope::transpose_16x16(dst, src, site);
}
template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
               const TransposeParamsExt& transposeParams, toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::is_one_of<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>,
                  "Transpose: this chip has no Transpose for this element type (see `toprope api Transpose`)");
    const TransposeParamsExt& p = transposeParams;
    const uint32_t area = uint32_t{p.hSize} * p.wSize;
    constexpr uint64_t kPiece = (sizeof(T) == 1 ? 32 : 16) * 32;  // h0 * w0 * sizeof(T) of the page
    constexpr bool kNeedsTmp = toprope::kChip.transpose_needs_space;
    switch (p.transposeType) {
        case TransposeType::TRANSPOSE_TYPE_NONE:
            return;
        case TransposeType::TRANSPOSE_ND2ND_B16:
            if constexpr (sizeof(T) == 2) return toprope::transpose_16x16(dst, src, site);
            break;
        case TransposeType::TRANSPOSE_NCHW2NHWC:
            return toprope::transpose_planes(dst, src, sharedTmpBuffer, kNeedsTmp ? (p.cSize + 2) * kPiece : 0, p.nSize, p.cSize, area,
                                             site);
        case TransposeType::TRANSPOSE_NHWC2NCHW:
            return toprope::transpose_planes(dst, src, sharedTmpBuffer, kNeedsTmp ? (p.cSize * 2 + 1) * kPiece : 0, p.nSize, area, p.cSize,
                                             site);
        default:
            break;
    }
    toprope::report("transpose-type", site, &toprope::kOpTranspose,
                    "Transpose: transposeType %d is not available for elements of %zu bytes", static_cast<int>(p.transposeType), sizeof(T));
}

//: TransDataTo5HD | transposes sixteen 32-byte rows given by their addresses | int8_t uint8_t int16_t uint16_t half int32_t uint32_t float | A2 A3 310P | TransDataTo5HD
template <typename T>
void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& nchwconvParams, toprope::Site site = toprope::Site::here()) {
    TOPROPE_5HD_DTYPES;
    toprope::BlockRows dst{}, src{};
    for (int i = 0; i < 16; ++i) {
        dst.address[i] = toprope::ub_address(dstList[i]);
        src.address[i] = toprope::ub_address(srcList[i]);
    }
    toprope::transpose_rows<T>(dst, src, nchwconvParams, site);
}
template <typename T>
void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE], const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& nchwconvParams, toprope::Site site = toprope::Site::here()) {
    TOPROPE_5HD_DTYPES;
    toprope::BlockRows dst{}, src{};
    bool usable = true;
    for (int i = 0; i < 16; ++i) {
        usable &= toprope::require_ub(toprope::kOpTransDataTo5HD, "dst", dstList[i], 0, 32, site) &
                  toprope::require_ub(toprope::kOpTransDataTo5HD, "src", srcList[i], 0, 32, site);
        dst.address[i] = dstList[i].address();
        src.address[i] = srcList[i].address();
    }
    if (usable) toprope::transpose_rows<T>(dst, src, nchwconvParams, site);
}
template <typename T>
void TransDataTo5HD(const LocalTensor<uint64_t>& dst, const LocalTensor<uint64_t>& src, const TransDataTo5HDParams& nchwconvParams,
                    toprope::Site site = toprope::Site::here()) {
    if (!(toprope::require_ub(toprope::kOpTransDataTo5HD, "dst", dst, 128, 32, site) &
          toprope::require_ub(toprope::kOpTransDataTo5HD, "src", src, 128, 32, site)))
        return;
    uint64_t dst_list[16], src_list[16];
    std::memcpy(dst_list, dst.host(), sizeof dst_list);
    std::memcpy(src_list, src.host(), sizeof src_list);
    TransDataTo5HD<T>(dst_list, src_list, nchwconvParams, site);
}

}  // namespace AscendC
