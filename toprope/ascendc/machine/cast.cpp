// The loops of Cast and CastDequant. Included by runtime.cpp. Most conversions go through a chunk of floats in three stages, so that
// pairs and rounding modes do not multiply.
#include "cast.h"
#include "float_math.h"

namespace toprope {

using AscendC::RoundMode;

// ---- stage 1: any source as float -----------------------------------------------------------------------------------------

template <typename S>
static void to_float(float* out, const void* src, size_t begin, size_t n) {
    const S* in = static_cast<const S*>(src) + begin;
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
}
static void load_floats(Dtype from, float* out, const void* src, size_t begin, size_t n) {
    switch (from) {
        case Dtype::f32:
            std::memcpy(out, static_cast<const float*>(src) + begin, n * sizeof(float));
            return;
        case Dtype::f16:
            return half_to_float_n(out, static_cast<const uint16_t*>(src) + begin, n);
        case Dtype::bf16:
            for (size_t i = 0; i < n; ++i) out[i] = bfloat16_to_float(static_cast<const uint16_t*>(src)[begin + i]);
            return;
        case Dtype::s4:
            for (size_t i = 0; i < n; ++i) {
                const uint8_t byte = static_cast<const uint8_t*>(src)[(begin + i) / 2];
                out[i] = static_cast<float>(static_cast<int8_t>(i % 2 ? byte & 0xf0 : byte << 4) >> 4);
            }
            return;
        case Dtype::s8:
            return to_float<int8_t>(out, src, begin, n);
        case Dtype::u8:
            return to_float<uint8_t>(out, src, begin, n);
        case Dtype::s16:
            return to_float<int16_t>(out, src, begin, n);
        case Dtype::s32:
            return to_float<int32_t>(out, src, begin, n);
        case Dtype::s64:
            return to_float<int64_t>(out, src, begin, n);
        default:
            return;
    }
}

// ---- stage 2: to whole numbers --------------------------------------------------------------------------------------------

template <typename F>
static void each(float* values, size_t n, F f) {
    for (size_t i = 0; i < n; ++i) values[i] = f(values[i]);
}
static void round_floats(RoundMode mode, float* values, size_t n) {
    switch (mode) {
        case RoundMode::CAST_FLOOR:
            return each(values, n, [](float x) { return __builtin_floorf(x); });
        case RoundMode::CAST_CEIL:
            return each(values, n, [](float x) { return __builtin_ceilf(x); });
        case RoundMode::CAST_TRUNC:
            return each(values, n, [](float x) { return __builtin_truncf(x); });
        case RoundMode::CAST_ROUND:
            return each(values, n, nearest_away);
        default:
            return each(values, n, nearest_even);
    }
}

// ---- stage 3: to the destination ------------------------------------------------------------------------------------------

// A whole float to an integer; out of range saturates, NaN gives 0 (undocumented).
template <typename I>
inline I integer_of(float r) {
    if constexpr (sizeof(I) <= 2)
        return saturate_float<I>(r);
    else {
        constexpr float high = sizeof(I) == 8 ? 9223372036854775808.0f : 2147483648.0f;  // the first that does not fit
        constexpr I max = static_cast<I>(~0ull >> (65 - sizeof(I) * 8)), min = static_cast<I>(-max - 1);
        const bool fits = r >= -high && r < high;
        return fits ? static_cast<I>(r) : (r >= high ? max : (r < -high ? min : I{0}));
    }
}
template <typename I>
static void to_integer(void* dst, const float* values, size_t begin, size_t n) {
    I* out = static_cast<I*>(dst) + begin;
    for (size_t i = 0; i < n; ++i) out[i] = integer_of<I>(values[i]);
}
static void to_int4(void* dst, const float* values, size_t begin, size_t n) {
    const auto nibble = [](float r) {
        return static_cast<uint32_t>(static_cast<int32_t>(r != r ? 0.0f : (r < -8.0f ? -8.0f : (r > 7.0f ? 7.0f : r)))) & 0xfu;
    };
    for (size_t i = 0; i < n; i += 2)
        static_cast<uint8_t*>(dst)[(begin + i) / 2] =
            static_cast<uint8_t>(nibble(values[i]) | (i + 1 < n ? nibble(values[i + 1]) << 4 : 0));
}

// Storage of a 16-bit float, with what rounding to it needs.
struct HalfFormat {
    static uint16_t nearest(float x) { return float_to_half(x); }
    static float value(uint16_t b) { return half_to_float(b); }
    static constexpr uint16_t infinity = 0x7c00;
    static constexpr float tie_to_infinity = 65520.0f;
};
struct Bfloat16Format {
    static uint16_t nearest(float x) { return float_to_bfloat16(x); }
    static float value(uint16_t b) { return bfloat16_to_float(b); }
    static constexpr uint16_t infinity = 0x7f80;
    static constexpr float tie_to_infinity = 3.39617752923046005526922703901628039168e38f;  // 2^127 * (2 - 2^-8)
};

// The two neighbours of |x| in the format, then the mode's choice between them.
template <typename Format>
static uint16_t round_float16(RoundMode mode, float x) {
    const uint16_t near = Format::nearest(x);
    const float magnitude = __builtin_fabsf(x);
    if (!(magnitude <= 3.4028234663852886e38f)) return near;  // infinity and NaN stay
    const uint16_t sign = near & 0x8000u, nearest = near & 0x7fffu;
    const bool above = nearest == Format::infinity || Format::value(nearest) > magnitude;
    const auto low = static_cast<uint16_t>(above ? nearest - 1 : nearest), high = static_cast<uint16_t>(low + 1);
    if (Format::value(low) == magnitude) return near;
    bool up = false;
    switch (mode) {
        case RoundMode::CAST_FLOOR:
            up = sign != 0;
            break;
        case RoundMode::CAST_CEIL:
            up = sign == 0;
            break;
        case RoundMode::CAST_ODD:
            up = (low & 1) == 0;
            break;
        case RoundMode::CAST_ROUND:
            up = magnitude >= (high == Format::infinity ? Format::tie_to_infinity : (Format::value(low) + Format::value(high)) * 0.5f);
            break;
        default:
            break;
    }
    return static_cast<uint16_t>(sign | (up ? high : low));
}
template <typename Format>
static void to_float16(RoundMode mode, void* dst, const float* values, size_t begin, size_t n) {
    for (size_t i = 0; i < n; ++i) static_cast<uint16_t*>(dst)[begin + i] = round_float16<Format>(mode, values[i]);
}

static void store_floats(Dtype to, RoundMode mode, void* dst, const float* values, size_t begin, size_t n) {
    const bool nearest = mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT;
    switch (to) {
        case Dtype::f32:
            std::memcpy(static_cast<float*>(dst) + begin, values, n * sizeof(float));
            return;
        case Dtype::f16:
            if (nearest) return float_to_half_n(static_cast<uint16_t*>(dst) + begin, values, n);
            return to_float16<HalfFormat>(mode, dst, values, begin, n);
        case Dtype::bf16:
            if (!nearest) return to_float16<Bfloat16Format>(mode, dst, values, begin, n);
            for (size_t i = 0; i < n; ++i) static_cast<uint16_t*>(dst)[begin + i] = float_to_bfloat16(values[i]);
            return;
        case Dtype::s4:
            return to_int4(dst, values, begin, n);
        case Dtype::s8:
            return to_integer<int8_t>(dst, values, begin, n);
        case Dtype::u8:
            return to_integer<uint8_t>(dst, values, begin, n);
        case Dtype::s16:
            return to_integer<int16_t>(dst, values, begin, n);
        case Dtype::s32:
            return to_integer<int32_t>(dst, values, begin, n);
        case Dtype::s64:
            return to_integer<int64_t>(dst, values, begin, n);
        default:
            return;
    }
}

// ---- integers that do not fit a float -------------------------------------------------------------------------------------

template <typename D, typename S>
static void resize_integers(void* dst, const void* src, size_t n) {
    constexpr S low = sizeof(D) < sizeof(S) ? -(S{1} << (sizeof(D) * 8 - 1)) : 0, high = sizeof(D) < sizeof(S) ? -low - 1 : 0;
    const S* in = static_cast<const S*>(src);
    for (size_t i = 0; i < n; ++i) {
        const S x = in[i];
        static_cast<D*>(dst)[i] = sizeof(D) >= sizeof(S) ? static_cast<D>(x) : static_cast<D>(x < low ? low : (x > high ? high : x));
    }
}

// An integer to 24 significant bits.
static float round_integer(RoundMode mode, int64_t x) {
    const bool negative = x < 0;
    const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
    const int bits = magnitude == 0 ? 0 : 64 - __builtin_clzll(magnitude);
    if (bits <= 24) return static_cast<float>(x);
    const int shift = bits - 24;
    const uint64_t rest = magnitude & ((1ull << shift) - 1);
    const bool up = rest != 0 && ((mode == RoundMode::CAST_FLOOR && negative) || (mode == RoundMode::CAST_CEIL && !negative) ||
                                  (mode == RoundMode::CAST_ROUND && rest >= 1ull << (shift - 1)));
    const float value = static_cast<float>((magnitude >> shift) + (up ? 1 : 0)) * static_cast<float>(1ull << shift);
    return negative ? -value : value;
}
template <typename S>
static void round_integers(RoundMode mode, void* dst, const void* src, size_t n) {
    for (size_t i = 0; i < n; ++i) static_cast<float*>(dst)[i] = round_integer(mode, static_cast<const S*>(src)[i]);
}

// ---- a whole conversion ---------------------------------------------------------------------------------------------------

constexpr uint32_t pair_key(Dtype from, Dtype to) { return static_cast<uint32_t>(from) << 8 | static_cast<uint32_t>(to); }

void cast_lanes(Dtype to, Dtype from, RoundMode mode, void* dst, const void* src, size_t n, uint64_t deq_scale) {
    const bool nearest = mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT;
    switch (pair_key(from, to)) {
        case pair_key(Dtype::s32, Dtype::s16):
            return resize_integers<int16_t, int32_t>(dst, src, n);
        case pair_key(Dtype::s32, Dtype::s64):
            return resize_integers<int64_t, int32_t>(dst, src, n);
        case pair_key(Dtype::s64, Dtype::s32):
            return resize_integers<int32_t, int64_t>(dst, src, n);
        case pair_key(Dtype::s32, Dtype::f32):
            if (!nearest) return round_integers<int32_t>(mode, dst, src, n);
            break;
        case pair_key(Dtype::s64, Dtype::f32):
            if (!nearest) return round_integers<int64_t>(mode, dst, src, n);
            break;
        default:
            break;
    }
    const bool scales = from == Dtype::s32 && to == Dtype::f16;
    const bool whole = (to != Dtype::f16 && to != Dtype::bf16 && to != Dtype::f32) || (from == Dtype::f32 && to == Dtype::f32);
    const float scale = half_to_float(static_cast<uint16_t>(deq_scale));
    // Chunks go through a buffer, so that a narrowing conversion in place is right.
    for (size_t begin = 0; begin < n; begin += kChunk) {
        const size_t m = n - begin < kChunk ? n - begin : kChunk;
        float values[kChunk];
        load_floats(from, values, src, begin, m);
        // x / 2^17 * scale * 2^17, as the page says: the powers of two only keep intermediate values small.
        if (scales) each(values, m, [scale](float x) { return x * 7.62939453125e-06f * scale * 131072.0f; });
        if (whole) round_floats(mode, values, m);
        store_floats(to, scales ? RoundMode::CAST_RINT : mode, dst, values, begin, m);
    }
}

void dequant_lanes(bool is_signed, const Dequant& deq, uint8_t* dst, const int16_t* src, size_t n, uint64_t first) {
    for (size_t i = 0; i < n; ++i) {
        uint64_t word = deq.bits;
        if (deq.table != nullptr) std::memcpy(&word, deq.table + (first + i) % 16 * 8, sizeof word);
        // The unit sees a scale of 10 mantissa bits and a signed offset of 9 bits.
        const float scale = bits_float(static_cast<uint32_t>(word) & 0xffffe000u);
        const auto offset = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(word >> 37) << 23) >> 23);
        const float value = static_cast<float>(src[i]) * scale + offset;
        dst[i] = is_signed ? static_cast<uint8_t>(saturate_float<int8_t>(value)) : saturate_float<uint8_t>(value);
    }
}

void cast_body(const void* context, void* dst, const void* const* src, size_t n, uint64_t) {
    const auto& c = *static_cast<const CastContext*>(context);
    cast_lanes(c.to, c.from, c.mode, dst, src[0], n, c.deq.bits);
}
void dequant_body(const void* context, void* dst, const void* const* src, size_t n, uint64_t first) {
    const auto& c = *static_cast<const CastContext*>(context);
    dequant_lanes(c.to == Dtype::s8, c.deq, static_cast<uint8_t*>(dst), static_cast<const int16_t*>(src[0]), n, first);
}

// ---- require -------------------------------------------------------------------------------------------------------------

bool require_round_mode(const Op& op, Dtype from, Dtype to, uint32_t modes, RoundMode mode, Site site) {
    static constexpr const char* kNames[] = {"CAST_NONE",  "CAST_RINT",  "CAST_FLOOR", "CAST_CEIL",
                                             "CAST_ROUND", "CAST_TRUNC", "CAST_ODD",   "CAST_HYBRID"};
    if (TOPROPE_UNLIKELY((modes & mode_bit(mode)) == 0)) {
        char list[120] = "";
        for (int i = 0; i < 8; ++i)
            if (modes >> i & 1)
                std::snprintf(list + std::strlen(list), sizeof list - std::strlen(list), "%s%s", list[0] ? ", " : "", kNames[i]);
        report("cast-round-mode", site, &op, "%s from %s to %s in mode %s; this chip has %s for it", op.name,
               kDtypeNames[static_cast<int>(from)], kDtypeNames[static_cast<int>(to)], kNames[static_cast<int>(mode) & 7], list);
        return false;
    }
    return true;
}

void require_deq_scale(const Op& op, DeqKind kind, const char* call, Site site) {
    const auto set = static_cast<DeqKind>(self->registers[kRegDeqScale] >> kDeqKindShift);
    if (TOPROPE_UNLIKELY(set != kind))
        report("deq-scale-unset", site, &op, "%s scales by the register that %s fills; %s", op.name, call,
               set == DeqKind::unset ? "it has not been called on this core" : "the last SetDeqScale was of another form");
}

}  // namespace toprope
