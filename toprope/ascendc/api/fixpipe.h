// The way out of L0C: layout change, quantisation, relu. Pages: Fixpipe, 随路量化, NZ2ND, NZ2NZ, F32-Channel-Split.
#pragma once

#include "../machine/cube.h"

enum QuantMode_t {
    NoQuant,
    F322F16,
    F322BF16,
    DEQF16,
    VDEQF16,
    QF322B8_PRE,
    VQF322B8_PRE,
    REQ8,
    VREQ8,
    // Of later chips: an error where one is used.
    QF322F16_PRE,
    QF322BF16_PRE,
    QF322F32_PRE
};

namespace AscendC {

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };
struct FixpipeConfig {
    CO2Layout format;
    bool isToUB = false;
};
inline constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ, false}, CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR, false},
                               CFG_COLUMN_MAJOR = {CO2Layout::COLUMN_MAJOR, false};

struct FixpipeParamsV220 {
    uint16_t nSize = 0, mSize = 0, srcStride = 0;
    uint32_t dstStride = 0;
    QuantMode_t quantPre = NoQuant;
    uint64_t deqScalar = 0;
    uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
    bool reluEn = false;
    uint8_t unitFlag = 0;
    bool isChannelSplit = false;
    FixpipeParamsV220() = default;
    FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src, uint32_t dst, bool relu)
        : nSize(n), mSize(m), srcStride(src), dstStride(dst), reluEn(relu) {}
    FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src, uint32_t dst, bool relu, QuantMode_t quant, int64_t scalar)
        : nSize(n), mSize(m), srcStride(src), dstStride(dst), quantPre(quant), deqScalar(static_cast<uint64_t>(scalar)), reluEn(relu) {}
    FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src, uint32_t dst, bool relu, QuantMode_t quant, int64_t scalar, uint16_t nds,
                      uint16_t src_nd, uint16_t dst_nd, uint8_t unit = 0)
        : nSize(n),
          mSize(m),
          srcStride(src),
          dstStride(dst),
          quantPre(quant),
          deqScalar(static_cast<uint64_t>(scalar)),
          ndNum(nds),
          srcNdStride(src_nd),
          dstNdStride(dst_nd),
          reluEn(relu),
          unitFlag(unit) {}
};

}  // namespace AscendC

namespace toprope {

inline constexpr Op kOpFixpipeGm{"Fixpipe", Pipe::fix, Kind::copy, "l0c_to_gm"};
inline constexpr Op kOpFixpipeL1{"Fixpipe", Pipe::fix, Kind::copy, "l0c_to_l1"};
inline constexpr Op kOpFixpipeFactors{"Fixpipe(factors)", Pipe::fix, Kind::copy, "l1_to_fixbuf"};

// The chip keeps 10 mantissa bits of a quantisation factor.
inline float quant_factor(uint64_t parameter) { return bits_float(static_cast<uint32_t>(parameter) & 0xffffe000u); }

inline float round_even(float v) { return __builtin_rintf(v); }

template <typename D>
D saturate_b8(float value, uint64_t parameter) {
    const auto offset = static_cast<int32_t>(static_cast<int64_t>(parameter << 18) >> 55);  // 9 signed bits from bit 37
    const float shifted = round_even(value) + static_cast<float>(offset);
    const float low = std::is_same_v<D, uint8_t> ? 0.f : -128.f, high = std::is_same_v<D, uint8_t> ? 255.f : 127.f;
    return static_cast<D>(shifted != shifted ? 0.f : (shifted < low ? low : (shifted > high ? high : shifted)));
}

// One value of L0C on its way out.
template <typename D, typename S>
D fixpipe_value(S value, QuantMode_t mode, uint64_t parameter, bool relu) {
    if (relu && value < S(0)) value = S(0);
    if constexpr (std::is_same_v<D, S>)
        return value;
    else if constexpr (is_float16<D>) {
        if (mode == DEQF16 || mode == VDEQF16) {
            float wide = static_cast<float>(value);
            if constexpr (std::is_same_v<S, int32_t>)
                if (parameter >> 36 & 1) wide = static_cast<float>(static_cast<int16_t>(value >> ((parameter >> 32 & 0xf) + 1)));
            return D(wide * quant_factor(parameter));
        }
        return D(static_cast<float>(value));
    } else if constexpr (sizeof(D) == 1) {
        float wide = static_cast<float>(value);
        if constexpr (std::is_same_v<S, int32_t>)
            if (parameter >> 36 & 1) wide = static_cast<float>(static_cast<int16_t>(value >> ((parameter >> 32 & 0xf) + 1)));
        return saturate_b8<D>(wide * quant_factor(parameter), parameter);
    } else {
        return static_cast<D>(value);
    }
}

// Where element (m, n) of result `nd` lies in L0C: zN, 16x16 blocks; srcStride counts rows of 16 elements between columns of blocks.
inline uint64_t l0c_index(uint32_t nd, uint32_t m, uint32_t n, const AscendC::FixpipeParamsV220& p) {
    return (uint64_t{nd} * p.srcNdStride * 16 + uint64_t{n / 16} * p.srcStride + m) * 16 + n % 16;
}

// `count` (at most 32) neighbours in row m from column n.
template <typename S>
void l0c_row(S* out, const uint8_t* base, uint32_t nd, uint32_t m, uint32_t n, uint32_t count, const AscendC::FixpipeParamsV220& p) {
    for (uint32_t i = 0; i < count; i += 16)
        std::memcpy(static_cast<void*>(out + i), base + l0c_index(nd, m, n + i, p) * sizeof(S),
                    (count - i < 16 ? count - i : 16) * sizeof(S));
}

// Where the result goes: rows of an ND matrix, or columns of c0 elements (NZ).
template <typename D>
struct FixpipeTarget {
    bool nz;
    uint32_t c0;
    uint64_t offset(uint32_t nd, uint32_t m, uint32_t n, const AscendC::FixpipeParamsV220& p) const {
        if (nz) return uint64_t{n / c0} * p.dstStride * 32 + uint64_t{m} * c0 * sizeof(D) + n % c0 * sizeof(D);
        return (uint64_t{nd} * p.dstNdStride + uint64_t{m} * p.dstStride + n) * sizeof(D);
    }
};

template <typename D, typename S>
void fixpipe_run(uint8_t* to, const uint8_t* from, const uint64_t* factors, const FixpipeTarget<D>& target,
                 const AscendC::FixpipeParamsV220& p, bool to_gm) {
    const bool atomic = to_gm && self->atomic != AtomicOp::none, unchanged = std::is_same_v<D, S> && !p.reluEn && !atomic;
    const uint32_t step = target.nz ? target.c0 : 16;
    for (uint32_t nd = 0; nd < (target.nz ? 1u : p.ndNum); ++nd)
        for (uint32_t m = 0; m < p.mSize; ++m)
            for (uint32_t n = 0; n < p.nSize; n += step) {
                uint8_t* at = to + target.offset(nd, m, n, p);
                const uint32_t count = p.nSize - n < step ? p.nSize - n : step;
                if (unchanged && count == 16) {
                    std::memcpy(at, from + l0c_index(nd, m, n, p) * sizeof(S), 16 * sizeof(S));
                    continue;
                }
                S in[32];
                D row[32];
                l0c_row(in, from, nd, m, n, count, p);
                for (uint32_t i = 0; i < count; ++i)
                    row[i] = fixpipe_value<D, S>(in[i], p.quantPre, factors != nullptr ? factors[n + i] : p.deqScalar, p.reluEn);
                if (atomic)
                    accumulate(at, reinterpret_cast<const uint8_t*>(row), count * sizeof(D));
                else
                    std::memcpy(at, row, count * sizeof(D));
            }
}

template <typename D, typename S>
constexpr bool fixpipe_types() {
    return (std::is_same_v<S, float> && is_one_of<D, float, half, bfloat16_t, int8_t, uint8_t>) ||
           (std::is_same_v<S, int32_t> && is_one_of<D, int32_t, half, int8_t, uint8_t>) ||
           (!toprope::kChip.a2_types && std::is_same_v<S, half> && std::is_same_v<D, half>);
}

template <typename D, typename S>
uint64_t fixpipe_source_bytes(const AscendC::FixpipeParamsV220& p) {
    return ((uint64_t{p.ndNum - 1u} * p.srcNdStride * 16 + uint64_t{ceil_div(p.nSize, 16) - 1} * p.srcStride + p.mSize) * 16) * sizeof(S);
}

template <typename D>
void touch_target(Instr& instr, Space space, Mode mode, uint64_t address, const FixpipeTarget<D>& t, const AscendC::FixpipeParamsV220& p) {
    if (t.nz) {
        touch(instr, space, mode, address, uint64_t{p.mSize} * t.c0 * sizeof(D), ceil_div(p.nSize, t.c0), int64_t{p.dstStride} * 32);
        return;
    }
    touch(instr, space, mode, address, uint64_t{p.nSize} * sizeof(D), p.mSize, static_cast<int64_t>(p.dstStride * sizeof(D)), p.ndNum > 1);
    if (p.ndNum > 1) touch(instr, space, mode, 0, 0, p.ndNum, static_cast<int64_t>(p.dstNdStride * sizeof(D)));
}

template <typename D, typename S>
FixpipeTarget<D> fixpipe_target(const AscendC::FixpipeConfig& config, const AscendC::FixpipeParamsV220& p) {
    const bool nz = config.format == AscendC::CO2Layout::NZ;
    // NZ keeps 16 columns together, except 8-bit results (32) and float results whose channels are split (8).
    return {nz, sizeof(D) == 1 ? 32u : (sizeof(D) == 4 && p.isChannelSplit ? 8u : 16u)};
}

template <typename D, typename S>
bool require_fixpipe(const Op& op, const AscendC::LocalTensor<S>& src, const AscendC::FixpipeParamsV220& p, Site site) {
    if (src.space() != Space::l0c) {
        report("wrong-position", site, &op, "Fixpipe: src is in %s; it must be in L0C (CO1)", kSpaceNames[static_cast<int>(src.space())]);
        return false;
    }
    if (p.quantPre > VREQ8)
        report("quant-mode-missing", site, &op, "Fixpipe: quantPre is %d, a mode that this chip does not have",
               static_cast<int>(p.quantPre));
    if (sizeof(D) != sizeof(S) && p.quantPre == NoQuant)
        report("quant-mode-missing", site, &op,
               "Fixpipe changes the element type, but quantPre is NoQuant: set F322F16, F322BF16 or a quantisation mode");
    return require_operand(op, "src", src, fixpipe_source_bytes<D, S>(p), 64, site);
}

template <typename S>
void touch_source(Instr& instr, const AscendC::LocalTensor<S>& src, const AscendC::FixpipeParamsV220& p) {
    touch(instr, Space::l0c, Mode::read, src.address(), uint64_t{p.mSize} * 16 * sizeof(S), ceil_div(p.nSize, 16),
          int64_t{p.srcStride} * 16 * static_cast<int64_t>(sizeof(S)), p.ndNum > 1);
    if (p.ndNum > 1) touch(instr, Space::l0c, Mode::read, 0, 0, p.ndNum, int64_t{p.srcNdStride} * 256 * static_cast<int64_t>(sizeof(S)));
}

// For `toprope bisect-precision`: the sizes and places of a copy out of L0C, how it converts, and the scale of each column (or of all).
template <typename D, typename S>
void keep_fixpipe(const FixpipeTarget<D>& t, const AscendC::FixpipeParamsV220& p, const uint64_t* factors, bool to_gm) {
    keep_numbers({t.nz ? 1 : p.ndNum, p.mSize, p.nSize, p.srcStride, p.srcNdStride, p.dstStride, p.dstNdStride, t.nz ? t.c0 : 0, p.reluEn,
                  p.quantPre, static_cast<int64_t>(dtype_of<S>), to_gm ? static_cast<int64_t>(self->atomic) : 0});
    for (uint32_t n = 0; n < (factors != nullptr ? p.nSize : 1u); ++n)
        keep_numbers({static_cast<int64_t>(factors != nullptr ? factors[n] : p.deqScalar)});
}

template <typename D, typename S>
void fixpipe_to_gm(const AscendC::GlobalTensor<D>& dst, const AscendC::LocalTensor<S>& src, const uint64_t* factors,
                   const AscendC::FixpipeConfig& config, const AscendC::FixpipeParamsV220& p, Site site) {
    static_assert(fixpipe_types<D, S>(), "Fixpipe: this chip has no conversion between these element types (see `toprope api Fixpipe`)");
    if (self->type == CoreType::aiv || p.nSize == 0 || p.mSize == 0 || p.ndNum == 0) return;
    const FixpipeTarget<D> target = fixpipe_target<D, S>(config, p);
    auto* to = reinterpret_cast<uint8_t*>(dst.pointer());
    const uint64_t last = target.nz ? target.offset(0, p.mSize - 1, (p.nSize - 1) / target.c0 * target.c0, p) + target.c0 * sizeof(D)
                                    : target.offset(p.ndNum - 1u, p.mSize - 1, p.nSize - 1, p) + sizeof(D);
    const uint64_t gm = gm_address(to, last, kOpFixpipeGm, site, true);
    if (!require_fixpipe<D, S>(kOpFixpipeGm, src, p, site) || gm == 0) return;
    Instr& instr = record(kOpFixpipeGm, site, target.nz ? ceil_div(p.nSize, target.c0) : uint32_t{p.mSize} * p.ndNum,
                          static_cast<uint32_t>(dtype_of<D>) | static_cast<uint32_t>(dst.bypasses_l2(true)) << 8 |
                              static_cast<uint32_t>(p.unitFlag != 0) << 9 | static_cast<uint32_t>(!target.nz) << 10);
    touch_source(instr, src, p);
    touch_target(instr, Space::gm, self->atomic == AtomicOp::none ? Mode::write : Mode::update, gm, target, p);
    if (TOPROPE_UNLIKELY(capturing)) keep_fixpipe<D, S>(target, p, factors, true);
    if (self->execute) fixpipe_run<D, S>(to, src.host(), factors, target, p, true);
}

template <typename D, typename S>
void fixpipe_to_l1(const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src, const uint64_t* factors,
                   const AscendC::FixpipeConfig& config, const AscendC::FixpipeParamsV220& p, Site site) {
    static_assert(fixpipe_types<D, S>(), "Fixpipe: this chip has no conversion between these element types (see `toprope api Fixpipe`)");
    if (self->type == CoreType::aiv || p.nSize == 0 || p.mSize == 0) return;
    if (dst.space() != Space::l1) {
        report("no-such-path", site, &kOpFixpipeL1, "Fixpipe: this chip has no path from L0C to %s; go through GM",
               kSpaceNames[static_cast<int>(dst.space())]);
        return;
    }
    const FixpipeTarget<D> target = fixpipe_target<D, S>(config, p);
    const uint64_t last = target.offset(0, p.mSize - 1, (p.nSize - 1) / target.c0 * target.c0, p) + target.c0 * sizeof(D);
    if (!(require_fixpipe<D, S>(kOpFixpipeL1, src, p, site) & require_operand(kOpFixpipeL1, "dst", dst, last, 32, site))) return;
    Instr& instr = record(kOpFixpipeL1, site, ceil_div(p.nSize, target.c0),
                          static_cast<uint32_t>(dtype_of<D>) | static_cast<uint32_t>(p.unitFlag != 0) << 9);
    touch_source(instr, src, p);
    touch_target(instr, Space::l1, Mode::write, dst.address(), target, p);
    if (TOPROPE_UNLIKELY(capturing)) keep_fixpipe<D, S>(target, p, factors, false);
    if (self->execute) fixpipe_run<D, S>(dst.host(), src.host(), factors, target, p, false);
}

// One factor a column. Those in L1 go to the fixpipe buffer first, which Fixpipe does by itself. Null: they cannot be used.
inline const uint64_t* column_factors(const AscendC::LocalTensor<uint64_t>& t, const AscendC::FixpipeParamsV220& p, Site site) {
    if (self->type == CoreType::aiv || p.nSize == 0) return nullptr;
    const uint64_t bytes = uint64_t{p.nSize} * 8;
    if (!require_operand(kOpFixpipeFactors, "cbufWorkspace", t, bytes, 32, site)) return nullptr;
    if (t.space() == Space::l1)
        touch(record(kOpFixpipeFactors, site, 1, static_cast<uint32_t>(Dtype::u64)), Space::l1, Mode::read, t.address(), bytes);
    return reinterpret_cast<const uint64_t*>(t.host());
}

}  // namespace toprope

namespace AscendC {

//: Fixpipe | move a result from L0C to GM or L1 with layout change, quantisation and relu | float int32_t -> float half bfloat16_t int32_t int8_t uint8_t | A2 A3 | Fixpipe
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p,
             toprope::Site site = toprope::Site::here()) {
    toprope::fixpipe_to_gm<T, U>(dst, src, nullptr, config, p, site);
}
// cbufWorkspace: one quantisation parameter a column, in L1 or already in the fixpipe buffer.
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<uint64_t>& cbufWorkspace, const FixpipeParamsV220& p,
             toprope::Site site = toprope::Site::here()) {
    if (const uint64_t* factors = toprope::column_factors(cbufWorkspace, p, site))
        toprope::fixpipe_to_gm<T, U>(dst, src, factors, config, p, site);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_NZ>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p, toprope::Site site = toprope::Site::here()) {
    toprope::fixpipe_to_l1<T, U>(dst, src, nullptr, config, p, site);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_NZ>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<uint64_t>& cbufWorkspace, const FixpipeParamsV220& p,
             toprope::Site site = toprope::Site::here()) {
    if (const uint64_t* factors = toprope::column_factors(cbufWorkspace, p, site))
        toprope::fixpipe_to_l1<T, U>(dst, src, factors, config, p, site);
}

}  // namespace AscendC
