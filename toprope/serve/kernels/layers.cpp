// The parts of a layer besides attention, written so that a row of the result depends on that row of the input only:
// each output element is computed by the same operations in the same order whatever the number of rows and threads.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "vectors.h"

using namespace toprope;

namespace {

// total(x*x) in a fixed order; `width` is a multiple of sixteen.
template <class T>
float squares(const T* x, std::int64_t width) {
    Floats sum = {};
    for (std::int64_t i = 0; i < width; i += kLanes) {
        const Floats v = load(x + i);
        sum += v * v;
    }
    return total(sum);
}

// residual += x (when there is a residual), out = residual / rms(residual) * weight.
template <class T>
void rms_norm(const T* x, T* residual, const T* weight, T* out, std::int64_t rows, std::int64_t width, float epsilon) {
#pragma omp parallel for schedule(static) if (rows > 16)
    for (std::int64_t r = 0; r < rows; ++r) {
        const T* from = x + r * width;
        if (residual) {
            T* sum = residual + r * width;
            for (std::int64_t i = 0; i < width; i += kLanes) store(sum + i, load(sum + i) + load(from + i));
            from = sum;
        }
        const float scale = 1.0f / __builtin_sqrtf(squares(from, width) / static_cast<float>(width) + epsilon);
        for (std::int64_t i = 0; i < width; i += kLanes) store(out + r * width + i, load(from + i) * scale * load(weight + i));
    }
}

// out = silu(gate) * up, where a row of `x` is the gate values followed by the up values.
template <class T>
void gated(const T* x, T* out, std::int64_t rows, std::int64_t width) {
#pragma omp parallel for schedule(static) if (rows > 4)
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t i = 0; i < width; i += kLanes) {
            const Floats gate = load(x + 2 * r * width + i), up = load(x + (2 * r + 1) * width + i);
            store(out + r * width + i, gate / (exponential(-gate) + 1.0f) * up);
        }
}

constexpr int kPanel = 32;  // outputs whose weights lie together

// Rows and registers of a row that are computed together: their sums fill the registers but for the few that operands need. With few
// rows, more of a row: enough sums that do not wait for each other.
constexpr int kTile = kRegisters == 32 && kRegisterLanes == 16 ? 12 : 6;
constexpr int parts_of(int rows) {
    const int most = kPanel / kRegisterLanes, fit = (kRegisters - 4) / (rows < 3 ? rows + 1 : rows);
    return fit >= most ? most : (fit >= 4 ? 4 : 2);
}

template <int R, class T, class Out>
void multiply_tile(const float* x, const T* panel, const T* next, const T* bias, Out* out, std::int64_t inner, std::int64_t outer,
                   std::int64_t columns) {
    constexpr int kParts = parts_of(R), kWidth = kParts * kRegisterLanes;
    for (int at = 0; at < kPanel && at < columns; at += kWidth) {
        Register sum[R][kParts] = {};
        for (std::int64_t k = 0; k < inner; ++k) {
            Register weight[kParts];
#pragma GCC unroll 8
            for (int p = 0; p < kParts; ++p) weight[p] = load_part(panel + k * kPanel + at + p * kRegisterLanes);
            __builtin_prefetch(next + k * kPanel + at, 0, 2);
            __builtin_prefetch(next + k * kPanel + at + kWidth - 1, 0, 2);
#pragma GCC unroll 12
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
                for (int p = 0; p < kParts; ++p) sum[r][p] += weight[p] * x[r * inner + k];
        }
#pragma GCC unroll 12
        for (int r = 0; r < R; ++r) {
            float row[kWidth];
#pragma GCC unroll 8
            for (int p = 0; p < kParts; ++p) store(row + p * kRegisterLanes, sum[r][p]);
            for (std::int64_t c = at; c < at + kWidth && c < columns; ++c)
                store(out + r * outer + c, bias ? row[c - at] + to_float(bias[c]) : row[c - at]);
        }
    }
}

template <class T, class Out>
using Tile = void (*)(const float*, const T*, const T*, const T*, Out*, std::int64_t, std::int64_t, std::int64_t);
template <class T, class Out, int... rows>
constexpr Tile<T, Out> tile_of(std::int64_t count, std::integer_sequence<int, rows...>) {
    constexpr Tile<T, Out> tiles[] = {multiply_tile<rows + 1, T, Out>...};
    return tiles[count - 1];
}

// out[rows][outer] = x[rows][inner] * weight^T + bias. The weight is packed in panels [outer / 32][inner][32].
template <class T, class Out>
void linear(const float* x, const T* panels, const T* bias, Out* out, std::int64_t rows, std::int64_t inner, std::int64_t outer) {
    const std::int64_t count = (outer + kPanel - 1) / kPanel;
#pragma omp parallel for schedule(dynamic, 4)
    for (std::int64_t p = 0; p < count; ++p) {
        const std::int64_t first = p * kPanel, columns = std::min<std::int64_t>(kPanel, outer - first);
        const T* panel = panels + p * inner * kPanel;
        const T* next = p + 1 < count ? panel + inner * kPanel : panel;  // fetched while the last rows are computed
        for (std::int64_t r = 0; r < rows; r += kTile)
            tile_of<T, Out>(std::min<std::int64_t>(kTile, rows - r), std::make_integer_sequence<int, kTile>())(
                x + r * inner, panel, r + kTile < rows ? panel : next, bias ? bias + first : nullptr, out + r * outer + first, inner, outer,
                columns);
    }
}

// Widened once, since each value is used for all outputs. The buffer stays with the thread for the next call.
const float* as_floats(const float* x, std::int64_t) { return x; }
const float* as_floats(const Bf16* x, std::int64_t count) {
    static thread_local std::vector<float> wide;
    if (static_cast<std::int64_t>(wide.size()) < count) wide.resize(count);
    for (std::int64_t i = 0; i < count; ++i) wide[i] = to_float(x[i]);
    return wide.data();
}

}  // namespace

#define TOPROPE_EXPORT(suffix, T)                                                                                                         \
    void rms_norm_##suffix(const T* x, T* residual, const T* weight, T* out, std::int64_t rows, std::int64_t width, float epsilon) {      \
        rms_norm(x, residual, weight, out, rows, width, epsilon);                                                                         \
    }                                                                                                                                     \
    void gated_##suffix(const T* x, T* out, std::int64_t rows, std::int64_t width) { gated(x, out, rows, width); }                        \
    void linear_##suffix(const T* x, const T* panels, const T* bias, T* out, std::int64_t rows, std::int64_t inner, std::int64_t outer) { \
        linear(as_floats(x, rows * inner), panels, bias, out, rows, inner, outer);                                                        \
    }                                                                                                                                     \
    void logits_##suffix(const T* x, const T* panels, float* out, std::int64_t rows, std::int64_t inner, std::int64_t outer) {            \
        linear<T, float>(as_floats(x, rows * inner), panels, nullptr, out, rows, inner, outer);                                           \
    }

extern "C" {
TOPROPE_EXPORT(f32, float)
TOPROPE_EXPORT(bf16, Bf16)
}
