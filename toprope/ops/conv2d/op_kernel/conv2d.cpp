// y = conv2d(x, w) + bias, float16. The tiling key tells the formats:
//   1  x and y NC1HWC0, w FRACTAL_Z: the cube takes them as they are
//   2  x and y NCHW, w OIHW: vector cores turn x and w into these formats in the workspace, the cube multiplies, vector cores turn y back
// conv2d_naive  one buffer everywhere: load, spread, multiply and store wait for each other
// conv2d        two buffers, and the store follows the cube fractal by fractal (unit flag)
// Both take the tile, the step of K and the channels of a copy from the host: how the work is cut is the host's search.
#include "conv2d_cube.h"
#include "conv2d_nchw.h"

constexpr uint16_t CUBES = 0, VECTORS = 1, TURNED = 2, SUMMED = 3;
constexpr uint32_t EVERYBODY = 0, PAIR = 2;  // who takes part in a flag: all cores of a type; a cube core and its vector cores

struct Conv2dTensors {
    GM_ADDR x;
    GM_ADDR w;
    GM_ADDR bias;
    GM_ADDR y;
};

// The workspace of key 2: x, w, bias and y in the formats of the cube.
__aicore__ inline Conv2dTensors Blocked(GM_ADDR workspace, const Conv2dTilingData& t) {
    const uint64_t block = C0 * sizeof(half), filters = t.filterBlocks * block;
    Conv2dTensors g;
    g.x = workspace;
    g.w = g.x + static_cast<uint64_t>(t.batch) * t.channelBlocks * t.height * t.width * block;
    g.bias = g.w + t.channelBlocks * t.kernelH * t.kernelW * C0 * filters;
    g.y = g.bias + filters;
    return g;
}

template <int buffers>
__aicore__ inline void TurnIn(const Conv2dTensors& g, const Conv2dTensors& blocked, const Conv2dTilingData& t) {
    const uint32_t done = TurnImages<buffers>(g.x, blocked.x, t.batch, t.channels, t.height * t.width).template Run<true>(0);
    PipeBarrier<PIPE_ALL>();  // each step has UB to itself
    if (t.kernelH * t.kernelW * C0 > 1024) {
        TurnFilters<1> filters(g.w, blocked.w, t);  // two buffers of so large a filter do not fit
        filters.Run(done);
        if (t.biased) filters.Fill(g.bias, blocked.bias, 0);
    } else {
        TurnFilters<buffers> filters(g.w, blocked.w, t);
        filters.Run(done);
        if (t.biased) filters.Fill(g.bias, blocked.bias, 0);
    }
    CrossCoreSetFlag<EVERYBODY, PIPE_MTE3>(VECTORS);
    CrossCoreWaitFlag(VECTORS);
    CrossCoreSetFlag<PAIR, PIPE_MTE3>(TURNED);
    PipeBarrier<PIPE_ALL>();
}

template <int buffers, bool unitFlag>
__aicore__ inline void Nchw(const Conv2dTensors& g, GM_ADDR workspace, const Conv2dTilingData& t) {
    const Conv2dTensors blocked = Blocked(workspace, t);
    if ASCEND_IS_AIV {
        TurnIn<buffers>(g, blocked, t);
        CrossCoreWaitFlag(SUMMED);
        TurnImages<buffers>(g.y, blocked.y, t.batch, t.filters, t.outHeight * t.outWidth).template Run<false>(0);
    }
    if ASCEND_IS_AIC {
        CrossCoreWaitFlag(TURNED);
        KernelConv2d<buffers, unitFlag>().Run(blocked.x, blocked.w, blocked.bias, blocked.y, t);
        CrossCoreSetFlag<EVERYBODY, PIPE_FIX>(CUBES);
        CrossCoreWaitFlag(CUBES);
        CrossCoreSetFlag<PAIR, PIPE_FIX>(SUMMED);
    }
}

extern "C" __global__ __aicore__ void conv2d(GM_ADDR x, GM_ADDR w, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE(1, KERNEL_TYPE_AIC_ONLY);
    KERNEL_TASK_TYPE(2, KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(Conv2dTilingData);
    GET_TILING_DATA(data, tiling);
    if (TILING_KEY_IS(1))
        KernelConv2d<2, true>().Run(x, w, bias, y, data);
    else if (TILING_KEY_IS(2))
        Nchw<2, true>({x, w, bias, y}, GetUserWorkspace(workspace), data);
}

extern "C" __global__ __aicore__ void conv2d_naive(GM_ADDR x, GM_ADDR w, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE(1, KERNEL_TYPE_AIC_ONLY);
    KERNEL_TASK_TYPE(2, KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(Conv2dTilingData);
    GET_TILING_DATA(data, tiling);
    if (TILING_KEY_IS(1))
        KernelConv2d<1, false>().Run(x, w, bias, y, data);
    else if (TILING_KEY_IS(2))
        Nchw<1, false>({x, w, bias, y}, GetUserWorkspace(workspace), data);
}
