// Host side of the Matmul object: how C = A x B is split over cores and cut into base blocks. Plain C++, no device code.
// Interface: the pages Matmul-Tiling类/*.md. The choice itself (search below) is ours: every cut is priced with the rates of the cube,
// the L1 and L0 ports and the memory, and the cheapest that fits the buffers wins.
#pragma once

#include <cstdint>
#include <type_traits>

#include "../../kernel_tiling/kernel_tiling.h"

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
            // Even steps: 640 of K in two of 320 rather than 512 and 128.
            if (bk < k) bk = smaller(bk, round_up(pieces(k, pieces(k, bk)), k_unit()));
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
        const double memory =
            (static_cast<double>(bytes(m * k)) * a_reads + static_cast<double>(bytes(k * n)) * b_reads) / 64.0 + loads * 21.0;
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

class MatmulApiTilingBase {
public:
    MatmulApiTilingBase() = default;
    explicit MatmulApiTilingBase(const PlatformInfo& p) {
        buffers_.l1 = static_cast<int64_t>(p.l1Size);
        buffers_.l0c = static_cast<int64_t>(p.l0CSize);
        buffers_.ub = static_cast<int64_t>(p.ubSize);
        buffers_.l0a = static_cast<int64_t>(p.l0ASize);
        buffers_.l0b = static_cast<int64_t>(p.l0BSize);
    }
    // platform_ascendc::PlatformAscendC, by its functions.
    template <class Platform, typename = decltype(&Platform::GetCoreMemSize)>
    explicit MatmulApiTilingBase(const Platform& p) {
        ask(p, &Platform::GetCoreMemSize);
        buffers_.cores = static_cast<int64_t>(p.GetCoreNumAic());
    }

    int32_t SetAType(TPosition pos, CubeFormat type, DataType dataType, bool isTrans = false) {
        return set(a_, pos, type, dataType, isTrans);
    }
    int32_t SetBType(TPosition pos, CubeFormat type, DataType dataType, bool isTrans = false) {
        return set(b_, pos, type, dataType, isTrans);
    }
    int32_t SetCType(TPosition pos, CubeFormat type, DataType dataType) { return set(c_, pos, type, dataType, false); }
    int32_t SetBiasType(TPosition pos, CubeFormat type, DataType dataType) { return set(bias_type_, pos, type, dataType, false); }
    int32_t SetShape(int32_t m, int32_t n, int32_t k) {
        if (m <= 0 || n <= 0 || k <= 0) return -1;
        m_ = m;
        n_ = n;
        k_ = k;
        if (org_m_ == 0) SetOrgShape(m, n, k);
        return 0;
    }
    int32_t SetOrgShape(int32_t orgMIn, int32_t orgNIn, int32_t orgKIn) { return SetOrgShape(orgMIn, orgNIn, orgKIn, orgKIn); }
    int32_t SetOrgShape(int32_t orgMIn, int32_t orgNIn, int32_t orgKaIn, int32_t orgKbIn) {
        if (orgMIn <= 0 || orgNIn <= 0 || orgKaIn <= 0 || orgKbIn <= 0) return -1;
        org_m_ = orgMIn;
        org_n_ = orgNIn;
        org_ka_ = orgKaIn;
        org_kb_ = orgKbIn;
        if (m_ == 0) m_ = orgMIn, n_ = orgNIn, k_ = orgKaIn;
        return 0;
    }
    int32_t SetALayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return set_layout(a_layout_, b, s, n, g, d); }
    int32_t SetBLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return set_layout(b_layout_, b, s, n, g, d); }
    int32_t SetCLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return set_layout(c_layout_, b, s, n, g, d); }
    int32_t SetBatchNum(int32_t batch) {
        if (batch <= 0) return -1;
        batch_ = batch;
        return 0;
    }
    int32_t SetBatchInfoForNormal(int32_t batchA, int32_t batchB, int32_t m, int32_t n, int32_t k) {
        batch_ = batchA > batchB ? batchA : batchB;
        batch_m_ = batchA;
        batch_n_ = batchB;
        org_m_ = 0;
        return SetShape(m, n, k);
    }
    int32_t EnableBias(bool isBiasIn = false) { return SetBias(isBiasIn); }
    int32_t SetBias(bool isBiasIn = false) {
        bias_ = isBiasIn;
        return 0;
    }
    int32_t SetBufferSpace(int32_t l1Size = -1, int32_t l0CSize = -1, int32_t ubSize = -1, int32_t btSize = -1) {
        if (l1Size > 0) buffers_.l1 = smaller(buffers_.l1, l1Size);
        if (l0CSize > 0) buffers_.l0c = smaller(buffers_.l0c, l0CSize);
        if (ubSize > 0) buffers_.ub = smaller(buffers_.ub, ubSize);
        if (btSize > 0) buffers_.bias = smaller(buffers_.bias, btSize);
        return 0;
    }
    int32_t SetFixSplit(int32_t baseMIn = -1, int32_t baseNIn = -1, int32_t baseKIn = -1) {
        limits_.fix_m = baseMIn > 0 ? round_up(baseMIn, 16) : -1;
        limits_.fix_n = baseNIn > 0 ? round_up(baseNIn, 16) : -1;
        limits_.fix_k = baseKIn > 0 ? round_up(baseKIn, 256 / bits_of(a_.type)) : -1;
        return 0;
    }
    int32_t SetSplitRange(int32_t maxBaseM = -1, int32_t maxBaseN = -1, int32_t maxBaseK = -1, int32_t minBaseM = -1, int32_t minBaseN = -1,
                          int32_t minBaseK = -1) {
        limits_.most_m = maxBaseM, limits_.most_n = maxBaseN, limits_.most_k = maxBaseK;
        limits_.least_m = minBaseM, limits_.least_n = minBaseN, limits_.least_k = minBaseK;
        return 0;
    }
    int32_t SetTraverse(MatrixTraverse traverse) {
        traverse_ = traverse;
        return 0;
    }
    int32_t SetDoubleBuffer(bool, bool, bool, bool, bool = true, bool = true) { return 0; }
    int32_t SetMadType(MatrixMadType) { return 0; }
    int32_t SetDequantType(DequantType dequantType) {
        factors_ = dequantType == DequantType::TENSOR;
        return 0;
    }
    int32_t SetSparse(bool isSparseIn = false) { return isSparseIn ? -1 : 0; }
    void SetSplitK(bool) {}
    void SetMatmulConfigParams(int32_t mmConfigTypeIn = 1, bool = false, ScheduleType = ScheduleType::INNER_PRODUCT,
                               MatrixTraverse traverseIn = MatrixTraverse::NOSET, bool = false) {
        packed_ = mmConfigTypeIn == 1;
        if (traverseIn != MatrixTraverse::NOSET) traverse_ = traverseIn;
    }
    void SetMatmulConfigParams(const MatmulConfigParams& p) {
        SetMatmulConfigParams(p.mmConfigType, p.enableL1CacheUB, p.scheduleType, p.traverse, p.enVecND2NZ);
    }
    bool EnableL1BankConflictOptimise() { return false; }
    int32_t GetBaseM() const { return result_.baseM; }
    int32_t GetBaseN() const { return result_.baseN; }
    int32_t GetBaseK() const { return result_.baseK; }

    // AscendC::tiling::TCubeTiling, or a struct with set_... functions (optiling::TCubeTiling). -1: no cut fits.
    template <class Tiling>
    int64_t GetTiling(Tiling& tiling) {
        if (!compute()) return -1;
        put(tiling, 0);
        return 0;
    }

protected:
    virtual ~MatmulApiTilingBase() = default;
    virtual bool compute() = 0;

    Search search() const { return Search(buffers_, a_, b_, bias_, factors_ || bits_of(c_.type) == 8, limits_); }
    bool write(const Cut& cut, int64_t single_m, int64_t single_n, int64_t single_k, int64_t cores) {
        if (!cut.valid()) return false;
        AscendC::tiling::TCubeTiling t;
        const auto i = [](int64_t v) { return static_cast<int32_t>(v); };
        t.usedCoreNum = i(cores);
        t.M = org_m_, t.N = org_n_, t.Ka = org_ka_, t.Kb = org_kb_;
        t.singleCoreM = i(single_m), t.singleCoreN = i(single_n), t.singleCoreK = i(single_k);
        t.baseM = i(cut.base_m), t.baseN = i(cut.base_n), t.baseK = i(cut.base_k);
        t.depthA1 = i(cut.depth_a), t.depthB1 = i(cut.depth_b);
        t.stepM = t.stepN = 1;
        t.stepKa = i(cut.step_ka), t.stepKb = i(cut.step_kb);
        t.isBias = bias_ ? 1 : 0;
        t.iterateOrder = traverse_ == MatrixTraverse::FIRSTN ? 1 : 0;
        t.dbL0A = i(cut.db_a), t.dbL0B = i(cut.db_b), t.dbL0C = i(cut.db_c);
        t.shareL1Size = i(buffers_.l1), t.shareL0CSize = i(buffers_.l0c), t.shareUbSize = 0;
        t.transLength = i(cut.base_m * cut.base_n * 4);
        t.batchM = batch_m_, t.batchN = batch_n_, t.singleBatchM = batch_m_, t.singleBatchN = batch_n_, t.BatchNum = batch_;
        t.ALayoutInfoB = a_layout_[0], t.ALayoutInfoS = a_layout_[1], t.ALayoutInfoN = a_layout_[2], t.ALayoutInfoG = a_layout_[3],
        t.ALayoutInfoD = a_layout_[4];
        t.BLayoutInfoB = b_layout_[0], t.BLayoutInfoS = b_layout_[1], t.BLayoutInfoN = b_layout_[2], t.BLayoutInfoG = b_layout_[3],
        t.BLayoutInfoD = b_layout_[4];
        t.CLayoutInfoB = c_layout_[0], t.CLayoutInfoS1 = c_layout_[1], t.CLayoutInfoN = c_layout_[2], t.CLayoutInfoG = c_layout_[3],
        t.CLayoutInfoS2 = c_layout_[4];
        result_ = t;
        return true;
    }

    Buffers buffers_;
    MatrixInfo a_, b_, c_, bias_type_;
    Limits limits_;
    MatrixTraverse traverse_ = MatrixTraverse::NOSET;
    int32_t m_ = 0, n_ = 0, k_ = 0, org_m_ = 0, org_n_ = 0, org_ka_ = 0, org_kb_ = 0, batch_ = 1, batch_m_ = 1, batch_n_ = 1;
    int32_t a_layout_[5] = {}, b_layout_[5] = {}, c_layout_[5] = {};
    bool bias_ = false, factors_ = false, packed_ = true;
    AscendC::tiling::TCubeTiling result_;

private:
    template <class Platform, class Kind>
    void ask(const Platform& p, void (Platform::*get)(Kind, uint64_t&) const) {
        using Enum = std::decay_t<Kind>;
        const auto size = [&](int memory) {  // CoreMemType: L0_A, L0_B, L0_C, L1, L2, UB
            uint64_t bytes = 0;
            (p.*get)(static_cast<Enum>(memory), bytes);
            return static_cast<int64_t>(bytes);
        };
        buffers_.l0a = size(0), buffers_.l0b = size(1), buffers_.l0c = size(2), buffers_.l1 = size(3), buffers_.ub = size(5);
    }
    static int32_t set(MatrixInfo& m, TPosition pos, CubeFormat format, DataType type, bool transposed) {
        m = {pos, format, type, transposed};
        return 0;
    }
    static int32_t set_layout(int32_t (&to)[5], int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) {
        const int32_t given[5] = {b, s, n, g, d};
        for (int i = 0; i < 5; ++i) to[i] = given[i];
        return 0;
    }
    template <class T>
    auto put(T& t, int) -> decltype(t.set_baseM(0), void()) {
        const AscendC::tiling::TCubeTiling& r = result_;
        t.set_usedCoreNum(r.usedCoreNum), t.set_M(r.M), t.set_N(r.N), t.set_Ka(r.Ka), t.set_Kb(r.Kb);
        t.set_singleCoreM(r.singleCoreM), t.set_singleCoreN(r.singleCoreN), t.set_singleCoreK(r.singleCoreK);
        t.set_baseM(r.baseM), t.set_baseN(r.baseN), t.set_baseK(r.baseK), t.set_depthA1(r.depthA1), t.set_depthB1(r.depthB1);
        t.set_stepM(r.stepM), t.set_stepN(r.stepN), t.set_stepKa(r.stepKa), t.set_stepKb(r.stepKb), t.set_isBias(r.isBias);
        t.set_transLength(r.transLength), t.set_iterateOrder(r.iterateOrder), t.set_shareMode(r.shareMode),
            t.set_shareL1Size(r.shareL1Size);
        t.set_shareL0CSize(r.shareL0CSize), t.set_shareUbSize(r.shareUbSize), t.set_batchM(r.batchM), t.set_batchN(r.batchN);
        t.set_singleBatchM(r.singleBatchM), t.set_singleBatchN(r.singleBatchN), t.set_dbL0A(r.dbL0A), t.set_dbL0B(r.dbL0B),
            t.set_dbL0C(r.dbL0C);
        t.set_ALayoutInfoB(r.ALayoutInfoB), t.set_ALayoutInfoS(r.ALayoutInfoS), t.set_ALayoutInfoN(r.ALayoutInfoN);
        t.set_ALayoutInfoG(r.ALayoutInfoG), t.set_ALayoutInfoD(r.ALayoutInfoD), t.set_BLayoutInfoB(r.BLayoutInfoB);
        t.set_BLayoutInfoS(r.BLayoutInfoS), t.set_BLayoutInfoN(r.BLayoutInfoN), t.set_BLayoutInfoG(r.BLayoutInfoG);
        t.set_BLayoutInfoD(r.BLayoutInfoD), t.set_CLayoutInfoB(r.CLayoutInfoB), t.set_CLayoutInfoS1(r.CLayoutInfoS1);
        t.set_CLayoutInfoN(r.CLayoutInfoN), t.set_CLayoutInfoG(r.CLayoutInfoG), t.set_CLayoutInfoS2(r.CLayoutInfoS2),
            t.set_BatchNum(r.BatchNum);
    }
    template <class T>
    void put(T& t, long) {
        t = result_;
    }
};

// One core does everything.
class MatmulApiTiling : public MatmulApiTilingBase {
public:
    using MatmulApiTilingBase::MatmulApiTilingBase;
    MatmulApiTiling() = default;

protected:
    bool compute() override {
        if (m_ <= 0) return false;
        return write(search().best(m_, n_, k_), m_, n_, k_, 1);
    }
};

// The product is split over cores along M and N (and K if allowed: the kernel then adds up with atomics).
class MultiCoreMatmulTiling : public MatmulApiTilingBase {
public:
    using MatmulApiTilingBase::MatmulApiTilingBase;
    MultiCoreMatmulTiling() = default;

    int32_t SetDim(int32_t dim) {
        if (dim <= 0) return -1;
        dim_ = dim;
        return 0;
    }
    int32_t SetSingleShape(int32_t singleMIn = -1, int32_t singleNIn = -1, int32_t singleKIn = -1) {
        single_m_ = singleMIn, single_n_ = singleNIn, single_k_ = singleKIn;
        return 0;
    }
    int32_t SetSingleRange(int32_t maxM = -1, int32_t maxN = -1, int32_t maxK = -1, int32_t minM = -1, int32_t minN = -1,
                           int32_t minK = -1) {
        range_ = {-1, -1, -1, maxM, maxN, maxK, minM, minN, minK};
        return 0;
    }
    int32_t SetAlignSplit(int32_t alignM, int32_t alignN, int32_t alignK) {
        align_m_ = alignM, align_n_ = alignN, align_k_ = alignK;
        return 0;
    }
    void EnableMultiCoreSplitK(bool flag) { split_k_ = flag; }
    int32_t GetSingleShape(int32_t& shapeM, int32_t& shapeN, int32_t& shapeK) {
        shapeM = result_.singleCoreM, shapeN = result_.singleCoreN, shapeK = result_.singleCoreK;
        return 0;
    }
    int32_t GetCoreNum(int32_t& dim, int32_t& mDim, int32_t& nDim) {
        dim = result_.usedCoreNum;
        mDim = static_cast<int32_t>(pieces(m_, larger(1, result_.singleCoreM)));
        nDim = static_cast<int32_t>(pieces(n_, larger(1, result_.singleCoreN)));
        return 0;
    }

protected:
    bool compute() override {
        if (m_ <= 0) return false;
        const Search s = search();
        Cut best;
        int64_t best_m = 0, best_n = 0, best_k = 0, best_cores = 0;
        for (int64_t k_dim = 1; k_dim <= (split_k_ ? dim_ : 1); ++k_dim)
            for (int64_t m_dim = 1; m_dim * k_dim <= dim_; ++m_dim) {
                const int64_t n_dim = dim_ / (m_dim * k_dim);
                const int64_t m = part(m_, m_dim, single_m_, align_m_, range_.most_m, range_.least_m, s.m_unit()),
                              n = part(n_, n_dim, single_n_, align_n_, range_.most_n, range_.least_n, s.n_unit()),
                              k = part(k_, k_dim, split_k_ ? single_k_ : -1, align_k_, range_.most_k, range_.least_k, s.k_unit());
                const int64_t cores = pieces(m_, m) * pieces(n_, n) * pieces(k_, k);
                if (cores > dim_ || (seen(m, n, k))) continue;
                Cut cut = s.best(m, n, k);
                if (k_dim > 1) cut.cycles += static_cast<double>(m * n) * 4.0 / 64.0;  // the partial results meet in GM
                // All cores share the memory: what they read together counts as well, a little.
                cut.cycles += static_cast<double>(cores) * static_cast<double>((m + n) * k) * 1e-3;
                if (cut.valid() && cut.cycles < best.cycles) best = cut, best_m = m, best_n = n, best_k = k, best_cores = cores;
            }
        return best.valid() && write(best, best_m, best_n, best_k, best_cores);
    }

private:
    int64_t part(int64_t all, int64_t count, int64_t fixed, int64_t align, int64_t most, int64_t least, int64_t unit) {
        if (fixed > 0) return smaller(fixed, all);
        int64_t size = pieces(all, count);
        if (count > 1) size = round_up(size, align > 0 ? align : unit);
        if (most > 0) size = smaller(size, most);
        if (least > 0) size = larger(size, least);
        return larger(1, smaller(size, all));
    }
    bool seen(int64_t m, int64_t n, int64_t k) {
        const bool same = m == last_[0] && n == last_[1] && k == last_[2];
        last_[0] = m, last_[1] = n, last_[2] = k;
        return same;
    }
    int64_t dim_ = 1, single_m_ = -1, single_n_ = -1, single_k_ = -1, align_m_ = -1, align_n_ = -1, align_k_ = -1;
    int64_t last_[3] = {0, 0, 0};
    Limits range_;
    bool split_k_ = false;
};

// Batches are dealt to the cores whole; one product is not split.
class BatchMatmulTiling : public MatmulApiTilingBase {
public:
    using MatmulApiTilingBase::MatmulApiTilingBase;
    BatchMatmulTiling() = default;
    int32_t SetDim(int32_t dim) {
        dim_ = dim;
        return dim > 0 ? 0 : -1;
    }
    int32_t GetCoreNum(int32_t& dim, int32_t& mDim, int32_t& nDim, int32_t& batchCoreM, int32_t& batchCoreN) {
        dim = result_.usedCoreNum;
        mDim = nDim = 1;
        batchCoreM = batchCoreN = dim;
        return 0;
    }

protected:
    bool compute() override {
        if (m_ <= 0) return false;
        return write(search().best(m_, n_, k_), m_, n_, k_, smaller(dim_, batch_));
    }

private:
    int64_t dim_ = 1;
};

}  // namespace matmul_tiling
