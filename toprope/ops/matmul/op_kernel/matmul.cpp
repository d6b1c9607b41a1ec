// c = a x b in half, sums in float, with the raw cube API: a ladder of five kernels, each with one idea more than the one before.
//   matmul_naive     one buffer everywhere: load, split, multiply and store wait for each other
//   matmul_buffered  two buffers in L1 and in L0: copies and products overlap
//   matmul_packets   four steps of K per copy into L1: fewer, longer copies
//   matmul_banded    the tiles in work at one time form a block of C, so that cores share rows of A and columns of B in L2
//   matmul           unit flag: the store of a tile follows the cube fractal by fractal, and the next tile starts behind it
// A tile of C is 128 x 256: it fills L0C (128 KB of float), and 64 steps of K of its operands are half of L0A and L0B.
#include "kernel_operator.h"
#include "matmul_tiling_data.h"

using namespace AscendC;

constexpr uint32_t TILE_M = 128, TILE_N = 256, STEP_K = 64, FRACTAL = 16;

__aicore__ inline uint32_t Whole(uint32_t count) { return (count + FRACTAL - 1) / FRACTAL * FRACTAL; }
__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

template <uint32_t buffers, uint32_t steps, bool unitFlag>
class KernelMatmul {
    static constexpr uint32_t PACKET_K = steps * STEP_K;

public:
    __aicore__ inline void Run(GM_ADDR a, GM_ADDR b, GM_ADDR c, const MatmulTilingData& tiling) {
        m = tiling.m;
        n = tiling.n;
        k = tiling.k;
        aGm.SetGlobalBuffer((__gm__ half*)a, static_cast<uint64_t>(m) * k);
        bGm.SetGlobalBuffer((__gm__ half*)b, static_cast<uint64_t>(k) * n);
        cGm.SetGlobalBuffer((__gm__ half*)c, static_cast<uint64_t>(m) * n);
        pipe.InitBuffer(a1, buffers * TILE_M * PACKET_K * sizeof(half));
        pipe.InitBuffer(b1, buffers * TILE_N * PACKET_K * sizeof(half));
        pipe.InitBuffer(a2, buffers * TILE_M * STEP_K * sizeof(half));
        pipe.InitBuffer(b2, buffers * TILE_N * STEP_K * sizeof(half));
        pipe.InitBuffer(c0, TILE_M * TILE_N * sizeof(float));
        Free(true);
        const uint32_t tilesM = (m + TILE_M - 1) / TILE_M, tilesN = (n + TILE_N - 1) / TILE_N;
        for (uint32_t t = GetBlockIdx(); t < tilesM * tilesN; t += GetBlockNum()) {
            const uint32_t band = t / (tiling.bandRows * tilesN), place = t % (tiling.bandRows * tilesN);
            const uint32_t bandRows = Least(tiling.bandRows, tilesM - band * tiling.bandRows);
            Tile((band * tiling.bandRows + place % bandRows) * TILE_M, place / bandRows * TILE_N);
        }
        Free(false);
    }

private:
    // Every buffer starts free, and a kernel ends when every buffer is free again.
    __aicore__ inline void Free(bool atStart) {
        for (uint32_t i = 0; i < buffers; i++) {
            if (atStart) {
                SetFlag<HardEvent::MTE1_MTE2>(i);
                SetFlag<HardEvent::M_MTE1>(i);
            } else {
                WaitFlag<HardEvent::MTE1_MTE2>(i);
                WaitFlag<HardEvent::M_MTE1>(i);
            }
        }
        if constexpr (!unitFlag) {
            if (atStart)
                SetFlag<HardEvent::FIX_M>(0);
            else
                WaitFlag<HardEvent::FIX_M>(0);
        }
    }

    __aicore__ inline void Tile(uint32_t row, uint32_t column) {
        rows = Least(TILE_M, m - row);
        columns = Least(TILE_N, n - column);
        if constexpr (!unitFlag) WaitFlag<HardEvent::FIX_M>(0);
        if constexpr (buffers == 2) Load(row, column, 0);
        for (uint32_t at = 0; at < k; at += PACKET_K) {
            if constexpr (buffers == 1)
                Load(row, column, at);
            else if (at + PACKET_K < k)
                Load(row, column, at + PACKET_K);
            WaitFlag<HardEvent::MTE2_MTE1>(used);
            const uint32_t packet = Least(PACKET_K, k - at);
            for (uint32_t step = 0; step < packet; step += STEP_K) Multiply(step, Least(STEP_K, packet - step), at + step);
            SetFlag<HardEvent::MTE1_MTE2>(used);
            used = (used + 1) % buffers;
        }
        Store(row, column);
    }

    // The next packet of A and of B, row-major in GM, fractals of 16 x 16 in L1.
    __aicore__ inline void Load(uint32_t row, uint32_t column, uint32_t at) {
        const uint16_t depth = static_cast<uint16_t>(Least(PACKET_K, k - at));
        WaitFlag<HardEvent::MTE1_MTE2>(filled);
        DataCopy(a1.Get<half>()[filled * TILE_M * PACKET_K], aGm[static_cast<uint64_t>(row) * k + at],
                 Nd2NzParams(1, rows, depth, 0, k, TILE_M, 1, 0));
        DataCopy(b1.Get<half>()[filled * TILE_N * PACKET_K], bGm[static_cast<uint64_t>(at) * n + column],
                 Nd2NzParams(1, depth, columns, 0, n, PACKET_K, 1, 0));
        SetFlag<HardEvent::MTE2_MTE1>(filled);
        filled = (filled + 1) % buffers;
    }

    __aicore__ inline void Multiply(uint32_t step, uint32_t depth, uint32_t at) {
        const LocalTensor<half> left = a2.Get<half>()[half_ * TILE_M * STEP_K], right = b2.Get<half>()[half_ * TILE_N * STEP_K];
        WaitFlag<HardEvent::M_MTE1>(half_);
        LoadData3DParamsV2<half> a;
        a.l1H = 1;
        a.l1W = TILE_M;
        a.channelSize = Whole(depth);
        a.kExtension = Whole(depth);
        a.mExtension = Whole(rows);
        LoadData(left, a1.Get<half>()[used * TILE_M * PACKET_K + step * TILE_M], a);
        LoadData3DParamsV2<half> b;
        b.l1H = 1;
        b.l1W = PACKET_K;
        b.channelSize = Whole(columns);
        b.kExtension = Whole(columns);
        b.mExtension = Whole(depth);
        b.mStartPt = step;
        b.enTranspose = true;
        LoadData(right, b1.Get<half>()[used * TILE_N * PACKET_K], b);
        SetFlag<HardEvent::MTE1_M>(half_);
        WaitFlag<HardEvent::MTE1_M>(half_);
        MmadParams product;
        product.m = Whole(rows);  // rows past the edge are not stored; one row alone would be taken for a vector, laid out differently
        product.n = columns;
        product.k = depth;
        product.cmatrixInitVal = at == 0;
        if constexpr (unitFlag) product.unitFlag = at + depth == k ? 3 : 2;
        Mmad(c0.Get<float>(), left, right, product);
        if (Whole(rows) / FRACTAL * (columns / FRACTAL) < 10)
            PipeBarrier<PIPE_M>();  // the next product adds to fractals still on their way
        SetFlag<HardEvent::M_MTE1>(half_);
        half_ = (half_ + 1) % buffers;
    }

    __aicore__ inline void Store(uint32_t row, uint32_t column) {
        if constexpr (!unitFlag) {
            SetFlag<HardEvent::M_FIX>(0);
            WaitFlag<HardEvent::M_FIX>(0);
        }
        FixpipeParamsV220 store(columns, rows, Whole(rows), n, false);
        store.quantPre = QuantMode_t::F322F16;
        store.unitFlag = unitFlag ? 3 : 0;
        Fixpipe(cGm[static_cast<uint64_t>(row) * n + column], c0.Get<float>(), store);
        if constexpr (!unitFlag) SetFlag<HardEvent::FIX_M>(0);
    }

    TPipe pipe;
    TBuf<TPosition::A1> a1;
    TBuf<TPosition::B1> b1;
    TBuf<TPosition::A2> a2;
    TBuf<TPosition::B2> b2;
    TBuf<TPosition::CO1> c0;
    GlobalTensor<half> aGm, bGm, cGm;
    uint32_t m = 0, n = 0, k = 0, rows = 0, columns = 0;
    uint32_t filled = 0, used = 0, half_ = 0;  // buffers of L1 to fill and to use next, buffers of L0 to use next
};

extern "C" __global__ __aicore__ void matmul_naive(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    KernelMatmul<1, 1, false>().Run(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_buffered(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    KernelMatmul<2, 1, false>().Run(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_packets(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    KernelMatmul<2, 4, false>().Run(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul_banded(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    KernelMatmul<2, 4, false>().Run(a, b, c, data);
}

extern "C" __global__ __aicore__ void matmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(MatmulTilingData);
    GET_TILING_DATA(data, tiling);
    KernelMatmul<2, 4, true>().Run(a, b, c, data);
}
