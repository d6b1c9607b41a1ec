// The cube's arithmetic: the product of fractals, and the transposes around it. Part of runtime.cpp.

namespace {

// A row of a fractal is 16 accumulators: `kParts` registers. A tile is `rows` rows times `parts` registers of C, whose sums stay in
// registers, so every loop over them is unrolled; the registers of a tile lie side by side in one row, or in two columns of blocks where
// one register holds a row. Each sum is c + a0*b0 + a1*b1 + ... in this order, each step rounded once, whatever the shape of the tile.
constexpr uint32_t kParts = 64 / kRegisterBytes;

// Where the processor has no fused multiply-add, products that are exact in float need none.
struct Fused {
    template <typename V>
    static V step(V a, V b, V c) {
        return fused(a, b, c);
    }
};
struct Exact {
    template <typename V>
    static V step(V a, V b, V c) {
        return c + a * b;
    }
};

template <typename Step, uint32_t k0, uint32_t rows, uint32_t parts, typename V, typename T>
TOPROPE_INLINE void product_tile(T* c, size_t c_step, const T* a, const T* b, size_t b_step, uint32_t k, bool accumulate) {
    V sum[rows][parts];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (uint32_t j = 0; j < parts; ++j) {
            sum[r][j] = V{};
            if (accumulate) sum[r][j] = load_vector<V>(c + j * c_step + r * 16);
        }
    for (uint32_t begin = 0; begin < k; begin += k0, a += 16 * k0) {
        const uint32_t end = k - begin < k0 ? k - begin : k0;
        for (uint32_t i = 0; i < end; ++i, b += 16) {
            V row[parts];
#pragma GCC unroll 4
            for (uint32_t j = 0; j < parts; ++j) row[j] = load_vector<V>(b + j * b_step);
#pragma GCC unroll 16
            for (uint32_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
                for (uint32_t j = 0; j < parts; ++j) sum[r][j] = Step::step(a[r * k0 + i] - V{}, row[j], sum[r][j]);
        }
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (uint32_t j = 0; j < parts; ++j) store_vector(c + j * c_step + r * 16, sum[r][j]);
}

// The fractal's width as a constant turns every address into a displacement.
template <typename Step, uint32_t k0, typename V, typename T>
void product(T* c, const T* a, const T* b, const CubeProduct& p) {
    const size_t panel = size_t{p.kf} * 16 * k0, column = size_t{p.mf} * 256;
    uint32_t j = 0;
    if constexpr (kParts == 1)
        for (; j + 2 <= p.nf; j += 2)  // two columns of blocks at a time need half the loads of A
            for (uint32_t i = 0; i < p.mf; ++i)
                for (uint32_t half = 0; half < 16; half += 8)
                    product_tile<Step, k0, 8, 2, V>(c + j * column + i * 256 + half * 16, column, a + i * panel + half * k0, b + j * panel,
                                                    panel, p.k, p.accumulate);
    for (; j < p.nf; ++j)
        for (uint32_t i = 0; i < p.mf; ++i) {
            T* const to = c + j * column + i * 256;
            const T *const left = a + i * panel, *const right = b + j * panel;
            if constexpr (kParts == 1) {
                product_tile<Step, k0, 16, 1, V>(to, 0, left, right, 0, p.k, p.accumulate);
            } else {  // 16 rows as 6 + 5 + 5: all but four of the registers, or of half of them, hold sums
                constexpr uint32_t parts = kParts == 4 && kRegisters == 32 ? 4 : 2, width = parts * kRegisterFloats;
                for (uint32_t at = 0; at < 16; at += width) {
                    const auto tile = [&](auto rows, uint32_t r) {
                        product_tile<Step, k0, decltype(rows)::value, parts, V>(to + r * 16 + at, kRegisterFloats, left + r * k0,
                                                                                right + at, kRegisterFloats, p.k, p.accumulate);
                    };
                    tile(std::integral_constant<uint32_t, 6>{}, 0);
                    tile(std::integral_constant<uint32_t, 5>{}, 6);
                    tile(std::integral_constant<uint32_t, 5>{}, 11);
                }
            }
        }
}

template <typename Step, typename V, typename T>
void product(T* c, const T* a, const T* b, const CubeProduct& p) {
    switch (p.k0) {
        case 8:
            return product<Step, 8, V>(c, a, b, p);
        case 16:
            return product<Step, 16, V>(c, a, b, p);
        case 32:
            return product<Step, 32, V>(c, a, b, p);
        default:
            return product<Step, 64, V>(c, a, b, p);
    }
}

// Whether every product of two such numbers is exact in float: twelve bits each, and far from overflow and underflow.
bool short_floats(const float* x, size_t count) {
    bool all = true;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t bits = float_bits(x[i]), exponent = bits >> 23 & 0xff;
        all &= (bits & 0xfff) == 0 && ((bits << 1) == 0 || (exponent > 127 - 60 && exponent < 127 + 60));
    }
    return all;
}

}  // namespace

void cube_product(float* c, const float* a, const float* b, const CubeProduct& p) {
    if (!kFusedMultiplyAdd && short_floats(a, size_t{p.mf} * p.kf * 16 * p.k0) && short_floats(b, size_t{p.nf} * p.kf * 16 * p.k0))
        return product<Exact, RegisterFloats>(c, a, b, p);
    product<Fused, RegisterFloats>(c, a, b, p);
}
void cube_product(int32_t* c, const int32_t* a, const int32_t* b, const CubeProduct& p) {
    // Unsigned: an overflowing sum wraps, as the accumulator does.
    product<Fused, RegisterWords>(reinterpret_cast<uint32_t*>(c), reinterpret_cast<const uint32_t*>(a),
                                  reinterpret_cast<const uint32_t*>(b), p);
}

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
            next[2 * i] = TOPROPE_SHUFFLE(V8h, row[i], row[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            next[2 * i + 1] = TOPROPE_SHUFFLE(V8h, row[i], row[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
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
