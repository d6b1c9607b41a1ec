// The loops of Compare and Select. Included by runtime.cpp.
#include "bit_masks.h"

namespace toprope {

using AscendC::CMPMODE;

template <typename L, typename F>
static void compare_each(uint8_t* out, const L* a, const L* b, L scalar, size_t n, F f) {
    if (b == nullptr)
        for (size_t i = 0; i < n; ++i) out[i] = f(a[i], scalar);
    else
        for (size_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}
template <typename L>
static void compare_lanes(CMPMODE mode, uint8_t* out, const L* a, const L* b, L scalar, size_t n) {
    switch (mode) {
        case CMPMODE::LT:
            return compare_each(out, a, b, scalar, n, [](L x, L y) -> uint8_t { return x < y; });
        case CMPMODE::GT:
            return compare_each(out, a, b, scalar, n, [](L x, L y) -> uint8_t { return x > y; });
        case CMPMODE::EQ:
            return compare_each(out, a, b, scalar, n, [](L x, L y) -> uint8_t { return x == y; });
        case CMPMODE::LE:
            return compare_each(out, a, b, scalar, n, [](L x, L y) -> uint8_t { return x <= y; });
        case CMPMODE::GE:
            return compare_each(out, a, b, scalar, n, [](L x, L y) -> uint8_t { return x >= y; });
        default:
            return compare_each(out, a, b, scalar, n, [](L x, L y) -> uint8_t { return x != y; });
    }
}

// Eight bytes of 0 or 1 to the bits of one byte, the first in the lowest bit.
static uint8_t pack8(const uint8_t* bytes) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    return static_cast<uint8_t>(word * 0x0102040810204080ull >> 56);
}

void compare_body(const void* context, void*, const void* const* src, size_t n, uint64_t first) {
    const auto& c = *static_cast<const CompareContext*>(context);
    for (size_t begin = 0; begin < n; begin += kChunk) {
        const size_t m = n - begin < kChunk ? n - begin : kChunk;
        uint8_t truth[kChunk + 8] = {};
        if (c.dtype == Dtype::f16) {
            float a[kChunk], b[kChunk];
            half_to_float_n(a, static_cast<const uint16_t*>(src[0]) + begin, m);
            if (!c.has_scalar) half_to_float_n(b, static_cast<const uint16_t*>(src[1]) + begin, m);
            compare_lanes<float>(c.mode, truth, a, c.has_scalar ? nullptr : b, half_to_float(static_cast<uint16_t>(c.scalar)), m);
        } else if (c.dtype == Dtype::s32) {
            compare_lanes<int32_t>(c.mode, truth, static_cast<const int32_t*>(src[0]) + begin,
                                   c.has_scalar ? nullptr : static_cast<const int32_t*>(src[1]) + begin, static_cast<int32_t>(c.scalar), m);
        } else {
            compare_lanes<float>(c.mode, truth, static_cast<const float*>(src[0]) + begin,
                                 c.has_scalar ? nullptr : static_cast<const float*>(src[1]) + begin, bits_float(c.scalar), m);
        }
        for (size_t i = 0; i < m; i += 8) c.bits[(first + begin + i) / 8] = pack8(truth + i);
    }
}

template <typename U>
static void select_each(U* dst, const uint8_t* take, const U* a, const U* b, U scalar, size_t n) {
    if (b == nullptr)
        for (size_t i = 0; i < n; ++i) dst[i] = take[i] ? a[i] : scalar;
    else
        for (size_t i = 0; i < n; ++i) dst[i] = take[i] ? a[i] : b[i];
}

void select_body(const void* context, void* dst, const void* const* src, size_t n, uint64_t first) {
    const auto& c = *static_cast<const SelectContext*>(context);
    for (size_t begin = 0; begin < n; begin += kChunk) {
        const size_t m = n - begin < kChunk ? n - begin : kChunk;
        uint8_t take[kChunk];
        for (size_t i = 0; i < m; ++i) {
            const uint64_t lane = first + begin + i, bit = c.period != 0 ? lane % c.period : lane;
            take[i] = (c.bits[bit / 8] >> (bit % 8)) & 1;
        }
        const size_t at = begin * c.element_bytes;
        const auto* a = static_cast<const uint8_t*>(src[0]) + at;
        const auto* b = c.has_scalar ? nullptr : static_cast<const uint8_t*>(src[1]) + at;
        auto* d = static_cast<uint8_t*>(dst) + at;
        if (c.element_bytes == 2)
            select_each(reinterpret_cast<uint16_t*>(d), take, reinterpret_cast<const uint16_t*>(a), reinterpret_cast<const uint16_t*>(b),
                        static_cast<uint16_t>(c.scalar), m);
        else
            select_each(reinterpret_cast<uint32_t*>(d), take, reinterpret_cast<const uint32_t*>(a), reinterpret_cast<const uint32_t*>(b),
                        c.scalar, m);
    }
}

}  // namespace toprope
