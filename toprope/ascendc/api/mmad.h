// Matrix multiply-add on the cube. Pages: Mmad, GEMV, UnitFlag, HF32, K-方向对齐约束.
#pragma once

#include "../machine/cube.h"

namespace AscendC {

struct MmadParams {
    uint16_t m = 0, n = 0, k = 0;
    bool isBias = false;
    int32_t fmOffset = 0;
    bool enSsparse = false, enWinogradA = false, enWinogradB = false;
    int8_t unitFlag = 0;
    bool kDirectionAlign = false;
    bool cmatrixSource = false, cmatrixInitVal = true;
    MmadParams() = default;
    MmadParams(uint16_t m_, uint16_t n_, uint16_t k_, bool bias, int32_t offset, bool sparse, bool winograd_a, bool winograd_b)
        : m(m_), n(n_), k(k_), isBias(bias), fmOffset(offset), enSsparse(sparse), enWinogradA(winograd_a), enWinogradB(winograd_b) {}
    MmadParams(uint16_t m_, uint16_t n_, uint16_t k_, int8_t unit, bool source, bool init)
        : m(m_), n(n_), k(k_), unitFlag(unit), cmatrixSource(source), cmatrixInitVal(init) {}
};

}  // namespace AscendC

namespace toprope {

inline constexpr Op kOpMmad{"Mmad", Pipe::m, Kind::compute, "mmad"};
inline constexpr uint16_t kCubeLimit = 4095;
// Flags in the arg column of an Mmad, from bit 8: starts a new sum, takes the bias table, unit flag on, float operands rounded to HF32.
inline constexpr uint32_t kMmadInit = 1u << 8, kMmadBias = 1u << 9, kMmadUnitFlag = 1u << 10, kMmadHf32 = 1u << 11;

template <typename T, typename U, typename S>
constexpr bool mmad_types() {
    using AscendC::int4b_t;
    if constexpr (std::is_same_v<T, float>) return std::is_same_v<U, S> && is_one_of<U, half, bfloat16_t, float>;
    if constexpr (std::is_same_v<T, int32_t>)
        return (std::is_same_v<U, S> && (is_one_of<U, int8_t> || (kChip.cube_int4 && is_one_of<U, int4b_t>))) ||
               (kChip.cube_mixes_signs && is_one_of<U, uint8_t, int8_t> && is_one_of<S, uint8_t, int8_t>);
    return kChip.cube_half_sums && is_one_of<T, half> && std::is_same_v<U, half> && std::is_same_v<S, half>;
}

// Where the product's operands lie, in fractals.
struct MmadShape {
    uint32_t m, k, n, mf, kf, nf, k0;
    bool gemv;
    template <typename U>
    static MmadShape of(const AscendC::MmadParams& p) {
        MmadShape s{p.m, p.k, p.n, ceil_div(p.m, 16), ceil_div(p.k, kK0<U>), ceil_div(p.n, 16), kK0<U>, p.m == 1};
        if (p.kDirectionAlign && s.k0 == 8) s.kf = ceil_div(p.k, 16) * 2;
        return s;
    }
};

inline void set_cube_mode(int bit, bool on) {
    uint64_t& modes = self->registers[kRegCubeModes];
    modes = (modes & ~(1ull << bit)) | static_cast<uint64_t>(on) << bit;
}

// HF32: a float with 11 bits of mantissa. Ties go to the even neighbour, or towards zero (SetHF32TransMode).
inline bool rounds_to_hf32() { return (self->registers[kRegCubeModes] & 1) != 0; }
inline float to_hf32(float value, bool ties_to_zero) {
    const uint32_t bits = float_bits(value);
    if ((bits & 0x7f800000u) == 0x7f800000u) return value;
    const uint32_t half = ties_to_zero ? 0x7ffu : 0x7ffu + (bits >> 12 & 1);
    return bits_float((bits + half) & 0xfffff000u);
}
template <typename Acc, typename T>
void round_operand(Acc* values, size_t count) {
    if constexpr (std::is_same_v<T, float>) {
        if (!rounds_to_hf32()) return;
        const bool ties_to_zero = (self->registers[kRegCubeModes] & 2) != 0;
        for (size_t i = 0; i < count; ++i) values[i] = to_hf32(values[i], ties_to_zero);
    }
}

// A as floats (or int32), fractal by fractal. With one row the hardware reads A as a plain vector (GEMV): it is row 0 of each fractal.
// Rows beyond m hold whatever L0A holds; they only reach rows of C that nobody may read.
template <typename Acc, typename U>
const Acc* mmad_left(const uint8_t* a, const MmadShape& s) {
    const uint32_t fractal = 16 * s.k0;
    auto* out = reinterpret_cast<Acc*>(cube_scratch(0, size_t{s.mf} * s.kf * fractal));
    if (!s.gemv) {
        if constexpr (kChip.l0a_column_major)
            for (uint32_t i = 0; i < s.mf; ++i)
                for (uint32_t j = 0; j < s.kf; ++j)
                    cube_elements<Acc, U>(out + (size_t{i} * s.kf + j) * fractal, a, (uint64_t{j} * s.mf + i) * fractal, fractal);
        else
            cube_elements<Acc, U>(out, a, 0, s.mf * s.kf * fractal);
        round_operand<Acc, U>(out, size_t{s.mf} * s.kf * fractal);
        return out;
    }
    std::memset(static_cast<void*>(out), 0, size_t{s.kf} * fractal * sizeof(Acc));
    for (uint32_t f = 0; f < s.kf; ++f) cube_elements<Acc, U>(out + size_t{f} * fractal, a, uint64_t{f} * s.k0, s.k0);
    round_operand<Acc, U>(out, size_t{s.kf} * fractal);
    return out;
}

// B as floats (or int32): [nf][kf*k0][16].
template <typename Acc, typename S>
const Acc* mmad_right(const uint8_t* b, const MmadShape& s) {
    const uint32_t fractal = 16 * s.k0;
    auto* out = reinterpret_cast<Acc*>(cube_scratch(1, size_t{s.nf} * s.kf * fractal));
    for (uint32_t f = 0; f < s.kf; ++f)
        for (uint32_t j = 0; j < s.nf; ++j) {
            const uint64_t from = (uint64_t{f} * s.nf + j) * fractal;
            Acc* to = out + (size_t{j} * s.kf + f) * fractal;
            if constexpr (sizeof(S) == 2) {
                uint16_t rows[256];
                transpose_16x16(rows, reinterpret_cast<const uint16_t*>(b) + from);
                cube_elements<Acc, S>(to, reinterpret_cast<const uint8_t*>(rows), 0, 256);
            } else {
                Acc columns[16 * 64];
                cube_elements<Acc, S>(columns, b, from, fractal);
                for (uint32_t i = 0; i < s.k0; ++i)
                    for (uint32_t c = 0; c < 16; ++c) to[i * 16 + c] = columns[c * s.k0 + i];
            }
        }
    round_operand<Acc, S>(out, size_t{s.nf} * s.kf * fractal);
    return out;
}

template <typename U, typename S, typename Acc>
void mmad_run(Acc* c, const uint8_t* a, const uint8_t* b, const Acc* bias, const MmadShape& s, bool accumulate) {
    if (bias != nullptr)
        for (uint32_t j = 0; j < s.nf; ++j)
            for (uint32_t e = 0; e < s.mf * 256; ++e) c[size_t{j} * s.mf * 256 + e] = bias[j * 16 + e % 16];
    cube_product(c, mmad_left<Acc, U>(a, s), mmad_right<Acc, S>(b, s), {s.mf, s.kf, s.nf, s.k0, s.k, accumulate || bias != nullptr});
}

// Products of fewer than ten blocks of C may read their sum before the product before has written it. Page: Mmad, 同步优化说明.
inline constexpr uint32_t kSelfOrderedBlocks = 10;
inline bool small_product(const AscendC::MmadParams& p) { return p.m / 16 * (p.n / 16) < kSelfOrderedBlocks; }
// The register holds where the last small product put its sum (+ 1); a barrier of the cube's pipe clears it.
inline void require_pipe_barrier(const AscendC::MmadParams& p, uint32_t sum_address, bool accumulates, Site site) {
    uint64_t& last = self->registers[kRegSmallProduct];
    if (accumulates && small_product(p) && last == sum_address + 1u)
        warn("mmad-needs-barrier", site, &kOpMmad,
             "Mmad adds %ux%u to the sum of the Mmad before without PipeBarrier<PIPE_M> between them: (m/16)*(n/16) = %u is below %u", p.m,
             p.n, p.m / 16 * (p.n / 16), kSelfOrderedBlocks);
    last = small_product(p) ? sum_address + 1u : 0;
}

template <typename T, typename U, typename S>
void mmad_of_types(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& fm, const AscendC::LocalTensor<S>& filter,
                   const AscendC::LocalTensor<T>* bias, const AscendC::MmadParams& p, Site site) {
    if (self->type == CoreType::aiv || p.m == 0 || p.n == 0 || p.k == 0) return;
    if (p.m > kCubeLimit || p.n > kCubeLimit || p.k > kCubeLimit) {
        report("mmad-size-limit", site, &kOpMmad, "Mmad: m=%u n=%u k=%u, each may be at most %u", p.m, p.n, p.k, kCubeLimit);
        return;
    }
    const MmadShape s = MmadShape::of<U>(p);
    const uint64_t a_bytes = s.gemv ? bytes_of<U>(s.k) : uint64_t{s.mf} * s.kf * kFractalBytes;
    const uint64_t b_bytes = uint64_t{s.kf} * s.nf * kFractalBytes, c_bytes = uint64_t{s.mf} * s.nf * 256 * sizeof(T);
    const bool from_table = bias != nullptr || (!p.cmatrixInitVal && p.cmatrixSource);
    const bool accumulate = !from_table && !(p.cmatrixInitVal && !p.isBias);
    if (dst.space() != Space::l0c || fm.space() != Space::l0a || filter.space() != Space::l0b) {
        report("wrong-position", site, &kOpMmad, "Mmad: dst is in %s, fm in %s, filter in %s; they must be in L0C, L0A, L0B",
               kSpaceNames[static_cast<int>(dst.space())], kSpaceNames[static_cast<int>(fm.space())],
               kSpaceNames[static_cast<int>(filter.space())]);
        return;
    }
    if (!(require_operand(kOpMmad, "dst", dst, c_bytes, 1024, site) & require_operand(kOpMmad, "fm", fm, a_bytes, 512, site) &
          require_operand(kOpMmad, "filter", filter, b_bytes, 512, site)))
        return;
    if (bias != nullptr && bias->space() == Space::bias &&
        !require_operand(kOpMmad, "bias", *bias, uint64_t{s.nf} * 16 * sizeof(T), 64, site))
        return;
    const uint32_t flags = (accumulate ? 0 : kMmadInit) | (from_table ? kMmadBias : 0) | (p.unitFlag != 0 ? kMmadUnitFlag : 0) |
                           (std::is_same_v<U, float> && rounds_to_hf32() ? kMmadHf32 : 0);
    require_pipe_barrier(p, dst.address(), accumulate, site);
    Instr& instr = record(kOpMmad, site, s.mf * s.kf * s.nf, static_cast<uint32_t>(dtype_of<U>) | flags);
    touch(instr, Space::l0a, Mode::read, fm.address(), a_bytes);
    touch(instr, Space::l0b, Mode::read, filter.address(), b_bytes);
    if (bias != nullptr) touch(instr, bias->space(), Mode::read, bias->address(), uint64_t{s.nf} * 16 * sizeof(T));
    touch(instr, Space::l0c, accumulate ? Mode::update : Mode::write, dst.address(), c_bytes);
    if (TOPROPE_UNLIKELY(capturing))
        keep_numbers({s.m, s.n, s.k, s.mf, s.kf, s.nf, s.k0, s.gemv, static_cast<int64_t>(dtype_of<T>), static_cast<int64_t>(dtype_of<S>)});
    if (!self->execute) return;
    if constexpr (std::is_same_v<T, half>) {  // 910/310P: the sum is kept in float and rounded once
        const uint32_t count = s.mf * s.nf * 256;
        float* wide = cube_scratch(2, count);
        half_to_float_n(wide, reinterpret_cast<const uint16_t*>(dst.host()), count);
        mmad_run<U, S, float>(wide, fm.host(), filter.host(), nullptr, s, accumulate);
        float_to_half_n(reinterpret_cast<uint16_t*>(dst.host()), wide, count);
    } else {
        const T* table = bias != nullptr ? reinterpret_cast<const T*>(bias->host())
                                         : (from_table ? reinterpret_cast<const T*>(self->memory[static_cast<int>(Space::bias)]) : nullptr);
        mmad_run<U, S, T>(reinterpret_cast<T*>(dst.host()), fm.host(), filter.host(), table, s, accumulate);
    }
}

template <typename T, typename U, typename S>
void mmad(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& fm, const AscendC::LocalTensor<S>& filter,
          const AscendC::LocalTensor<T>* bias, const AscendC::MmadParams& p, Site site) {
    // Kernels for several chips hold branches with a half result that this chip never takes: those compile, and are refused when reached.
    static_assert(mmad_types<T, U, S>() || std::is_same_v<T, half>,
                  "Mmad: this chip does not multiply these element types into this result type (see `toprope api Mmad`)");
    if constexpr (!mmad_types<T, U, S>())
        return report("mmad-types", site, &kOpMmad, "Mmad: this chip has no product of these element types with a result of half");
    else
        mmad_of_types(dst, fm, filter, bias, p, site);
}

}  // namespace toprope

namespace AscendC {

//: Mmad | dst (+)= fm x filter (+ bias) on the cube | half bfloat16_t float int8_t int4b_t | A2 A3 310P | Mmad
template <typename T, typename U, typename S>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const MmadParams& mmadParams,
          toprope::Site site = toprope::Site::here()) {
    toprope::mmad<T, U, S>(dst, fm, filter, nullptr, mmadParams, site);
}
template <typename T, typename U, typename S, typename V>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const LocalTensor<V>& bias,
          const MmadParams& mmadParams, toprope::Site site = toprope::Site::here()) {
    static_assert(std::is_same_v<T, V>, "Mmad: the bias has the element type of the result");
    toprope::mmad<T, U, S>(dst, fm, filter, &bias, mmadParams, site);
}

enum class HF32Mode : uint8_t { DISABLE = 0, ENABLE };
enum class HF32TransMode : uint8_t { NEAREST_EVEN = 0, NEAREST_ZERO };

//: SetHF32Mode, SetHF32TransMode, SetMMColumnMajor, SetMMRowMajor, SetMMLayoutTransform | cube modes: HF32 rounding of float operands, order of the product | - | A2 A3 | SetHF32Mode
inline void SetHF32Mode(bool hf32Mode) { toprope::set_cube_mode(0, hf32Mode); }
inline void SetHF32Mode(HF32Mode hf32Mode) { toprope::set_cube_mode(0, hf32Mode == HF32Mode::ENABLE); }
inline void SetHF32TransMode(bool hf32TransMode) { toprope::set_cube_mode(1, hf32TransMode); }
inline void SetHF32TransMode(HF32TransMode mode) { toprope::set_cube_mode(1, mode == HF32TransMode::NEAREST_ZERO); }
inline void SetMMLayoutTransform(bool columnMajor) { toprope::set_cube_mode(2, columnMajor); }
inline void SetMMColumnMajor() { SetMMLayoutTransform(true); }
inline void SetMMRowMajor() { SetMMLayoutTransform(false); }

}  // namespace AscendC
