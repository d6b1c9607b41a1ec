// y = Relu(conv2d(x, w) + bias) on the cube: the load into L0A spreads the image into the rows of a matrix product (im2col), the filters
// lie in GM as the cube wants them. x and y are NC1HWC0 (16 channels together), w is [C1 * KH * KW, N1, 16, 16].
// Each block takes bands of result rows; K in steps of baseK, two buffers in L0.
#include "conv2d_tiling.h"
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t C0 = 16, FRACTAL = 256;

class Conv2d {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR w, GM_ADDR bias, GM_ADDR y, const Conv2dTiling& tiling) {
        t = tiling;
        totalK = t.channelBlocks * t.kernelH * t.kernelW * C0;
        inputRows = (t.bandRows - 1) * t.stride + t.kernelH;
        bandM = (t.bandRows * t.outWidth + 15) / 16 * 16;
        xGm.SetGlobalBuffer((__gm__ half*)x, t.channelBlocks * t.height * t.width * C0);
        wGm.SetGlobalBuffer((__gm__ half*)w, totalK * t.filters);
        biasGm.SetGlobalBuffer((__gm__ float*)bias, t.filters);
        yGm.SetGlobalBuffer((__gm__ half*)y, t.filters * t.outHeight * t.outWidth);
        pipe.InitBuffer(inA1, 2, t.channelBlocks * inputRows * t.width * C0 * sizeof(half));
        pipe.InitBuffer(inB1, 1, totalK * t.filters * sizeof(half));
        pipe.InitBuffer(inC1, 1, t.filters * sizeof(float));
        pipe.InitBuffer(inA2, 2, bandM * t.baseK * sizeof(half));
        pipe.InitBuffer(inB2, 2, t.baseK * t.filters * sizeof(half));
        pipe.InitBuffer(inC2, 1, t.filters * sizeof(float));
        pipe.InitBuffer(outCO1, 1, bandM * t.filters * sizeof(float));
    }

    __aicore__ inline void Process() {
        LoadWeights();
        LocalTensor<half> weights = inB1.DeQue<half>();
        LocalTensor<float> bias = inC2.DeQue<float>();
        for (uint32_t top = GetBlockIdx() * t.bandRows; top < t.outHeight; top += GetBlockNum() * t.bandRows) {
            const uint32_t rows = t.outHeight - top < t.bandRows ? t.outHeight - top : t.bandRows;
            CopyIn(top, rows);
            Compute(rows, weights, bias);
            CopyOut(top, rows);
        }
        inB1.FreeTensor(weights);
        inC2.FreeTensor(bias);
    }

private:
    // The filters stay in L1 and the bias in the bias table for all bands.
    __aicore__ inline void LoadWeights() {
        LocalTensor<half> weights = inB1.AllocTensor<half>();
        DataCopy(weights, wGm, totalK * t.filters);
        inB1.EnQue(weights);
        LocalTensor<float> staged = inC1.AllocTensor<float>();
        DataCopy(staged, biasGm, t.filters);
        inC1.EnQue(staged);
        staged = inC1.DeQue<float>();
        LocalTensor<float> bias = inC2.AllocTensor<float>();
        DataCopy(bias, staged, DataCopyParams(1, t.filters * sizeof(float) / 64, 0, 0));
        inC2.EnQue(bias);
        inC1.FreeTensor(staged);
    }

    // The rows of the image that a band needs; rows outside the image become padding.
    __aicore__ inline void CopyIn(uint32_t top, uint32_t rows) {
        const int32_t first = (int32_t)(top * t.stride) - (int32_t)t.pad, last = first + (int32_t)((rows - 1) * t.stride + t.kernelH);
        const int32_t from = first<0 ? 0 : first, to = last>(int32_t) t.height ? (int32_t)t.height : last;
        imageRows = to - from;
        padTop = from - first;
        padBottom = last - to;
        LocalTensor<half> image = inA1.AllocTensor<half>();
        DataCopy(image, xGm[from * t.width * C0],
                 DataCopyParams(t.channelBlocks, imageRows * t.width, (t.height - imageRows) * t.width, 0));
        inA1.EnQue(image);
    }

    __aicore__ inline void Compute(uint32_t rows, const LocalTensor<half>& weights, const LocalTensor<float>& bias) {
        LocalTensor<half> image = inA1.DeQue<half>();
        LocalTensor<float> sum = outCO1.AllocTensor<float>();
        const uint32_t m = rows * t.outWidth;
        for (uint32_t k = 0; k < totalK; k += t.baseK) {
            const uint32_t count = totalK - k < t.baseK ? totalK - k : t.baseK;
            LoadImage(image, m, k, count);
            LoadFilters(weights, k, count);
            LocalTensor<half> a = inA2.DeQue<half>(), b = inB2.DeQue<half>();
            MmadParams mmad;
            mmad.m = m;
            mmad.n = t.filters;
            mmad.k = count;
            mmad.cmatrixInitVal = false;
            if (k == 0)
                Mmad(sum, a, b, bias, mmad);
            else
                Mmad(sum, a, b, mmad);
            PipeBarrier<PIPE_M>();
            inA2.FreeTensor(a);
            inB2.FreeTensor(b);
        }
        outCO1.EnQue(sum);
        inA1.FreeTensor(image);
    }

    // im2col on the way: columns k.. of the matrix whose row is one pixel of the result.
    __aicore__ inline void LoadImage(const LocalTensor<half>& image, uint32_t m, uint32_t k, uint32_t count) {
        LocalTensor<half> a = inA2.AllocTensor<half>();
        LoadData3DParamsV2<half> load;
        load.l1H = imageRows;
        load.l1W = t.width;
        load.padList[0] = load.padList[1] = t.pad;
        load.padList[2] = padTop;
        load.padList[3] = padBottom;
        load.channelSize = t.channelBlocks * C0;
        load.filterW = t.kernelW;
        load.filterH = t.kernelH;
        load.strideW = load.strideH = t.stride;
        load.dilationFilterW = load.dilationFilterH = 1;
        load.kStartPt = k;
        load.kExtension = count;
        load.mExtension = (m + 15) / 16 * 16;
        LoadData(a, image, load);
        inA2.EnQue(a);
    }

    __aicore__ inline void LoadFilters(const LocalTensor<half>& weights, uint32_t k, uint32_t count) {
        LocalTensor<half> b = inB2.AllocTensor<half>();
        LoadData2DParams load;
        load.startIndex = k / C0 * (t.filters / 16);
        load.repeatTimes = count / C0 * (t.filters / 16);
        load.srcStride = 1;
        LoadData(b, weights, load);
        inB2.EnQue(b);
    }

    __aicore__ inline void CopyOut(uint32_t top, uint32_t rows) {
        LocalTensor<float> sum = outCO1.DeQue<float>();
        FixpipeParamsV220 out;
        out.nSize = t.filters;
        out.mSize = rows * t.outWidth;
        out.srcStride = (rows * t.outWidth + 15) / 16 * 16;
        out.dstStride = t.outHeight * t.outWidth;  // from 16 filters to the next 16
        out.quantPre = F322F16;
        out.reluEn = true;
        Fixpipe<half, float, CFG_NZ>(yGm[top * t.outWidth * C0], sum, out);
        outCO1.FreeTensor(sum);
    }

    TPipe pipe;
    TQue<TPosition::A1, 2> inA1;
    TQue<TPosition::B1, 1> inB1;
    TQue<TPosition::C1, 1> inC1;
    TQue<TPosition::A2, 2> inA2;
    TQue<TPosition::B2, 2> inB2;
    TQue<TPosition::C2, 1> inC2;
    TQue<TPosition::CO1, 1> outCO1;
    GlobalTensor<half> xGm, wGm, yGm;
    GlobalTensor<float> biasGm;
    Conv2dTiling t;
    uint32_t totalK = 0, inputRows = 0, bandM = 0, imageRows = 0, padTop = 0, padBottom = 0;
};

extern "C" __global__ __aicore__ void conv2d(GM_ADDR x, GM_ADDR w, GM_ADDR bias, GM_ADDR y, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    REGISTER_TILING_DEFAULT(Conv2dTiling);
    GET_TILING_DATA(t, tiling);
    Conv2d op;
    op.Init(x, w, bias, y, t);
    op.Process();
}
