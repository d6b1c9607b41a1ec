// The search behind the tiling of products: every cut of one core's product into base blocks is priced with the rates of the cube, the
// L1 and L0 ports and the memory, and the cheapest that fits the buffers wins. Plain C++.
#pragma once

#include <cstdint>

namespace matmul_tiling {

enum class TPosition : int32_t { GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM, TSCM, MAX };
enum class CubeFormat : int32_t { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR };
enum class DataType : int32_t {
    DT_FLOAT = 0,
    DT_FLOAT16 = 1,
    DT_INT8 = 2,
    DT_INT32 = 3,
    DT_UINT8 = 4,
    DT_INT16 = 6,
    DT_UINT16 = 7,
    DT_UINT32 = 8,
    DT_INT64 = 9,
    DT_UINT64 = 10,
    DT_DOUBLE = 11,
    DT_BOOL = 12,
    DT_BF16 = 27,
    DT_BFLOAT16 = 27,
    DT_INT4 = 29,
    DT_UNDEFINED = 28
};
enum class MatrixTraverse : int32_t { NOSET = 0, FIRSTM = 1, FIRSTN = 2 };
enum class MatrixMadType : int32_t { NORMAL = 0, HF32 = 1 };
enum class DequantType : int32_t { SCALAR = 0, TENSOR = 1 };
enum class ScheduleType : int32_t { INNER_PRODUCT = 0, OUTER_PRODUCT = 1, N_BUFFER_33 = 2 };

struct MatmulConfigParams {
    int32_t mmConfigType;
    bool enableL1CacheUB;
    ScheduleType scheduleType;
    MatrixTraverse traverse;
    bool enVecND2NZ;
    MatmulConfigParams(int32_t type = 1, bool l1_cache_ub = false, ScheduleType schedule = ScheduleType::INNER_PRODUCT,
                       MatrixTraverse order = MatrixTraverse::NOSET, bool vector_nd2nz = false)
        : mmConfigType(type), enableL1CacheUB(l1_cache_ub), scheduleType(schedule), traverse(order), enVecND2NZ(vector_nd2nz) {}
};

struct PlatformInfo {
    int32_t socVersion = 0;
    uint64_t l1Size = 0, l0CSize = 0, ubSize = 0, l0ASize = 0, l0BSize = 0;
};

struct MatrixInfo {
    TPosition position = TPosition::GM;
    CubeFormat format = CubeFormat::ND;
    DataType type = DataType::DT_FLOAT16;
    bool transposed = false;
};

constexpr int64_t bits_of(DataType t) {
    switch (t) {
        case DataType::DT_INT4:
            return 4;
        case DataType::DT_INT8:
        case DataType::DT_UINT8:
        case DataType::DT_BOOL:
            return 8;
        case DataType::DT_FLOAT16:
        case DataType::DT_BF16:
        case DataType::DT_INT16:
        case DataType::DT_UINT16:
            return 16;
        case DataType::DT_INT64:
        case DataType::DT_UINT64:
        case DataType::DT_DOUBLE:
            return 64;
        default:
            return 32;
    }
}
constexpr int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }
constexpr int64_t pieces(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Memories of one core, in bytes; Atlas A2 unless a platform says otherwise.
struct Buffers {
    int64_t l1 = 512 * 1024, l0a = 64 * 1024, l0b = 64 * 1024, l0c = 128 * 1024, ub = 192 * 1024, bias = 1024;
    int64_t cores = 24;
};

// What the search may choose, -1 where it is free.
struct Limits {
    int64_t fix_m = -1, fix_n = -1, fix_k = -1;
    int64_t most_m = -1, most_n = -1, most_k = -1, least_m = -1, least_n = -1, least_k = -1;
};

// The cut of one core's product.
struct Cut {
    int64_t base_m = 0, base_n = 0, base_k = 0, step_ka = 1, step_kb = 1, depth_a = 2, depth_b = 2, db_a = 2, db_b = 2, db_c = 1;
    double cycles = 1e30;
    bool valid() const { return base_m > 0; }
};

class Search {
public:
    Search(const Buffers& buffers, const MatrixInfo& a, const MatrixInfo& b, bool bias, bool factors, const Limits& limits)
        : buffers_(buffers), a_(a), b_(b), bias_(bias), factors_(factors), limits_(limits), bits_(bits_of(a.type)), k0_(256 / bits_) {}

    // K of a base block is a multiple of this: one fractal, and 16 rows where K is the slow axis in L1.
    int64_t k_unit() const { return larger(16, k0_); }
    // 8- and 4-bit operands that are turned in squares want whole squares of M or N too.
    int64_t m_unit() const { return bits_ <= 8 && a_.transposed ? k0_ : 16; }
    int64_t n_unit() const { return bits_ <= 8 && !b_.transposed ? k0_ : 16; }

    // Elements of a line of GM; what is split along the rows of a stored matrix is best split at lines.
    int64_t line() const { return larger(k_unit(), kLineBytes * 8 / bits_); }
    int64_t m_split(int64_t m, int64_t parts) const { return a_.transposed && m >= parts * line() ? larger(line(), m_unit()) : m_unit(); }
    int64_t n_split(int64_t n, int64_t parts) const { return !b_.transposed && n >= parts * line() ? larger(line(), n_unit()) : n_unit(); }

    Cut best(int64_t m, int64_t n, int64_t k) const {
        Cut best;
        const int64_t m_end = round_up(m, m_unit()), n_end = round_up(n, n_unit());
        for (int64_t bm = first(limits_.fix_m, limits_.least_m, m_unit()); bm <= last(limits_.fix_m, limits_.most_m, m_end);
             bm = next(bm, m_unit(), limits_.fix_m))
            for (int64_t bn = first(limits_.fix_n, limits_.least_n, n_unit()); bn <= last(limits_.fix_n, limits_.most_n, n_end);
                 bn = next(bn, n_unit(), limits_.fix_n)) {
                const Cut cut = fill(m, n, k, bm, bn);
                if (cut.valid() && cut.cycles < best.cycles) best = cut;
            }
        return best;
    }

private:
    static constexpr int64_t kLineBytes = 128;

    static int64_t first(int64_t fixed, int64_t least, int64_t unit) {
        return fixed > 0 ? fixed : (least > 0 ? round_up(least, unit) : unit);
    }
    static int64_t last(int64_t fixed, int64_t most, int64_t end) {
        if (fixed > 0) return fixed;
        const int64_t limit = smaller(end, 512);
        return most > 0 ? smaller(most, limit) : limit;
    }
    // All multiples of the unit up to 256, then wider steps.
    static int64_t next(int64_t at, int64_t unit, int64_t fixed) {
        if (fixed > 0) return at + fixed;
        return at + (at < 256 ? unit : 64);
    }
    int64_t bytes(int64_t elements) const { return elements * bits_ / 8; }

    Cut fill(int64_t m, int64_t n, int64_t k, int64_t bm, int64_t bn) const {
        Cut c;
        const bool many = pieces(m, bm) * pieces(n, bn) > 1;
        if (bm * bn * 4 > buffers_.l0c || (bias_ && bn * 4 > buffers_.bias)) return c;
        c.db_c = many && bm * bn * 8 <= buffers_.l0c ? 2 : 1;
        // As much of K as both halves of L0A and L0B take.
        int64_t bk = limits_.fix_k > 0 ? limits_.fix_k : round_up(k, k_unit());
        const int64_t most_a = buffers_.l0a / 2 * 8 / bits_ / bm, most_b = buffers_.l0b / 2 * 8 / bits_ / bn;
        if (limits_.fix_k <= 0) {
            if (limits_.most_k > 0) bk = smaller(bk, limits_.most_k);
            bk = smaller(bk, smaller(most_a, most_b)) / k_unit() * k_unit();
            if (bk < k_unit()) {  // too wide for two halves: one buffer of the whole memory
                bk = smaller(buffers_.l0a * 8 / bits_ / bm, buffers_.l0b * 8 / bits_ / bn) / k_unit() * k_unit();
                if (bk < k_unit()) return c;
            }
            // Even steps: 640 of K in two of 320 rather than 512 and 128; whole lines of GM where rows run along K.
            if (bk < k) {
                const int64_t whole = bk / line() * line();
                bk = whole > 0 ? whole : bk;
                bk = smaller(bk, round_up(pieces(k, pieces(k, bk)), whole > 0 ? line() : k_unit()));
            }
        }
        c.db_a = bk <= most_a ? 2 : 1;
        c.db_b = bk <= most_b ? 2 : 1;
        if (bytes(bm * bk) * c.db_a > buffers_.l0a || bytes(bn * bk) * c.db_b > buffers_.l0b) return c;
        if (!fill_l1(c, k, bm, bn, bk)) return c;
        c.base_m = bm;
        c.base_n = bn;
        c.base_k = bk;
        c.cycles = price(c, m, n, k);
        return c;
    }
    // L1: two buffers each; the operand with the smaller buffer grows along K while both fit.
    bool fill_l1(Cut& c, int64_t k, int64_t bm, int64_t bn, int64_t bk) const {
        const int64_t steps = pieces(k, bk), a = a_.position == TPosition::TSCM ? 0 : bytes(round_up(bm, m_unit()) * bk),
                      b = b_.position == TPosition::TSCM ? 0 : bytes(round_up(bn, n_unit()) * bk),
                      room = buffers_.l1 - (bias_ ? round_up(bn, 32) * 4 : 0) - (factors_ ? bn * 8 : 0);
        if (2 * (a + b) > room) {
            if (a + b > room) return false;
            c.depth_a = c.depth_b = 1;
            return true;
        }
        for (bool grown = true; grown;) {
            grown = false;
            const bool a_first = a * c.step_ka <= b * c.step_kb;
            for (int turn = 0; turn < 2 && !grown; ++turn) {
                int64_t& step = (turn == 0) == a_first ? c.step_ka : c.step_kb;
                if (step >= steps) continue;
                step *= 2;
                grown = 2 * (a * c.step_ka + b * c.step_kb) <= room && smaller(c.step_ka, c.step_kb) * 4 >= larger(c.step_ka, c.step_kb);
                if (!grown) step /= 2;
            }
        }
        c.step_ka = smaller(c.step_ka, steps);
        c.step_kb = smaller(c.step_kb, steps);
        // MDL: one side's loads a whole multiple of the other's.
        const int64_t loads_a = pieces(steps, c.step_ka), loads_b = pieces(steps, c.step_kb);
        if (larger(loads_a, loads_b) % smaller(loads_a, loads_b) != 0) c.step_ka = c.step_kb = smaller(c.step_ka, c.step_kb);
        c.depth_a = 2 * c.step_ka;
        c.depth_b = 2 * c.step_kb;
        return true;
    }
    // Cycles of one core: the slowest of cube, L1 ports and memory, plus what does not overlap. Rates: instruction table of dav-2201
    // (16 x k0 x 16 a cycle, L1 to L0A 256 and to L0B 128 bytes a cycle), 21 cycles an Mmad and copy, 64 bytes a cycle of GM for each core.
    double price(const Cut& c, int64_t m, int64_t n, int64_t k) const {
        const int64_t blocks_m = pieces(m, c.base_m), blocks_n = pieces(n, c.base_n), steps = pieces(k, c.base_k);
        const double cube_rate = bits_ == 32 ? 2.0 : 1.0;
        const double mmads = static_cast<double>(blocks_m * blocks_n * steps);
        const double cube = static_cast<double>(pieces(m, 16) * pieces(n, 16) * pieces(k, k0_)) * cube_rate +
                            mmads * (c.db_a == 2 && c.db_b == 2 ? 9.0 : 70.0);
        const double l0 = static_cast<double>(bytes(m * k)) * static_cast<double>(blocks_n) / 256.0 +
                          static_cast<double>(bytes(k * n)) * static_cast<double>(blocks_m) / 128.0 + mmads * 28.0 * 2.0;
        // A column of blocks keeps its B if all of K is in L1.
        const double a_reads = static_cast<double>(blocks_n), b_reads = c.step_kb >= steps ? 1.0 : static_cast<double>(blocks_m);
        const double loads = static_cast<double>(blocks_m * blocks_n) *
                             (static_cast<double>(pieces(steps, c.step_ka)) + static_cast<double>(pieces(steps, c.step_kb)));
        // Short rows waste parts of lines, and so do rows that end inside one.
        const auto rows = [this](int64_t elements) {
            return (1.0 + 64.0 / static_cast<double>(bytes(elements))) * (bytes(elements) % kLineBytes != 0 ? 1.3 : 1.0);
        };
        const double memory = (static_cast<double>(bytes(m * k)) * a_reads * rows(a_.transposed ? c.base_m : c.base_k) +
                               static_cast<double>(bytes(k * n)) * b_reads * rows(b_.transposed ? c.base_k : c.base_n)) /
                                  64.0 +
                              loads * 21.0;
        const double out = static_cast<double>(m * n) * 4.0 / 134.0,
                     exposed = c.db_c == 2 ? out / static_cast<double>(blocks_m * blocks_n) : out;
        const double slowest = cube > l0 ? (cube > memory ? cube : memory) : (l0 > memory ? l0 : memory);
        const double first_load = static_cast<double>(bytes((c.base_m * c.step_ka + c.base_n * c.step_kb) * c.base_k)) / 64.0 + 770.0;
        return slowest + exposed + first_load + (c.depth_a == 1 ? memory : 0.0);
    }

    const Buffers& buffers_;
    MatrixInfo a_, b_;
    bool bias_, factors_;
    Limits limits_;
    int64_t bits_, k0_;
};

}  // namespace matmul_tiling
