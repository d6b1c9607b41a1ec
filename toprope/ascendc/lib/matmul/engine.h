// The cube side of a Matmul object: base block by base block through L1 and L0 with the buffers that TCubeTiling describes, on the
// functions of api/ that any kernel can call. What it costs on the chip follows from the instructions it makes.
// Pages: Matmul使用说明 (the block diagram), TCubeTiling结构体, MatmulConfig.
#pragma once

#include "../../api/data_copy_enhanced.h"
#include "../../api/fixpipe.h"
#include "../../api/mmad.h"
#include "../../api/sync.h"
#include "job.h"
#include "progress.h"
#include "sparse_right.h"
#include "tiles.h"

namespace toprope {

inline constexpr uint32_t kL0HalfBytes = 32768;

// The library's own scalar work, beyond issuing: per step of K (work = 1 when the tiling is read at run time) and per load into L1.
inline constexpr Op kOpMatmulStep{"Matmul step", Pipe::s, Kind::scalar, "matmul_step"};
inline constexpr Op kOpMatmulLoad{"Matmul load", Pipe::s, Kind::scalar, "matmul_load"};

// Tiles of one operand in L1: a ring of slots. A tile that is still there is not loaded again.
template <typename T>
class TileRing {
public:
    void init(AscendC::TPipe& pipe, int32_t slots, int32_t slot_bytes, Site site) {
        slots_ = least(slots, kMost);
        bytes_ = static_cast<uint32_t>(up(slot_bytes, 512));
        pipe.InitBuffer(buffer_, static_cast<uint32_t>(slots_) * bytes_, site);
        for (Slot& s : slot_) s = Slot{};
    }
    // `found`: the tile was in L1. Otherwise its slot is to be filled, after the reads that ended with `last_read`.
    struct Place {
        AscendC::LocalTensor<T> data;
        bool found;
        int32_t slot;
    };
    TOPROPE_OUTLINE Place find(const void* matrix, int32_t row, int32_t column, uint32_t pass, uint8_t sub, bool shared, Site site) {
        for (int32_t i = 0; i < slots_; ++i) {
            Slot& s = slot_[i];
            if (s.matrix != matrix || s.row != row || s.column != column) continue;
            const bool own = s.sub == sub && s.pass == pass;
            // IBShare: what the other vector core's request brought in serves one pass of this one.
            const bool others = shared && s.matrix == matrix && s.sub != sub && (s.shared_pass == 0 || s.shared_pass == pass + 1);
            if (others) s.shared_pass = pass + 1;
            if (own || others) return {tensor(i, site), true, i};
        }
        const int32_t i = next_;
        next_ = (next_ + 1) % slots_;
        slot_[i] = {matrix, row, column, pass, 0, slot_[i].last_read, sub};
        return {tensor(i, site), false, i};
    }
    uint32_t& last_read(int32_t slot) { return slot_[slot].last_read; }
    uint32_t bytes() const { return bytes_; }

private:
    static constexpr int32_t kMost = 64;
    struct Slot {
        const void* matrix = nullptr;
        int32_t row = 0, column = 0;
        uint32_t pass = 0, shared_pass = 0, last_read = 0;
        uint8_t sub = 0;
    };
    AscendC::LocalTensor<T> tensor(int32_t slot, Site site) {
        const uint32_t elements = bytes_ * 8 / kElementBits<T>;
        return buffer_.template GetWithOffset<T>(elements, static_cast<uint32_t>(slot) * bytes_, site);
    }
    AscendC::TBuf<AscendC::TPosition::A1> buffer_;
    Slot slot_[kMost];
    int32_t slots_ = 0, next_ = 0;
    uint32_t bytes_ = 0;
};

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE, const auto& MM_CFG, class MM_CB, BlockChoice kChoice>
class MatmulEngine {
    using A = typename A_TYPE::T;
    using B = typename B_TYPE::T;
    using C = typename C_TYPE::T;
    using Bias = typename BIAS_TYPE::T;
    using L0c = std::conditional_t<sizeof(A) == 1, int32_t, float>;
    static constexpr AscendC::MatmulConfig kConfig = matmul_config(MM_CFG);
    static constexpr bool kPacked = kConfig.doMultiDataLoad || kConfig.doSpecialMDL;
    static constexpr bool kReadsTiling = std::is_same_v<std::remove_cv_t<std::remove_reference_t<decltype(MM_CFG)>>, AscendC::MatmulConfig>;
    static constexpr bool kSparse = is_sparse<B_TYPE>;
    static constexpr int32_t kDense = kSparse ? 2 : 1;  // columns of A for each stored row of B
    static constexpr bool kQuantised = sizeof(C) == 1 || (std::is_same_v<L0c, int32_t> && sizeof(C) == 2);
    static_assert(std::is_same_v<A, B>, "Matmul: A and B have the same element type on this chip");
    static_assert(toprope::kChip.a2_types || sizeof(A) == 0,
                  "Matmul: objects on this chip are not supported yet; they are on A2, A3 and 310B");

public:
    void init(const AscendC::tiling::TCubeTiling& tiling, AscendC::TPipe* pipe, Site site) {
        t_ = tiling;
        if constexpr (!kPacked) t_.stepM = t_.stepN = t_.stepKa = t_.stepKb = 1;
        const int32_t m = t_.stepM * t_.baseM, n = t_.stepN * t_.baseN, ka = t_.stepKa * t_.baseK, kb = t_.stepKb * t_.baseK;
        if (space_of(A_TYPE::pos) != Space::l1) ring_a_.init(*pipe, most(1, t_.depthA1 / (t_.stepM * t_.stepKa)), tile_bytes(m, ka), site);
        if (space_of(B_TYPE::pos) != Space::l1)
            ring_b_.init(*pipe, most(1, t_.depthB1 / (t_.stepN * t_.stepKb)), tile_bytes(n, kb / kDense), site);
        if constexpr (kSparse)
            index_.init(*pipe, ring_b_.bytes() * static_cast<uint32_t>(most(1, t_.depthB1 / (t_.stepN * t_.stepKb))), site);
        if (t_.isBias != 0) pipe->InitBuffer(bias_, static_cast<uint32_t>(up(t_.baseN, 32)) * sizeof(Bias), site);
        if constexpr (kQuantised) pipe->InitBuffer(quant_, static_cast<uint32_t>(up(t_.baseN, 16)) * 8, site);
        c_bytes_ = static_cast<uint32_t>(up(t_.baseM, 16) * up(right_columns<B>(t_.baseN, false), 16) * 4);
        c_halves_ = t_.dbL0C == 2 ? 2 : 1;
        c_address_ = reserve_l0c(*pipe, site);
        has_bias_room_ = t_.isBias != 0;
    }
    const AscendC::tiling::TCubeTiling& tiling() const { return t_; }

    void serve(const MatmulJob& job, Site site) {
        if (job.hf32) {
            AscendC::SetHF32Mode(true);
            AscendC::SetHF32TransMode(job.hf32_zero);
        }
        switch (job.request) {
            case Request::iterate:
                if (Blocks(t_, job).chosen(kChoice, job.block)) compute(job, site);
                break;
            case Request::get:
                if (Blocks(t_, job).chosen(kChoice, job.block)) store(job, job.block, site);
                if (job.block + 1 == Blocks(t_, job).count()) finish(site);
                break;
            case Request::all:
                all(job, site);
                break;
            case Request::batch:
                batch(job, site);
                break;
            default:
                break;
        }
        if (job.hf32) AscendC::SetHF32Mode(false);
    }
    // Leaves no event open.
    void finish(Site site) {
        reads_.drain(site);
        stored_.drain(site);
        L0Halves::drain(site);
    }

private:
    static int32_t tile_bytes(int32_t outer, int32_t inner) {
        const int32_t c0 = static_cast<int32_t>(kK0<A>), plain = up(outer, 16) * up(inner, c0),
                      turned = up(inner, tile_rows_unit<A>(true)) * up(outer, c0);
        return static_cast<int32_t>(bytes_of<A>(static_cast<uint64_t>(most(plain, turned))));
    }
    // L0C of its own while there is room; otherwise objects use the same place one after the other.
    uint32_t reserve_l0c(AscendC::TPipe& pipe, Site site) {
        const auto used = static_cast<uint32_t>(pipe.GetQueueEndAddress<AscendC::TPosition::CO1>());
        const uint32_t wanted = c_bytes_ * c_halves_, all = self->bytes[static_cast<int>(Space::l0c)];
        if (C_TYPE::pos == AscendC::TPosition::CO1) return 0;
        if (used + wanted > all && used != 0) return 0;
        pipe.InitBuffer(c_, wanted, site);
        return used;
    }

    TOPROPE_OUTLINE void all(const MatmulJob& job, Site site) {
        const Blocks blocks(t_, job);
        MatmulJob one = job;
        for (one.block = 0; one.block < blocks.count(); ++one.block) {
            if (!blocks.chosen(kChoice, one.block)) continue;
            compute(one, site);
            store(one, one.block, site);
        }
        finish(site);
    }

    TOPROPE_OUTLINE void batch(const MatmulJob& job, Site site) {
        const uint32_t matrices = job.batch_a > job.batch_b ? job.batch_a : job.batch_b;
        for (uint32_t i = 0; i < matrices * job.loops; ++i) {
            MatmulJob one = job;
            const uint32_t loop = i / matrices, at = i % matrices, ia = loop * job.batch_a + at * job.batch_a / matrices,
                           ib = loop * job.batch_b + at * job.batch_b / matrices;
            one.pass = job.pass + i;
            const auto place = [&](Operand2d& o, uint32_t index, AscendC::LayoutMode layout, int32_t rows, int32_t columns, int32_t heads,
                                   int32_t batches, uint32_t stride, auto type) {
                const BatchPlace p =
                    batch_place(layout, index, o.turned ? columns : rows, o.turned ? rows : columns, heads, batches, stride);
                o.gm += bytes_of<decltype(type)>(static_cast<uint64_t>(p.offset));
                o.row_elements = p.row_elements;
            };
            place(one.a, ia, A_TYPE::layout, job.m, job.ka, t_.ALayoutInfoN * t_.ALayoutInfoG, t_.ALayoutInfoB, job.stride_a, A{});
            place(one.b, ib, B_TYPE::layout, job.kb, job.n, t_.BLayoutInfoN * t_.BLayoutInfoG, t_.BLayoutInfoB, job.stride_b, B{});
            const BatchPlace c = batch_place(C_TYPE::layout, i, job.m, job.n, t_.CLayoutInfoN * t_.CLayoutInfoG, t_.CLayoutInfoB, 0);
            one.c += static_cast<uint64_t>(c.offset) * sizeof(C);
            if (C_TYPE::layout == AscendC::LayoutMode::BSNGD || C_TYPE::layout == AscendC::LayoutMode::SBNGD)
                one.c_row_elements = c.row_elements;
            if (kConfig.isBiasBatch && one.has_bias && !one.bias_in_l1)
                one.bias += static_cast<uint64_t>(i) * static_cast<uint64_t>(job.n) * sizeof(Bias);
            all(one, site);
        }
    }

    // ---- one base block ------------------------------------------------------------------------------------------------

    TOPROPE_OUTLINE void compute(const MatmulJob& job, Site site) {
        const Blocks blocks(t_, job);
        const int32_t mi = blocks.m_of(job.block), ni = blocks.n_of(job.block), m = blocks.rows(mi), n = blocks.columns(ni);
        AscendC::LocalTensor<L0c> c = result(job, !job.partial, site);
        AscendC::MmadParams p;
        p.m = static_cast<uint16_t>(m == 1 && A_TYPE::format != AscendC::CubeFormat::VECTOR ? 16 : m);
        p.n = static_cast<uint16_t>(right_columns<B>(n, job.b.turned));
        const int32_t steps = up(job.single_k, t_.baseK) / t_.baseK;
        for (int32_t ks = 0; ks < steps; ++ks) {
            const int32_t k = least(t_.baseK, job.single_k - ks * t_.baseK);
            int32_t slot_a = -1, slot_b = -1;
            record(kOpMatmulStep, site, kReadsTiling, 0);
            const Tile<A> a = left_tile(job, mi, ks, slot_a, site);
            const Tile<B> b = right_tile(job, ks, ni, slot_b, site);
            const bool whole = t_.dbL0A != 2 || t_.dbL0B != 2;
            const uint32_t half = L0Halves::take(whole, site), bytes = whole ? 2 * kL0HalfBytes : kL0HalfBytes;
            const AscendC::LocalTensor<A> a2(AscendC::TPosition::A2, half * kL0HalfBytes, bytes * 8 / kElementBits<A>);
            const AscendC::LocalTensor<B> b2(AscendC::TPosition::B2, half * kL0HalfBytes, bytes * 8 / kElementBits<B>);
            load_left(a2, a, job.a.turned, mi % (job.a.in_l1 ? blocks.across_m : t_.stepM) * t_.baseM,
                      ks % (job.a.in_l1 ? steps : t_.stepKa) * t_.baseK, m, k, site);
            const int32_t k0 = ks % (job.b.in_l1 ? steps : t_.stepKb) * t_.baseK,
                          n0 = ni % (job.b.in_l1 ? blocks.across_n : t_.stepN) * t_.baseN;
            if constexpr (kSparse)
                index_.load_right(b2, b, static_cast<uint32_t>(slot_b) * ring_b_.bytes(), k0 / 2, n0, (k + 1) / 2, n, site);
            else
                load_right(b2, b, job.b.turned, k0, n0, k, n, site);
            if (slot_a >= 0) ring_a_.last_read(slot_a) = reads_.marks() + 1;
            if (slot_b >= 0) ring_b_.last_read(slot_b) = reads_.marks() + 1;
            unmarked_ = true;
            p.k = static_cast<uint16_t>(k);
            p.cmatrixInitVal = ks == 0 && !job.partial;
            if (ks == 0 && job.has_bias && !job.partial) load_bias(job, ni, n, p.n, site);
            order(AscendC::HardEvent::MTE1_M, site);
            multiply(c, a2, b2, p, ks == 0 && job.has_bias && !job.partial, site);
            L0Halves::give(half, site);
        }
    }

    TOPROPE_OUTLINE void multiply(const AscendC::LocalTensor<L0c>& c, const AscendC::LocalTensor<A>& a, const AscendC::LocalTensor<B>& b,
                                  AscendC::MmadParams& p, bool with_bias, Site site) {
        if constexpr (kSparse) {
            if (with_bias) p.cmatrixInitVal = false;
            p.cmatrixSource = with_bias;
            AscendC::MmadWithSparse(c, a, b, p, site);
        } else if (with_bias) {
            const AscendC::LocalTensor<L0c> table(AscendC::TPosition::C2, 0, static_cast<uint32_t>(up(p.n, 16)));
            AscendC::Mmad(c, a, b, table, p, site);
        } else {
            AscendC::Mmad(c, a, b, p, site);
        }
        // Small products do not order their sums by themselves. Page: Mmad.
        if (p.m / 16 * (p.n / 16) < 10) pipe_barrier(Pipe::m, site);
    }

    // The place of the sum; a new one waits until the result before last has been stored.
    TOPROPE_OUTLINE AscendC::LocalTensor<L0c> result(const MatmulJob& job, bool fresh, Site site) {
        if (job.c_in_l0) return AscendC::LocalTensor<L0c>(AscendC::TPosition::CO1, job.c_local, c_bytes_ / 4);
        if (fresh) {
            c_half_ = (c_half_ + 1) % c_halves_;
            stored_.wait(stored_mark_[c_half_], site);
        }
        return AscendC::LocalTensor<L0c>(AscendC::TPosition::CO1, c_address_ + c_half_ * c_bytes_, c_bytes_ / 4);
    }

    // ---- operands in L1 --------------------------------------------------------------------------------------------------

    TOPROPE_OUTLINE Tile<A> left_tile(const MatmulJob& job, int32_t mi, int32_t ks, int32_t& slot, Site site) {
        const int32_t mt = mi / t_.stepM, kt = ks / t_.stepKa, m0 = mt * t_.stepM * t_.baseM, k0 = kt * t_.stepKa * t_.baseK,
                      m = least(t_.stepM * t_.baseM, job.single_m - m0), k = least(t_.stepKa * t_.baseK, job.single_k - k0);
        const int64_t row = job.a.row_elements != 0 ? job.a.row_elements : (job.a.turned ? job.m : job.ka);
        if (job.a.in_l1) return resident<A>(job.a, job.single_m, job.single_k);
        return tile<A>(
            ring_a_, true, job.a, mt, kt, job.a.turned ? Block{k0, m0, k, m} : Block{m0, k0, m, k}, row, job.a.turned ? job.ka : job.m,
            A_TYPE::format, A_TYPE::ibShare, job, slot,
            [&](const AscendC::LocalTensor<A>& to) {
                if constexpr (MM_CB::a1 != nullptr)
                    MM_CB::a1(to.template ReinterpretCast<int8_t>(), job.a.gm, mt, kt, m, k, job.user_info, job.user_data);
                return MM_CB::a1 != nullptr;
            },
            site);
    }
    TOPROPE_OUTLINE Tile<B> right_tile(const MatmulJob& job, int32_t ks, int32_t ni, int32_t& slot, Site site) {
        const int32_t nt = ni / t_.stepN, kt = ks / t_.stepKb, n0 = nt * t_.stepN * t_.baseN, k0 = kt * t_.stepKb * t_.baseK,
                      n = least(t_.stepN * t_.baseN, job.single_n - n0),
                      k = up(least(t_.stepKb * t_.baseK, job.single_k - k0), kDense) / kDense;
        const int64_t row = job.b.row_elements != 0 ? job.b.row_elements : (job.b.turned ? job.kb / kDense : job.n);
        if (job.b.in_l1) return resident<B>(job.b, job.single_k, job.single_n);
        return tile<B>(
            ring_b_, false, job.b, nt, kt, job.b.turned ? Block{n0, k0 / kDense, n, k} : Block{k0, n0, k, n}, row,
            job.b.turned ? job.n : job.kb, B_TYPE::format, B_TYPE::ibShare, job, slot,
            [&](const AscendC::LocalTensor<B>& to) {
                if constexpr (kSparse)
                    index_.fill(static_cast<uint32_t>(slot) * ring_b_.bytes(), job.sparse_index, {n0, k0 / kDense, n, k}, up(job.n, 16),
                                site);
                if constexpr (MM_CB::b1 != nullptr)
                    MM_CB::b1(to.template ReinterpretCast<int8_t>(), job.b.gm, kt, nt, k, n, job.user_info, job.user_data);
                return MM_CB::b1 != nullptr;
            },
            site);
    }
    // A whole matrix that the user keeps in L1 (TSCM), NZ.
    template <typename T>
    static Tile<T> resident(const Operand2d& o, int32_t rows, int32_t columns) {
        const int32_t r = up(o.turned ? columns : rows, 16), c = up(o.turned ? rows : columns, static_cast<int32_t>(kK0<T>));
        return {AscendC::LocalTensor<T>(AscendC::TPosition::TSCM, o.l1, static_cast<uint32_t>(r * c)), r, c};
    }
    template <typename T, typename UserCopy>
    TOPROPE_OUTLINE Tile<T> tile(TileRing<T>& ring, bool left, const Operand2d& o, int32_t outer, int32_t kt, const Block& b, int64_t row,
                                 int32_t rows_in_gm, AscendC::CubeFormat format, bool shared, const MatmulJob& job, int32_t& slot,
                                 const UserCopy& user_copy, Site site) {
        // LoadDataWithTranspose reads A that is stored transposed, and B that is not.
        const int32_t unit = tile_rows_unit<T>(left == o.turned);
        const auto place = ring.find(o.is_value ? nullptr : o.gm, outer, kt, job.pass, job.sub, shared, site);
        slot = place.slot;
        const Tile<T> to{place.data, up(b.rows, unit), up(b.columns, static_cast<int32_t>(kK0<T>))};
        if (place.found) return to;
        record(kOpMatmulLoad, site, 0, 0);
        if (unmarked_) {
            reads_.mark(site);
            unmarked_ = false;
        }
        reads_.wait(ring.last_read(slot), site);
        if (o.is_value) {
            fill<T>(to, o.value, site);
        } else if (!user_copy(to.data)) {
            Stored<T> from{{}, format, row, up(rows_in_gm, 16)};
            from.gm.SetGlobalBuffer(reinterpret_cast<T*>(o.gm));
            from.load(to, b, site);
        }
        order(AscendC::HardEvent::MTE2_MTE1, site);
        return to;
    }
    template <typename T>
    static void fill(const Tile<T>& to, uint64_t bits, Site site) {
        if constexpr (sizeof(T) >= 2) {
            T value;
            std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
            AscendC::Fill(
                to.data,
                AscendC::InitConstValueParams<T>(1, static_cast<uint16_t>(to.stride * to.columns / static_cast<int32_t>(kK0<T>)), 0, value),
                site);
        }
    }

    TOPROPE_OUTLINE void load_bias(const MatmulJob& job, int32_t ni, int32_t n, int32_t columns, Site site) {
        const int32_t n0 = ni * t_.baseN;
        AscendC::LocalTensor<Bias> l1;
        if (job.bias_in_l1) {
            l1 = AscendC::LocalTensor<Bias>(AscendC::TPosition::C1, job.bias_l1 + static_cast<uint32_t>(n0) * sizeof(Bias),
                                            static_cast<uint32_t>(up(n, 32)));
        } else {
            if (!has_bias_room_) {
                report("matmul-bias-not-planned", site, nullptr, "SetBias, but the tiling says isBias = 0: no L1 was set aside for it");
                stop();
            }
            l1 = bias_.template Get<Bias>(site);
            AscendC::GlobalTensor<Bias> gm;
            gm.SetGlobalBuffer(reinterpret_cast<Bias*>(job.bias));
            order(AscendC::HardEvent::MTE1_MTE2, site);
            AscendC::DataCopy(l1, gm[static_cast<uint64_t>(n0)], AscendC::Nd2NzParams(1, 1, n, 0, n, 1, 1, 0), site);
            order(AscendC::HardEvent::MTE2_MTE1, site);
        }
        order(AscendC::HardEvent::M_MTE1, site);  // earlier products read the table
        const AscendC::LocalTensor<L0c> table(AscendC::TPosition::C2, 0, static_cast<uint32_t>(up(columns, 16)));
        if constexpr (sizeof(Bias) == sizeof(L0c))
            AscendC::DataCopy(table, l1.template ReinterpretCast<L0c>(), AscendC::DataCopyParams(1, up(columns, 16) / 16, 0, 0), site);
        else if constexpr (std::is_same_v<Bias, half> && std::is_same_v<L0c, float>)
            AscendC::DataCopy(table, l1, AscendC::DataCopyParams(1, up(columns, 16) / 16, 0, 0), site);
    }

    // ---- the way out -----------------------------------------------------------------------------------------------------

    QuantMode_t quant_mode(const MatmulJob& job) const {
        if constexpr (std::is_same_v<C, L0c>) return NoQuant;
        if constexpr (std::is_same_v<L0c, float>) {
            if constexpr (std::is_same_v<C, half>) return F322F16;
            if constexpr (std::is_same_v<C, bfloat16_t>) return F322BF16;
            return job.quant == 2 ? VQF322B8_PRE : QF322B8_PRE;
        }
        if constexpr (sizeof(C) == 1) return job.quant == 2 ? VREQ8 : REQ8;
        return job.quant == 2 ? VDEQF16 : DEQF16;
    }

    TOPROPE_OUTLINE void store(const MatmulJob& job, int32_t block, Site site) {
        const Blocks blocks(t_, job);
        const int32_t mi = blocks.m_of(block), ni = blocks.n_of(block), m = blocks.rows(mi), n = blocks.columns(ni);
        AscendC::LocalTensor<L0c> c = result(job, false, site);
        AscendC::LocalTensor<uint64_t> factors;
        if constexpr (kQuantised)
            if (job.quant == 2) factors = load_factors(job, ni, n, site);
        order(AscendC::HardEvent::M_FIX, site);
        AscendC::FixpipeParamsV220 p;
        p.nSize = static_cast<uint16_t>(n);
        p.mSize = static_cast<uint16_t>(m);
        p.srcStride = static_cast<uint16_t>(up(m, 16));
        p.quantPre = quant_mode(job);
        p.deqScalar = job.quant_scalar;
        p.reluEn = kConfig.enableRelu;
        p.isChannelSplit = kConfig.isEnableChannelSplit;
        uint64_t offset;  // elements
        if constexpr (C_TYPE::format == AscendC::CubeFormat::NZ) {
            const int64_t rows = up(static_cast<int32_t>(job.c_nz_rows != 0 ? job.c_nz_rows : (job.sequential ? t_.baseM : job.m)), 16),
                          c0 = sizeof(C) == 1 ? 32 : (sizeof(C) == 4 && kConfig.isEnableChannelSplit ? 8 : 16);
            p.dstStride = static_cast<uint32_t>(rows * c0 * static_cast<int64_t>(sizeof(C)) / 32);
            p.nSize = static_cast<uint16_t>(up(n, static_cast<int32_t>(c0)));
            offset = job.sequential ? 0 : static_cast<uint64_t>(ni * t_.baseN / c0 * rows * c0 + mi * t_.baseM * c0);
        } else {
            int64_t row = job.sequential ? t_.baseN : (job.c_row_elements != 0 ? job.c_row_elements : (job.kc != 0 ? job.kc : job.n));
            if (C_TYPE::format == AscendC::CubeFormat::ND_ALIGN) row = up(static_cast<int32_t>(row), 32 / static_cast<int32_t>(sizeof(C)));
            p.dstStride = static_cast<uint32_t>(row);
            offset = job.sequential ? 0 : static_cast<uint64_t>(int64_t{mi} * t_.baseM * row + int64_t{ni} * t_.baseN);
        }
        if (job.sequential && job.request != Request::get)
            offset = static_cast<uint64_t>(block) * static_cast<uint64_t>(t_.baseM) * static_cast<uint64_t>(t_.baseN);
        constexpr AtomicOp kOps[] = {AtomicOp::none, AtomicOp::add, AtomicOp::max, AtomicOp::min};
        if (job.atomic != 0) set_atomic(kOps[job.atomic & 3], dtype_of<C>, site);
        write_out(job, c, factors, p, offset, blocks, mi, ni, site);
        if (job.atomic != 0) set_atomic(AtomicOp::none, Dtype::none, site);
        stored_.mark(site);
        stored_mark_[c_half_] = stored_.marks();
    }

    TOPROPE_OUTLINE void write_out(const MatmulJob& job, const AscendC::LocalTensor<L0c>& c, const AscendC::LocalTensor<uint64_t>& factors,
                                   const AscendC::FixpipeParamsV220& p, uint64_t offset, const Blocks& blocks, int32_t mi, int32_t ni,
                                   Site site) {
        if constexpr (MM_CB::out != nullptr) {
            AscendC::DataCopyOutParams given;
            given.cBurstNum = static_cast<uint16_t>(up(blocks.columns(ni), 16) / 16);
            given.burstLen = static_cast<uint16_t>(blocks.rows(mi) * 16 * 4 / 32);
            given.srcStride = p.srcStride;
            given.dstStride = p.dstStride;
            given.oriNSize = p.nSize;
            given.quantScalar = job.quant_scalar;
            given.cbufWorkspaceAddr = factors.address();
            MM_CB::out(job.c + offset * sizeof(C), c.template ReinterpretCast<int8_t>(), &given, job.user_info, job.user_data);
            return;
        }
        constexpr bool nz = C_TYPE::format == AscendC::CubeFormat::NZ;
        static constexpr AscendC::FixpipeConfig kLayout = {nz ? AscendC::CO2Layout::NZ : AscendC::CO2Layout::ROW_MAJOR, false};
        if (job.c_in_l1) {
            const AscendC::LocalTensor<C> to(AscendC::TPosition::TSCM, job.c_local + static_cast<uint32_t>(offset * sizeof(C)), 0);
            AscendC::Fixpipe<C, L0c, AscendC::CFG_NZ>(to, c, p, site);
            return;
        }
        AscendC::GlobalTensor<C> to;
        to.SetGlobalBuffer(reinterpret_cast<C*>(job.c) + offset);
        if (kQuantised && job.quant == 2)
            AscendC::Fixpipe<C, L0c, kLayout>(to, c, factors, p, site);
        else
            AscendC::Fixpipe<C, L0c, kLayout>(to, c, p, site);
    }

    TOPROPE_OUTLINE AscendC::LocalTensor<uint64_t> load_factors(const MatmulJob& job, int32_t ni, int32_t n, Site site) {
        const auto n0 = static_cast<uint32_t>(ni * t_.baseN);
        if (job.quant_in_l1) return AscendC::LocalTensor<uint64_t>(AscendC::TPosition::A1, job.quant_l1 + n0 * 8, static_cast<uint32_t>(n));
        auto l1 = quant_.template Get<uint64_t>(site);
        AscendC::GlobalTensor<int32_t> gm;  // as pairs of words: the layout copy has no 64-bit elements
        gm.SetGlobalBuffer(reinterpret_cast<int32_t*>(job.quant_vector));
        order(AscendC::HardEvent::FIX_MTE2, site);
        AscendC::DataCopy(l1.template ReinterpretCast<int32_t>(), gm[uint64_t{n0} * 2],
                          AscendC::Nd2NzParams(1, 1, n * 2, 0, n * 2, 1, 1, 0), site);
        order(AscendC::HardEvent::MTE2_FIX, site);
        return l1;
    }

    AscendC::tiling::TCubeTiling t_;
    TileRing<A> ring_a_;
    TileRing<B> ring_b_;
    std::conditional_t<kSparse, SparseIndexTiles, NoIndexTiles> index_;
    AscendC::TBuf<AscendC::TPosition::C1> bias_;
    AscendC::TBuf<AscendC::TPosition::A1> quant_;
    AscendC::TBuf<AscendC::TPosition::CO1> c_;
    Progress<4> reads_{AscendC::HardEvent::MTE1_MTE2};
    Progress<2> stored_{AscendC::HardEvent::FIX_M};
    uint32_t stored_mark_[2] = {0, 0};
    uint32_t c_bytes_ = 0, c_address_ = 0, c_halves_ = 1, c_half_ = 0;
    bool unmarked_ = false, has_bias_room_ = false;
};

}  // namespace toprope
