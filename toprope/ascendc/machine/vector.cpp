// The part of the vector unit that no element type changes: lanes, footprints, checks and the walk over repeats. Included by runtime.cpp.
#include "vector.h"

namespace toprope {

// ---- lanes ---------------------------------------------------------------------------------------------------------------

Lanes count_lanes(uint32_t width, uint64_t count) {
    Lanes l;
    if (count == 0) return l;
    l.width = l.active = width;
    l.repeats = static_cast<uint32_t>((count + width - 1) / width);
    l.tail = static_cast<uint32_t>(count - uint64_t{l.repeats - 1} * width);
    return l;
}

Lanes mask_lanes(uint32_t width, uint32_t repeats) {
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

void set_contiguous_mask(uint64_t active) {
    VectorState& v = self->vector;
    if (v.counter) {
        v.mask_low = active;
        v.mask_high = 0;
        return;
    }
    v.mask_low = run_of_ones(active);
    v.mask_high = run_of_ones(active > 64 ? active - 64 : 0);
}

uint32_t checked_repeats(const Op& op, uint32_t repeats, Site site) {
    if (TOPROPE_UNLIKELY(repeats > 255))
        report("repeat-out-of-range", site, &op, "%s: repeatTime %u, but the instruction has 8 bits for it: the chip would do %u repeats",
               op.name, repeats, repeats & 0xff);
    return repeats & 0xff;
}

// Page 掩码: a longer run of lanes counts as the longest that the element type has.
void check_mask(const Op& op, uint32_t width, uint64_t mask, Site site) {
    if (TOPROPE_UNLIKELY(!self->vector.counter && mask > width))
        warn("mask-out-of-range", site, &op, "%s: mask %llu, but a repeat has %u lanes of this element type: no more than %u take part",
             op.name, static_cast<unsigned long long>(mask), width, width);
}

// Lanes of repeat r up to and including the last that takes part.
static uint32_t lanes_in(const Lanes& l, uint32_t repeat) {
    if (!l.bitmap) return l.active_in(repeat);
    uint32_t last = l.width;
    while (last > 0 && !l.bit(last - 1)) --last;
    return last;
}

#include "capture.cpp"

// ---- footprints ----------------------------------------------------------------------------------------------------------

uint64_t span_bytes(const Layout& o, const Lanes& l) {
    if (o.flat(l)) return o.block_offset + (l.total() * o.element_bits + 7) / 8;
    const auto end_in = [&](uint32_t lanes) -> uint64_t {
        return lanes == 0 ? 0 : o.offset(0, lanes - 1) + (o.element_bits < 8 ? 1 : o.element_bits / 8);
    };
    const uint64_t stride = uint64_t{o.repeat_stride} * kBlockBytes;
    uint64_t end = (l.repeats - 1) * stride + end_in(lanes_in(l, l.repeats - 1));
    if (l.repeats > 1) {
        const uint64_t previous = (l.repeats - 2) * stride + end_in(lanes_in(l, l.repeats - 2));
        if (previous > end) end = previous;
    }
    return end;
}

// One run of lanes [begin, end) in each of `repeats` repeats.
static void touch_run(Instr& instr, Mode mode, const Layout& o, uint32_t first_repeat, uint32_t repeats, uint32_t begin, uint32_t end,
                      bool masked) {
    const uint32_t per = o.per_block();
    const int64_t repeat_stride = int64_t{o.repeat_stride} * kBlockBytes, block_stride = int64_t{o.block_stride} * kBlockBytes;
    const uint64_t base = o.address + uint64_t{first_repeat} * o.repeat_stride * kBlockBytes;
    const auto put = [&](uint64_t address, uint64_t row_bytes, uint32_t rows) {
        const bool outer = repeats > 1 && rows > 1;
        touch(instr, Space::ub, mode, address, row_bytes, rows > 1 ? rows : repeats, rows > 1 ? block_stride : repeat_stride, outer,
              masked);
        if (outer) touch(instr, Space::ub, mode, 0, 0, repeats, repeat_stride, false, masked);
    };
    const bool dense = o.block_stride == 1 && o.block_lanes == 0;
    if (dense || begin / per == (end - 1) / per) return put(base + o.offset(0, begin), o.bytes_of(end - begin), 1);
    // A first block that begins in its middle, whole blocks, a last block that ends early.
    if (begin % per != 0) {
        put(base + o.offset(0, begin), o.bytes_of(per - begin % per), 1);
        begin += per - begin % per;
    }
    const uint32_t full = (end - begin) / per;
    if (full > 0) put(base + o.offset(0, begin), o.bytes_of(per), full);
    if ((end - begin) % per != 0) put(base + o.offset(0, begin + full * per), o.bytes_of((end - begin) % per), 1);
}

void touch_lanes(Instr& instr, Mode mode, const Layout& o, const Lanes& l) {
    if (l.empty()) return;
    if (TOPROPE_UNLIKELY(capturing)) capture_lanes(mode, o, l);
    if (o.flat(l)) {
        touch(instr, Space::ub, mode, o.address, (l.total() * o.element_bits + 7) / 8);
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

bool require_view(const Op& op, const char* role, const View& v, uint64_t span, uint32_t alignment, Site site) {
    const int space = static_cast<int>(v.space);
    const uint64_t end = uint64_t{v.address} + span;
    if (TOPROPE_UNLIKELY(!v.live))
        report("use-after-free", site, &op, "%s: %s was given back with FreeTensor before this call", op.name, role);
    if (TOPROPE_UNLIKELY(v.address % alignment != 0))
        report("misaligned-address", site, &op, "%s: %s starts at %s byte %u, which is not a multiple of %u", op.name, role,
               kSpaceNames[space], v.address, alignment);
    if (TOPROPE_UNLIKELY(end > self->bytes[space])) {
        report("on-chip-out-of-bounds", site, &op, "%s: %s covers %s[%u:%llu], but %s has %u bytes", op.name, role, kSpaceNames[space],
               v.address, static_cast<unsigned long long>(end), kSpaceNames[space], self->bytes[space]);
        return false;
    }
    if (TOPROPE_UNLIKELY(v.slot != nullptr && end > uint64_t{v.slot->address} + v.slot->bytes))
        report("buffer-out-of-bounds", site, &op, "%s: %s covers %s[%u:%llu], but its buffer is [%u:%u]: %llu bytes too many", op.name,
               role, kSpaceNames[space], v.address, static_cast<unsigned long long>(end), v.slot->address, v.slot->address + v.slot->bytes,
               static_cast<unsigned long long>(end - v.slot->address - v.slot->bytes));
    else if (TOPROPE_UNLIKELY(v.bytes != 0 && span > v.bytes))
        warn("tensor-out-of-bounds", site, &op, "%s: %s uses %llu bytes of a tensor of %u", op.name, role,
             static_cast<unsigned long long>(span), v.bytes);
    return true;
}

bool require_vector_view(const Op& op, const char* role, const View& v, uint64_t span, uint32_t alignment, Site site) {
    if (TOPROPE_UNLIKELY(v.space != Space::ub)) {
        report("wrong-position", site, &op, "%s: %s is in %s; vector instructions work on UB (VECIN, VECOUT, VECCALC)", op.name, role,
               kSpaceNames[static_cast<int>(v.space)]);
        return false;
    }
    return require_view(op, role, v, span, alignment, site);
}

// ---- overlap -------------------------------------------------------------------------------------------------------------

enum class Clash : uint8_t { none, in_repeat, next_repeat };

struct Range {
    uint64_t begin, end;
};
static uint32_t block_ranges(const Layout& o, const Lanes& l, uint32_t repeat, Range* out) {
    const uint32_t lanes = lanes_in(l, repeat), per = o.per_block();
    uint32_t n = 0;
    for (uint32_t lane = 0; lane < lanes; lane += per) {
        const uint32_t count = lanes - lane < per ? lanes - lane : per;
        const uint64_t begin = o.address + o.offset(repeat, lane);
        out[n++] = {begin, begin + (count * o.element_bits + 7) / 8};
    }
    return n;
}

// Within a repeat, source and destination are the same blocks or do not touch; no repeat reads what an earlier one wrote.
static Clash clash_of(const Layout& dst, const Layout& src, const Lanes& l) {
    static uint16_t written_by[8192];  // repeat + 1 that last wrote each block of UB
    std::memset(written_by, 0, sizeof written_by);
    Clash found = Clash::none;
    for (uint32_t r = 0; r < l.repeats; ++r) {
        Range d[32], s[32];
        const uint32_t dn = block_ranges(dst, l, r, d), sn = block_ranges(src, l, r, s);
        for (uint32_t j = 0; j < sn; ++j)
            for (uint64_t b = s[j].begin / kBlockBytes; b <= (s[j].end - 1) / kBlockBytes; ++b)
                if (b < 8192 && written_by[b] != 0) return Clash::next_repeat;
        for (uint32_t i = 0; i < dn; ++i)
            for (uint32_t j = 0; j < sn; ++j)
                if (d[i].begin < s[j].end && s[j].begin < d[i].end &&
                    !(i == j && dst.element_bits == src.element_bits && d[i].begin == s[j].begin))
                    found = Clash::in_repeat;
        for (uint32_t i = 0; i < dn; ++i)
            for (uint64_t b = d[i].begin / kBlockBytes; b <= (d[i].end - 1) / kBlockBytes; ++b)
                if (b < 8192) written_by[b] = static_cast<uint16_t>(r + 1);
    }
    return found;
}

// True: the operands overlap in a way that the chip does not define; a report has been made.
static bool overlaps(const VectorCall& call, const VectorOperand& src, uint32_t index) {
    const Layout &d = call.dst.layout, &s = src.layout;
    const uint64_t d_end = d.address + span_bytes(d, call.lanes), s_end = s.address + span_bytes(s, call.lanes);
    if (d.address >= s_end || s.address >= d_end) return false;
    const bool same =
        d.address == s.address && d.element_bits == s.element_bits && d.block_stride == s.block_stride && d.block_lanes == s.block_lanes;
    if (same && (call.lanes.repeats == 1 ||
                 (d.repeat_stride == s.repeat_stride &&
                  d.repeat_stride * kBlockBytes >= span_bytes(d, {1, call.lanes.width, call.lanes.width, call.lanes.width}))))
        return false;
    const Clash clash = clash_of(d, s, call.lanes);
    if (clash == Clash::none) return false;
    if (clash == Clash::next_repeat) {
        const bool accumulates = call.overlap == Overlap::accumulate && index == 1 && (d.repeat_stride == 0 || s.repeat_stride == 0) &&
                                 call.dst.dtype != Dtype::s16;
        if (accumulates) return false;
        report("operand-overlap", call.site, &call.op,
               "%s: %s [%u:%llu] is partly written by an earlier repeat through dst [%u:%llu]; the chip may read it before or after",
               call.op.name, src.role, s.address, static_cast<unsigned long long>(s_end), d.address,
               static_cast<unsigned long long>(d_end));
        return true;
    }
    // Narrowing in place never overtakes what is still to be read, nor does widening out of the end of dst; a repeat reads all of its
    // lanes before it writes any. The reference only allows identical ranges, so this is a warning.
    (d.element_bits != s.element_bits ? warn : report)(
        "operand-overlap", call.site, &call.op,
        "%s: dst [%u:%llu] and %s [%u:%llu] overlap in part; within a repeat they must be the same blocks or apart", call.op.name,
        d.address, static_cast<unsigned long long>(d_end), src.role, s.address, static_cast<unsigned long long>(s_end));
    return true;
}

void require_apart(const Op& op, const char* dst, uint64_t dst_begin, uint64_t dst_end, const char* src, uint64_t src_begin,
                   uint64_t src_end, Site site) {
    if (TOPROPE_UNLIKELY(dst_begin < src_end && src_begin < dst_end))
        report("operand-overlap", site, &op, "%s: %s [%llu:%llu] and %s [%llu:%llu] overlap; this instruction has no in-place form",
               op.name, dst, static_cast<unsigned long long>(dst_begin), static_cast<unsigned long long>(dst_end), src,
               static_cast<unsigned long long>(src_begin), static_cast<unsigned long long>(src_end));
}

void require_no_overtaking(const Op& op, uint64_t dst, uint64_t bytes, uint64_t stride, const char* role, const Layout& src,
                           const Lanes& lanes, Site site) {
    const uint64_t d_end = dst + (lanes.repeats - 1) * stride + bytes, s_end = src.address + span_bytes(src, lanes);
    if (lanes.repeats < 2 || dst >= s_end || src.address >= d_end) return;
    Lanes one = lanes;
    one.repeats = 1;
    one.tail = lanes.active;
    const uint64_t span = span_bytes(src, one), step = uint64_t{src.repeat_stride} * kBlockBytes;
    for (uint32_t r = 0; r + 1 < lanes.repeats; ++r)
        for (uint32_t later = r + 1; later < lanes.repeats; ++later) {
            const uint64_t from = src.address + later * step, to = dst + r * stride;
            if (to >= from + span || from >= to + bytes) continue;
            return report(
                "operand-overlap", site, &op,
                "%s: repeat %u reads %s [%llu:%llu], of which repeat %u has written [%llu:%llu]; the chip may read it before or after",
                op.name, later, role, static_cast<unsigned long long>(from), static_cast<unsigned long long>(from + span), r,
                static_cast<unsigned long long>(to), static_cast<unsigned long long>(to + bytes));
        }
}

// ---- run -----------------------------------------------------------------------------------------------------------------

// The lanes of one repeat next to each other: in place if they already are, otherwise copied into `room`.
static const void* gather_row(const Layout& o, uint32_t repeat, uint32_t lanes, uint8_t* room, bool copy) {
    const uint8_t* row = o.host + o.offset(repeat, 0);
    const uint32_t per = o.per_block();
    if (lanes <= per || (o.block_stride == 1 && o.block_lanes == 0)) {
        if (!copy) return row;
        std::memcpy(room, row, (lanes * o.element_bits + 7) / 8);
        return room;
    }
    for (uint32_t lane = 0; lane < lanes; lane += per) {
        const uint32_t count = lanes - lane < per ? lanes - lane : per;
        std::memcpy(room + o.bytes_of(lane), row + uint64_t{lane / per} * o.block_stride * kBlockBytes, (count * o.element_bits + 7) / 8);
    }
    return room;
}

static void scatter_row(const Layout& o, uint32_t repeat, uint32_t lanes, const uint8_t* room, const Lanes& l) {
    const uint32_t per = l.bitmap ? (o.element_bits < 8 ? 2 : 1) : o.per_block();  // 4-bit lanes: mask bits come in equal pairs
    for (uint32_t lane = 0; lane < lanes; lane += per) {
        if (l.bitmap && !l.bit(lane)) continue;
        const uint32_t count = lanes - lane < per ? lanes - lane : per;
        std::memcpy(o.host + o.offset(repeat, lane), room + o.bytes_of(lane), (count * o.element_bits + 7) / 8);
    }
}

// Flat operands next to sources that every repeat reads from the same place: those are laid out once for many repeats, so that the body
// still sees long rows. False: not that kind of instruction.
static bool run_repeated(const Lanes& l, Body body, const void* context, const Layout& dst, const Layout* src, uint32_t sources) {
    constexpr uint32_t kRoomBytes = 4096;
    if (l.repeats < 2 || l.bitmap || !dst.flat(l)) return false;
    alignas(64) uint8_t room[4][kRoomBytes];
    const void* rows[4] = {};
    uint32_t together = l.repeats;
    const uint64_t dst_end = dst.address + span_bytes(dst, l);
    for (uint32_t i = 0; i < sources; ++i) {
        if (src[i].flat(l)) continue;
        const bool apart = dst.address >= src[i].address + span_bytes(src[i], l) || src[i].address >= dst_end;
        const uint32_t row_bytes = src[i].bytes_of(l.width);
        if (src[i].repeat_stride != 0 || !apart || row_bytes > kRoomBytes / 2) return false;
        together = kRoomBytes / row_bytes < together ? kRoomBytes / row_bytes : together;
    }
    for (uint32_t i = 0; i < sources; ++i)
        if (!src[i].flat(l)) {
            const uint32_t row_bytes = src[i].bytes_of(l.width);
            gather_row(src[i], 0, l.width, room[i], true);
            for (uint32_t r = 1; r < together; ++r) std::memcpy(room[i] + r * row_bytes, room[i], row_bytes);
            rows[i] = room[i];
        }
    for (uint64_t first = 0, n = uint64_t{together} * l.width; first < l.total(); first += n) {
        if (l.total() - first < n) n = l.total() - first;
        for (uint32_t i = 0; i < sources; ++i)
            if (src[i].flat(l)) rows[i] = src[i].host + src[i].block_offset + first * src[i].element_bits / 8;
        body(context, dst.host + first * dst.element_bits / 8, rows, n, first);
    }
    return true;
}

void run_rows(const Lanes& l, Body body, const void* context, const Layout* dst, const Layout* src, uint32_t sources, bool exact) {
    const void* rows[4] = {};
    bool flat = !exact && (dst == nullptr || dst->flat(l));
    for (uint32_t i = 0; i < sources; ++i) flat = flat && src[i].flat(l);
    if (flat) {
        for (uint32_t i = 0; i < sources; ++i) rows[i] = src[i].host + src[i].block_offset;
        return body(context, dst != nullptr ? dst->host : nullptr, rows, l.total(), 0);
    }
    if (dst != nullptr && !exact && run_repeated(l, body, context, *dst, src, sources)) return;
    const bool direct =
        dst != nullptr && !l.bitmap && !exact && dst->block_lanes == 0 && (dst->block_stride == 1 || l.active <= dst->per_block());
    alignas(64) uint8_t room[5][kRepeatBytes * 4];
    for (uint32_t r = 0; r < l.repeats; ++r) {
        const uint32_t lanes = lanes_in(l, r);
        if (lanes == 0) continue;
        for (uint32_t i = 0; i < sources; ++i) rows[i] = gather_row(src[i], r, lanes, room[i], exact);
        void* out = direct ? static_cast<void*>(dst->host + dst->offset(r, 0)) : room[4];
        body(context, out, rows, lanes, uint64_t{r} * l.width);
        if (dst != nullptr && !direct) scatter_row(*dst, r, lanes, room[4], l);
    }
}

static void saturate_half(const void*, void* out, const void* const*, size_t n, uint64_t) {
    auto* h = static_cast<uint16_t*>(out);
    for (size_t i = 0; i < n; ++i) {
        const uint16_t magnitude = h[i] & 0x7fff, sign = h[i] & 0x8000;
        h[i] = magnitude < 0x7c00 ? h[i] : (magnitude == 0x7c00 ? static_cast<uint16_t>(sign | 0x7bff) : uint16_t{0});
    }
}
static void saturate_bfloat16(const void*, void* out, const void* const*, size_t n, uint64_t) {
    auto* b = static_cast<uint16_t*>(out);
    for (size_t i = 0; i < n; ++i) {
        const uint16_t magnitude = b[i] & 0x7fff, sign = b[i] & 0x8000;
        b[i] = magnitude < 0x7f80 ? b[i] : (magnitude == 0x7f80 ? static_cast<uint16_t>(sign | 0x7f7f) : uint16_t{0});
    }
}

// The body, then the clamp that a 16-bit float result gets in saturation mode.
static void saturating_body(const void* context, void* dst, const void* const* src, size_t n, uint64_t first) {
    const auto& call = *static_cast<const VectorCall*>(context);
    call.body(call.context, dst, src, n, first);
    (call.dst.dtype == Dtype::f16 ? saturate_half : saturate_bfloat16)(nullptr, dst, nullptr, n, first);
}

static uint32_t dtype_argument(const VectorCall& call) {
    const VectorOperand* widest = &call.dst;
    for (uint32_t i = 0; i < call.sources; ++i)
        if (call.src[i].range_bytes == 0 && (widest == &call.dst || call.src[i].layout.element_bits > widest->layout.element_bits))
            widest = &call.src[i];
    return static_cast<uint32_t>(widest->dtype) | static_cast<uint32_t>(call.dst.dtype) << 8;
}

static void touch_operand(Instr& instr, Mode mode, const VectorOperand& o, const Lanes& l) {
    if (o.range_bytes != 0)
        touch(instr, Space::ub, mode, o.layout.address, o.range_bytes);
    else
        touch_lanes(instr, mode, o.layout, l);
}

void vector_call(const VectorCall& call) {
    if (self->type == CoreType::aic || call.lanes.empty()) return;
    const auto require = [&](const VectorOperand& o) {
        return require_vector_view(call.op, o.role, o.view, o.range_bytes != 0 ? o.range_bytes : span_bytes(o.layout, call.lanes),
                                   kBlockBytes, call.site);
    };
    // & rather than &&: every operand is looked at, so that one call reports all its mistakes.
    bool ok = require(call.dst), clash = false;
    for (uint32_t i = 0; i < call.sources; ++i) ok = require(call.src[i]) & ok;
    if (!ok)
        return refuse(Space::ub, call.dst.layout.address,
                      call.dst.range_bytes != 0 ? call.dst.range_bytes : span_bytes(call.dst.layout, call.lanes), call.site);
    const bool lanes_out = call.dst.range_bytes == 0;
    Layout rows[4];
    uint32_t count = 0;
    for (uint32_t i = 0; i < call.sources; ++i)
        if (call.src[i].range_bytes == 0) {
            if (lanes_out)
                clash = overlaps(call, call.src[i], i) | clash;
            else
                require_no_overtaking(call.op, call.dst.layout.address, call.dst.range_bytes / call.lanes.repeats,
                                      call.dst.range_bytes / call.lanes.repeats, call.src[i].role, call.src[i].layout, call.lanes,
                                      call.site);
            rows[count++] = call.src[i].layout;
        } else if (lanes_out) {
            const Layout &d = call.dst.layout, &bits = call.src[i].layout;
            require_apart(call.op, call.dst.role, d.address, d.address + span_bytes(d, call.lanes), call.src[i].role, bits.address,
                          uint64_t{bits.address} + call.src[i].range_bytes, call.site);
        }
    Instr& instr = record(call.op, call.site, call.lanes.repeats, dtype_argument(call));
    for (uint32_t i = 0; i < call.sources; ++i) touch_operand(instr, Mode::read, call.src[i], call.lanes);
    touch_operand(instr, Mode::write, call.dst, call.lanes);
    if (TOPROPE_UNLIKELY(capturing) && call.context_bytes != 0) capture_scalars(call.context, call.context_bytes);
    if (!self->execute) return;
    const Layout* out = lanes_out ? &call.dst.layout : nullptr;
    if (call.saturate)
        run_rows(call.lanes, saturating_body, &call, out, rows, count, clash);
    else
        run_rows(call.lanes, call.body, call.context, out, rows, count, clash);
}

}  // namespace toprope
