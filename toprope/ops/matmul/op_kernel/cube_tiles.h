// Tiles of c = a x b in half, sums in float, with the raw cube API. A tile of C is 128 x 256: it fills L0C (128 KB of float), and 64 steps
// of K of its operands are half of L0A and L0B.
//   buffers   1: load, split, multiply and store wait for each other; 2: they overlap
//   steps     how many times 64 of K one copy into L1 brings
//   unitFlag  the store of a tile follows the cube fractal by fractal, and the next tile starts behind it
#pragma once

#include "cube_tile_sizes.h"
#include "kernel_operator.h"

constexpr uint32_t FRACTAL = 16;

__aicore__ inline uint32_t Whole(uint32_t count) { return (count + FRACTAL - 1) / FRACTAL * FRACTAL; }
__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

template <uint32_t buffers, uint32_t steps, bool unitFlag>
class CubeTiles {
    static constexpr uint32_t PACKET_K = steps * STEP_K;

public:
    // c (m x n) = a x b (k x n), all row-major; `aRows` rows of a lie there.
    __aicore__ inline void Open(GM_ADDR a, uint64_t aRows, GM_ADDR b, GM_ADDR c, uint32_t rowsOfC, uint32_t columnsOfC, uint32_t depth) {
        pipe.InitBuffer(a1, buffers * TILE_M * PACKET_K * sizeof(half));
        pipe.InitBuffer(b1, buffers * TILE_N * PACKET_K * sizeof(half));
        pipe.InitBuffer(a2, buffers * TILE_M * STEP_K * sizeof(half));
        pipe.InitBuffer(b2, buffers * TILE_N * STEP_K * sizeof(half));
        pipe.InitBuffer(c0, TILE_M * TILE_N * sizeof(float));
        Take(a, aRows, b, c, rowsOfC, columnsOfC, depth);
        Free(true);
    }
    // The next tiles are of another product.
    __aicore__ inline void Take(GM_ADDR a, uint64_t aRows, GM_ADDR b, GM_ADDR c, uint32_t rowsOfC, uint32_t columnsOfC, uint32_t depth) {
        m = rowsOfC;
        n = columnsOfC;
        k = depth;
        aGm.SetGlobalBuffer((__gm__ half*)a, aRows * k);
        bGm.SetGlobalBuffer((__gm__ half*)b, static_cast<uint64_t>(k) * n);
        cGm.SetGlobalBuffer((__gm__ half*)c, static_cast<uint64_t>(m) * n);
    }
    __aicore__ inline void Close() { Free(false); }

    // The tile of c at (row, column), `height` rows and up to `width` columns of it, from the rows of a that begin at aRow.
    __aicore__ inline void Tile(uint64_t aRow, uint32_t row, uint32_t column, uint32_t height, uint32_t width = TILE_N) {
        rows = height;
        columns = Least(width, n - column);
        if constexpr (!unitFlag) AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(0);
        if constexpr (buffers == 2) Load(aRow, column, 0);
        for (uint32_t at = 0; at < k; at += PACKET_K) {
            if constexpr (buffers == 1)
                Load(aRow, column, at);
            else if (at + PACKET_K < k)
                Load(aRow, column, at + PACKET_K);
            AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(used);
            const uint32_t packet = Least(PACKET_K, k - at);
            for (uint32_t step = 0; step < packet; step += STEP_K) Multiply(step, Least(STEP_K, packet - step), at + step);
            AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(used);
            used = (used + 1) % buffers;
        }
        Store(row, column);
    }

private:
    // Every buffer starts free, and a kernel ends when every buffer is free again.
    __aicore__ inline void Free(bool atStart) {
        for (uint32_t i = 0; i < buffers; i++) {
            if (atStart) {
                AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(i);
                AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(i);
            } else {
                AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(i);
                AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(i);
            }
        }
        if constexpr (!unitFlag) {
            if (atStart)
                AscendC::SetFlag<AscendC::HardEvent::FIX_M>(0);
            else
                AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(0);
        }
    }

    // The next packet of A and of B, row-major in GM, fractals of 16 x 16 in L1.
    __aicore__ inline void Load(uint64_t row, uint32_t column, uint32_t at) {
        const uint16_t depth = static_cast<uint16_t>(Least(PACKET_K, k - at));
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(filled);
        AscendC::DataCopy(a1.Get<half>()[filled * TILE_M * PACKET_K], aGm[row * k + at],
                          AscendC::Nd2NzParams(1, rows, depth, 0, k, TILE_M, 1, 0));
        AscendC::DataCopy(b1.Get<half>()[filled * TILE_N * PACKET_K], bGm[static_cast<uint64_t>(at) * n + column],
                          AscendC::Nd2NzParams(1, depth, columns, 0, n, PACKET_K, 1, 0));
        AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(filled);
        filled = (filled + 1) % buffers;
    }

    __aicore__ inline void Multiply(uint32_t step, uint32_t depth, uint32_t at) {
        const AscendC::LocalTensor<half> left = a2.Get<half>()[half_ * TILE_M * STEP_K], right = b2.Get<half>()[half_ * TILE_N * STEP_K];
        AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(half_);
        AscendC::LoadData3DParamsV2<half> a;
        a.l1H = 1;
        a.l1W = TILE_M;
        a.channelSize = Whole(depth);
        a.kExtension = Whole(depth);
        a.mExtension = Whole(rows);
        AscendC::LoadData(left, a1.Get<half>()[used * TILE_M * PACKET_K + step * TILE_M], a);
        AscendC::LoadData3DParamsV2<half> b;
        b.l1H = 1;
        b.l1W = PACKET_K;
        b.channelSize = Whole(columns);
        b.kExtension = Whole(columns);
        b.mExtension = Whole(depth);
        b.mStartPt = step;
        b.enTranspose = true;
        AscendC::LoadData(right, b1.Get<half>()[used * TILE_N * PACKET_K], b);
        AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(half_);
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(half_);
        AscendC::MmadParams product;
        product.m = Whole(rows);  // rows past the edge are not stored; one row alone would be taken for a vector, laid out differently
        product.n = columns;
        product.k = depth;
        product.cmatrixInitVal = at == 0;
        if constexpr (unitFlag) product.unitFlag = at + depth == k ? 3 : 2;
        AscendC::Mmad(c0.Get<float>(), left, right, product);
        if (Whole(rows) / FRACTAL * (columns / FRACTAL) < 10)
            AscendC::PipeBarrier<PIPE_M>();  // the next product adds to fractals still on their way
        AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(half_);
        half_ = (half_ + 1) % buffers;
    }

    __aicore__ inline void Store(uint32_t row, uint32_t column) {
        if constexpr (!unitFlag) {
            AscendC::SetFlag<AscendC::HardEvent::M_FIX>(0);
            AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(0);
        }
        AscendC::FixpipeParamsV220 store(columns, rows, Whole(rows), n, false);
        store.quantPre = QuantMode_t::F322F16;
        store.unitFlag = unitFlag ? 3 : 0;
        AscendC::Fixpipe(cGm[static_cast<uint64_t>(row) * n + column], c0.Get<float>(), store);
        if constexpr (!unitFlag) AscendC::SetFlag<AscendC::HardEvent::FIX_M>(0);
    }

    AscendC::TPipe pipe;
    AscendC::TBuf<AscendC::TPosition::A1> a1;
    AscendC::TBuf<AscendC::TPosition::B1> b1;
    AscendC::TBuf<AscendC::TPosition::A2> a2;
    AscendC::TBuf<AscendC::TPosition::B2> b2;
    AscendC::TBuf<AscendC::TPosition::CO1> c0;
    AscendC::GlobalTensor<half> aGm, bGm, cGm;
    uint32_t m = 0, n = 0, k = 0, rows = 0, columns = 0;
    uint32_t filled = 0, used = 0, half_ = 0;  // buffers of L1 to fill and to use next, buffers of L0 to use next
};
