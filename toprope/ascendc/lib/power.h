// Functions with arguments of their own: Power, Exp with a Taylor part, SinCos, ClampMax, ClampMin, Xor, Axpy with temporary space.
// Pages: 高阶API/数学计算/*.
#pragma once

#include "math.h"

namespace toprope {

// y = x[0] to the power x[1] for float. A negative base needs a whole exponent and takes its parity; otherwise the result is NaN.
template <typename V>
void power_of(const V& v, const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>& base,
              const AscendC::LocalTensor<float>& exponent, const AscendC::LocalTensor<float>* t) {
    v.abs(t[0], base);
    v.log(t[0], t[0]);
    v.max(t[0], t[0], -3.4e38f);
    v.mul(t[0], t[0], exponent);
    v.exp(t[0], t[0]);  // |base|^exponent; 0^0 = 1
    v.sign(t[1], base);
    v.mul(t[1], t[1], -1.f);
    v.relu(t[1], t[1]);  // 1 where the base is negative
    v.round(t[2], exponent, AscendC::RoundMode::CAST_RINT);
    v.sub(t[3], exponent, t[2]);
    v.abs(t[3], t[3]);
    v.mul(t[3], t[3], t[1]);
    v.mul(t[3], t[3], -1.f);
    v.sqrt(t[3], t[3]);
    v.add(t[0], t[0], t[3]);  // NaN for a broken exponent
    v.mul(t[2], t[2], 0.5f);
    v.round(t[3], t[2], AscendC::RoundMode::CAST_FLOOR);
    v.sub(t[2], t[2], t[3]);  // 0.5 for odd exponents
    v.mul(t[1], t[1], t[2]);
    v.mul(t[1], t[1], -4.f);
    v.add(t[1], t[1], 1.f);
    v.mul(y, t[0], t[1]);
}

// int32: one squaring per bit of the exponent; a negative exponent gives 0, or +-1 for a base of +-1 as integer division of 1 would.
template <typename I>
void integer_power(const Steps<I>& v, const AscendC::LocalTensor<I>& y, const AscendC::LocalTensor<I>& base,
                   const AscendC::LocalTensor<I>& exponent, const AscendC::LocalTensor<I>* t) {
    v.copy(t[0], base);
    v.copy(t[1], exponent);
    v.fill(t[3], 1);
    for (int bit = 0; bit < 31; ++bit) {
        AscendC::ShiftRight(t[2], t[1], 1, v.n, v.site);
        v.wait();
        v.mul(t[2], t[2], 2);
        v.sub(t[1], t[1], t[2]);  // t[1]: this bit of the exponent
        v.add(t[0], t[0], -1);
        v.mul(t[1], t[1], t[0]);
        v.add(t[1], t[1], 1);  // base or 1
        v.mul(t[3], t[3], t[1]);
        v.add(t[0], t[0], 1);
        v.mul(t[0], t[0], t[0]);
        AscendC::ShiftRight(t[1], t[2], 1, v.n, v.site);
        v.wait();
    }
    v.copy(y, t[3]);
}

struct PowerBody {
    template <typename V>
    void operator()(const V& v, const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>* x,
                    const AscendC::LocalTensor<float>* t) const {
        power_of(v, y, x[0], x[1], t);
    }
};
// One source is a scalar: `t[4]` holds it.
template <bool scalar_base>
struct PowerScalarBody {
    float scalar;
    template <typename V>
    void operator()(const V& v, const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>* x,
                    const AscendC::LocalTensor<float>* t) const {
        v.fill(t[4], scalar);
        power_of(v, y, scalar_base ? t[4] : x[0], scalar_base ? x[0] : t[4], t);
    }
};
// The int32 forms work on the whole tensor at once.
template <typename I>
void integer_power_all(Scratch& scratch, const AscendC::LocalTensor<I>& dst, const AscendC::LocalTensor<I>* base,
                       const AscendC::LocalTensor<I>* exponent, I scalar, uint32_t count, Site site) {
    AscendC::LocalTensor<I> t[5];
    for (int i = 0; i < (base && exponent ? 4 : 5); ++i) t[i] = scratch.template take<I>(count);
    if (!scratch.enough()) return;
    const Steps<I> v{static_cast<int32_t>(count), site};
    if (!base || !exponent) v.fill(t[4], scalar);
    integer_power(v, dst, base ? *base : t[4], exponent ? *exponent : t[4], t);
}

template <typename T>
inline constexpr bool kPowerType = is_one_of<T, half, float> || (toprope::kChip.a2_types && std::is_same_v<T, int32_t>);

template <typename T>
void power(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& base,
           const AscendC::LocalTensor<T>& exponent, uint32_t count, Site site) {
    static_assert(kPowerType<T>, "Power: half, float and int32_t only (see `toprope api Power`)");
    if constexpr (std::is_same_v<T, int32_t>)
        integer_power_all<T>(scratch, dst, &base, &exponent, 0, count, site);
    else
        by_pieces<kPowerTemporaries>(scratch, dst, {base, exponent}, count, site, PowerBody{});
}
template <typename T>
void power(Scratch scratch, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& base, const T& exponent, uint32_t count,
           Site site) {
    static_assert(kPowerType<T>, "Power: half, float and int32_t only (see `toprope api Power`)");
    if constexpr (std::is_same_v<T, int32_t>)
        integer_power_all<T>(scratch, dst, &base, nullptr, exponent, count, site);
    else
        by_pieces<kPowerTemporaries + 1>(scratch, dst, {base}, count, site, PowerScalarBody<false>{static_cast<float>(exponent)});
}
template <typename T>
void power(Scratch scratch, const AscendC::LocalTensor<T>& dst, const T& base, const AscendC::LocalTensor<T>& exponent, uint32_t count,
           Site site) {
    static_assert(kPowerType<T>, "Power: half, float and int32_t only (see `toprope api Power`)");
    if constexpr (std::is_same_v<T, int32_t>)
        integer_power_all<T>(scratch, dst, nullptr, &exponent, base, count, site);
    else
        by_pieces<kPowerTemporaries + 1>(scratch, dst, {exponent}, count, site, PowerScalarBody<true>{static_cast<float>(base)});
}

// exp(a + b) = exp(a) * (1 + b + b^2/2! + ...), a the whole part, b the rest.
template <uint8_t level>
struct ExpTaylorBody {
    template <typename V>
    void operator()(const V& v, const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>* x,
                    const AscendC::LocalTensor<float>* t) const {
        v.round(t[0], x[0], AscendC::RoundMode::CAST_FLOOR);
        v.sub(t[1], x[0], t[0]);
        v.exp(t[0], t[0]);
        v.fill(t[2], 1.f);
        for (int i = level; i > 0; --i) {
            v.mul(t[2], t[2], t[1]);
            v.mul(t[2], t[2], 1.f / static_cast<float>(i));
            v.add(t[2], t[2], 1.f);
        }
        v.mul(y, t[0], t[2]);
    }
};

}  // namespace toprope

namespace AscendC {

//: Power | dst = src0 to the power src1; one of them may be a scalar | half float int32_t | A2 A3 310P | Power
#define TOPROPE_POWER(A, B)                                                                                                              \
    template <typename T, bool isReuseSource = false TOPROPE_CONFIG>                                                                     \
    void Power(const LocalTensor<T>& dst, const A& src0, const B& src1, const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t calCount,  \
               toprope::Site site = toprope::Site::here()) {                                                                             \
        toprope::power<T>(toprope::Scratch("Power", sharedTmpBuffer, site), dst, src0, src1, calCount, site);                            \
    }                                                                                                                                    \
    template <typename T, bool isReuseSource = false TOPROPE_CONFIG>                                                                     \
    void Power(const LocalTensor<T>& dst, const A& src0, const B& src1, const LocalTensor<uint8_t>& sharedTmpBuffer,                     \
               toprope::Site site = toprope::Site::here()) {                                                                             \
        toprope::power<T>(toprope::Scratch("Power", sharedTmpBuffer, site), dst, src0, src1, dst.GetSize(), site);                       \
    }                                                                                                                                    \
    template <typename T, bool isReuseSource = false TOPROPE_CONFIG>                                                                     \
    void Power(const LocalTensor<T>& dst, const A& src0, const B& src1, uint32_t calCount, toprope::Site site = toprope::Site::here()) { \
        toprope::power<T>(toprope::Scratch("Power", site), dst, src0, src1, calCount, site);                                             \
    }                                                                                                                                    \
    template <typename T, bool isReuseSource = false TOPROPE_CONFIG>                                                                     \
    void Power(const LocalTensor<T>& dst, const A& src0, const B& src1, toprope::Site site = toprope::Site::here()) {                    \
        toprope::power<T>(toprope::Scratch("Power", site), dst, src0, src1, dst.GetSize(), site);                                        \
    }
TOPROPE_POWER(LocalTensor<T>, LocalTensor<T>)
TOPROPE_POWER(LocalTensor<T>, T)
TOPROPE_POWER(T, LocalTensor<T>)
#undef TOPROPE_POWER

//: ClampMax | dst = the smaller of src and scalar | half float | A2 A3 310P | ClampMax
//: ClampMin | dst = the larger of src and scalar | half float | A2 A3 310P | ClampMin
#define TOPROPE_CLAMP(Name, call)                                                                                                         \
    template <typename T, bool isReuseSource = false>                                                                                     \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T scalar, const uint32_t calCount,                              \
              toprope::Site site = toprope::Site::here()) {                                                                               \
        static_assert(toprope::kLibraryFloat<T>, #Name ": half and float only (see `toprope api " #Name "`)");                            \
        call(dst, src, scalar, static_cast<int32_t>(calCount), site);                                                                     \
    }                                                                                                                                     \
    template <typename T, bool isReuseSource = false>                                                                                     \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&, const T scalar, const uint32_t calCount, \
              toprope::Site site = toprope::Site::here()) {                                                                               \
        Name<T>(dst, src, scalar, calCount, site);                                                                                        \
    }
TOPROPE_CLAMP(ClampMax, Mins)
TOPROPE_CLAMP(ClampMin, Maxs)
#undef TOPROPE_CLAMP

//: Xor | dst = src0 xor src1 | int16_t uint16_t | A2 A3 310P | Xor
template <typename T, bool isReuseSource = false>
void Xor(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const LocalTensor<uint8_t>& sharedTmpBuffer,
         const uint32_t calCount, toprope::Site site = toprope::Site::here()) {
    static_assert(toprope::is_one_of<T, int16_t, uint16_t>, "Xor: int16_t and uint16_t only (see `toprope api Xor`)");
    toprope::Scratch scratch("Xor", sharedTmpBuffer, site);
    const LocalTensor<T> both = scratch.take<T>(calCount);
    if (!scratch.enough()) return;
    const auto n = static_cast<int32_t>(calCount);
    const toprope::Steps<T> v{n, site};
    And(both, src0, src1, n, site);
    v.wait();
    Not(both, both, n, site);
    v.wait();
    Or(dst, src0, src1, n, site);
    v.wait();
    And(dst, dst, both, n, site);
    v.wait();
}
template <typename T, bool isReuseSource = false>
void Xor(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const LocalTensor<uint8_t>& sharedTmpBuffer,
         toprope::Site site = toprope::Site::here()) {
    Xor<T>(dst, src0, src1, sharedTmpBuffer, src0.GetSize(), site);
}
template <typename T, bool isReuseSource = false>
void Xor(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const uint32_t calCount,
         toprope::Site site = toprope::Site::here()) {
    LocalTensor<uint8_t> rest;
    PopStackBuffer<uint8_t, TPosition::VECCALC>(rest);
    Xor<T>(dst, src0, src1, rest, calCount, site);
}
template <typename T, bool isReuseSource = false>
void Xor(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, toprope::Site site = toprope::Site::here()) {
    Xor<T>(dst, src0, src1, src0.GetSize(), site);
}

template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount,
         toprope::Site site = toprope::Site::here()) {
    toprope::Scratch scratch("Exp", sharedTmpBuffer, site);
    if constexpr (taylorExpandLevel == 0)
        toprope::Steps<T>{static_cast<int32_t>(calCount), site}.exp(dst, src);
    else
        toprope::by_pieces<toprope::kExpTemporaries>(scratch, dst, {src}, calCount, site, toprope::ExpTaylorBody<taylorExpandLevel>{});
}
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t calCount, toprope::Site site = toprope::Site::here()) {
    LocalTensor<uint8_t> rest;
    PopStackBuffer<uint8_t, TPosition::VECCALC>(rest);
    Exp<T, taylorExpandLevel>(dst, src, rest, calCount, site);
}

template <typename T, typename U, bool isReuseSource = false>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U scalarValue, const LocalTensor<uint8_t>&, const uint32_t calCount,
          toprope::Site site = toprope::Site::here()) {
    Axpy(dst, src, scalarValue, static_cast<int32_t>(calCount), site);
    toprope::pipe_barrier(toprope::Pipe::v, site);
}

}  // namespace AscendC
