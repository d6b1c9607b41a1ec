// What level A computes with: the arithmetic of the vector unit, from the same headers that emitted kernels include, so that both give
// the same bits. The order of a row reduction is written down here and, for the device, in emit_text.py (RowReduce).
#include "kernel_operator.h"

namespace {
using namespace toprope;

// a[i] = a[i] with b[i], eight at a time.
template <Fold fold>
void fold_into(float* a, const float* b, uint32_t n) {
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        Floats8 x, y;
        std::memcpy(&x, a + i, sizeof x);
        std::memcpy(&y, b + i, sizeof y);
        if constexpr (fold == Fold::SUM)
            x += y;
        else
            x = extreme_eights<fold>(x, y);
        std::memcpy(a + i, &x, sizeof x);
    }
    for (; i < n; ++i) a[i] = fold_two<fold>(a[i], b[i]);
}

// One row. Up to 48 floats or 128 halves: its blocks of 32 bytes one after the other, then pairs within the block. Longer:
// at most eight stripes one after the other, then halves against halves down to 64 floats (one block of halves), then pairs.
template <Fold fold, uint32_t lanes>
float fold_row(const float* row, uint32_t columns, float* held) {
    constexpr uint32_t block = lanes / 8, last = lanes == 64 ? 64 : block;
    const bool is_short = columns <= (lanes == 64 ? 48 : lanes);
    uint32_t stripe = is_short ? block : lanes;
    while (!is_short && ceil_div(columns, stripe) > 8) stripe *= 2;
    const uint32_t first = columns < stripe ? columns : stripe;
    std::memcpy(held, row, first * sizeof(float));
    for (uint32_t i = first; i < stripe; ++i) held[i] = fold_identity<fold>();
    for (uint32_t at = stripe; at < columns; at += stripe) {
        const uint32_t n = columns - at < stripe ? columns - at : stripe;
        fold_into<fold>(held, row + at, n);
        for (uint32_t i = n; is_short && i < stripe; ++i) held[i] = fold_two<fold>(held[i], fold_identity<fold>());
    }
    uint32_t left = stripe;
    for (; !is_short && left > last; left /= 2) fold_into<fold>(held, held + left / 2, left / 2);
    fold_levels<float, fold>(held, left, static_cast<uint32_t>(__builtin_ctz(left)));
    return held[0];
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
