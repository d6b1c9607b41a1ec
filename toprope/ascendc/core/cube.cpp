// The cube's arithmetic: the product of fractals, and the transposes around it. Part of runtime.cpp.

#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#endif

namespace {

typedef float V16f __attribute__((vector_size(64)));
typedef uint32_t V16u __attribute__((vector_size(64)));
typedef uint16_t V16h __attribute__((vector_size(32)));

// Rows of a block of C times columns of blocks: the sums stay in registers, so every loop over them is unrolled. `b` and `c` of the next
// column lie a panel and a column of blocks further. Each sum is c + a0*b0 + a1*b1 + ... in this order, whatever the shape of the tile.
template <uint32_t k0, uint32_t rows, uint32_t columns, typename V, typename T>
inline void product_tile(T* c, size_t c_step, const T* a, const T* b, size_t b_step, uint32_t k, bool accumulate) {
    V sum[rows][columns];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; ++r)
#pragma GCC unroll 2
        for (uint32_t j = 0; j < columns; ++j) {
            sum[r][j] = V{};
            if (accumulate) std::memcpy(&sum[r][j], c + j * c_step + r * 16, sizeof(V));
        }
    for (uint32_t begin = 0; begin < k; begin += k0, a += 16 * k0) {
        const uint32_t end = k - begin < k0 ? k - begin : k0;
        for (uint32_t i = 0; i < end; ++i, b += 16) {
            V row[columns];
#pragma GCC unroll 2
            for (uint32_t j = 0; j < columns; ++j) std::memcpy(&row[j], b + j * b_step, sizeof(V));
#pragma GCC unroll 16
            for (uint32_t r = 0; r < rows; ++r)
#pragma GCC unroll 2
                for (uint32_t j = 0; j < columns; ++j) sum[r][j] += a[r * k0 + i] * row[j];
        }
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; ++r)
#pragma GCC unroll 2
        for (uint32_t j = 0; j < columns; ++j) std::memcpy(c + j * c_step + r * 16, &sum[r][j], sizeof(V));
}

// The fractal's width as a constant turns every address into a displacement. Two columns of blocks at a time need half the loads of A.
template <uint32_t k0, typename V, typename T>
void product(T* c, const T* a, const T* b, const CubeProduct& p) {
    const size_t panel = size_t{p.kf} * 16 * k0, column = size_t{p.mf} * 256;
    uint32_t j = 0;
    for (; j + 2 <= p.nf; j += 2)
        for (uint32_t i = 0; i < p.mf; ++i)
            for (uint32_t half = 0; half < 16; half += 8)
                product_tile<k0, 8, 2, V>(c + j * column + i * 256 + half * 16, column, a + i * panel + half * k0, b + j * panel, panel,
                                          p.k, p.accumulate);
    for (; j < p.nf; ++j)
        for (uint32_t i = 0; i < p.mf; ++i)
            product_tile<k0, 16, 1, V>(c + j * column + i * 256, column, a + i * panel, b + j * panel, panel, p.k, p.accumulate);
}

template <typename V, typename T>
void product(T* c, const T* a, const T* b, const CubeProduct& p) {
    switch (p.k0) {
        case 8:
            return product<8, V>(c, a, b, p);
        case 16:
            return product<16, V>(c, a, b, p);
        case 32:
            return product<32, V>(c, a, b, p);
        default:
            return product<64, V>(c, a, b, p);
    }
}

}  // namespace

void cube_product(float* c, const float* a, const float* b, const CubeProduct& p) { product<V16f>(c, a, b, p); }
void cube_product(int32_t* c, const int32_t* a, const int32_t* b, const CubeProduct& p) {
    // Unsigned: an overflowing sum wraps, as the accumulator does.
    product<V16u>(reinterpret_cast<uint32_t*>(c), reinterpret_cast<const uint32_t*>(a), reinterpret_cast<const uint32_t*>(b), p);
}

#if !defined(__clang__)
#pragma GCC pop_options
#endif

// Interleaving the upper half with the lower half of eight rows, three times, is a transposition of a quarter.
static inline void transpose_8x8(uint16_t* out, const uint16_t* in) {
    typedef uint16_t V8h __attribute__((vector_size(16)));
    V8h row[8], next[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) std::memcpy(&row[i], in + i * 16, sizeof(V8h));
#pragma GCC unroll 3
    for (int stage = 0; stage < 3; ++stage) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            next[2 * i] = __builtin_shufflevector(row[i], row[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            next[2 * i + 1] = __builtin_shufflevector(row[i], row[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) row[i] = next[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) std::memcpy(out + i * 16, &row[i], sizeof(V8h));
}
void transpose_16x16(uint16_t* out, const uint16_t* in) {
    for (int r = 0; r < 16; r += 8)
        for (int c = 0; c < 16; c += 8) transpose_8x8(out + c * 16 + r, in + r * 16 + c);
}

float* cube_scratch(int operand, size_t elements) {
    static float* memory[3] = {nullptr, nullptr, nullptr};
    static size_t size[3] = {0, 0, 0};
    if (elements > size[operand]) {
        std::free(memory[operand]);
        memory[operand] = static_cast<float*>(std::aligned_alloc(64, (elements * sizeof(float) + 63) / 64 * 64));
        size[operand] = elements;
    }
    return memory[operand];
}
