// Tiles of c = a x b in half, sums in float, with the raw cube API. A tile of C is at most 128 x 256: it fills L0C (128 KB of float), and
// 64 steps of K of its operands are half of L0A and L0B.
//   buffers   1: load, split, multiply and store wait for each other; 2: they overlap
//   steps     how many times 64 of K one copy of A into L1 brings. B comes by 64: its rows are long anyhow; of narrow tiles by more
//   unitFlag  the store of a tile follows the cube fractal by fractal, and the next tile starts behind it
//   kept      how many times 64 of K of B stay in L1 for the next tile of the same columns
#pragma once

#include "cube_tile_sizes.h"
#include "kernel_operator.h"

constexpr uint32_t FRACTAL = 16;

__aicore__ inline uint32_t Whole(uint32_t count) { return (count + FRACTAL - 1) / FRACTAL * FRACTAL; }
__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

template <uint32_t buffers, uint32_t steps, bool unitFlag, uint32_t kept = 0>
class CubeTiles {
    static constexpr uint32_t PACKET_K = steps * STEP_K;
    static constexpr uint32_t RING = steps == 1 ? buffers : 4;  // buffers of B, each for 64 of K of a whole tile
    static constexpr uint32_t STEP_A = TILE_M * STEP_K, STEP_B = TILE_N * STEP_K;

public:
    // c (m x n) = a x b (k x n), all row-major; `aRows` rows of a lie there.
    __aicore__ inline void Open(GM_ADDR a, uint64_t aRows, GM_ADDR b, GM_ADDR c, uint32_t rowsOfC, uint32_t columnsOfC, uint32_t depth) {
        pipe.InitBuffer(a1, buffers * TILE_M * PACKET_K * sizeof(half));
        pipe.InitBuffer(b1, (kept + RING) * STEP_B * sizeof(half));
        pipe.InitBuffer(a2, buffers * STEP_A * sizeof(half));
        pipe.InitBuffer(b2, buffers * STEP_B * sizeof(half));
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

    // Tiles begin their sums at this packet of K and go around: cores that share operands do not fetch the same at one time.
    __aicore__ inline void BeginAt(uint32_t packet) { first = k == 0 ? 0 : packet % Packets() * PACKET_K; }
    __aicore__ inline uint32_t Packets() const { return (k + PACKET_K - 1) / PACKET_K; }
    // Of 64 of K each, every so-many-th of B is kept (0: none). K must be more than a packet: then whoever loads the kept part of other
    // columns has waited for the last reader of these.
    __aicore__ inline void KeepEvery(uint32_t count) { keepEvery = count; }

    // The tile of c at (row, column), `height` rows and up to `width` columns of it, from the rows of a that begin at aRow. `again`: the
    // tile before had the same columns.
    __aicore__ inline void Tile(uint64_t aRow, uint32_t row, uint32_t column, uint32_t height, uint32_t width = TILE_N,
                                bool again = false) {
        rows = height;
        columns = Least(width, n - column);
        nextA = nextB = first;
        leftA = leftB = k;
        depthB = STEP_K;
        for (uint32_t wider = Whole(columns) * 2; keepEvery == 0 && wider <= TILE_N && depthB < PACKET_K; wider *= 2) depthB *= 2;
        if constexpr (!unitFlag) AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(0);
        for (uint32_t i = 1; i < buffers; i++) LoadA(aRow, column, again);
        for (uint32_t i = 1; i < RING; i++) LoadB(column);
        uint32_t at = first;
        for (uint32_t left = k; left > 0;) {
            const uint32_t depth = Least(STEP_K, k - at);
            if (at % PACKET_K == 0) LoadA(aRow, column, again);
            if (at % depthB == 0) LoadB(column);
            if (at % PACKET_K == 0) AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(usedA);
            Multiply(at, depth, left == k, left == depth);
            left -= depth;
            at += depth;
            if (at % PACKET_K == 0 || at == k) {
                AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(usedA);
                usedA = (usedA + 1) % buffers;
            }
            if (at == k) at = 0;
        }
        Store(row, column);
    }

private:
    // Every buffer starts free, and a kernel ends when every buffer is free again. Events of L1: first those of A, then those of B.
    __aicore__ inline void Free(bool atStart) {
        for (uint32_t i = 0; i < buffers + RING; i++) {
            if (atStart)
                AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(i);
            else
                AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(i);
        }
        for (uint32_t i = 0; i < buffers; i++) {
            if (atStart)
                AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(i);
            else
                AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(i);
        }
        if constexpr (!unitFlag) {
            if (atStart)
                AscendC::SetFlag<AscendC::HardEvent::FIX_M>(0);
            else
                AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(0);
        }
    }

    __aicore__ inline bool Kept(uint32_t at) const { return kept > 0 && keepEvery > 0 && at / STEP_K % keepEvery == 0; }
    // Where 64 of K of B that are kept lie; the ring comes behind them.
    __aicore__ inline uint32_t KeptPlace(uint32_t at) const { return at / STEP_K / keepEvery * STEP_B; }

    // The next packet of A, row-major in GM, fractals of 16 x 16 in L1, if there is one; and what is kept of B beside it.
    __aicore__ inline void LoadA(uint64_t row, uint32_t column, bool again) {
        if (leftA == 0) return;
        const uint32_t depth = Least(PACKET_K, k - nextA);
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(filledA);
        if (kept > 0 && !again) {
            for (uint32_t at = nextA; at < nextA + depth; at += STEP_K)
                if (Kept(at)) CopyB(KeptPlace(at), at, column);
        }
        AscendC::DataCopy(a1.Get<half>()[filledA * TILE_M * PACKET_K], aGm[row * k + nextA],
                          AscendC::Nd2NzParams(1, rows, static_cast<uint16_t>(depth), 0, k, TILE_M, 1, 0));
        AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(filledA);
        filledA = (filledA + 1) % buffers;
        leftA -= depth;
        nextA = nextA + depth == k ? 0 : nextA + depth;
    }
    // The next depthB of K of B, if there are some and they are not kept.
    __aicore__ inline void LoadB(uint32_t column) {
        if (leftB == 0) return;
        if (!Kept(nextB)) {
            AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(buffers + filledB);
            CopyB((kept + filledB) * STEP_B, nextB, column);
            AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(buffers + filledB);
            filledB = (filledB + 1) % RING;
        }
        const uint32_t depth = Least(depthB, k - nextB);
        leftB -= depth;
        nextB = nextB + depth == k ? 0 : nextB + depth;
    }
    __aicore__ inline void CopyB(uint32_t place, uint32_t at, uint32_t column) {
        AscendC::DataCopy(b1.Get<half>()[place], bGm[static_cast<uint64_t>(at) * n + column],
                          AscendC::Nd2NzParams(1, static_cast<uint16_t>(Least(depthB, k - at)), columns, 0, n, depthB, 1, 0));
    }

    // Adds what `depth` of K from `at` on give.
    __aicore__ inline void Multiply(uint32_t at, uint32_t depth, bool isFirst, bool isLast) {
        const AscendC::LocalTensor<half> left = a2.Get<half>()[half_ * STEP_A], right = b2.Get<half>()[half_ * STEP_B];
        const bool fromRing = !Kept(at);
        if (fromRing && at % depthB == 0) AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(buffers + usedB);
        AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(half_);
        AscendC::LoadData3DParamsV2<half> a;
        a.l1H = 1;
        a.l1W = TILE_M;
        a.channelSize = Whole(depth);
        a.kExtension = Whole(depth);
        a.mExtension = Whole(rows);
        AscendC::LoadData(left, a1.Get<half>()[usedA * TILE_M * PACKET_K + at % PACKET_K * TILE_M], a);
        AscendC::LoadData3DParamsV2<half> b;
        b.l1H = 1;
        b.l1W = depthB;
        b.channelSize = Whole(columns);
        b.kExtension = Whole(columns);
        b.mExtension = Whole(depth);
        b.mStartPt = at % depthB;
        b.enTranspose = true;
        AscendC::LoadData(right, b1.Get<half>()[fromRing ? (kept + usedB) * STEP_B : KeptPlace(at)], b);
        if (fromRing && ((at + depth) % depthB == 0 || at + depth == k)) {
            AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(buffers + usedB);
            usedB = (usedB + 1) % RING;
        }
        AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(half_);
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(half_);
        AscendC::MmadParams product;
        product.m = Whole(rows);  // rows past the edge are not stored; one row alone would be taken for a vector, laid out differently
        product.n = columns;
        product.k = depth;
        product.cmatrixInitVal = isFirst;
        if constexpr (unitFlag) product.unitFlag = isLast ? 3 : 2;
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
    uint32_t first = 0, keepEvery = 0, depthB = STEP_K;
    uint32_t nextA = 0, nextB = 0, leftA = 0, leftB = 0;  // of K of the tile: what is loaded next, how much is not loaded yet
    uint32_t filledA = 0, usedA = 0, filledB = 0, usedB = 0, half_ = 0;  // buffers of L1 to fill and to use next, buffers of L0 to use next
};
