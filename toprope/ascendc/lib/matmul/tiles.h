// How a Matmul object moves operands: a tile of a stored matrix from GM into L1 (NZ), and a base block from there into L0A or L0B.
// A stored matrix has rows and columns as they lie in memory: a transposed A is stored as K rows of M.
#pragma once

#include "../../api/data_copy_nz.h"
#include "../../api/load_data.h"
#include "types.h"

namespace toprope {

// Rows of a tile in L1 are padded to this: 16, or the side of the square that 8- and 4-bit elements are transposed in.
template <typename T>
constexpr int32_t tile_rows_unit(bool transposes) {
    return transposes && sizeof(T) == 1 ? static_cast<int32_t>(Square<T>::kSide) : 16;
}

struct Block {  // a part of a stored matrix, in elements
    int32_t row, column, rows, columns;
};

// A tile in L1: NZ, `stride` rows from one column of fractals to the next.
template <typename T>
struct Tile {
    AscendC::LocalTensor<T> data;
    int32_t stride = 0, columns = 0;
};

// The stored matrix in GM.
template <typename T>
struct Stored {
    AscendC::GlobalTensor<T> gm;
    AscendC::CubeFormat format;
    int64_t row_elements;  // ND: from row to row
    int64_t nz_rows;       // NZ: rows of a column of fractals

    TOPROPE_OUTLINE void load(const Tile<T>& to, const Block& b, Site site) const {
        if (format == AscendC::CubeFormat::NZ) {
            constexpr int32_t c0 = static_cast<int32_t>(kK0<T>);
            const AscendC::DataCopyParams p(up(b.columns, c0) / c0, b.rows, nz_rows - b.rows, to.stride - b.rows);
            AscendC::DataCopy(to.data, gm[static_cast<uint64_t>(b.column / c0 * nz_rows + b.row) * c0], p, site);
            return;
        }
        constexpr int64_t packed = std::is_same_v<T, AscendC::int4b_t> ? 2 : 1;  // a layout copy counts pairs of int4b_t
        AscendC::Nd2NzParams p(1, b.rows, b.columns / packed, 0, row_elements / packed, to.stride, 1, 0);
        if (row_elements / packed <= kMax16) {
            AscendC::DataCopy(to.data, gm[static_cast<uint64_t>(b.row * row_elements + b.column)], p, site);
            return;
        }
        // The field for the row distance is too narrow: row by row.
        p.nValue = 1;
        p.srcDValue = b.columns / packed;
        for (int32_t r = 0; r < b.rows; ++r)
            AscendC::DataCopy(to.data[static_cast<uint32_t>(r) * kK0<T>], gm[static_cast<uint64_t>((b.row + r) * row_elements + b.column)],
                              p, site);
    }
};

template <typename T>
uint32_t fractals(int32_t n) {
    return static_cast<uint32_t>(n) * (kFractalBytes * 8 / kElementBits<T>);
}

template <typename T>
TOPROPE_OUTLINE void load_image(const AscendC::LocalTensor<T>& dst, const Tile<T>& tile, int32_t m0, int32_t k0, int32_t m, int32_t k,
                                bool turned, Site site) {
    AscendC::LoadData3DParamsV2<T> p;
    p.l1H = 1;
    p.l1W = static_cast<uint16_t>(tile.stride);
    p.channelSize = static_cast<uint16_t>(tile.columns);
    p.mStartPt = static_cast<uint16_t>(m0);
    p.kStartPt = static_cast<uint16_t>(k0);
    p.mExtension = static_cast<uint16_t>(m);
    p.kExtension = static_cast<uint16_t>(k);
    p.enTranspose = turned;
    AscendC::LoadData(dst, tile.data, p, site);
}

// Fractals one by one: `outer` rows of `inner` of them; start and steps count fractals of the tile.
template <typename T>
TOPROPE_OUTLINE void load_fractals(const AscendC::LocalTensor<T>& dst, const Tile<T>& tile, int32_t start, int32_t outer,
                                   int32_t outer_step, int32_t inner, int32_t inner_step, bool dst_outer_is_slow, bool transpose,
                                   Site site) {
    AscendC::LoadData2DParams p;
    p.repeatTimes = static_cast<uint8_t>(inner);
    p.srcStride = static_cast<uint16_t>(inner_step);
    p.dstGap = static_cast<uint16_t>(dst_outer_is_slow ? 0 : outer - 1);
    p.ifTranspose = transpose;
    for (int32_t i = 0; i < outer; ++i) {
        p.startIndex = static_cast<uint16_t>(start + i * outer_step);
        AscendC::LoadData(dst[fractals<T>(dst_outer_is_slow ? i * inner : i)], tile.data, p, site);
    }
}

// 8- and 4-bit elements: squares of side S, each S/16 fractals.
template <typename T>
TOPROPE_OUTLINE void load_squares(const AscendC::LocalTensor<T>& dst, const Tile<T>& tile, int32_t start, int32_t outer, int32_t outer_step,
                                  int32_t inner, int32_t inner_step, int32_t dst_outer, int32_t dst_inner, int32_t dst_fractal, Site site) {
    AscendC::LoadData2dTransposeParams p;
    p.repeatTimes = static_cast<uint8_t>(inner);
    p.srcStride = static_cast<uint16_t>(inner_step);
    p.dstGap = static_cast<uint16_t>(dst_inner - 1);
    p.dstFracGap = static_cast<uint16_t>(dst_fractal - 1);
    for (int32_t i = 0; i < outer; ++i) {
        p.startIndex = static_cast<uint16_t>(start + i * outer_step);
        AscendC::LoadDataWithTranspose(dst[fractals<T>(i * dst_outer)], tile.data, p, site);
    }
}

// A[m0:m0+m, k0:k0+k] of the tile, as zZ; its fractals down the columns where the chip's L0A has them so. `turned`: the tile holds A
// transposed.
template <typename T>
TOPROPE_OUTLINE void load_left(const AscendC::LocalTensor<T>& dst, const Tile<T>& tile, bool turned, int32_t m0, int32_t k0, int32_t m,
                               int32_t k, Site site) {
    constexpr int32_t c0 = static_cast<int32_t>(kK0<T>), side = static_cast<int32_t>(Square<T>::kSide);
    const int32_t kf = up(k, c0) / c0, mf = up(m, 16) / 16;
    if (!turned) return load_image(dst, tile, m0, k0, m, kf * c0, false, site);
    if constexpr (sizeof(T) == 4) return load_image(dst, tile, k0, m0, k, up(m, c0), true, site);
    if constexpr (sizeof(T) == 2)
        load_fractals(dst, tile, (m0 / 16 * tile.stride + k0) / 16, mf, tile.stride / 16, kf, 1, !kChip.l0a_column_major, true, site);
    else if constexpr (sizeof(T) == 1) {
        const int32_t squares = up(m, side) / side, column = squares * side / 16;
        if (kChip.l0a_column_major && column != mf)
            return report("matmul-not-modelled", site, nullptr,
                          "Matmul: 8-bit A that is stored transposed, with %d rows in a block: on this chip whole blocks of %d only", m,
                          side);
        if (kChip.l0a_column_major)
            load_squares(dst, tile, (m0 / side * tile.stride + k0) / side, squares, tile.stride / side, kf, 1, side / 16, column, 1, site);
        else
            load_squares(dst, tile, (m0 / side * tile.stride + k0) / side, squares, tile.stride / side, kf, 1, side / 16 * kf, 1, kf, site);
    }
}

// The n that Mmad must be told: 8- and 4-bit B that is not stored transposed comes in whole squares.
template <typename T>
constexpr int32_t right_columns(int32_t n, bool turned) {
    return sizeof(T) == 1 && !turned ? up(n, static_cast<int32_t>(Square<T>::kSide)) : n;
}

// B[k0:k0+k, n0:n0+n] of the tile, as nZ. `turned`: the tile holds B transposed (N rows of K).
template <typename T>
TOPROPE_OUTLINE void load_right(const AscendC::LocalTensor<T>& dst, const Tile<T>& tile, bool turned, int32_t k0, int32_t n0, int32_t k,
                                int32_t n, Site site) {
    constexpr int32_t c0 = static_cast<int32_t>(kK0<T>), side = static_cast<int32_t>(Square<T>::kSide);
    const int32_t kf = up(k, c0) / c0, nf = up(n, 16) / 16;
    if (turned) {
        const int32_t start = (k0 / c0 * tile.stride + n0) / 16;
        // All of the tile's rows: the fractals lie next to each other and one instruction takes them.
        if (nf * 16 == tile.stride && kf * nf <= 255) return load_fractals(dst, tile, start, 1, 0, kf * nf, 1, true, false, site);
        return load_fractals(dst, tile, start, kf, tile.stride / 16, nf, 1, true, false, site);
    }
    if constexpr (sizeof(T) == 4) return load_image(dst, tile, k0, n0, k, up(n, c0), false, site);
    if constexpr (sizeof(T) == 2) {
        const int32_t start = (n0 / 16 * tile.stride + k0) / 16, across = tile.stride / 16;
        if (kf <= nf) return load_fractals(dst, tile, start, kf, 1, nf, across, true, true, site);
        return load_fractals(dst, tile, start, nf, across, kf, 1, false, true, site);
    } else if constexpr (sizeof(T) == 1) {
        const int32_t columns = up(n, side) / 16;
        load_squares(dst, tile, (n0 / side * tile.stride + k0) / side, kf, 1, up(n, side) / side, tile.stride / side, columns, side / 16, 1,
                     site);
    }
}

}  // namespace toprope
