// DataCopy that changes the layout on the way: ND to NZ (fractal) into L1 and UB, NZ to ND out of UB.
// Pages: DataCopy（GMToL1随路转换-ND2NZ搬运）, DataCopy（GMToUB随路转换ND2NZ搬运）, DataCopy（UBToGM随路转换NZ2ND搬运）.
#pragma once

#include "data_copy.h"

namespace toprope {

inline constexpr uint32_t kMostMatrixAccesses = 100;  // an instruction has at most 255 ranges; beyond, one covering range

// rows x row_bytes, row_step apart, repeated `matrices` times. A single level is written as one range.
inline void touch_matrix(Instr& instr, const CopyEnd& end, Mode mode, uint64_t offset, uint64_t row_bytes, uint64_t rows, uint64_t row_step,
                         uint64_t matrices, uint64_t matrix_step) {
    if (!end.traced) return;
    if (rows == 1 || matrices == 1)
        return touch_rows(instr, end, mode, offset, row_bytes, rows * matrices, rows == 1 ? matrix_step : row_step);
    touch(instr, end.space, mode, end.address + offset, row_bytes, rows, static_cast<int64_t>(row_step), true);
    touch(instr, end.space, mode, 0, 0, matrices, static_cast<int64_t>(matrix_step));
}

// An NZ matrix is `blocks` columns of 32-byte pieces, one piece per row.
struct NzShape {
    uint64_t matrices, rows, blocks, row_step, block_step, matrix_step;
};
inline uint64_t nz_span(const NzShape& z) {
    return (z.matrices - 1) * z.matrix_step + (z.blocks - 1) * z.block_step + (z.rows - 1) * z.row_step + kBlockBytes;
}
inline void touch_nz(Instr& instr, const CopyEnd& end, Mode mode, const NzShape& z) {
    if (!end.traced) return;
    if (z.blocks * z.matrices > kMostMatrixAccesses) return touch(instr, end.space, mode, end.address, nz_span(z), 1, 0, false, true);
    if (z.matrices == 1 || z.blocks == 1)
        return touch_matrix(instr, end, mode, 0, kBlockBytes, z.rows, z.row_step, z.matrices == 1 ? z.blocks : z.matrices,
                            z.matrices == 1 ? z.block_step : z.matrix_step);
    for (uint64_t m = 0; m < z.matrices; ++m)
        touch_matrix(instr, end, mode, m * z.matrix_step, kBlockBytes, z.rows, z.row_step, z.blocks, z.block_step);
}

// For `toprope bisect-precision`: runs of `bytes` in nested loops, given as count, step in the source, step in the target.
template <typename... Numbers>
void keep_order(const CopyEnd& d, const CopyEnd& s, uint64_t to, uint64_t from, uint64_t bytes, Numbers... loops) {
    if (bytes != 0 && d.traced)
        keep_numbers({kKeptLoops, static_cast<int64_t>(s.address + from), static_cast<int64_t>(d.address + to), static_cast<int64_t>(bytes),
                      static_cast<int64_t>(loops)...});
}

// What an element is to a layout copy: two of int4b_t count as one, as its instruction moves bytes.
template <typename T>
constexpr uint64_t nz_bytes(uint64_t elements) {
    return elements * sizeof(T);
}

template <typename T, typename Src>
void copy_nd2nz(const AscendC::LocalTensor<T>& dst, const Src& src, const AscendC::Nd2NzParams& p, Site site) {
    static_assert(sizeof(T) <= 4, "DataCopy ND2NZ: this chip has it for elements of 1, 2 and 4 bytes");
    const Path path = route(end_space(src), dst.space(), "DataCopy(ND2NZ)", site);
    if (path == Path::none) return;
    if (path != Path::gm_ub && path != Path::gm_l1 && path != Path::ub_l1) {
        report("no-such-path", site, nullptr, "DataCopy(ND2NZ) goes from GM to UB, from GM to L1 and from UB to L1, not to %s",
               kSpaceNames[static_cast<int>(dst.space())]);
        return;
    }
    const Op& op = kNd2NzOps[path == Path::gm_ub ? 0 : (path == Path::gm_l1 ? 1 : 2)];
    require_fields(op,
                   {{"ndNum", p.ndNum.meant, 0, kMaxBlockCount},
                    {"nValue", p.nValue.meant, 0, 16384},
                    {"dValue", p.dValue.meant, 0, kMax16},
                    {"srcNdMatrixStride", p.srcNdMatrixStride.meant, 0, kMax16},
                    {"srcDValue", p.srcDValue.meant, 1, kMax16},
                    {"dstNzC0Stride", p.dstNzC0Stride.meant, 1, 16384},
                    {"dstNzNStride", p.dstNzNStride.meant, 1, 16384},
                    {"dstNzMatrixStride", p.dstNzMatrixStride.meant, 0, kMax16}},
                   site);
    const uint64_t matrices = p.ndNum, rows = p.nValue, row_bytes = nz_bytes<T>(p.dValue);
    if (matrices == 0 || rows == 0 || row_bytes == 0) return;
    const uint64_t src_row = nz_bytes<T>(p.srcDValue), src_matrix = nz_bytes<T>(p.srcNdMatrixStride);
    const NzShape z{matrices,
                    rows,
                    (row_bytes + kBlockBytes - 1) / kBlockBytes,
                    uint64_t{p.dstNzNStride} * kBlockBytes,
                    uint64_t{p.dstNzC0Stride} * kBlockBytes,
                    nz_bytes<T>(p.dstNzMatrixStride)};
    CopyEnd d, s;
    if (!(open_end(d, op, "dst", dst, nz_span(z), true, site) &
          open_end(s, op, "src", src, (matrices - 1) * src_matrix + (rows - 1) * src_row + row_bytes, false, site)))
        return;
    Instr& instr = record(op, site, static_cast<uint32_t>(matrices * rows), copy_arg(dtype_of<T>, d, s, kFormNd2Nz));
    touch_matrix(instr, s, Mode::read, 0, row_bytes, rows, src_row, matrices, src_matrix);
    touch_nz(instr, d, Mode::write, z);
    const uint64_t whole = row_bytes / kBlockBytes, rest = row_bytes % kBlockBytes;
    if (TOPROPE_UNLIKELY(capturing)) {
        keep_order(d, s, 0, 0, kBlockBytes, matrices, src_matrix, z.matrix_step, rows, src_row, z.row_step, whole, kBlockBytes,
                   z.block_step);
        keep_order(d, s, whole * z.block_step, whole * kBlockBytes, rest, matrices, src_matrix, z.matrix_step, rows, src_row, z.row_step);
    }
    if (!self->execute) return;
    for (uint64_t m = 0; m < matrices; ++m)
        for (uint64_t r = 0; r < rows; ++r) {
            const uint8_t* from = s.host + m * src_matrix + r * src_row;
            uint8_t* to = d.host + m * z.matrix_step + r * z.row_step;
            for (uint64_t block = 0; block < whole; ++block, from += kBlockBytes, to += z.block_step) std::memcpy(to, from, kBlockBytes);
            if (rest == 0) continue;
            std::memcpy(to, from, rest);
            std::memset(to + rest, 0, kBlockBytes - rest);  // the last column block is filled up with zeros
        }
}

// The fractal of the source is 16 elements wide for every element type.
template <typename T>
void copy_nz2nd(const AscendC::GlobalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::Nz2NdParamsFull& p, Site site) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "DataCopy NZ2ND: this chip has it for elements of 2 and 4 bytes");
    if (route(src.space(), Space::gm, "DataCopy(NZ2ND)", site) != Path::ub_gm) return;
    const Op& op = kNz2NdOp;
    require_fields(op,
                   {{"ndNum", p.ndNum.meant, 0, kMaxBlockCount},
                    {"nValue", p.nValue.meant, 0, 8192},
                    {"dValue", p.dValue.meant, 0, 8192},
                    {"srcNdMatrixStride", p.srcNdMatrixStride.meant, 0, 512},
                    {"srcNStride", p.srcNStride.meant, 0, 4096},
                    {"dstDStride", p.dstDStride.meant, 1, kMax16},
                    {"dstNdMatrixStride", p.dstNdMatrixStride.meant, 0, kMax16}},
                   site);
    const uint64_t matrices = p.ndNum, rows = p.nValue, columns = p.dValue;
    if (matrices == 0 || rows == 0 || columns == 0) return;
    if (columns % 16 != 0) {
        report("unaligned-length", site, &op, "%s: dValue = %llu must be a multiple of 16", op.name,
               static_cast<unsigned long long>(columns));
        return;
    }
    constexpr uint64_t piece = 16 * sizeof(T);
    const uint64_t blocks = columns / 16, block_step = p.srcNStride * piece, matrix_step = p.srcNdMatrixStride * 16 * piece,
                   dst_row = p.dstDStride * sizeof(T), dst_matrix = p.dstNdMatrixStride * sizeof(T);
    const uint64_t src_span = (matrices - 1) * matrix_step + (blocks - 1) * block_step + rows * piece;
    CopyEnd d, s;
    if (!(open_end(d, op, "dst", dst, (matrices - 1) * dst_matrix + (rows - 1) * dst_row + columns * sizeof(T), true, site) &
          open_end(s, op, "src", src, src_span, false, site)))
        return;
    warn_atomic_type(op, dtype_of<T>, d.space, site);
    Instr& instr = record(op, site, static_cast<uint32_t>(matrices * rows), copy_arg(dtype_of<T>, d, s, kFormNz2Nd));
    touch_matrix(instr, s, Mode::read, 0, rows * piece, blocks, block_step, matrices, matrix_step);
    touch_matrix(instr, d, write_mode(d.space), 0, columns * sizeof(T), rows, dst_row, matrices, dst_matrix);
    if (TOPROPE_UNLIKELY(capturing))
        keep_order(d, s, 0, 0, piece, matrices, matrix_step, dst_matrix, rows, piece, dst_row, blocks, block_step, piece);
    if (!self->execute) return;
    for (uint64_t m = 0; m < matrices; ++m)
        for (uint64_t r = 0; r < rows; ++r)
            for (uint64_t b = 0; b < blocks; ++b)
                move_bytes(d, m * dst_matrix + r * dst_row + b * piece, s.host + m * matrix_step + b * block_step + r * piece, piece);
}

}  // namespace toprope

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& intriParams,
              toprope::Site site = toprope::Site::here()) {
    toprope::copy_nd2nz(dst, src, intriParams, site);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const Nd2NzParams& intriParams,
              toprope::Site site = toprope::Site::here()) {
    toprope::copy_nd2nz(dst, src, intriParams, site);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const Nz2NdParamsFull& intriParams,
              toprope::Site site = toprope::Site::here()) {
    toprope::copy_nz2nd(dst, src, intriParams, site);
}

}  // namespace AscendC
