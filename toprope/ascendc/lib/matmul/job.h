// One request to the matrix unit, as a Matmul object states it. On a split chip the vector core hands it to its cube core; there is no
// difference in what a request says when the object itself lives on the cube core.
#pragma once

#include "types.h"

namespace toprope {

// Which base blocks an object computes and stores; `unknown`: a policy of the kernel's own.
enum class BlockChoice : uint8_t { all, upper, lower, unknown };

enum class Request : uint8_t { init, iterate, get, all, batch, async };

// An operand: in GM, in L1, or one value for every element.
struct Operand2d {
    uint8_t* gm = nullptr;
    uint32_t l1 = 0;
    bool given = false, in_l1 = false, is_value = false, turned = false;
    uint64_t value = 0;        // bits of the element
    int64_t row_elements = 0;  // 0: from the original shape
};

struct MatmulJob {
    Request request = Request::init;
    uint8_t object = 0, sub = 0;
    uint8_t atomic = 0;  // 1 add, 2 max, 3 min
    uint8_t quant = 0;   // 1 scalar, 2 vector
    bool has_bias = false, bias_in_l1 = false, quant_in_l1 = false, sequential = false, partial = false, hf32 = false, hf32_zero = false;
    bool c_in_l1 = false, c_in_l0 = false;
    Operand2d a, b;
    uint8_t *bias = nullptr, *quant_vector = nullptr, *sparse_index = nullptr, *c = nullptr;
    uint32_t bias_l1 = 0, quant_l1 = 0, c_local = 0;
    uint64_t quant_scalar = 0, user_info = 0, user_data = 0;
    int32_t m = 0, n = 0, ka = 0, kb = 0, kc = 0;  // original shape; kc: row of C if it is not n
    int32_t single_m = 0, single_n = 0, single_k = 0;
    int32_t block = 0;                          // which base block of the pass
    uint32_t pass = 0;                          // passes over one pair of matrices are numbered
    int64_t c_row_elements = 0, c_nz_rows = 0;  // 0: from the original shape
    uint64_t block_bytes = 0;                   // Request::async: from one base block of the result to the next
    uint32_t batch_a = 1, batch_b = 1, stride_a = 0, stride_b = 0, loops = 1;
};

// Cutting one core's matrices into base blocks, and the order in which they are computed.
struct Blocks {
    int32_t base_m, base_n, single_m, single_n, across_m, across_n;
    bool n_first;
    Blocks(const AscendC::tiling::TCubeTiling& t, const MatmulJob& j)
        : base_m(t.baseM),
          base_n(t.baseN),
          single_m(j.single_m),
          single_n(j.single_n),
          across_m(t.baseM > 0 ? up(j.single_m, t.baseM) / t.baseM : 0),
          across_n(t.baseN > 0 ? up(j.single_n, t.baseN) / t.baseN : 0),
          n_first(t.iterateOrder == 1) {}
    int32_t count() const { return across_m * across_n; }
    int32_t m_of(int32_t block) const { return n_first ? block / across_n : block % across_m; }
    int32_t n_of(int32_t block) const { return n_first ? block % across_n : block / across_m; }
    int32_t rows(int32_t mi) const { return least(base_m, single_m - mi * base_m); }
    int32_t columns(int32_t ni) const { return least(base_n, single_n - ni * base_n); }
    // A block belongs to a triangle unless it lies wholly on the other side of the diagonal.
    bool chosen(BlockChoice choice, int32_t block) const {
        // The diagonal is that of the grid of base blocks, whatever their shape.
        if (choice == BlockChoice::upper) return m_of(block) <= n_of(block);
        if (choice == BlockChoice::lower) return n_of(block) <= m_of(block);
        return true;
    }
};

// Where the matrices of a batch begin and how long their rows are. Page: IterateBatch (layouts).
struct BatchPlace {
    int64_t offset, row_elements;
};
inline BatchPlace batch_place(AscendC::LayoutMode layout, uint32_t index, int64_t rows, int64_t columns, int32_t heads, int32_t batches,
                              uint32_t stride) {
    using AscendC::LayoutMode;
    if (stride != 0) return {int64_t{index} * stride, layout == LayoutMode::BSNGD ? heads * columns : columns};
    if (layout == LayoutMode::BSNGD && heads > 0) {
        const int64_t row = heads * columns, b = index / static_cast<uint32_t>(heads), head = index % static_cast<uint32_t>(heads);
        return {b * rows * row + head * columns, row};
    }
    if (layout == LayoutMode::SBNGD && heads > 0) return {int64_t{index} * columns, int64_t{heads} * batches * columns};
    return {int64_t{index} * rows * columns, columns};
}

}  // namespace toprope
