// Conversions between element types: which the chip has, in which rounding modes, and the loops (cast.cpp).
// Source: reference pages "Cast" (tables of type pairs) and "精度转换规则" (rounding and saturation).
#pragma once

#include "vector.h"

namespace toprope {

// Bit i of a set of modes is RoundMode i.
constexpr uint32_t mode_bit(AscendC::RoundMode m) { return 1u << static_cast<uint32_t>(m); }
inline constexpr uint32_t kModeNone = mode_bit(AscendC::RoundMode::CAST_NONE);
inline constexpr uint32_t kModeRint = mode_bit(AscendC::RoundMode::CAST_RINT);
inline constexpr uint32_t kModeOdd = mode_bit(AscendC::RoundMode::CAST_ODD);
inline constexpr uint32_t kModesDirected = mode_bit(AscendC::RoundMode::CAST_FLOOR) | mode_bit(AscendC::RoundMode::CAST_CEIL) |
                                           mode_bit(AscendC::RoundMode::CAST_ROUND) | mode_bit(AscendC::RoundMode::CAST_TRUNC);
inline constexpr uint32_t kModesRounding = kModeRint | kModesDirected, kModesFive = kModesRounding, kModesSix = kModesRounding | kModeNone;
inline constexpr uint32_t kModesAny = kModesSix | kModeOdd;  // int32_t to half: the scale register decides, the mode is ignored

struct CastPair {
    Dtype from, to;
    uint32_t modes;
};
inline constexpr CastPair kCastPairs[] = {
#if __NPU_ARCH__ == 2201 || __NPU_ARCH__ == 3510
    {Dtype::s4, Dtype::f16, kModeNone},   {Dtype::s8, Dtype::f16, kModeNone},    {Dtype::u8, Dtype::f16, kModeNone},
    {Dtype::s16, Dtype::f16, kModesSix},  {Dtype::s16, Dtype::f32, kModeNone},   {Dtype::f16, Dtype::s4, kModesSix},
    {Dtype::f16, Dtype::s8, kModesSix},   {Dtype::f16, Dtype::u8, kModesSix},    {Dtype::f16, Dtype::s16, kModesFive},
    {Dtype::f16, Dtype::s32, kModesFive}, {Dtype::f16, Dtype::f32, kModeNone},   {Dtype::bf16, Dtype::s32, kModesFive},
    {Dtype::bf16, Dtype::f32, kModeNone}, {Dtype::s32, Dtype::s16, kModeNone},   {Dtype::s32, Dtype::f16, kModesAny},
    {Dtype::s32, Dtype::f32, kModesSix},  {Dtype::s32, Dtype::s64, kModeNone},   {Dtype::f32, Dtype::s16, kModesFive},
    {Dtype::f32, Dtype::f16, kModesAny},  {Dtype::f32, Dtype::bf16, kModesFive}, {Dtype::f32, Dtype::s32, kModesFive},
    {Dtype::f32, Dtype::f32, kModesFive}, {Dtype::f32, Dtype::s64, kModesFive},  {Dtype::s64, Dtype::s32, kModeNone},
    {Dtype::s64, Dtype::f32, kModesFive},
#elif __NPU_ARCH__ == 3002
    {Dtype::s8, Dtype::f16, kModeNone},    {Dtype::u8, Dtype::f16, kModeNone},   {Dtype::s16, Dtype::f16, kModesSix},
    {Dtype::s16, Dtype::f32, kModeNone},   {Dtype::f16, Dtype::s8, kModesSix},   {Dtype::f16, Dtype::u8, kModesSix},
    {Dtype::f16, Dtype::s16, kModesFive},  {Dtype::f16, Dtype::s32, kModesFive}, {Dtype::f16, Dtype::f32, kModeNone},
    {Dtype::bf16, Dtype::s32, kModesFive}, {Dtype::bf16, Dtype::f32, kModeNone}, {Dtype::s32, Dtype::s16, kModeNone},
    {Dtype::s32, Dtype::f16, kModeNone},   {Dtype::s32, Dtype::f32, kModesSix},  {Dtype::s32, Dtype::s64, kModeNone},
    {Dtype::f32, Dtype::s16, kModesFive},  {Dtype::f32, Dtype::f16, kModesAny},  {Dtype::f32, Dtype::bf16, kModesFive},
    {Dtype::f32, Dtype::s32, kModesFive},  {Dtype::f32, Dtype::f32, kModesFive}, {Dtype::f32, Dtype::s64, kModesFive},
    {Dtype::s64, Dtype::s32, kModeNone},   {Dtype::s64, Dtype::f32, kModesFive},
#elif __NPU_ARCH__ == 2002
    {Dtype::s8, Dtype::f16, kModeNone},
    {Dtype::u8, Dtype::f16, kModeNone},
    {Dtype::s16, Dtype::f16, kModeNone},
    {Dtype::f16, Dtype::s4, kModeNone},
    {Dtype::f16, Dtype::s8, kModesDirected | kModeNone},
    {Dtype::f16, Dtype::u8, kModesDirected | kModeNone},
    {Dtype::f16, Dtype::s16, kModeRint},
    {Dtype::f16, Dtype::s32, kModesFive},
    {Dtype::f16, Dtype::f32, kModeNone},
    {Dtype::s32, Dtype::s16, kModeNone},
    {Dtype::s32, Dtype::f16, kModesAny},
    {Dtype::s32, Dtype::f32, kModeNone},
    {Dtype::f32, Dtype::f16, kModeOdd | kModeNone},
    {Dtype::f32, Dtype::s64, kModesFive},
#else
    {Dtype::s8, Dtype::f16, kModeNone},
    {Dtype::u8, Dtype::f16, kModeNone},
    {Dtype::s16, Dtype::f16, kModeNone},
    {Dtype::f16, Dtype::s8, kModesDirected | kModeNone},
    {Dtype::f16, Dtype::u8, kModesDirected | kModeNone},
    {Dtype::f16, Dtype::s32, kModesFive},
    {Dtype::f16, Dtype::f32, kModeNone},
    {Dtype::s32, Dtype::f32, kModeNone},
    {Dtype::f32, Dtype::f16, kModeOdd | kModeNone},
    {Dtype::f32, Dtype::s64, kModesFive},
#endif
};
// The rounding modes of a conversion; 0 when the chip does not have it.
constexpr uint32_t cast_modes(Dtype from, Dtype to) {
    for (const CastPair& pair : kCastPairs)
        if (pair.from == from && pair.to == to) return pair.modes;
    return 0;
}

// What the registers say about quantisation when an instruction runs.
struct Dequant {
    uint64_t bits = 0;               // DEQSCALE: half scale, or float scale | offset << 37 | sign << 46
    const uint8_t* table = nullptr;  // 16 such words, one per lane of a block
};
// Which SetDeqScale filled the register; kept in its unused top bits.
enum class DeqKind : uint64_t { unset, half_scale, float_scale, table };
inline constexpr int kDeqKindShift = 62;

// n conversions of neighbours; the pair must be in the table of some chip.
void cast_lanes(Dtype to, Dtype from, AscendC::RoundMode mode, void* dst, const void* src, size_t n, uint64_t deq_scale);
// int16_t to 8 bits with scale, offset and sign from words of the DEQSCALE format.
void dequant_lanes(bool is_signed, const Dequant& deq, uint8_t* dst, const int16_t* src, size_t n, uint64_t first);

struct CastContext {
    Dtype to, from;
    AscendC::RoundMode mode;
    Dequant deq;
};
void cast_body(const void* context, void* dst, const void* const* src, size_t n, uint64_t first);
void dequant_body(const void* context, void* dst, const void* const* src, size_t n, uint64_t first);

// False after a report when the mode is not one of the pair's.
bool require_round_mode(const Op& op, Dtype from, Dtype to, uint32_t modes, AscendC::RoundMode mode, Site site);
// A report when SetDeqScale has not been called with the arguments that this instruction needs.
void require_deq_scale(const Op& op, DeqKind kind, const char* call, Site site);

}  // namespace toprope
