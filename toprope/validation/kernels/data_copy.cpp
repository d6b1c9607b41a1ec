// Reads a matrix of fp16 in tiles of TILE_M rows by TILE_N columns and does nothing with them: how fast GM gives data. TO_L1 0: into UB as
// they are, with data_copy; 1: into L1, ND to NZ, with data_copy_l1.
// ORDER 0: every core reads its own rows once. 1: the whole of them REPEATS times. 2: they are cut into four column ranges, each
// read REPEATS times before the next. 3: every core reads all rows, past L2. 4: the same, each core starting at its own rows.
#include "kernel_operator.h"

using namespace AscendC;

struct Reader {
    GlobalTensor<half> matrix;
    uint32_t columns;

    __aicore__ inline void Tile(uint32_t row, uint32_t column, uint32_t width) const {
#if TO_L1
        const LocalTensor<half> tile(TPosition::A1, 0, TILE_M * TILE_N);
        DataCopy(tile, matrix[(uint64_t)row * columns + column],
                 Nd2NzParams{1, TILE_M, (uint16_t)width, 0, (uint16_t)columns, TILE_M, 1, 0});
#else
        const LocalTensor<half> tile(TPosition::VECIN, 0, TILE_M * TILE_N);
        const DataCopyExtParams rows{TILE_M, width * (uint32_t)sizeof(half), (columns - width) * (uint32_t)sizeof(half), 0, 0};
        DataCopyPad(tile, matrix[(uint64_t)row * columns + column], rows, DataCopyPadExtParams<half>{false, 0, 0, 0});
#endif
    }
    __aicore__ inline void Rows(uint32_t begin, uint32_t count, uint32_t first_column, uint32_t end_column) const {
        for (uint32_t row = begin; row < begin + count; row += TILE_M)
            for (uint32_t column = first_column; column < end_column; column += TILE_N)
                Tile(row, column, end_column - column < TILE_N ? end_column - column : TILE_N);
    }
};

__aicore__ inline void ReadAll(GM_ADDR matrix, uint32_t rows, uint32_t columns) {
    Reader reader;
    reader.matrix.SetGlobalBuffer((__gm__ half*)matrix, (uint64_t)rows * columns);
    reader.columns = columns;
    const uint32_t cores = GetBlockNum(), core = GetBlockIdx(), share = rows / cores;
    if (ORDER == 3 || ORDER == 4) {
        reader.matrix.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
        for (uint32_t part = 0; part < cores; ++part) reader.Rows((ORDER == 4 ? (part + core) % cores : part) * share, share, 0, columns);
        return;
    }
    const uint32_t slices = ORDER == 2 ? 4 : 1, width = columns / slices;
    for (uint32_t slice = 0; slice < slices; ++slice)
        for (uint32_t repeat = 0; repeat < REPEATS; ++repeat) reader.Rows(core * share, share, slice * width, slice * width + width);
}

extern "C" __global__ __vector__ void data_copy(GM_ADDR matrix, uint32_t rows, uint32_t columns) { ReadAll(matrix, rows, columns); }

extern "C" __global__ __cube__ void data_copy_l1(GM_ADDR matrix, uint32_t rows, uint32_t columns) { ReadAll(matrix, rows, columns); }
