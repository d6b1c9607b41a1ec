// y = conv2d(x, w), 3 x 3, padding and stride 1. x is [batch, channels / 16, height, width, 16], w is [channels / 16 * 9, filters / 16, 16,
// 16], y is [batch, filters / 16, height, width, 16], all fp16, sums fp32. As a product: the pixels of an image are the rows, K = channels
// * 9. Core i computes `part` filters of image i / (filters / part), in tiles of BASE_M pixels x BASE_N filters. One group of 16 channels
// is a packet of three steps of K: the image rows that the tile sees and 144 x BASE_N weights travel GM -> L1 through two buffers, their
// windows and weights L1 -> L0 step by step through two more.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t C0 = 16, TAPS = 9, BASE_K = 48, STEPS = 3, WEIGHTS = TAPS * C0 * BASE_N;
constexpr uint32_t kHalfL0 = 32768;
constexpr TEventID kImage = 0, kWeights = 1;

struct Sizes {
    uint32_t height, width, channels, filters, part;
};

class Convolution {
public:
    __aicore__ inline Convolution(GM_ADDR x, GM_ADDR w, GM_ADDR y, const Sizes& sizes) : s_(sizes), pixels_(sizes.height * sizes.width) {
        const uint32_t image = GetBlockIdx() / (s_.filters / s_.part), first = GetBlockIdx() % (s_.filters / s_.part) * s_.part;
        x_.SetGlobalBuffer((__gm__ half*)x + (uint64_t)image * s_.channels * pixels_);
        w_.SetGlobalBuffer((__gm__ half*)w + first * C0);
        y_.SetGlobalBuffer((__gm__ half*)y + ((uint64_t)image * s_.filters + first) * pixels_);
        image_ = ((BASE_M + s_.width - 1) / s_.width + 3) * s_.width * C0;
        for (int id = 0; id < 2; ++id) {
            SetFlag<HardEvent::MTE1_MTE2>(id);
            SetFlag<HardEvent::M_MTE1>(id);
        }
    }
    __aicore__ inline ~Convolution() {
        for (int id = 0; id < 2; ++id) {
            WaitFlag<HardEvent::MTE1_MTE2>(id);
            WaitFlag<HardEvent::M_MTE1>(id);
        }
    }

    __aicore__ inline void Run() {
        for (uint32_t pixel = 0; pixel < pixels_; pixel += BASE_M) {
            See(pixel);
            for (uint32_t filter = 0; filter < s_.part; filter += BASE_N) {
                for (uint32_t channel = 0; channel < s_.channels / C0; ++channel) Packet(channel, filter);
                Store(pixel, filter);
            }
        }
    }

private:
    // The image rows that the pixels of a tile see; rows outside the image become padding.
    __aicore__ inline void See(uint32_t pixel) {
        count_ = pixels_ - pixel < BASE_M ? pixels_ - pixel : BASE_M;
        const uint32_t first = pixel / s_.width, last = (pixel + count_ - 1) / s_.width;
        top_ = first == 0 ? 0 : first - 1;
        const uint32_t bottom = last + 1 == s_.height ? last : last + 1;
        rows_ = bottom - top_ + 1;
        window_.l1H = rows_;
        window_.l1W = s_.width;
        window_.padList[0] = window_.padList[1] = 1;
        window_.padList[2] = first == 0;
        window_.padList[3] = last + 1 == s_.height;
        window_.channelSize = C0;
        window_.filterW = window_.filterH = 3;
        window_.strideW = window_.strideH = 1;
        window_.dilationFilterW = window_.dilationFilterH = 1;
        window_.mStartPt = pixel % s_.width;
        window_.mExtension = count_;
        window_.kExtension = BASE_K;
    }

    __aicore__ inline void Packet(uint32_t channel, uint32_t filter) {
        const LocalTensor<half> image(TPosition::A1, l1_ * image_ * sizeof(half), image_);
        const LocalTensor<half> weights(TPosition::B1, (2 * image_ + l1_ * WEIGHTS) * sizeof(half), WEIGHTS);
        WaitFlag<HardEvent::MTE1_MTE2>(l1_);
        DataCopy(image, x_[channel * pixels_ * C0 + top_ * s_.width * C0], rows_ * s_.width * C0);
        SetFlag<HardEvent::MTE2_MTE1>(kImage);
        DataCopy(weights, w_[(uint64_t)channel * TAPS * s_.filters * C0 + filter * C0],
                 DataCopyParams(TAPS, BASE_N, s_.filters - BASE_N, 0));
        SetFlag<HardEvent::MTE2_MTE1>(kWeights);
        for (uint32_t step = 0; step < STEPS; ++step) Step(image, weights, step, channel == 0 && step == 0);
        SetFlag<HardEvent::MTE1_MTE2>(l1_);
        l1_ ^= 1;
    }

    __aicore__ inline void Step(const LocalTensor<half>& image, const LocalTensor<half>& weights, uint32_t step, bool first) {
        const LocalTensor<half> a(TPosition::A2, l0_ * kHalfL0, BASE_M * BASE_K), b(TPosition::B2, l0_ * kHalfL0, BASE_K * BASE_N);
        WaitFlag<HardEvent::M_MTE1>(l0_);
        if (step == 0) WaitFlag<HardEvent::MTE2_MTE1>(kImage);
        window_.kStartPt = step * BASE_K;
        LoadData(a, image, window_);
        if (step == 0) WaitFlag<HardEvent::MTE2_MTE1>(kWeights);
        LoadData2DParams whole;
        whole.startIndex = step * BASE_K / 16 * (BASE_N / 16);
        whole.repeatTimes = BASE_K / 16 * (BASE_N / 16);
        whole.srcStride = 1;
        LoadData(b, weights, whole);
        SetFlag<HardEvent::MTE1_M>(l0_);
        WaitFlag<HardEvent::MTE1_M>(l0_);
        MmadParams product;
        product.m = count_;
        product.n = BASE_N;
        product.k = BASE_K;
        product.cmatrixInitVal = first;
        Mmad(sum_, a, b, product);
        SetFlag<HardEvent::M_MTE1>(l0_);
        l0_ ^= 1;
    }

    __aicore__ inline void Store(uint32_t pixel, uint32_t filter) {
        SetFlag<HardEvent::M_FIX>(0);
        WaitFlag<HardEvent::M_FIX>(0);
        FixpipeParamsV220 out;
        out.nSize = BASE_N;
        out.mSize = count_;
        out.srcStride = count_;
        out.dstStride = pixels_;  // from 16 filters to the next 16
        out.quantPre = QuantMode_t::F322F16;
        Fixpipe<half, float, CFG_NZ>(y_[(uint64_t)filter * pixels_ + pixel * C0], sum_, out);
        SetFlag<HardEvent::FIX_M>(0);
        WaitFlag<HardEvent::FIX_M>(0);
    }

    Sizes s_;
    uint32_t pixels_;
    GlobalTensor<half> x_, w_, y_;
    LocalTensor<float> sum_{TPosition::CO1, 0, BASE_M * BASE_N};
    LoadData3DParamsV2<half> window_;
    uint32_t image_ = 0, count_ = 0, top_ = 0, rows_ = 0, l1_ = 0, l0_ = 0;
};

extern "C" __global__ __aicore__ void convolution(GM_ADDR x, GM_ADDR w, GM_ADDR y, uint32_t height, uint32_t width, uint32_t channels,
                                                  uint32_t filters, uint32_t part) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    if ASCEND_IS_AIV
        return;
    Convolution op(x, w, y, Sizes{height, width, channels, filters, part});
    op.Run();
}
