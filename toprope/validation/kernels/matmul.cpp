// C = A x B, fp16 matrices in row-major order, B as N x K when TRANS_B, fp32 sums, fp16 result. Every core computes SINGLE_M x SINGLE_N of
// C in tiles of BASE_M x BASE_N, K in steps of BASE_K. A and B travel GM -> L1 in packets of STEP_KA and STEP_KB steps (L1_BUFFERS each, 1
// or 2), L1 -> L0 step by step through two buffers. UNIT_FLAG lets the store of a tile follow the cube without flags. A last tile of a
// block may be narrower. Core i works on row block i % CORES_M and column block i / CORES_M; with more row blocks than CORES_M it goes on
// in rounds; tiles are counted down the rows first. With ZIGZAG 1 the blocks are counted along the rows instead, every other row backwards,
// and each core takes as many of them in succession, ending each with a barrier; with ZIGZAG 2 the cores take them in turn. RESULT is the
// result's type, half or float.
#include "kernel_operator.h"

#ifndef TRANS_B
#define TRANS_B 0
#endif
#ifndef ZIGZAG
#define ZIGZAG 0
#endif
#ifndef RESULT
#define RESULT half
#endif

using namespace AscendC;

constexpr uint32_t kPacketA = BASE_M * BASE_K * STEP_KA, kPacketB = BASE_K * BASE_N * STEP_KB;
constexpr uint32_t kHalfL0 = 32768 / sizeof(half);
constexpr TEventID kA = 0, kB = 2;  // event ids of the L1 buffers of A and B; those of L0 are 4 and 5

struct Extents {
    uint32_t m, n, k;
};
struct Block {
    uint32_t row, column, rows, columns;
};

class Matmul {
public:
    __aicore__ inline Matmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, Extents shape) : shape_(shape), steps_(shape.k / BASE_K) {
        a_.SetGlobalBuffer((__gm__ half*)a);
        b_.SetGlobalBuffer((__gm__ half*)b);
        c_.SetGlobalBuffer((__gm__ RESULT*)c);
        for (int id = 0; id < L1_BUFFERS; ++id) {
            SetFlag<HardEvent::MTE1_MTE2>(kA + id);
            SetFlag<HardEvent::MTE1_MTE2>(kB + id);
        }
        for (int id = 0; id < 2; ++id) SetFlag<HardEvent::M_MTE1>(id);
        if (!UNIT_FLAG) SetFlag<HardEvent::FIX_M>(0);
    }
    __aicore__ inline ~Matmul() {
        for (int id = 0; id < L1_BUFFERS; ++id) {
            WaitFlag<HardEvent::MTE1_MTE2>(kA + id);
            WaitFlag<HardEvent::MTE1_MTE2>(kB + id);
        }
        for (int id = 0; id < 2; ++id) WaitFlag<HardEvent::M_MTE1>(id);
        if (!UNIT_FLAG) WaitFlag<HardEvent::FIX_M>(0);
        PipeBarrier<PIPE_ALL>();
    }

    __aicore__ inline void Run(const Block& block) {
        for (uint32_t column = 0; column < block.columns; column += BASE_N) {
            width_ = block.columns - column < BASE_N ? block.columns - column : BASE_N;
            for (uint32_t row = 0; row < block.rows; row += BASE_M) {
                height_ = block.rows - row < BASE_M ? block.rows - row : BASE_M;
                Tile(block.row + row, block.column + column);
            }
        }
    }

private:
    // With two buffers the next packet is asked for before this one is used; with one there is nowhere to put it.
    __aicore__ inline void Tile(uint32_t row, uint32_t column) {
        if (L1_BUFFERS == 2) {
            LoadB(column, 0);
            LoadA(row, 0);
        }
        if (!UNIT_FLAG) WaitFlag<HardEvent::FIX_M>(0);
        for (uint32_t step = 0; step < steps_; ++step) {
            const uint32_t ahead = L1_BUFFERS - 1;
            if (step % STEP_KB == 0) {
                if (step + ahead * STEP_KB < steps_) LoadB(column, step + ahead * STEP_KB);
                WaitFlag<HardEvent::MTE2_MTE1>(kB + use_b_);
            }
            if (step % STEP_KA == 0) {
                if (step + ahead * STEP_KA < steps_) LoadA(row, step + ahead * STEP_KA);
                WaitFlag<HardEvent::MTE2_MTE1>(kA + use_a_);
            }
            Step(step);
            if (step % STEP_KA == STEP_KA - 1 || step + 1 == steps_) {
                SetFlag<HardEvent::MTE1_MTE2>(kA + use_a_);
                use_a_ = (use_a_ + 1) % L1_BUFFERS;
            }
            if (step % STEP_KB == STEP_KB - 1 || step + 1 == steps_) {
                SetFlag<HardEvent::MTE1_MTE2>(kB + use_b_);
                use_b_ = (use_b_ + 1) % L1_BUFFERS;
            }
        }
        Store(row, column);
    }
    __aicore__ inline static uint32_t Whole(uint32_t columns) { return (columns + 15) / 16 * 16; }
    __aicore__ inline uint32_t StepsLeft(uint32_t step, uint32_t packet) const { return steps_ - step < packet ? steps_ - step : packet; }
    __aicore__ inline void LoadA(uint32_t row, uint32_t step) {
        const uint32_t columns = StepsLeft(step, STEP_KA) * BASE_K;
        WaitFlag<HardEvent::MTE1_MTE2>(kA + fill_a_);
        DataCopy(PacketA(fill_a_), a_[(uint64_t)row * shape_.k + step * BASE_K],
                 Nd2NzParams{1, (uint16_t)height_, (uint16_t)columns, 0, (uint16_t)shape_.k, BASE_M, 1, 0});
        SetFlag<HardEvent::MTE2_MTE1>(kA + fill_a_);
        fill_a_ = (fill_a_ + 1) % L1_BUFFERS;
    }
    __aicore__ inline void LoadB(uint32_t column, uint32_t step) {
        const uint32_t rows = StepsLeft(step, STEP_KB) * BASE_K;
        WaitFlag<HardEvent::MTE1_MTE2>(kB + fill_b_);
        if (TRANS_B)
            DataCopy(PacketB(fill_b_), b_[(uint64_t)column * shape_.k + step * BASE_K],
                     Nd2NzParams{1, width_, rows, 0, shape_.k, BASE_N, 1, 0});
        else
            DataCopy(PacketB(fill_b_), b_[(uint64_t)step * BASE_K * shape_.n + column],
                     Nd2NzParams{1, rows, width_, 0, shape_.n, STEP_KB * BASE_K, 1, 0});
        SetFlag<HardEvent::MTE2_MTE1>(kB + fill_b_);
        fill_b_ = (fill_b_ + 1) % L1_BUFFERS;
    }
    __aicore__ inline LocalTensor<half> PacketA(uint32_t buffer) const {
        return LocalTensor<half>(TPosition::A1, buffer * kPacketA * sizeof(half), kPacketA);
    }
    __aicore__ inline LocalTensor<half> PacketB(uint32_t buffer) const {
        return LocalTensor<half>(TPosition::B1, (L1_BUFFERS * kPacketA + buffer * kPacketB) * sizeof(half), kPacketB);
    }

    __aicore__ inline void Step(uint32_t step) {
        const LocalTensor<half> a(TPosition::A2, l0_ * 32768, BASE_M * BASE_K), b(TPosition::B2, l0_ * 32768, BASE_K * BASE_N);
        WaitFlag<HardEvent::M_MTE1>(l0_);
        LoadData3DParamsV2<half> left;
        left.l1H = 1;
        left.l1W = BASE_M;
        left.channelSize = BASE_K;
        left.kExtension = BASE_K;
        left.mExtension = Whole(height_);
        LoadData(a, PacketA(use_a_)[step % STEP_KA * BASE_K * BASE_M], left);
        LoadRight(b, step);
        SetFlag<HardEvent::MTE1_M>(l0_);
        WaitFlag<HardEvent::MTE1_M>(l0_);
        MmadParams product;
        product.m = height_;
        product.n = width_;
        product.k = BASE_K;
        product.cmatrixInitVal = step == 0;
        product.unitFlag = UNIT_FLAG ? (step + 1 == steps_ ? 3 : 2) : 0;
        Mmad(sum_, a, b, product);
        SetFlag<HardEvent::M_MTE1>(l0_);
        l0_ ^= 1;
    }
    __aicore__ inline void LoadRight(const LocalTensor<half>& b, uint32_t step) {
        if (TRANS_B) {  // fractals lie in the order the cube wants; a narrow tile leaves gaps between its columns of fractals
            const LocalTensor<half> from = PacketB(use_b_)[step % STEP_KB * BASE_K * BASE_N];
            const uint32_t pieces = width_ == BASE_N ? 1 : BASE_K / 16;
            LoadData2DParams right;
            right.repeatTimes = Whole(width_) / 16 * (BASE_K / 16 / pieces);
            right.srcStride = 1;
            for (uint32_t i = 0; i < pieces; ++i) LoadData(b[i * Whole(width_) * 16], from[i * BASE_N * 16], right);
            return;
        }
        LoadData3DParamsV2<half> right;
        right.l1H = 1;
        right.l1W = STEP_KB * BASE_K;
        right.channelSize = Whole(width_);
        right.kExtension = Whole(width_);
        right.mExtension = BASE_K;
        right.mStartPt = step % STEP_KB * BASE_K;
        right.enTranspose = true;
        LoadData(b, PacketB(use_b_), right);
    }
    __aicore__ inline void Store(uint32_t row, uint32_t column) {
        if (!UNIT_FLAG) {
            SetFlag<HardEvent::M_FIX>(0);
            WaitFlag<HardEvent::M_FIX>(0);
        }
        FixpipeParamsV220 store(width_, height_, Whole(height_), shape_.n, false);
        if (sizeof(RESULT) == 2) store.quantPre = QuantMode_t::F322F16;
        store.unitFlag = UNIT_FLAG ? 3 : 0;
        Fixpipe(c_[(uint64_t)row * shape_.n + column], sum_, store);
        if (!UNIT_FLAG) SetFlag<HardEvent::FIX_M>(0);
    }

    Extents shape_;
    uint32_t steps_, width_ = BASE_N, height_ = BASE_M, fill_a_ = 0, fill_b_ = 0, use_a_ = 0, use_b_ = 0, l0_ = 0;
    GlobalTensor<half> a_, b_;
    GlobalTensor<RESULT> c_;
    LocalTensor<float> sum_{TPosition::CO1, 0, BASE_M * BASE_N};
};

extern "C" __global__ __aicore__ void matmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t m, uint32_t n, uint32_t k) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    if ASCEND_IS_AIV
        return;
    Matmul op(a, b, c, Extents{m, n, k});
#if ZIGZAG
    const uint32_t across = (n + SINGLE_N - 1) / SINGLE_N, blocks = (m + SINGLE_M - 1) / SINGLE_M * across;
    const uint32_t share = (blocks + GetBlockNum() - 1) / GetBlockNum();
    const uint32_t first = ZIGZAG == 1 ? GetBlockIdx() * share : GetBlockIdx(), step = ZIGZAG == 1 ? 1 : GetBlockNum();
    const uint32_t last = ZIGZAG == 1 && first + share < blocks ? first + share : blocks;
    for (uint32_t block = first; block < last; block += step) {
        const uint32_t row = block / across, column = row % 2 ? across - 1 - block % across : block % across;
        const uint32_t at = row * SINGLE_M, from = column * SINGLE_N;
        op.Run({at, from, m - at < SINGLE_M ? m - at : SINGLE_M, n - from < SINGLE_N ? n - from : SINGLE_N});
        if (ZIGZAG == 1) PipeBarrier<PIPE_ALL>();
    }
#else
    const uint32_t core = GetBlockIdx(), column = core / CORES_M * SINGLE_N;
    if (column >= n) return;
    for (uint32_t row = core % CORES_M * SINGLE_M; row < m; row += CORES_M * SINGLE_M)
        op.Run({row, column, m - row < SINGLE_M ? m - row : SINGLE_M, n - column < SINGLE_N ? n - column : SINGLE_N});
#endif
}
