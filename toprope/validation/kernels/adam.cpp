// One step of AdamW on a matrix of ELEMENT: blocks of BLOCK_M x BLOCK_N shared out over the cores one after the other, each by two vector
// cores in pieces of SUB_M / 2 rows, two sets of buffers, flags set by hand. Narrow elements are widened for the arithmetic.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kRows = SUB_M / 2, kCount = kRows * BLOCK_N, kBytes = kCount * sizeof(ELEMENT);
constexpr bool kNarrow = sizeof(ELEMENT) == 2;

struct Adam {
    GlobalTensor<ELEMENT> in[4], out;
    uint32_t columns;

    __aicore__ inline LocalTensor<ELEMENT> Loaded(uint32_t which, uint32_t stage) const {
        return LocalTensor<ELEMENT>(TPosition::VECIN, (which * 2 + stage) * kBytes, kCount);
    }
    __aicore__ inline LocalTensor<float> Wide(uint32_t which, uint32_t stage) const {
        return LocalTensor<float>(TPosition::VECCALC, kNarrow ? 8 * kBytes + which * kCount * sizeof(float) : (which * 2 + stage) * kBytes,
                                  kCount);
    }
    __aicore__ inline void Load(uint64_t at, uint32_t stage) const {
        WaitFlag<HardEvent::MTE3_MTE2>(stage);
        const DataCopyExtParams rows{kRows, BLOCK_N * (uint32_t)sizeof(ELEMENT), (columns - BLOCK_N) * (uint32_t)sizeof(ELEMENT), 0, 0};
        for (uint32_t i = 0; i < 4; ++i) DataCopyPad(Loaded(i, stage), in[i][at], rows, DataCopyPadExtParams<ELEMENT>{false, 0, 0, 0});
        SetFlag<HardEvent::MTE2_V>(stage);
    }
    __aicore__ inline void Compute(uint32_t stage) const {
        WaitFlag<HardEvent::MTE2_V>(stage);
        const LocalTensor<float> var = Wide(0, stage), grad = Wide(1, stage), m = Wide(2, stage), v = Wide(3, stage);
#if NARROW
        for (uint32_t i = 0; i < 4; ++i) Cast(Wide(i, stage), Loaded(i, stage), RoundMode::CAST_NONE, kCount);
#endif
        Muls(m, m, 0.9f, kCount);
        Axpy(m, grad, 0.1f, kCount);
        Mul(grad, grad, grad, kCount);
        Muls(v, v, 0.99f, kCount);
        Axpy(v, grad, 0.01f, kCount);
        Sqrt(grad, v, kCount);
        Adds(grad, grad, 1e-8f, kCount);
        Div(v, m, grad, kCount);
        Axpy(v, var, 0.01f, kCount);
        Axpy(var, v, -0.001f, kCount);
#if NARROW
        Cast(Loaded(0, stage), var, RoundMode::CAST_RINT, kCount);
#endif
        SetFlag<HardEvent::V_MTE3>(stage);
    }
    __aicore__ inline void Store(uint64_t at, uint32_t stage) const {
        WaitFlag<HardEvent::V_MTE3>(stage);
        DataCopyPad(out[at], Loaded(0, stage),
                    DataCopyExtParams{kRows, BLOCK_N * (uint32_t)sizeof(ELEMENT), 0, (columns - BLOCK_N) * (uint32_t)sizeof(ELEMENT), 0});
        SetFlag<HardEvent::MTE3_MTE2>(stage);
    }
};

extern "C" __global__ __aicore__ void adam(GM_ADDR var, GM_ADDR grad, GM_ADDR m, GM_ADDR v, GM_ADDR out, uint32_t rows, uint32_t columns) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    Adam op;
    op.columns = columns;
    GM_ADDR from[4] = {var, grad, m, v};
    for (uint32_t i = 0; i < 4; ++i) op.in[i].SetGlobalBuffer((__gm__ ELEMENT*)from[i]);
    op.out.SetGlobalBuffer((__gm__ ELEMENT*)out);
    const uint32_t across = columns / BLOCK_N, block = GetBlockIdx() / 2, side = GetBlockIdx() % 2;
    const uint64_t first = (uint64_t)(block / across * BLOCK_M + side * kRows) * columns + block % across * BLOCK_N;
    SetFlag<HardEvent::MTE3_MTE2>(0);
    SetFlag<HardEvent::MTE3_MTE2>(1);
    op.Load(first, 0);
    for (uint32_t piece = 0; piece < BLOCK_M / SUB_M; ++piece) {
        const uint64_t at = first + (uint64_t)piece * SUB_M * columns;
        if (piece + 1 < BLOCK_M / SUB_M) op.Load(at + (uint64_t)SUB_M * columns, (piece + 1) % 2);
        op.Compute(piece % 2);
        op.Store(at, piece % 2);
    }
    WaitFlag<HardEvent::MTE3_MTE2>(0);
    WaitFlag<HardEvent::MTE3_MTE2>(1);
}
