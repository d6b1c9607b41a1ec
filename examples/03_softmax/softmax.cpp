// Softmax of every row of a float matrix of any size. Row values (maximum, sum) never leave the vector unit: reductions give one number per
// row, Brcb makes a block of it, and a source stride of 0 applies that block to the whole row.
#include "kernel_operator.h"

constexpr uint32_t LANES = 64;          // floats in a repeat
constexpr uint32_t BLOCK = 8;           // floats in a 32-byte block
constexpr uint32_t TILE_FLOATS = 8192;  // per buffer; two input and two output buffers
constexpr uint32_t MAX_TILE_ROWS = 8;   // Brcb handles eight numbers at a time

class KernelSoftmax {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns) {
        const uint32_t cores = AscendC::GetBlockNum(), core = AscendC::GetBlockIdx();
        const uint32_t share = (rows + cores - 1) / cores;
        const uint32_t begin = share * core < rows ? share * core : rows;
        rowCount = rows - begin < share ? rows - begin : share;
        this->columns = columns;
        width = (columns + BLOCK - 1) / BLOCK * BLOCK;
        tileRows = TILE_FLOATS / width < MAX_TILE_ROWS ? TILE_FLOATS / width : MAX_TILE_ROWS;
        xGm.SetGlobalBuffer((__gm__ float*)x + static_cast<uint64_t>(begin) * columns, static_cast<uint64_t>(rowCount) * columns);
        yGm.SetGlobalBuffer((__gm__ float*)y + static_cast<uint64_t>(begin) * columns, static_cast<uint64_t>(rowCount) * columns);
        pipe.InitBuffer(inQueueX, 2, tileRows * width * sizeof(float));
        pipe.InitBuffer(outQueueY, 2, tileRows * width * sizeof(float));
        pipe.InitBuffer(partialBuffer, (width / LANES + 1 + LANES) * sizeof(float));
        pipe.InitBuffer(valueBuffer, MAX_TILE_ROWS * sizeof(float));
        pipe.InitBuffer(blockBuffer, MAX_TILE_ROWS * BLOCK * sizeof(float));
        AscendC::Duplicate(valueBuffer.Get<float>(), 0.0f, MAX_TILE_ROWS);  // Brcb reads all eight, also in a smaller last tile
    }

    __aicore__ inline void Process() {
        for (uint32_t row = 0; row < rowCount; row += tileRows) {
            const uint32_t count = rowCount - row < tileRows ? rowCount - row : tileRows;
            CopyIn(row, count);
            Compute(count);
            CopyOut(row, count);
        }
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

    __aicore__ inline void Compute(uint32_t count) {
        AscendC::LocalTensor<float> x = inQueueX.DeQue<float>();
        AscendC::LocalTensor<float> y = outQueueY.AllocTensor<float>();
        RowValues<true>(x, count);
        Apply<true>(y, x, count);
        AscendC::Exp(y, y, static_cast<int32_t>(count * width));
        RowValues<false>(y, count);
        Apply<false>(y, y, count);
        outQueueY.EnQue(y);
        inQueueX.FreeTensor(x);
    }

    // blockBuffer[r] = the maximum or the sum of row r, eight times. Repeats first, then what is left of them, until one number remains.
    template <bool isMax>
    __aicore__ inline void RowValues(const AscendC::LocalTensor<float>& rows, uint32_t count) {
        AscendC::LocalTensor<float> partial = partialBuffer.Get<float>(), values = valueBuffer.Get<float>();
        for (uint32_t r = 0; r < count; r++) {
            AscendC::LocalTensor<float> from = rows[r * width];
            for (uint32_t left = columns;; from = partial) {
                const uint32_t full = left / LANES, tail = left % LANES, results = full + (tail != 0);
                AscendC::LocalTensor<float> to = results == 1 ? values[r] : partial;
                if (full > 0) Reduce<isMax>(to, from, LANES, full);
                if (tail > 0) Reduce<isMax>(to[full], from[full * LANES], tail, 1);
                if (results == 1) break;
                left = results;
            }
        }
        AscendC::Brcb(blockBuffer.Get<float>(), values, 1, {1, 8});
    }

    template <bool isMax>
    __aicore__ inline void Reduce(const AscendC::LocalTensor<float>& to, const AscendC::LocalTensor<float>& from, uint32_t mask,
                                  uint32_t repeats) {
        if constexpr (isMax)
            AscendC::WholeReduceMax(to, from, mask, repeats, 1, 1, 8, AscendC::ReduceOrder::ORDER_ONLY_VALUE);
        else
            AscendC::WholeReduceSum(to, from, mask, repeats, 1, 1, 8);
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
    AscendC::TBuf<AscendC::TPosition::VECCALC> partialBuffer, valueBuffer, blockBuffer;
    AscendC::GlobalTensor<float> xGm, yGm;
    uint32_t rowCount = 0, columns = 0, width = 0, tileRows = 0;
};

extern "C" __global__ __aicore__ void softmax(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns) {
    KernelSoftmax op;
    op.Init(x, y, rows, columns);
    op.Process();
}
