// Host side of the Matmul object: how C = A x B is split over cores and cut into base blocks. Plain C++, no device code.
// Interface: the pages Matmul-Tiling类/*.md. The choice itself (search below) is ours: every cut is priced with the rates of the cube,
// the L1 and L0 ports and the memory, and the cheapest that fits the buffers wins.
#pragma once

#include <cstdint>
#include <type_traits>

#include "../../lib/tiling_structs.h"
#include "cut_search.h"

namespace matmul_tiling {

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
        if (m_ == 0) {
            m_ = orgMIn;
            n_ = orgNIn;
            k_ = orgKaIn;
        }
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
        limits_.most_m = maxBaseM;
        limits_.most_n = maxBaseN;
        limits_.most_k = maxBaseK;
        limits_.least_m = minBaseM;
        limits_.least_n = minBaseN;
        limits_.least_k = minBaseK;
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
        t.M = org_m_;
        t.N = org_n_;
        t.Ka = org_ka_;
        t.Kb = org_kb_;
        t.singleCoreM = i(single_m);
        t.singleCoreN = i(single_n);
        t.singleCoreK = i(single_k);
        t.baseM = i(cut.base_m);
        t.baseN = i(cut.base_n);
        t.baseK = i(cut.base_k);
        t.depthA1 = i(cut.depth_a);
        t.depthB1 = i(cut.depth_b);
        t.stepM = t.stepN = 1;
        t.stepKa = i(cut.step_ka);
        t.stepKb = i(cut.step_kb);
        t.isBias = bias_ ? 1 : 0;
        t.iterateOrder = traverse_ == MatrixTraverse::FIRSTN ? 1 : 0;
        t.dbL0A = i(cut.db_a);
        t.dbL0B = i(cut.db_b);
        t.dbL0C = i(cut.db_c);
        t.shareL1Size = i(buffers_.l1);
        t.shareL0CSize = i(buffers_.l0c);
        t.shareUbSize = 0;
        t.transLength = i(cut.base_m * cut.base_n * 4);
        t.batchM = batch_m_;
        t.batchN = batch_n_;
        t.singleBatchM = batch_m_;
        t.singleBatchN = batch_n_;
        t.BatchNum = batch_;
        t.ALayoutInfoB = a_layout_[0];
        t.ALayoutInfoS = a_layout_[1];
        t.ALayoutInfoN = a_layout_[2];
        t.ALayoutInfoG = a_layout_[3];
        t.ALayoutInfoD = a_layout_[4];
        t.BLayoutInfoB = b_layout_[0];
        t.BLayoutInfoS = b_layout_[1];
        t.BLayoutInfoN = b_layout_[2];
        t.BLayoutInfoG = b_layout_[3];
        t.BLayoutInfoD = b_layout_[4];
        t.CLayoutInfoB = c_layout_[0];
        t.CLayoutInfoS1 = c_layout_[1];
        t.CLayoutInfoN = c_layout_[2];
        t.CLayoutInfoG = c_layout_[3];
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
        buffers_.l0a = size(0);
        buffers_.l0b = size(1);
        buffers_.l0c = size(2);
        buffers_.l1 = size(3);
        buffers_.ub = size(5);
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
        t.set_usedCoreNum(r.usedCoreNum);
        t.set_M(r.M);
        t.set_N(r.N);
        t.set_Ka(r.Ka);
        t.set_Kb(r.Kb);
        t.set_singleCoreM(r.singleCoreM);
        t.set_singleCoreN(r.singleCoreN);
        t.set_singleCoreK(r.singleCoreK);
        t.set_baseM(r.baseM);
        t.set_baseN(r.baseN);
        t.set_baseK(r.baseK);
        t.set_depthA1(r.depthA1);
        t.set_depthB1(r.depthB1);
        t.set_stepM(r.stepM);
        t.set_stepN(r.stepN);
        t.set_stepKa(r.stepKa);
        t.set_stepKb(r.stepKb);
        t.set_isBias(r.isBias);
        t.set_transLength(r.transLength);
        t.set_iterateOrder(r.iterateOrder);
        t.set_shareMode(r.shareMode);
        t.set_shareL1Size(r.shareL1Size);
        t.set_shareL0CSize(r.shareL0CSize);
        t.set_shareUbSize(r.shareUbSize);
        t.set_batchM(r.batchM);
        t.set_batchN(r.batchN);
        t.set_singleBatchM(r.singleBatchM);
        t.set_singleBatchN(r.singleBatchN);
        t.set_dbL0A(r.dbL0A);
        t.set_dbL0B(r.dbL0B);
        t.set_dbL0C(r.dbL0C);
        t.set_ALayoutInfoB(r.ALayoutInfoB);
        t.set_ALayoutInfoS(r.ALayoutInfoS);
        t.set_ALayoutInfoN(r.ALayoutInfoN);
        t.set_ALayoutInfoG(r.ALayoutInfoG);
        t.set_ALayoutInfoD(r.ALayoutInfoD);
        t.set_BLayoutInfoB(r.BLayoutInfoB);
        t.set_BLayoutInfoS(r.BLayoutInfoS);
        t.set_BLayoutInfoN(r.BLayoutInfoN);
        t.set_BLayoutInfoG(r.BLayoutInfoG);
        t.set_BLayoutInfoD(r.BLayoutInfoD);
        t.set_CLayoutInfoB(r.CLayoutInfoB);
        t.set_CLayoutInfoS1(r.CLayoutInfoS1);
        t.set_CLayoutInfoN(r.CLayoutInfoN);
        t.set_CLayoutInfoG(r.CLayoutInfoG);
        t.set_CLayoutInfoS2(r.CLayoutInfoS2);
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
        single_m_ = singleMIn;
        single_n_ = singleNIn;
        single_k_ = singleKIn;
        return 0;
    }
    int32_t SetSingleRange(int32_t maxM = -1, int32_t maxN = -1, int32_t maxK = -1, int32_t minM = -1, int32_t minN = -1,
                           int32_t minK = -1) {
        range_ = {-1, -1, -1, maxM, maxN, maxK, minM, minN, minK};
        return 0;
    }
    int32_t SetAlignSplit(int32_t alignM, int32_t alignN, int32_t alignK) {
        align_m_ = alignM;
        align_n_ = alignN;
        align_k_ = alignK;
        return 0;
    }
    void EnableMultiCoreSplitK(bool flag) { split_k_ = flag; }
    int32_t GetSingleShape(int32_t& shapeM, int32_t& shapeN, int32_t& shapeK) {
        shapeM = result_.singleCoreM;
        shapeN = result_.singleCoreN;
        shapeK = result_.singleCoreK;
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
        double best_price = 1e30;
        for (int64_t k_dim = 1; k_dim <= (split_k_ ? dim_ : 1); ++k_dim)
            for (int64_t m_dim = 1; m_dim * k_dim <= dim_; ++m_dim) {
                const int64_t n_dim = dim_ / (m_dim * k_dim);
                const int64_t m = part(m_, m_dim, single_m_, align_m_, range_.most_m, range_.least_m, s.m_split(m_, m_dim)),
                              n = part(n_, n_dim, single_n_, align_n_, range_.most_n, range_.least_n, s.n_split(n_, n_dim)),
                              k = part(k_, k_dim, split_k_ ? single_k_ : -1, align_k_, range_.most_k, range_.least_k, s.k_unit());
                const int64_t cores = pieces(m_, m) * pieces(n_, n) * pieces(k_, k);
                if (cores > dim_ || (seen(m, n, k))) continue;
                Cut cut = s.best(m, n, k);
                if (k_dim > 1) cut.cycles += static_cast<double>(m * n) * 4.0 / 64.0;  // the partial results meet in GM
                // All cores share the memory: what they read together counts as well, a little.
                cut.cycles += static_cast<double>(cores) * static_cast<double>((m + n) * k) * 1e-3;
                // Whole rows for every core are worth a little: kernels of samples count on them when the cuts are much alike.
                const double price = cut.cycles * (n == n_ && cores > 1 ? kRowsWorth : 1.0);
                if (cut.valid() && price < best_price) {
                    best = cut;
                    best_price = price;
                    best_m = m;
                    best_n = n;
                    best_k = k;
                    best_cores = cores;
                }
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
    static constexpr double kRowsWorth = 0.92;

    bool seen(int64_t m, int64_t n, int64_t k) {
        const bool same = m == last_[0] && n == last_[1] && k == last_[2];
        last_[0] = m;
        last_[1] = n;
        last_[2] = k;
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
