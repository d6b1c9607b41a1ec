// LayerNorm of every row of a float matrix of any size: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta. Row values (mean,
// variance) never leave the vector unit: reductions give one number per row, Brcb makes a block of it, and a source stride of 0 applies it
// to the row.
#include "kernel_operator.h"

constexpr uint32_t LANES = 64;          // floats in a repeat
constexpr uint32_t BLOCK = 8;           // floats in a 32-byte block
constexpr uint32_t TILE_FLOATS = 6144;  // per buffer; two input and two output buffers and one for squares
constexpr uint32_t MAX_TILE_ROWS = 8;   // Brcb handles eight numbers at a time

class KernelLayerNorm {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, uint32_t rows, uint32_t columns, float epsilon) {
        const uint32_t cores = AscendC::GetBlockNum(), core = AscendC::GetBlockIdx();
        const uint32_t share = (rows + cores - 1) / cores;
        const uint32_t begin = share * core < rows ? share * core : rows;
        rowCount = rows - begin < share ? rows - begin : share;
        this->columns = columns;
        this->epsilon = epsilon;
        width = (columns + BLOCK - 1) / BLOCK * BLOCK;
        tileRows = TILE_FLOATS / width < MAX_TILE_ROWS ? TILE_FLOATS / width : MAX_TILE_ROWS;
        xGm.SetGlobalBuffer((__gm__ float*)x + static_cast<uint64_t>(begin) * columns, static_cast<uint64_t>(rowCount) * columns);
        yGm.SetGlobalBuffer((__gm__ float*)y + static_cast<uint64_t>(begin) * columns, static_cast<uint64_t>(rowCount) * columns);
        gammaGm.SetGlobalBuffer((__gm__ float*)gamma, columns);
        betaGm.SetGlobalBuffer((__gm__ float*)beta, columns);
        pipe.InitBuffer(inQueueX, 2, tileRows * width * sizeof(float));
        pipe.InitBuffer(outQueueY, 2, tileRows * width * sizeof(float));
        pipe.InitBuffer(weightQueue, 1, 2 * width * sizeof(float));
        pipe.InitBuffer(squareBuffer, tileRows * width * sizeof(float));
        pipe.InitBuffer(partialBuffer, (width / LANES + 1 + LANES) * sizeof(float));
        pipe.InitBuffer(valueBuffer, MAX_TILE_ROWS * sizeof(float));
        pipe.InitBuffer(blockBuffer, MAX_TILE_ROWS * BLOCK * sizeof(float));
        AscendC::Duplicate(valueBuffer.Get<float>(), 0.0f, MAX_TILE_ROWS);  // Brcb reads all eight, also in a smaller last tile
    }

    __aicore__ inline void Process() {
        LoadWeights();
        AscendC::LocalTensor<float> weights = weightQueue.DeQue<float>();
        for (uint32_t row = 0; row < rowCount; row += tileRows) {
            const uint32_t count = rowCount - row < tileRows ? rowCount - row : tileRows;
            CopyIn(row, count);
            Compute(weights, weights[width], count);
            CopyOut(row, count);
        }
        weightQueue.FreeTensor(weights);
    }

private:
    __aicore__ inline AscendC::DataCopyExtParams Rows(uint32_t count) {
        return {static_cast<uint16_t>(count), static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0};
    }

    __aicore__ inline void CopyIn(uint32_t row, uint32_t count) {
        AscendC::LocalTensor<float> x = inQueueX.AllocTensor<float>();
        const AscendC::DataCopyPadExtParams<float> padding{true, 0, static_cast<uint8_t>(width - columns), 0.0f};
        AscendC::DataCopyPad(x, xGm[static_cast<uint64_t>(row) * columns], Rows(count), padding);
        inQueueX.EnQue(x);
    }

    __aicore__ inline void CopyOut(uint32_t row, uint32_t count) {
        AscendC::LocalTensor<float> y = outQueueY.DeQue<float>();
        AscendC::DataCopyPad(yGm[static_cast<uint64_t>(row) * columns], y, Rows(count));
        outQueueY.FreeTensor(y);
    }

    // gamma and beta, one behind the other, for all tiles.
    __aicore__ inline void LoadWeights() {
        AscendC::LocalTensor<float> weights = weightQueue.AllocTensor<float>();
        const AscendC::DataCopyPadExtParams<float> padding{true, 0, static_cast<uint8_t>(width - columns), 0.0f};
        AscendC::DataCopyPad(weights, gammaGm, Rows(1), padding);
        AscendC::DataCopyPad(weights[width], betaGm, Rows(1), padding);
        weightQueue.EnQue(weights);
    }

    __aicore__ inline void Compute(const AscendC::LocalTensor<float>& gamma, const AscendC::LocalTensor<float>& beta, uint32_t count) {
        AscendC::LocalTensor<float> x = inQueueX.DeQue<float>();
        AscendC::LocalTensor<float> y = outQueueY.AllocTensor<float>();
        AscendC::LocalTensor<float> square = squareBuffer.Get<float>(), blocks = blockBuffer.Get<float>();
        const int32_t size = static_cast<int32_t>(count * width), blockSize = static_cast<int32_t>(MAX_TILE_ROWS * BLOCK);
        const float share = 1.0f / static_cast<float>(columns);
        RowSums(x, count);
        AscendC::Muls(blocks, blocks, share, blockSize);  // means
        Apply<true>(y, x, count);
        AscendC::Mul(square, y, y, size);
        RowSums(square, count);
        AscendC::Muls(blocks, blocks, share, blockSize);  // variances
        AscendC::Adds(blocks, blocks, epsilon, blockSize);
        AscendC::Sqrt(blocks, blocks, blockSize);
        Apply<false>(y, y, count);
        for (uint32_t r = 0; r < count; r++) {
            AscendC::Mul(y[r * width], y[r * width], gamma, static_cast<int32_t>(width));
            AscendC::Add(y[r * width], y[r * width], beta, static_cast<int32_t>(width));
        }
        outQueueY.EnQue(y);
        inQueueX.FreeTensor(x);
    }

    // blockBuffer[r] = the sum of row r, eight times. Repeats first, then what is left of them, until one number remains.
    __aicore__ inline void RowSums(const AscendC::LocalTensor<float>& rows, uint32_t count) {
        AscendC::LocalTensor<float> partial = partialBuffer.Get<float>(), values = valueBuffer.Get<float>();
        for (uint32_t r = 0; r < count; r++) {
            AscendC::LocalTensor<float> from = rows[r * width];
            for (uint32_t left = columns;; from = partial) {
                const uint32_t full = left / LANES, tail = left % LANES, results = full + (tail != 0);
                AscendC::LocalTensor<float> to = results == 1 ? values[r] : partial;
                if (full > 0) AscendC::WholeReduceSum(to, from, LANES, full, 1, 1, 8);
                if (tail > 0) AscendC::WholeReduceSum(to[full], from[full * LANES], tail, 1, 1, 1, 8);
                if (results == 1) break;
                left = results;
            }
        }
        AscendC::Brcb(blockBuffer.Get<float>(), values, 1, {1, 8});
    }

    // y = x - value or x / value, row by row.
    template <bool isSub>
    __aicore__ inline void Apply(const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>& x, uint32_t count) {
        AscendC::LocalTensor<float> blocks = blockBuffer.Get<float>();
        const AscendC::BinaryRepeatParams sameBlock(1, 1, 0, 8, 8, 0);
        const uint32_t full = width / LANES, tail = width % LANES;
        for (uint32_t r = 0; r < count; r++) {
            if (full > 0) One<isSub>(y[r * width], x[r * width], blocks[r * BLOCK], LANES, full, sameBlock);
            if (tail > 0) One<isSub>(y[r * width + full * LANES], x[r * width + full * LANES], blocks[r * BLOCK], tail, 1, sameBlock);
        }
    }

    template <bool isSub>
    __aicore__ inline void One(const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>& x,
                               const AscendC::LocalTensor<float>& value, uint64_t mask, uint8_t repeats,
                               const AscendC::BinaryRepeatParams& strides) {
        if constexpr (isSub)
            AscendC::Sub(y, x, value, mask, repeats, strides);
        else
            AscendC::Div(y, x, value, mask, repeats, strides);
    }

    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 2> inQueueX;
    AscendC::TQue<AscendC::TPosition::VECOUT, 2> outQueueY;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> weightQueue;
    AscendC::TBuf<AscendC::TPosition::VECCALC> squareBuffer, partialBuffer, valueBuffer, blockBuffer;
    AscendC::GlobalTensor<float> xGm, gammaGm, betaGm, yGm;
    uint32_t rowCount = 0, columns = 0, width = 0, tileRows = 0;
    float epsilon = 0;
};

extern "C" __global__ __aicore__ void layernorm(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, uint32_t rows, uint32_t columns,
                                                float epsilon) {
    KernelLayerNorm op;
    op.Init(x, gamma, beta, y, rows, columns, epsilon);
    op.Process();
}
