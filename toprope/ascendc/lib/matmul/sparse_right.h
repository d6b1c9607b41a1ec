// The index matrix of a 4:2 sparse right matrix: beside every tile of the dense matrix in L1, and with it into L0B.
// Pages: 4-2稀疏矩阵乘, SetSparseIndex, LoadDataWithSparse.
#pragma once

#include "../../api/sparse.h"
#include "tiles.h"

namespace toprope {

struct NoIndexTiles {};

// Two bits for each element of the dense matrix, in the same fractals: 8 bytes a row of 32.
class SparseIndexTiles {
public:
    // `bytes` of dense tiles.
    void init(AscendC::TPipe& pipe, uint32_t bytes, Site site) { pipe.InitBuffer(buffer_, bytes / 4, site); }
    // The index of a tile whose dense bytes begin at `offset`; `nz_rows` rows make a column of fractals in GM.
    TOPROPE_OUTLINE void fill(uint32_t offset, uint8_t* gm, const Block& dense, int32_t nz_rows, Site site) {
        const int32_t rows = up(dense.rows, 16), columns = up(dense.columns, 32) / 32;
        AscendC::GlobalTensor<uint8_t> from;
        from.SetGlobalBuffer(gm);
        AscendC::DataCopy(at(offset, site), from[static_cast<uint64_t>(dense.column / 32 * nz_rows + dense.row) * 8],
                          AscendC::DataCopyParams(columns, rows / 4, (nz_rows - rows) / 4, 0), site);
    }
    // B[k0:k0+k, n0:n0+n] of the dense tile and its index.
    TOPROPE_OUTLINE void load_right(const AscendC::LocalTensor<int8_t>& dst, const Tile<int8_t>& tile, uint32_t offset, int32_t k0,
                                    int32_t n0, int32_t k, int32_t n, Site site) {
        const int32_t kf = up(k, 32) / 32, nf = up(n, 16) / 16;
        AscendC::LoadData2DParams p;
        p.repeatTimes = static_cast<uint8_t>(nf);
        for (int32_t f = 0; f < kf; ++f) {
            p.startIndex = static_cast<uint16_t>(((k0 / 32 + f) * tile.stride + n0) / 16);
            AscendC::LoadDataWithSparse(dst[fractals<int8_t>(f * nf)], tile.data, at(offset, site), p, site);
        }
    }

private:
    AscendC::LocalTensor<uint8_t> at(uint32_t offset, Site site) {
        return buffer_.GetWithOffset<uint8_t>(buffer_.GetBufLen() - offset / 4, offset / 4, site);
    }
    AscendC::TBuf<AscendC::TPosition::A1> buffer_;
};

}  // namespace toprope
