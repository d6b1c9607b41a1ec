// How a block of a result that the cube core stored into the workspace comes to lie in the vector core's UB.
#pragma once

#include "../../api/data_copy_pad.h"
#include "mailbox.h"

namespace toprope {

template <class C_TYPE>
struct ResultInUb {
    using C = typename C_TYPE::T;

    // Block number `block` from `from` (laid out as it shall lie in UB) into `to`; `sequential`: the tensor holds this block only.
    static void bring(MatmulClient& client, const AscendC::LocalTensor<C>& to, uint8_t* from, const Blocks& b, int32_t block,
                      bool sequential, Site site) {
        const int32_t mi = b.m_of(block), ni = b.n_of(block), m = b.rows(mi), n = b.columns(ni);
        constexpr auto size = static_cast<int64_t>(sizeof(C));
        int64_t pieces, piece, step, offset;
        if constexpr (C_TYPE::format == AscendC::CubeFormat::NZ) {
            const int64_t rows = up(sequential ? b.base_m : b.single_m, 16), c0 = sizeof(C) == 1 ? 32 : 16;
            pieces = up(n, static_cast<int32_t>(c0)) / c0;
            piece = m * c0 * size;
            step = rows * c0 * size;
            offset = sequential ? 0 : (ni * b.base_n / c0 * rows + mi * b.base_m) * c0 * size;
        } else {
            int64_t row = sequential ? b.base_n : b.single_n;
            if (C_TYPE::format == AscendC::CubeFormat::ND_ALIGN) row = up(static_cast<int32_t>(row), 32 / static_cast<int32_t>(size));
            pieces = m;
            piece = n * size;
            step = row * size;
            offset = sequential ? 0 : (int64_t{mi} * b.base_m * row + int64_t{ni} * b.base_n) * size;
            if (C_TYPE::format == AscendC::CubeFormat::ND_ALIGN) piece = (piece + 31) / 32 * 32;
        }
        if (step % 32 != 0 || piece % 32 != 0 || piece == step) {  // rows that UB cannot hold apart: all of them in one piece
            step = piece = (pieces - 1) * step + piece;
            pieces = 1;
        }
        if (offset % 32 != 0)
            report("misaligned-address", site, nullptr,
                   "Matmul: a block of C begins at byte %lld of the UB tensor, which is not a multiple of 32; use CubeFormat::ND_ALIGN or "
                   "aligned sizes",
                   static_cast<long long>(offset));
        copy_rows(client, to, from, offset, pieces, piece, step, site);
    }
    static void copy(MatmulClient& client, const AscendC::LocalTensor<C>& to, uint8_t* from, uint64_t bytes, Site site) {
        copy_rows(client, to, from, 0, 1, static_cast<int64_t>(bytes), static_cast<int64_t>(bytes), site);
    }
    static void copy_rows(MatmulClient& client, const AscendC::LocalTensor<C>& to, uint8_t* from, int64_t offset, int64_t pieces,
                          int64_t piece, int64_t step, Site site) {
        const AscendC::LocalTensor<uint8_t> ub = to.template ReinterpretCast<uint8_t>()[static_cast<uint32_t>(offset)];
        AscendC::GlobalTensor<uint8_t> gm;
        gm.SetGlobalBuffer(from + offset);
        order(AscendC::HardEvent::V_MTE2, site);  // the user's instructions on the tensor come first
        if (piece % 32 == 0 && step % 32 == 0)
            AscendC::DataCopy(ub, gm, AscendC::DataCopyParams(pieces, piece / 32, (step - piece) / 32, (step - piece) / 32), site);
        else
            AscendC::DataCopyPad(ub, gm, AscendC::DataCopyExtParams(1, piece, 0, 0, 0), AscendC::DataCopyPadExtParams<uint8_t>(), site);
        order(AscendC::HardEvent::MTE2_V, site);
        order(AscendC::HardEvent::MTE2_MTE3, site);
        client.spill_was_read();
    }
};

}  // namespace toprope
