// What level A computes with: the arithmetic of the vector unit, from the same headers that emitted kernels include, so that both give
// the same bits. The order of a row reduction is written down here and, for the device, in emit_text.py (RowReduce).
#include "kernel_operator.h"

namespace {
using namespace toprope;

template <Fold fold, uint32_t lanes>
float fold_row(const float* row, uint32_t columns, float* partial) {
    const float* from = row;
    for (uint32_t left = columns;;) {
        const uint32_t results = (left + lanes - 1) / lanes;
        for (uint32_t i = 0; i < results; ++i) {
            float v[lanes];
            const uint32_t active = left - i * lanes < lanes ? left - i * lanes : lanes;
            std::memcpy(v, from + i * lanes, active * sizeof(float));
            for (uint32_t lane = active; lane < lanes; ++lane) v[lane] = fold_identity<fold>();
            if constexpr (fold == Fold::SUM) {
                fold_levels<float, fold>(v, lanes, lanes == 64 ? 6 : 7);
                partial[i] = v[0];
            } else {
                partial[i] = extreme_of<fold, lanes>(v);
            }
        }
        if (results == 1) return partial[0];
        left = results;
        from = partial;
    }
}
template <Fold fold, uint32_t lanes>
void fold_rows(const float* x, float* out, uint32_t rows, uint32_t columns, float* partial) {
    for (uint32_t r = 0; r < rows; ++r) out[r] = fold_row<fold, lanes>(x + uint64_t{r} * columns, columns, partial);
}
template <typename F>
void each(const F& f, const float* x, float* out, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) out[i] = f(x[i]);
}
}  // namespace

extern "C" {
void tile_exp(const float* x, float* out, uint64_t n) { each(FnExp<float>{}, x, out, n); }
void tile_log(const float* x, float* out, uint64_t n) { each(FnLn<float>{}, x, out, n); }
void tile_sqrt(const float* x, float* out, uint64_t n) { each(FnSqrt<float>{}, x, out, n); }
void tile_rsqrt(const float* x, float* out, uint64_t n) { each(FnRsqrt<float>{}, x, out, n); }
void tile_reciprocal(const float* x, float* out, uint64_t n) { each(FnReciprocal<float>{}, x, out, n); }
void tile_sum(const float* x, float* out, uint32_t rows, uint32_t columns, float* partial) {
    fold_rows<Fold::SUM, 64>(x, out, rows, columns, partial);
}
void tile_max(const float* x, float* out, uint32_t rows, uint32_t columns, float* partial) {
    fold_rows<Fold::MAX, 64>(x, out, rows, columns, partial);
}
void tile_min(const float* x, float* out, uint32_t rows, uint32_t columns, float* partial) {
    fold_rows<Fold::MIN, 64>(x, out, rows, columns, partial);
}
void tile_min_half(const float* x, float* out, uint32_t rows, uint32_t columns, float* partial) {
    fold_rows<Fold::MIN, 128>(x, out, rows, columns, partial);
}
void tile_max_half(const float* x, float* out, uint32_t rows, uint32_t columns, float* partial) {
    fold_rows<Fold::MAX, 128>(x, out, rows, columns, partial);
}
}

// c (+)= a x b for row-major matrices, block by block as Mmad computes it: 16 x 16 blocks of c, k in order.
extern "C" void tile_matmul(float* c, const float* a, const float* b, uint32_t m, uint32_t k, uint32_t n, uint32_t accumulate, float* left,
                            float* right) {
    constexpr uint32_t k0 = 16;
    const uint32_t mf = ceil_div(m, 16), kf = ceil_div(k, k0), nf = ceil_div(n, 16);
    const size_t panel = size_t{kf} * 16 * k0;
    std::memset(left, 0, mf * panel * sizeof(float));
    std::memset(right, 0, nf * panel * sizeof(float));
    for (uint32_t i = 0; i < m; ++i)
        for (uint32_t f = 0; f < kf; ++f)
            std::memcpy(left + (i / 16) * panel + (size_t{f} * 16 + i % 16) * k0, a + size_t{i} * k + f * k0,
                        (k - f * k0 < k0 ? k - f * k0 : k0) * sizeof(float));
    for (uint32_t r = 0; r < k; ++r)
        for (uint32_t j = 0; j < nf; ++j)
            std::memcpy(right + j * panel + size_t{r} * 16, b + size_t{r} * n + j * 16,
                        (n - j * 16 < 16 ? n - j * 16 : 16) * sizeof(float));
    for (uint32_t j = 0; j < nf; ++j)
        for (uint32_t i = 0; i < mf; ++i) {
            float block[256] = {};
            const uint32_t rows = m - i * 16 < 16 ? m - i * 16 : 16, columns = n - j * 16 < 16 ? n - j * 16 : 16;
            float* out = c + size_t{i} * 16 * n + j * 16;
            if (accumulate)
                for (uint32_t r = 0; r < rows; ++r) std::memcpy(block + r * 16, out + size_t{r} * n, columns * sizeof(float));
            cube_product(block, left + i * panel, right + j * panel, {1, kf, 1, k0, k, accumulate != 0});
            for (uint32_t r = 0; r < rows; ++r) std::memcpy(out + size_t{r} * n, block + r * 16, columns * sizeof(float));
        }
}
