// exp(y * ln x) in half, as one would write it first. `toprope bisect-precision` shows what is wrong with it; pow.cpp does it right.
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t TILE = 1024;

extern "C" __global__ __aicore__ void pow_naive(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t length) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, TILE * (2 * sizeof(float) + 2 * sizeof(half)));
    LocalTensor<float> base = buffer.Get<float>(), power = base[TILE];
    LocalTensor<half> h = base[2 * TILE].ReinterpretCast<half>(), g = h[TILE];
    GlobalTensor<float> xGm, yGm, zGm;
    xGm.SetGlobalBuffer((__gm__ float*)x, length);
    yGm.SetGlobalBuffer((__gm__ float*)y, length);
    zGm.SetGlobalBuffer((__gm__ float*)z, length);
    for (uint32_t at = GetBlockIdx() * TILE; at + TILE <= length; at += GetBlockNum() * TILE) {  // whole tiles only
        DataCopy(base, xGm[at], TILE);
        DataCopy(power, yGm[at], TILE);
        SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
        WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
        Cast(h, base, RoundMode::CAST_RINT, TILE);
        Cast(g, power, RoundMode::CAST_RINT, TILE);
        Ln(h, h, TILE);
        Mul(h, h, g, TILE);
        Exp(h, h, TILE);
        Cast(base, h, RoundMode::CAST_NONE, TILE);
        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
        DataCopy(zGm[at], base, TILE);
        SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
        WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
    }
}
