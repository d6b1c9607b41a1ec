// Attention over a paged key/value cache on the CPU.
//
// The cache is one array [blocks][layers][keys, values][kv_heads][block * head]. Keys lie transposed inside a block,
// [head][block], so that one vector holds sixteen tokens and a score needs no sum across lanes; values lie [block][head].
// A row (one head of one token) always sees the same operations in the same order, whatever else is in the batch and
// however its prompt was cut into chunks: results are equal to the last bit.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "vectors.h"

using namespace toprope;

extern "C" {
struct CacheShape {  // strides count elements
    std::int64_t block_stride;
    std::int64_t layer_offset;  // of the keys of this layer inside a block
    std::int64_t value_offset;  // of the values behind the keys
    std::int32_t block_tokens, heads, kv_heads, head;
};
}

namespace {

constexpr float kMasked = -1e30f;
// Rows and columns of sixteen that are computed together: what the registers hold.
constexpr int kMaxRows = kRegisterLanes == 16 ? 4 : (kRegisterLanes == 8 || kRegisters == 32 ? 2 : 1),
              kColumns = kRegisterLanes == 16 ? 4 : 2;

// Turn the queries and keys of each token by its position and put keys and values into the cache.
template <class T>
void store_tokens(T* qkv, const float* cosines, const float* sines, const std::int32_t* positions, const std::int64_t* slots,
                  std::int64_t tokens, T* cache, const CacheShape& s) {
    const int half = s.head / 2;
    const std::int64_t width = static_cast<std::int64_t>(s.heads + 2 * s.kv_heads) * s.head;
    const std::int64_t head_stride = static_cast<std::int64_t>(s.block_tokens) * s.head;
#pragma omp parallel for schedule(static) if (tokens > 16)
    for (std::int64_t t = 0; t < tokens; ++t) {
        T* row = qkv + t * width;
        const float* c = cosines + static_cast<std::int64_t>(positions[t]) * half;
        const float* n = sines + static_cast<std::int64_t>(positions[t]) * half;
        for (int h = 0; h < s.heads + s.kv_heads; ++h)
            for (int i = 0; i < half; ++i) {
                T* x = row + h * s.head + i;
                const float a = to_float(x[0]), b = to_float(x[half]);
                store(x, a * c[i] - b * n[i]);
                store(x + half, b * c[i] + a * n[i]);
            }
        const std::int64_t offset = slots[t] % s.block_tokens;
        T* block = cache + (slots[t] / s.block_tokens) * s.block_stride + s.layer_offset;
        for (int h = 0; h < s.kv_heads; ++h) {
            const T* key = row + (s.heads + h) * s.head;
            const T* value = key + s.kv_heads * s.head;
            T* keys = block + h * head_stride + offset;
            T* values = block + s.value_offset + h * head_stride + offset * s.head;
            for (int i = 0; i < s.head; ++i) keys[static_cast<std::int64_t>(i) * s.block_tokens] = key[i];
            std::copy(value, value + s.head, values);
        }
    }
}

// Softmax statistics and weighted values of R rows, carried from sixteen tokens to the next sixteen.
template <int R>
struct Rows {
    float* query;  // [R][head], scaled
    float* sum;    // [R][head]
    float peak[R], weight[R];
    std::int32_t last[R];  // highest position each row may see
};

template <int R, class T>
inline void scores(const Rows<R>& rows, const T* keys, const T* next, std::int64_t stride, int head, Floats out[R]) {
    Floats even[R] = {}, odd[R] = {};
    for (int i = 0; i < head; i += 2) {
        __builtin_prefetch(next + i * stride);
        __builtin_prefetch(next + (i + 1) * stride);
        const Floats k0 = load(keys + i * stride), k1 = load(keys + (i + 1) * stride);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            even[r] += k0 * rows.query[r * head + i];
            odd[r] += k1 * rows.query[r * head + i + 1];
        }
    }
    for (int r = 0; r < R; ++r) out[r] = even[r] + odd[r];
}

template <int R, class T>
inline void add_values(const Rows<R>& rows, const T* values, const T* next, int head, const float p[R][kLanes], const float fade[R]) {
    constexpr int kLine = 64 / sizeof(T);
    for (int at = 0; at < kLanes * head; at += kLine) __builtin_prefetch(next + at);
    for (int column = 0; column < head; column += kColumns * kLanes) {
        const int columns = std::min(kColumns, (head - column) / kLanes);
        if (columns == kColumns) {
            Floats acc[R][kColumns];
            for (int r = 0; r < R; ++r)
                for (int c = 0; c < kColumns; ++c) acc[r][c] = load(rows.sum + r * head + column + c * kLanes) * fade[r];
            for (int t = 0; t < kLanes; ++t) {
                Floats v[kColumns];
                for (int c = 0; c < kColumns; ++c) v[c] = load(values + t * head + column + c * kLanes);
                for (int r = 0; r < R; ++r)
                    for (int c = 0; c < kColumns; ++c) acc[r][c] += v[c] * p[r][t];
            }
            for (int r = 0; r < R; ++r)
                for (int c = 0; c < kColumns; ++c) store(rows.sum + r * head + column + c * kLanes, acc[r][c]);
        } else {
            for (int c = 0; c < columns; ++c)
                for (int r = 0; r < R; ++r) {
                    float* at = rows.sum + r * head + column + c * kLanes;
                    Floats acc = load(at) * fade[r];
                    for (int t = 0; t < kLanes; ++t) acc += load(values + t * head + column + c * kLanes) * p[r][t];
                    store(at, acc);
                }
        }
    }
}

template <int R, class T>
void attend(Rows<R>& rows, const T* cache, const CacheShape& s, const std::int32_t* table, int kv_head) {
    const std::int32_t last = *std::max_element(rows.last, rows.last + R);
    const std::int64_t head_stride = static_cast<std::int64_t>(s.block_tokens) * s.head;
    const auto head_of = [&](int block) { return cache + table[block] * s.block_stride + s.layer_offset + kv_head * head_stride; };
    const T* next_keys = head_of(0);
    for (std::int32_t first = 0; first <= last; first += kLanes) {
        const int inside = first % s.block_tokens;
        const T* keys = next_keys;
        const T* values = keys + s.value_offset + static_cast<std::int64_t>(inside) * s.head;
        // The next sixteen tokens lie in another block, where the hardware does not foresee them.
        const std::int32_t next = first + kLanes <= last ? first + kLanes : first;
        next_keys = head_of(next / s.block_tokens);
        const int next_inside = next % s.block_tokens;
        Floats score[R];
        scores<R>(rows, keys + inside, next_keys + next_inside, s.block_tokens, s.head, score);
        float p[R][kLanes], fade[R];
        for (int r = 0; r < R; ++r) {
            const std::int32_t seen = rows.last[r] + 1 - first;
            if (seen < kLanes) score[r] = first_lanes(score[r], seen, kMasked, 0);
            const float peak = std::max(rows.peak[r], highest(score[r]));
            fade[r] = peak == rows.peak[r] ? 1.0f : exponential(rows.peak[r] - peak);
            Floats e = exponential(score[r] - peak);
            if (seen < kLanes) e = first_lanes(e, seen, 0.0f, 0);
            store(p[r], e);
            rows.weight[r] = rows.weight[r] * fade[r] + total(e);
            rows.peak[r] = peak;
        }
        add_values<R>(rows, values, next_keys + s.value_offset + static_cast<std::int64_t>(next_inside) * s.head, s.head, p, fade);
    }
}

template <int R, class T>
void attend_rows(const T* qkv, T* out, const T* cache, const CacheShape& s, const std::int32_t* table, int kv_head, std::int64_t token,
                 std::int32_t position, int first_row, float scale, float* scratch) {
    const int group = s.heads / s.kv_heads;
    const std::int64_t width = static_cast<std::int64_t>(s.heads + 2 * s.kv_heads) * s.head;
    Rows<R> rows{scratch, scratch + R * s.head, {}, {}, {}};
    for (int r = 0; r < R; ++r) {
        const int step = (first_row + r) / group, h = kv_head * group + (first_row + r) % group;
        const T* query = qkv + (token + step) * width + static_cast<std::int64_t>(h) * s.head;
        for (int i = 0; i < s.head; ++i) rows.query[r * s.head + i] = to_float(query[i]) * scale;
        std::fill_n(rows.sum + r * s.head, s.head, 0.0f);
        rows.peak[r] = kMasked;
        rows.weight[r] = 0.0f;
        rows.last[r] = position + step;
    }
    attend<R>(rows, cache, s, table, kv_head);
    for (int r = 0; r < R; ++r) {
        const int step = (first_row + r) / group, h = kv_head * group + (first_row + r) % group;
        T* to = out + ((token + step) * s.heads + h) * s.head;
        const float inverse = 1.0f / rows.weight[r];
        for (int i = 0; i < s.head; ++i) store(to + i, rows.sum[r * s.head + i] * inverse);
    }
}

// A piece is a run of tokens of one request: {first token in the batch, tokens, position, start of its block table}.
template <class T>
void attention(const T* qkv, T* out, const T* cache, const CacheShape& s, const std::int32_t* tables, const std::int32_t (*pieces)[4],
               std::int64_t count, float scale) {
    const int group = s.heads / s.kv_heads;
#pragma omp parallel
    {
        std::vector<float> scratch(2 * kMaxRows * s.head);
#pragma omp for schedule(dynamic, 1)
        for (std::int64_t item = 0; item < count * s.kv_heads; ++item) {
            const std::int32_t* piece = pieces[item / s.kv_heads];
            const int kv_head = static_cast<int>(item % s.kv_heads), rows = piece[1] * group;
            const auto run = [&](auto attend_some, int first_row) {
                attend_some(qkv, out, cache, s, tables + piece[3], kv_head, piece[0], piece[2], first_row, scale, scratch.data());
            };
            int row = 0;
            for (; row + kMaxRows <= rows; row += kMaxRows) run(attend_rows<kMaxRows, T>, row);
            if constexpr (kMaxRows > 3)
                if (rows - row == 3) run(attend_rows<3, T>, row);
            if constexpr (kMaxRows > 2)
                if (rows - row == 2) run(attend_rows<2, T>, row);
            if (rows - row == 1) run(attend_rows<1, T>, row);
        }
    }
}

}  // namespace

extern "C" {
void store_tokens_f32(float* qkv, const float* cosines, const float* sines, const std::int32_t* positions, const std::int64_t* slots,
                      std::int64_t tokens, float* cache, const CacheShape* shape) {
    store_tokens(qkv, cosines, sines, positions, slots, tokens, cache, *shape);
}
void store_tokens_bf16(Bf16* qkv, const float* cosines, const float* sines, const std::int32_t* positions, const std::int64_t* slots,
                       std::int64_t tokens, Bf16* cache, const CacheShape* shape) {
    store_tokens(qkv, cosines, sines, positions, slots, tokens, cache, *shape);
}
void attention_f32(const float* qkv, float* out, const float* cache, const CacheShape* shape, const std::int32_t* tables,
                   const std::int32_t (*pieces)[4], std::int64_t count, float scale) {
    attention(qkv, out, cache, *shape, tables, pieces, count, scale);
}
void attention_bf16(const Bf16* qkv, Bf16* out, const Bf16* cache, const CacheShape* shape, const std::int32_t* tables,
                    const std::int32_t (*pieces)[4], std::int64_t count, float scale) {
    attention(qkv, out, cache, *shape, tables, pieces, count, scale);
}
}
