// The vector unit: which lanes an instruction touches, how operands are laid out, and the loops that compute.
// Every vector operation is require -> record -> run, with the footprint written once (touch_lanes).
// Source of the rules: reference pages "SIMD计算说明" (mask, continuous, high-dimensional) and 通用说明和约束 (alignment, overlap).
#pragma once

#include "queue.h"

namespace toprope {

inline constexpr uint32_t kBlockBytes = 32, kRepeatBytes = 256;

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

inline Lanes count_lanes(uint32_t width, uint64_t count) {
    Lanes l;
    if (count == 0) return l;
    l.width = l.active = width;
    l.repeats = static_cast<uint32_t>((count + width - 1) / width);
    l.tail = static_cast<uint32_t>(count - uint64_t{l.repeats - 1} * width);
    return l;
}

// From the mask registers. Counter mode: the low register holds the element count and the repeat argument is ignored.
inline Lanes mask_lanes(uint32_t width, uint32_t repeats) {
    const VectorState& v = self->vector;
    if (v.counter) return count_lanes(width, v.mask_low & 0xffffffffu);
    Lanes l;
    l.repeats = repeats;
    l.width = width;
    l.bits[0] = v.mask_low;
    l.bits[1] = width > 64 ? v.mask_high : 0;
    if (width < 64) l.bits[0] &= (1ull << width) - 1;
    const uint64_t low = l.bits[0], high = l.bits[1];
    // A run of ones from lane 0 is by far the most common mask and needs no bit tests.
    const bool low_run = (low & (low + 1)) == 0, high_run = (high & (high + 1)) == 0;
    if (low_run && high_run && (high == 0 || low == ~0ull)) {
        l.active = static_cast<uint32_t>(__builtin_popcountll(low) + __builtin_popcountll(high));
        if (width > 128) l.active = width;  // 8-bit lanes: the 128 mask bits cannot select single lanes of 256
        l.tail = l.active;
    } else {
        l.bitmap = true;
        l.active = l.tail = width;
    }
    return l;
}

inline void set_contiguous_mask(uint64_t active) {
    VectorState& v = self->vector;
    if (v.counter) {
        v.mask_low = active;
        v.mask_high = 0;
        return;
    }
    v.mask_low = active >= 64 ? ~0ull : (1ull << active) - 1;
    v.mask_high = active >= 128 ? ~0ull : (active > 64 ? (1ull << (active - 64)) - 1 : 0);
}

inline void set_bit_mask(uint64_t high, uint64_t low) {
    self->vector.mask_low = low;
    self->vector.mask_high = high;
}

// Where an operand's elements are: lane j of repeat r is at r*repeat_stride blocks + (j / per_block)*block_stride blocks + j % per_block.
template <typename T> struct Operand {
    using Element = T;
    uint8_t* host;
    uint32_t address;
    uint32_t block_stride, repeat_stride;  // in 32-byte blocks
    static constexpr uint32_t kPerBlock = kBlockBytes / sizeof(T);
    T* at(uint32_t repeat, uint32_t lane) const {
        return reinterpret_cast<T*>(host + (uint64_t{repeat} * repeat_stride + uint64_t{lane / kPerBlock} * block_stride) * kBlockBytes) + lane % kPerBlock;
    }
    // One contiguous array over the whole instruction?
    bool flat(const Lanes& l) const {
        if (l.bitmap || (block_stride != 1 && l.active > kPerBlock)) return false;
        return l.repeats == 1 || (l.active == l.width && repeat_stride * kBlockBytes == l.width * sizeof(T));
    }
};

// Bytes from the operand's first element to the end of the last one it touches.
template <typename T> uint64_t span_bytes(const Operand<T>& o, const Lanes& l) {
    const auto end_in = [&](uint32_t active) -> uint64_t {
        if (active == 0) return 0;
        const uint32_t last = active - 1;
        return uint64_t{last / Operand<T>::kPerBlock} * o.block_stride * kBlockBytes + (last % Operand<T>::kPerBlock + 1) * sizeof(T);
    };
    uint32_t active = l.active;
    if (l.bitmap)
        while (active > 0 && !l.bit(active - 1)) --active;
    const uint64_t stride = uint64_t{o.repeat_stride} * kBlockBytes;
    uint64_t end = (l.repeats - 1) * stride + end_in(l.bitmap ? active : l.tail);
    if (l.repeats > 1) {
        const uint64_t previous = (l.repeats - 2) * stride + end_in(active);
        if (previous > end) end = previous;
    }
    return end;
}

// One run of lanes [begin, end) in every one of `repeats` repeats.
template <typename T>
void touch_run(Instr& instr, Mode mode, const Operand<T>& o, uint32_t first_repeat, uint32_t repeats, uint32_t begin, uint32_t end, bool masked) {
    constexpr uint32_t kPer = Operand<T>::kPerBlock;
    const int64_t repeat_stride = int64_t{o.repeat_stride} * kBlockBytes;
    const uint64_t base = o.address + uint64_t{first_repeat} * o.repeat_stride * kBlockBytes;
    const auto put = [&](uint64_t address, uint64_t row_bytes, uint32_t rows) {
        const bool outer = repeats > 1 && rows > 1;
        const int64_t block_stride = int64_t{o.block_stride} * kBlockBytes;
        touch(instr, Space::ub, mode, address, row_bytes, rows > 1 ? rows : repeats, rows > 1 ? block_stride : repeat_stride, outer, masked);
        if (outer) touch(instr, Space::ub, mode, 0, 0, repeats, repeat_stride, false, masked);
    };
    if (o.block_stride == 1 || (begin / kPer == (end - 1) / kPer)) {
        put(base + uint64_t{begin / kPer} * o.block_stride * kBlockBytes + (begin % kPer) * sizeof(T), (end - begin) * sizeof(T), 1);
        return;
    }
    const uint32_t full = (end - begin) / kPer;
    if (full > 0) put(base + uint64_t{begin / kPer} * o.block_stride * kBlockBytes, kBlockBytes, full);
    if ((end - begin) % kPer != 0)
        put(base + uint64_t{begin / kPer + full} * o.block_stride * kBlockBytes, (end - begin) % kPer * sizeof(T), 1);
}

template <typename T> void touch_lanes(Instr& instr, Mode mode, const Operand<T>& o, const Lanes& l) {
    if (l.empty()) return;
    if (o.flat(l)) {
        touch(instr, Space::ub, mode, o.address, l.total() * sizeof(T));
        return;
    }
    if (!l.bitmap) {
        const uint32_t full = l.tail == l.active ? l.repeats : l.repeats - 1;
        if (full > 0 && l.active > 0) touch_run(instr, mode, o, 0, full, 0, l.active, false);
        if (full < l.repeats && l.tail > 0) touch_run(instr, mode, o, full, 1, 0, l.tail, false);
        return;
    }
    // Exact runs while they are few; then the range that covers them, marked as masked.
    uint32_t runs = 0, begin = 0, first = l.width, last = 0;
    for (uint32_t lane = 0; lane < l.width; ++lane)
        if (l.bit(lane)) {
            if (lane == 0 || !l.bit(lane - 1)) ++runs;
            if (first == l.width) first = lane;
            last = lane + 1;
        }
    if (runs > 4) return touch_run(instr, mode, o, 0, l.repeats, first, last, true);
    for (uint32_t lane = 0; lane <= l.width; ++lane) {
        const bool on = lane < l.width && l.bit(lane), before = lane > 0 && l.bit(lane - 1);
        if (on && !before) begin = lane;
        if (!on && before) touch_run(instr, mode, o, 0, l.repeats, begin, lane, false);
    }
}

// ---- require -------------------------------------------------------------------------------------------------------------

inline constexpr uint64_t kNoLimit = ~0ull;

// An on-chip operand must be alive, aligned and inside its tensor, buffer and memory. False: the instruction cannot be executed.
template <typename T>
bool require_operand(const Op& op, const char* role, const AscendC::LocalTensor<T>& t, uint64_t span, uint32_t alignment, Site site) {
    const Space space = t.space();
    const uint64_t end = uint64_t{t.address()} + span;
    if (TOPROPE_UNLIKELY(!t.live())) report("use-after-free", site, &op, "%s: %s was given back with FreeTensor before this call", op.name, role);
    if (TOPROPE_UNLIKELY(t.address() % alignment != 0))
        report("misaligned-address", site, &op, "%s: %s starts at %s byte %u, which is not a multiple of %u", op.name, role, kSpaceNames[static_cast<int>(space)], t.address(), alignment);
    if (TOPROPE_UNLIKELY(end > self->bytes[static_cast<int>(space)])) {
        report("on-chip-out-of-bounds", site, &op, "%s: %s covers %s[%u:%llu], but %s has %u bytes", op.name, role, kSpaceNames[static_cast<int>(space)], t.address(),
               static_cast<unsigned long long>(end), kSpaceNames[static_cast<int>(space)], self->bytes[static_cast<int>(space)]);
        return false;
    }
    const BufferSlot* slot = t.slot();
    if (TOPROPE_UNLIKELY(slot != nullptr && end > uint64_t{slot->address} + slot->bytes))
        report("buffer-out-of-bounds", site, &op, "%s: %s covers %s[%u:%llu], but its buffer is [%u:%u]: %llu bytes too many", op.name, role, kSpaceNames[static_cast<int>(space)],
               t.address(), static_cast<unsigned long long>(end), slot->address, slot->address + slot->bytes, static_cast<unsigned long long>(end - slot->address - slot->bytes));
    else if (TOPROPE_UNLIKELY(t.length_bytes() != 0 && span > t.length_bytes()))
        warn("tensor-out-of-bounds", site, &op, "%s: %s uses %llu bytes of a tensor of %u", op.name, role, static_cast<unsigned long long>(span), t.length_bytes());
    return true;
}

template <typename T>
bool require_vector_operand(const Op& op, const char* role, const AscendC::LocalTensor<T>& t, const Operand<T>& o, const Lanes& l, Site site) {
    if (TOPROPE_UNLIKELY(t.space() != Space::ub)) {
        report("wrong-position", site, &op, "%s: %s is in %s; vector instructions work on UB (VECIN, VECOUT, VECCALC)", op.name, role, kSpaceNames[static_cast<int>(t.space())]);
        return false;
    }
    return require_operand(op, role, t, l.empty() ? 0 : span_bytes(o, l), kBlockBytes, site);
}

// ---- run -----------------------------------------------------------------------------------------------------------------

// Lanes of 16-bit floats compute in float: convert a chunk, apply, convert back.
inline constexpr size_t kChunk = 256;
template <typename T> void load_lanes(Lane<T>* out, const T* in, size_t n) {
    if constexpr (std::is_same_v<T, half>) half_to_float_n(out, reinterpret_cast<const uint16_t*>(in), n);
    else if constexpr (std::is_same_v<T, bfloat16_t>)
        for (size_t i = 0; i < n; ++i) out[i] = bfloat16_to_float(in[i].bits);
    else std::memcpy(out, in, n * sizeof(T));
}
template <typename T> void store_lanes(T* out, const Lane<T>* in, size_t n) {
    if constexpr (std::is_same_v<T, half>) float_to_half_n(reinterpret_cast<uint16_t*>(out), in, n);
    else if constexpr (std::is_same_v<T, bfloat16_t>)
        for (size_t i = 0; i < n; ++i) out[i].bits = float_to_bfloat16(in[i]);
    else std::memcpy(out, in, n * sizeof(T));
}

// A source chunk as lanes: converted if its elements are 16-bit floats, used in place otherwise.
template <typename T> struct LaneChunk {
    Lane<T> values[kChunk];
    const Lane<T>* load(const T* in, size_t n) {
        load_lanes<T>(values, in, n);
        return values;
    }
};

template <typename F, typename D, typename... S> void map_flat(F f, D* dst, size_t n, const S*... src) {
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

// dst = f(src...) on every lane, in the order of the hardware: repeat by repeat.
template <typename F, typename D, typename... S> void run_lanes(const Lanes& l, F f, const Operand<D>& d, const Operand<S>&... s) {
    if (!self->execute || l.empty()) return;
    if (d.flat(l) && (s.flat(l) && ...)) {
        map_flat(f, d.at(0, 0), l.total(), static_cast<const S*>(s.at(0, 0))...);
        return;
    }
    constexpr uint32_t step = [] {
        uint32_t m = Operand<D>::kPerBlock;
        ((m = Operand<S>::kPerBlock < m ? Operand<S>::kPerBlock : m), ...);
        return m;
    }();
    for (uint32_t r = 0; r < l.repeats; ++r) {
        const uint32_t active = l.active_in(r);
        for (uint32_t lane = 0; lane < active; lane += step) {
            if (!l.bitmap) {
                map_flat(f, d.at(r, lane), active - lane < step ? active - lane : step, static_cast<const S*>(s.at(r, lane))...);
                continue;
            }
            for (uint32_t j = lane; j < lane + step && j < active; ++j)
                if (l.bit(j)) map_flat(f, d.at(r, j), 1, static_cast<const S*>(s.at(r, j))...);
        }
    }
}

}  // namespace toprope
