// The vector unit: which lanes an instruction touches, how its operands lie in UB, and the one call that checks, records and runs it.
// Everything that does not depend on element types is compiled once, in vector.cpp; a kernel only compiles the loops it uses.
// Source of the rules: reference pages "SIMD计算说明" (mask, continuous, high-dimensional) and 通用说明和约束 (alignment, overlap).
#pragma once

#include <utility>

#include "queue.h"

namespace toprope {

inline constexpr uint32_t kBlockBytes = 32, kRepeatBytes = 256;

// ---- lanes ---------------------------------------------------------------------------------------------------------------

// The lanes of one instruction: `repeats` rounds of `width` lanes, of which the first `active` (or the set bits) take part;
// the last round may have fewer (`tail`).
struct Lanes {
    uint32_t repeats = 0, width = 0, active = 0, tail = 0;
    bool bitmap = false;
    uint64_t bits[2] = {0, 0};
    uint32_t active_in(uint32_t repeat) const { return repeat + 1 == repeats ? tail : active; }
    uint64_t total() const { return repeats == 0 ? 0 : uint64_t{repeats - 1} * active + tail; }
    bool bit(uint32_t lane) const { return (bits[lane >> 6] >> (lane & 63)) & 1u; }
    bool empty() const { return repeats == 0 || (!bitmap && active == 0 && tail == 0) || (bitmap && (bits[0] | bits[1]) == 0); }
};

// Lanes per repeat when the widest operand has elements of `bytes`.
constexpr uint32_t lane_width(uint32_t bytes) { return kRepeatBytes / bytes; }
template <typename... T>
inline constexpr uint32_t kLaneWidth = [] {
    uint32_t widest = 1;
    ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
    return lane_width(widest);
}();

Lanes count_lanes(uint32_t width, uint64_t count);
// From the mask registers. Counter mode: the low register holds the element count and the repeat argument is ignored.
Lanes mask_lanes(uint32_t width, uint32_t repeats);

constexpr uint64_t run_of_ones(uint64_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }
void set_contiguous_mask(uint64_t active);
inline void set_bit_mask(uint64_t high, uint64_t low) {
    self->vector.mask_low = low;
    self->vector.mask_high = high;
}

// The three ways in which a call names its lanes. The count form works in counter mode and leaves normal mode and a full mask behind,
// as the page "掩码" says; the mask forms leave the mask that they set.
inline Lanes count_form(uint32_t width, uint32_t count) {
    self->vector = VectorState{};
    return count_lanes(width, count);
}
uint32_t checked_repeats(const Op& op, uint32_t repeats, Site site);
void check_mask(const Op& op, uint32_t width, uint64_t mask, Site site);
template <bool isSetMask>
Lanes mask_form(const Op& op, uint32_t width, uint64_t mask, uint32_t repeats, Site site) {
    if (isSetMask) {
        check_mask(op, width, mask, site);
        set_contiguous_mask(mask);
    }
    return mask_lanes(width, checked_repeats(op, repeats, site));
}
template <bool isSetMask>
Lanes mask_form(const Op& op, uint32_t width, const uint64_t* mask, uint32_t repeats, Site site) {
    if (isSetMask) set_bit_mask(width > 64 ? mask[1] : 0, mask[0]);
    return mask_lanes(width, checked_repeats(op, repeats, site));
}

// ---- operands ------------------------------------------------------------------------------------------------------------

// Where an operand's lanes are: lane j of repeat r is at r*repeat_stride blocks + (j / block_lanes)*block_stride blocks + block_offset
// bytes + j % block_lanes elements. Strides are in 32-byte blocks and are the operand's own.
struct Layout {
    uint8_t* host;
    uint32_t address;
    uint32_t block_stride, repeat_stride;
    uint8_t element_bits;
    uint8_t block_offset = 0;
    uint16_t block_lanes = 0;  // 0: as many as fit
    uint32_t per_block() const { return block_lanes != 0 ? block_lanes : kBlockBytes * 8 / element_bits; }
    uint32_t bytes_of(uint32_t lanes) const { return lanes * element_bits / 8; }
    uint64_t offset(uint32_t repeat, uint32_t lane) const {
        return (uint64_t{repeat} * repeat_stride + uint64_t{lane / per_block()} * block_stride) * kBlockBytes + block_offset +
               bytes_of(lane % per_block());
    }
    // One contiguous array over the whole instruction?
    bool flat(const Lanes& l) const {
        if (l.bitmap || block_lanes != 0 || (block_stride != 1 && l.active > per_block())) return false;
        return l.repeats == 1 || (l.active == l.width && repeat_stride * kBlockBytes == bytes_of(l.width));
    }
};

template <typename T>
struct Operand {
    using Element = T;
    uint8_t* host;
    uint32_t address;
    uint32_t block_stride, repeat_stride;  // in 32-byte blocks
    static constexpr uint32_t kPerBlock = kBlockBytes / sizeof(T);
    Layout layout() const { return {host, address, block_stride, repeat_stride, kElementBits<T>}; }
    operator Layout() const { return layout(); }
    T* at(uint32_t repeat, uint32_t lane) const { return reinterpret_cast<T*>(host + layout().offset(repeat, lane)); }
    bool flat(const Lanes& l) const { return layout().flat(l); }
};

// Bytes from the operand's first element to the end of the last one it touches.
uint64_t span_bytes(const Layout& o, const Lanes& l);
void touch_lanes(Instr& instr, Mode mode, const Layout& o, const Lanes& l);

// What the checks need to know of a LocalTensor, whatever its element type.
struct View {
    Space space;
    bool live;
    uint32_t address, bytes;
    const BufferSlot* slot;
};
template <typename T>
View view_of(const AscendC::LocalTensor<T>& t) {
    return {t.space(), t.live(), t.address(), t.length_bytes(), t.slot()};
}

// A tensor that the instruction recorded last was given but leaves alone, such as work space that this form does not need. An access of no
// bytes: it takes part in no check, but the buffer counts as used.
template <typename T>
void touch_spared(const AscendC::LocalTensor<T>& t) {
    if (self->instrs.size == 0 || t.host() == nullptr) return;
    touch(self->instrs.data[self->instrs.size - 1], t.space(), Mode::read, t.address(), 0);
}

// An on-chip operand must be alive, aligned and inside its tensor, buffer and memory. False: the instruction cannot be executed.
bool require_view(const Op& op, const char* role, const View& v, uint64_t span, uint32_t alignment, Site site);
bool require_vector_view(const Op& op, const char* role, const View& v, uint64_t span, uint32_t alignment, Site site);

template <typename T>
bool require_operand(const Op& op, const char* role, const AscendC::LocalTensor<T>& t, uint64_t span, uint32_t alignment, Site site) {
    return require_view(op, role, view_of(t), span, alignment, site);
}
template <typename T>
bool require_vector_operand(const Op& op, const char* role, const AscendC::LocalTensor<T>& t, const Operand<T>& o, const Lanes& l,
                            Site site) {
    return require_vector_view(op, role, view_of(t), l.empty() ? 0 : span_bytes(o, l), kBlockBytes, site);
}

// Operands of UB that must lie apart, whatever the instruction's repeats; a report if they do not.
void require_apart(const Op& op, const char* dst, uint64_t dst_begin, uint64_t dst_end, const char* src, uint64_t src_begin,
                   uint64_t src_end, Site site);
// No repeat may read what an earlier one has written: `bytes` for each repeat, `stride` apart.
void require_no_overtaking(const Op& op, uint64_t dst, uint64_t bytes, uint64_t stride, const char* role, const Layout& src,
                           const Lanes& lanes, Site site);

// ---- run -----------------------------------------------------------------------------------------------------------------

// Computes n lanes that lie next to each other in every operand; `first` is the number of the first of them (repeat * width).
using Body = void (*)(const void* context, void* dst, const void* const* src, size_t n, uint64_t first);

// Brings the lanes of every repeat together, calls `body`, and puts the result where it belongs. `exact` keeps overlapping operands apart.
void run_rows(const Lanes& l, Body body, const void* context, const Layout* dst, const Layout* src, uint32_t sources, bool exact = false);

// Lanes of 16-bit floats compute in float: convert a chunk, apply, convert back.
inline constexpr size_t kChunk = 256;
template <typename T>
void load_lanes(Lane<T>* out, const T* in, size_t n) {
    if constexpr (std::is_same_v<T, half>)
        half_to_float_n(out, reinterpret_cast<const uint16_t*>(in), n);
    else if constexpr (std::is_same_v<T, bfloat16_t>)
        for (size_t i = 0; i < n; ++i) out[i] = bfloat16_to_float(in[i].bits);
    else
        std::memcpy(out, in, n * sizeof(T));
}
template <typename T>
void store_lanes(T* out, const Lane<T>* in, size_t n) {
    if constexpr (std::is_same_v<T, half>)
        float_to_half_n(reinterpret_cast<uint16_t*>(out), in, n);
    else if constexpr (std::is_same_v<T, bfloat16_t>)
        for (size_t i = 0; i < n; ++i) out[i].bits = float_to_bfloat16(in[i]);
    else
        std::memcpy(out, in, n * sizeof(T));
}

// A source chunk as lanes: converted if its elements are 16-bit floats, used in place otherwise.
template <typename T>
struct LaneChunk {
    Lane<T> values[is_float16<T> ? kChunk : 1];
    const Lane<T>* load(const T* in, size_t n) {
        if constexpr (!is_float16<T>) return in;
        load_lanes<T>(values, in, n);
        return values;
    }
};

template <typename F, typename D, typename... S>
void map_flat(const F& f, D* dst, size_t n, const S*... src) {
    if constexpr (!is_float16<D> && !(is_float16<S> || ...)) {
        TOPROPE_IVDEP
        for (size_t i = 0; i < n; ++i) dst[i] = static_cast<D>(f(src[i]...));
    } else {
        for (size_t begin = 0; begin < n; begin += kChunk) {
            const size_t m = n - begin < kChunk ? n - begin : kChunk;
            Lane<D> out[kChunk];
            const auto loop = [&](const Lane<S>*... in) {
                TOPROPE_IVDEP
                for (size_t i = 0; i < m; ++i) out[i] = static_cast<Lane<D>>(f(in[i]...));
            };
            loop(LaneChunk<S>{}.load(src + begin, m)...);
            store_lanes<D>(dst + begin, out, m);
        }
    }
}

template <typename F, typename D, typename... S>
struct MapBody {
    template <size_t... I>
    static void apply(const F& f, D* dst, const void* const* src, size_t n, std::index_sequence<I...>) {
        map_flat(f, dst, n, static_cast<const S*>(src[I])...);
    }
    static void run(const void* f, void* dst, const void* const* src, size_t n, uint64_t) {
        apply(*static_cast<const F*>(f), static_cast<D*>(dst), src, n, std::index_sequence_for<S...>{});
    }
};

// dst = f(src...) on every lane, in the order of the hardware: repeat by repeat. For code that checks and records by itself.
template <typename F, typename D, typename... S>
void run_lanes(const Lanes& l, F f, const Operand<D>& d, const Operand<S>&... s) {
    if (!self->execute || l.empty()) return;
    const Layout dst = d, src[] = {s..., d};
    run_rows(l, MapBody<F, D, S...>::run, &f, &dst, src, sizeof...(S));
}

// ---- the whole instruction -----------------------------------------------------------------------------------------------

// An operand of a vector instruction. `range_bytes` != 0: not lanes but that many bytes from the tensor's start (bit masks, tables).
struct VectorOperand {
    const char* role;
    View view;
    Layout layout;
    Dtype dtype;
    uint32_t range_bytes;
};
template <typename T>
VectorOperand lane_operand(const char* role, const AscendC::LocalTensor<T>& t, uint32_t block_stride = 1, uint32_t repeat_stride = 8) {
    return {role, view_of(t), {t.host(), t.address(), block_stride, repeat_stride, kElementBits<T>}, dtype_of<T>, 0};
}
template <typename T>
VectorOperand range_operand(const char* role, const AscendC::LocalTensor<T>& t, uint32_t bytes) {
    return {role, view_of(t), {t.host(), t.address(), 1, 8, kElementBits<T>}, dtype_of<T>, bytes};
}
// Repeat stride (blocks) of a contiguous operand with T elements in an instruction of `width` lanes.
template <typename T>
constexpr uint32_t packed_stride(uint32_t width) {
    return width * kElementBits<T> / 8 / kBlockBytes;
}

enum class Overlap : uint8_t {
    whole,
    accumulate
};  // accumulate: dst may be the next repeat's src1 (Add, Sub, Mul, Max, Min, AddRelu, SubRelu)

struct VectorCall {
    const Op& op;
    Site site;
    Lanes lanes;
    VectorOperand dst;
    VectorOperand src[4];
    uint32_t sources;
    Body body;
    const void* context;
    uint32_t context_bytes = 0;  // what of the context a launch with `capture` keeps: its scalars and modes
    Overlap overlap = Overlap::whole;
    bool saturate = false;  // a 16-bit float result: infinity becomes the largest number, NaN becomes 0
};
// require, record + touch, run.
void vector_call(const VectorCall& call);

// A2/A3 run kernels in Inf/NaN mode unless SetSaturationFlag asks otherwise; 310P and 910 only know saturation.
inline bool saturates() { return kChip.always_saturates || self->registers[kRegSaturate] != 0; }

// Keeps the set-up of an instruction out of every place that calls it: compiling a kernel would take several times as long.
#define TOPROPE_OUTLINE __attribute__((noinline))

// The usual instruction: dst = f(src...) with one functor call per lane.
template <typename F, typename D, typename... S>
struct LaneOp {
    template <typename... Sources>
    TOPROPE_OUTLINE static void call(const Op& op, Site site, const Lanes& lanes, const F& f, Overlap overlap, const VectorOperand& dst,
                                     const Sources&... src) {
        vector_call({op,
                     site,
                     lanes,
                     dst,
                     {src...},
                     sizeof...(src),
                     MapBody<F, D, S...>::run,
                     &f,
                     std::is_empty_v<F> ? 0 : sizeof(F),
                     overlap,
                     is_float16<D> && saturates()});
    }
};

// Rounds a float lane to what T holds, for operations that round twice.
template <typename T>
inline float lane_round(float x) {
    if constexpr (std::is_same_v<T, half>) {
        const uint32_t bits = float_bits(x), sign = bits & 0x80000000u, magnitude = bits & 0x7fffffffu;
        uint32_t exponent = magnitude & 0x7f800000u;
        exponent = exponent < 0x38800000u ? 0x38800000u : exponent;  // halves below 2^-14 share one spacing
        exponent = exponent > 0x47000000u ? 0x47000000u : exponent;
        // Adding 1.5 * 2^13 * 2^e leaves exactly the half's bits.
        const float shift = bits_float((exponent + 0x06800000u) | 0x400000u);
        const uint32_t rounded = float_bits((bits_float(magnitude) + shift) - shift);
        const uint32_t big = magnitude > 0x7f800000u ? magnitude : 0x7f800000u;
        return bits_float(sign | (magnitude >= 0x477ff000u ? big : rounded));
    } else {
        return x;
    }
}

}  // namespace toprope

#define TOPROPE_UNPACK(...) __VA_ARGS__
// The sentence for a dtype that the chip lacks.
#define TOPROPE_REQUIRE_DTYPE(Name, T, dtypes)                  \
    static_assert(toprope::is_one_of<T, TOPROPE_UNPACK dtypes>, \
                  #Name ": this chip has no " #Name " for this element type (see `toprope api " #Name "`)")
// A function that only other chips have: the name exists, calling it is a sentence instead of a page of overload candidates.
#define TOPROPE_ABSENT(where, Name)                                                                       \
    namespace AscendC {                                                                                   \
    template <typename T, typename... Rest>                                                               \
    void Name(const LocalTensor<T>&, const Rest&...) {                                                    \
        static_assert(sizeof(T) == 0, #Name ": this chip has no " #Name "; it exists on " where " only"); \
    }                                                                                                     \
    }
