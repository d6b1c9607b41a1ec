// Reductions of the vector unit: per repeat, per 32-byte block and per pair.
// Source of the rules: reference pages ReduceRepeat, ReduceDataBlock, ReducePairElem, ReduceSum, ReduceMax, ReduceMin (and the older names
// WholeReduce*, BlockReduce*, PairReduceSum, RepeatReduceSum), GetReduceRepeatSumSpr, GetReduceRepeatMaxMinSpr.
// Sums are binary trees of neighbours, rounded to the element type at every level, as the page describes. Two choices where the page is
// silent: a lane that is switched off leaves its partner unchanged, and a NaN wins a maximum or minimum.
#pragma once

#include "../machine/vector.h"

namespace AscendC {
enum class ReduceType : uint8_t { SUM = 0, MAX, MIN };
}  // namespace AscendC

namespace toprope {

inline constexpr Op kOpWholeReduceSum{"WholeReduceSum", Pipe::v, Kind::compute, "vcadd"};
inline constexpr Op kOpWholeReduceMax{"WholeReduceMax", Pipe::v, Kind::compute, "vcmax"};
inline constexpr Op kOpWholeReduceMin{"WholeReduceMin", Pipe::v, Kind::compute, "vcmin"};
inline constexpr Op kOpBlockReduceSum{"BlockReduceSum", Pipe::v, Kind::compute, "vcgadd"};
inline constexpr Op kOpBlockReduceMax{"BlockReduceMax", Pipe::v, Kind::compute, "vcgmax"};
inline constexpr Op kOpBlockReduceMin{"BlockReduceMin", Pipe::v, Kind::compute, "vcgmin"};
inline constexpr Op kOpPairReduceSum{"PairReduceSum", Pipe::v, Kind::compute, "vcpadd"};

using Fold = AscendC::ReduceType;
// Repeats whose sums are formed together: the last levels of their trees then fill whole registers.
inline constexpr uint32_t kRepeatGroup = 8;
template <typename T>
inline constexpr bool kReducible = is_one_of<T, half, float>;
template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;

template <Fold fold>
float fold_identity() {
    return fold == Fold::SUM ? -0.0f : fold == Fold::MAX ? -__builtin_inff() : __builtin_inff();
}
template <Fold fold>
inline float fold_two(float a, float b) {
    if constexpr (fold == Fold::SUM)
        return a + b;
    else if constexpr (fold == Fold::MAX)
        return (a > b) | (a != a) ? a : b;
    else
        return (a < b) | (a != a) ? a : b;
}

// Rounds n float results to the element type.
template <typename T>
void round_lanes(float* v, uint32_t n) {
    if constexpr (is_float16<T>) {
        uint16_t bits[kRepeatGroup * 64];
        float_to_half_n(bits, v, n);
        half_to_float_n(v, bits, n);
    }
}

// Eight floats at a time; compilers make one register of it.
typedef float Floats8 __attribute__((vector_size(32), aligned(4)));
inline Floats8 fold_eights(Floats8 a, Floats8 b) {
    // First within halves of a register, where shuffles are cheap.
    const Floats8 sum =
        TOPROPE_SHUFFLE(Floats8, a, b, 0, 2, 8, 10, 4, 6, 12, 14) + TOPROPE_SHUFFLE(Floats8, a, b, 1, 3, 9, 11, 5, 7, 13, 15);
    return TOPROPE_SHUFFLE(Floats8, sum, sum, 0, 1, 4, 5, 2, 3, 6, 7);
}

// `levels` rounds of v[i] = v[2i] op v[2i+1]; n lanes to begin with. The results are the first n >> levels lanes.
template <typename T, Fold fold>
void fold_levels(float* v, uint32_t n, uint32_t levels) {
    for (; levels > 0; --levels) {
        n /= 2;
        if (fold == Fold::SUM && n >= 8)
            for (uint32_t i = 0; i < n; i += 8) {
                const Floats8 a = load_vector<Floats8>(v + 2 * i), b = load_vector<Floats8>(v + 2 * i + 8);
                store_vector(v + i, fold_eights(a, b));
            }
        else
            for (uint32_t i = 0; i < n; ++i) v[i] = fold_two<fold>(v[2 * i], v[2 * i + 1]);
        if constexpr (fold == Fold::SUM) round_lanes<T>(v, n);
    }
}

template <Fold fold>
inline Floats8 extreme_eights(Floats8 a, Floats8 b) {
    if constexpr (fold == Fold::MAX)
        return (a > b) | (a != a) ? a : b;
    else
        return (a < b) | (a != a) ? a : b;
}
// The extreme of kLanes lanes (64 or 128), in any order: halves against halves, first of registers, then within one.
template <Fold fold, uint32_t kLanes>
float extreme_of(const float* v) {
    Floats8 x[kLanes / 8];
    for (uint32_t i = 0; i < kLanes / 8; ++i) x[i] = load_vector<Floats8>(v + i * 8);
    for (uint32_t half = kLanes / 16; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; ++i) x[i] = extreme_eights<fold>(x[i], x[i + half]);
    x[0] = extreme_eights<fold>(x[0], TOPROPE_SHUFFLE(Floats8, x[0], x[0], 4, 5, 6, 7, 0, 1, 2, 3));
    x[0] = extreme_eights<fold>(x[0], TOPROPE_SHUFFLE(Floats8, x[0], x[0], 2, 3, 0, 1, 6, 7, 4, 5));
    return fold_two<fold>(x[0][0], x[0][1]);
}

// The lanes of one repeat in float; lanes that take no part hold the identity. Reads only active lanes.
template <typename T>
void load_repeat(float* v, const Operand<T>& s, const Lanes& l, uint32_t repeat, float identity) {
    constexpr uint32_t kPer = Operand<T>::kPerBlock, kWidth = kRepeatBytes / sizeof(T);
    const uint32_t active = l.active_in(repeat);
    if (s.block_stride == 1)
        load_lanes<T>(v, s.at(repeat, 0), active);
    else
        for (uint32_t lane = 0; lane < active; lane += kPer)
            load_lanes<T>(v + lane, s.at(repeat, lane), active - lane < kPer ? active - lane : kPer);
    for (uint32_t lane = active; lane < kWidth; ++lane) v[lane] = identity;
    if (!l.bitmap) return;
    for (uint32_t half = 0; half < kWidth / 64; ++half)
        for (uint32_t lane = 0; lane < 64; ++lane) v[half * 64 + lane] = l.bits[half] >> lane & 1 ? v[half * 64 + lane] : identity;
}
// The same, in place where no lane has to change.
template <typename T>
const float* repeat_lanes(float* room, const Operand<T>& s, const Lanes& l, uint32_t repeat, float identity) {
    if constexpr (std::is_same_v<T, float>)
        if (s.block_stride == 1 && !l.bitmap && l.active_in(repeat) == l.width) return s.at(repeat, 0);
    load_repeat<T>(room, s, l, repeat, identity);
    return room;
}

typedef int32_t Ints8 __attribute__((vector_size(32), aligned(4)));
// The first of n lanes (64 or 128) that holds `value`, which one of them does.
inline uint32_t first_equal(const float* v, float value, uint32_t n) {
    Ints8 lane = {0, 1, 2, 3, 4, 5, 6, 7}, best = lane + 0x7fff;
    for (uint32_t i = 0; i < n; i += 8, lane += 8) {
        const Floats8 x = load_vector<Floats8>(v + i);
        best = ((x == value) & (lane < best)) ? lane : best;
    }
    int32_t first = best[0];
    for (int i = 1; i < 8; ++i) first = best[i] < first ? best[i] : first;
    return static_cast<uint32_t>(first);
}
// The first active lane that holds `value`.
inline uint32_t first_lane(const float* v, float value, const Lanes& l, uint32_t active) {
    if (value - value == 0) return first_equal(v, value, l.width);  // finite: no lane that is switched off holds it
    for (uint32_t lane = 0; lane < active; ++lane)
        if ((v[lane] == value || (value != value && v[lane] != v[lane])) && (!l.bitmap || l.bit(lane))) return lane;
    return 0;
}

struct ReduceStrides {
    uint32_t dst_repeat, src_block, src_repeat;
};

// Bytes of one result and where value and index lie in it. Page ReduceRepeat, table 3.
template <typename T>
struct ResultForm {
    uint32_t bytes, value_at, index_at;
    static constexpr uint32_t kAbsent = ~0u;
    static ResultForm of(AscendC::ReduceOrder order) {
        switch (order) {
            case AscendC::ReduceOrder::ORDER_VALUE_INDEX:
                return {2 * sizeof(T), 0, sizeof(T)};
            case AscendC::ReduceOrder::ORDER_INDEX_VALUE:
                return {2 * sizeof(T), sizeof(T), 0};
            case AscendC::ReduceOrder::ORDER_ONLY_VALUE:
                return {sizeof(T), 0, kAbsent};
            default:
                return {4, kAbsent, 0};
        }
    }
};

template <typename T>
bool require_source(const Op& op, const AscendC::LocalTensor<T>& t, const Operand<T>& o, const Lanes& l, Site site) {
    return require_vector_operand(op, "src", t, o, l, site);
}
template <typename T>
bool require_ub(const Op& op, const char* role, const AscendC::LocalTensor<T>& t, uint64_t span, uint32_t alignment, Site site) {
    if (TOPROPE_UNLIKELY(t.space() != Space::ub)) {
        report("wrong-position", site, &op, "%s: %s is in %s; vector instructions work on UB (VECIN, VECOUT, VECCALC)", op.name, role,
               kSpaceNames[static_cast<int>(t.space())]);
        return false;
    }
    return require_operand(op, role, t, span, alignment, site);
}
inline void touch_strided(Instr& instr, Mode mode, uint32_t address, uint32_t bytes, uint32_t rows, uint32_t stride_bytes) {
    if (rows == 1 || bytes == stride_bytes)
        touch(instr, Space::ub, mode, address, uint64_t{bytes} * rows);
    else
        touch(instr, Space::ub, mode, address, bytes, rows, stride_bytes);
}
template <typename T>
uint32_t vector_arg() {
    return static_cast<uint32_t>(dtype_of<T>) | static_cast<uint32_t>(dtype_of<T>) << 8;
}

// The sum of every repeat, a group of repeats at a time.
template <typename T>
void run_sums(uint8_t* dst, uint32_t stride, const Operand<T>& s, const Lanes& l) {
    constexpr uint32_t kWidth = kRepeatBytes / sizeof(T);
    for (uint32_t r = 0, group; r < l.repeats; r += group) {
        group = l.repeats - r < kRepeatGroup ? 1 : kRepeatGroup;
        float v[kRepeatGroup * kWidth];
        for (uint32_t i = 0; i < group; ++i) load_repeat<T>(v + i * kWidth, s, l, r + i, -0.0f);
        fold_levels<T, Fold::SUM>(v, group * kWidth, sizeof(T) == 2 ? 7 : 6);
        for (uint32_t i = 0; i < group; ++i) store_lanes<T>(reinterpret_cast<T*>(dst + uint64_t{r + i} * stride), v + i, 1);
    }
}

// The extreme of every repeat and/or its lane; the best of all goes into the registers.
template <Fold fold, typename T>
void run_extremes(uint8_t* dst, uint32_t stride, const ResultForm<T>& form, const Operand<T>& s, const Lanes& l) {
    float overall = 0;
    for (uint32_t r = 0; r < l.repeats; ++r) {
        float room[kRepeatBytes / sizeof(T)];
        const float* v = repeat_lanes<T>(room, s, l, r, fold_identity<fold>());
        const float best = extreme_of<fold, kRepeatBytes / sizeof(T)>(v);
        const bool leads = r == 0 || (fold_two<fold>(overall, best) != overall && overall == overall);
        const uint32_t lane = leads || form.index_at != form.kAbsent ? first_lane(v, best, l, l.active_in(r)) : 0;
        uint8_t* out = dst + uint64_t{r} * stride;
        if (form.value_at != form.kAbsent) store_lanes<T>(reinterpret_cast<T*>(out + form.value_at), &best, 1);
        if (form.index_at != form.kAbsent) std::memcpy(out + form.index_at, &lane, form.value_at == form.kAbsent ? 4 : sizeof(T));
        if (!leads) continue;
        overall = best;
        const T typed = static_cast<T>(best);
        self->registers[kRegBestValue] = 0;
        std::memcpy(&self->registers[kRegBestValue], &typed, sizeof(T));
        self->registers[kRegBestIndex] = uint64_t{r} * l.width + lane;
    }
}

// One result per repeat: a sum, or the extreme value and/or its lane.
template <Fold fold, typename T>
void reduce_repeats(const Op& op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Lanes& l,
                    const ReduceStrides& st, AscendC::ReduceOrder order, Site site) {
    if (self->type == CoreType::aic || l.empty()) return;
    const Operand<T> s{src.host(), src.address(), st.src_block, st.src_repeat};
    const ResultForm<T> form = fold == Fold::SUM ? ResultForm<T>{sizeof(T), 0, ResultForm<T>::kAbsent} : ResultForm<T>::of(order);
    const uint32_t stride = st.dst_repeat * form.bytes;
    if (!(require_ub(op, "dst", dst, uint64_t{l.repeats - 1} * stride + form.bytes, form.bytes, site) &
          require_source(op, src, s, l, site)))
        return;
    Instr& instr = record(op, site, l.repeats, vector_arg<T>());
    touch_lanes(instr, Mode::read, s, l);
    touch_strided(instr, Mode::write, dst.address(), form.bytes, l.repeats, stride);
    require_no_overtaking(op, dst.address(), form.bytes, stride, "src", s, l, site);
    if (!self->execute) return;
    if constexpr (fold == Fold::SUM)
        run_sums<T>(dst.host(), stride, s, l);
    else
        run_extremes<fold, T>(dst.host(), stride, form, s, l);
}

// One result per 32-byte block, eight per repeat, next to each other. A block without an active lane keeps its old result.
template <Fold fold, typename T>
void reduce_blocks(const Op& op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Lanes& l,
                   const ReduceStrides& st, Site site) {
    if (self->type == CoreType::aic || l.empty()) return;
    constexpr uint32_t kPer = Operand<T>::kPerBlock, kLevels = sizeof(T) == 2 ? 4 : 3;
    const Operand<T> s{src.host(), src.address(), st.src_block, st.src_repeat};
    const auto written = [&](uint32_t repeat) {  // a bit per block
        uint32_t blocks = 0;
        for (uint32_t lane = 0; lane < l.active_in(repeat); ++lane)
            if (!l.bitmap || l.bit(lane)) blocks |= 1u << (lane / kPer);
        return blocks;
    };
    const uint32_t stride = st.dst_repeat * 8 * sizeof(T), mask = written(0), last = written(l.repeats - 1);
    const auto end_of = [](uint32_t blocks) { return blocks ? 32 - static_cast<uint32_t>(__builtin_clz(blocks)) : 0; };
    uint64_t span = uint64_t{l.repeats - 1} * stride + end_of(last) * sizeof(T);
    if (l.repeats > 1 && uint64_t{l.repeats - 2} * stride + end_of(mask) * sizeof(T) > span)
        span = uint64_t{l.repeats - 2} * stride + end_of(mask) * sizeof(T);
    if (!(require_ub(op, "dst", dst, span, 8 * sizeof(T), site) & require_source(op, src, s, l, site))) return;
    Instr& instr = record(op, site, l.repeats, vector_arg<T>());
    touch_lanes(instr, Mode::read, s, l);
    const auto touch_written = [&](uint32_t blocks, uint32_t first, uint32_t repeats) {
        for (uint32_t b = 0; b < 8 && repeats > 0; ++b) {
            if (!(blocks >> b & 1)) continue;
            uint32_t e = b;
            while (e < 8 && (blocks >> e & 1)) ++e;
            touch_strided(instr, Mode::write, dst.address() + first * stride + b * sizeof(T), (e - b) * sizeof(T), repeats, stride);
            b = e;
        }
    };
    touch_written(mask, 0, last == mask ? l.repeats : l.repeats - 1);
    if (last != mask) touch_written(last, l.repeats - 1, 1);
    require_no_overtaking(op, dst.address(), end_of(mask) * sizeof(T), stride, "src", s, l, site);
    if (!self->execute) return;
    for (uint32_t r = 0; r < l.repeats; ++r) {
        float v[kRepeatBytes / sizeof(T)];
        load_repeat<T>(v, s, l, r, fold_identity<fold>());
        fold_levels<T, fold>(v, kRepeatBytes / sizeof(T), kLevels);
        T* out = reinterpret_cast<T*>(dst.host() + uint64_t{r} * stride);
        const uint32_t blocks = r + 1 == l.repeats ? last : mask;
        if (blocks == 0xff)
            store_lanes<T>(out, v, 8);
        else
            for (uint32_t b = 0; b < 8; ++b)
                if (blocks >> b & 1) store_lanes<T>(out + b, v + b, 1);
    }
}

// One sum per two neighbours; 128 bytes per repeat. A pair without an active lane keeps its old result.
template <typename T>
void reduce_pairs(const Op& op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Lanes& l,
                  const ReduceStrides& st, Site site) {
    if (self->type == CoreType::aic || l.empty()) return;
    const Operand<T> s{src.host(), src.address(), st.src_block, st.src_repeat};
    // The results as lanes of half the width: dst's repeat stride counts 128 bytes, that is four blocks.
    const Operand<T> d{dst.host(), dst.address(), 1, st.dst_repeat * 4};
    Lanes half_lanes = l;
    half_lanes.width = l.width / 2;
    half_lanes.active = (l.active + 1) / 2;
    half_lanes.tail = (l.tail + 1) / 2;
    if (l.bitmap) {
        half_lanes.bits[0] = half_lanes.bits[1] = 0;
        for (uint32_t i = 0; i < half_lanes.width; ++i)
            if (l.bit(2 * i) || l.bit(2 * i + 1)) half_lanes.bits[0] |= 1ull << i;
    }
    if (!(require_vector_operand(op, "dst", dst, d, half_lanes, site) & require_source(op, src, s, l, site))) return;
    Instr& instr = record(op, site, l.repeats, vector_arg<T>());
    touch_lanes(instr, Mode::read, s, l);
    touch_lanes(instr, Mode::write, d, half_lanes);
    require_no_overtaking(op, d.address, kRepeatBytes / 2, uint64_t{d.repeat_stride} * kBlockBytes, "src", s, l, site);
    if (!self->execute) return;
    for (uint32_t r = 0; r < l.repeats; ++r) {
        float v[kRepeatBytes / sizeof(T)];
        load_repeat<T>(v, s, l, r, -0.0f);
        fold_levels<T, Fold::SUM>(v, kRepeatBytes / sizeof(T), 1);
        const uint32_t n = half_lanes.active_in(r);
        if (!l.bitmap)
            store_lanes<T>(d.at(r, 0), v, n);
        else
            for (uint32_t i = 0; i < n; ++i)
                if (half_lanes.bit(i)) store_lanes<T>(d.at(r, i), v + i, 1);
    }
}

// A mask argument is a number of lanes or an array of two 64-bit words; template parameter M takes both.
template <bool set, typename T, typename M>
void choose_mask([[maybe_unused]] const Op& op, [[maybe_unused]] const M& mask, [[maybe_unused]] Site site) {
    if constexpr (!set) {
        return;
    } else if constexpr (std::is_arithmetic_v<M> || std::is_enum_v<M>) {
        check_mask(op, kLaneWidth<T>, static_cast<uint64_t>(mask), site);
        set_contiguous_mask(static_cast<uint64_t>(mask));
    } else {
        set_bit_mask(mask[1], mask[0]);
    }
}

}  // namespace toprope

#define TOPROPE_REDUCE_DTYPES(Name) \
    static_assert(toprope::kReducible<T>, #Name ": this chip reduces half and float only (see `toprope api " #Name "`)")
#define TOPROPE_REPEAT_LANES toprope::mask_lanes(toprope::lane_width(sizeof(T)), static_cast<uint32_t>(repeatTime))
#define TOPROPE_REDUCE_STRIDES \
    {static_cast<uint32_t>(dstRepStride), static_cast<uint32_t>(srcBlkStride), static_cast<uint32_t>(srcRepStride)}

namespace AscendC {

//: WholeReduceSum | one sum per repeat | half float | A2 A3 310P | ReduceRepeat
template <typename T, bool isSetMask = true, typename M>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const M& mask, const int32_t repeatTime,
                    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                    toprope::Site site = toprope::Site::here()) {
    TOPROPE_REDUCE_DTYPES(WholeReduceSum);
    toprope::choose_mask<isSetMask, T>(toprope::kOpWholeReduceSum, mask, site);
    toprope::reduce_repeats<ReduceType::SUM>(toprope::kOpWholeReduceSum, dst, src, TOPROPE_REPEAT_LANES, TOPROPE_REDUCE_STRIDES,
                                             ReduceOrder::ORDER_ONLY_VALUE, site);
}

#define TOPROPE_WHOLE_EXTREME(Name, fold)                                                                                                \
    template <typename T, bool isSetMask = true, typename M>                                                                             \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const M& mask, const int32_t repeatTime, const int32_t dstRepStride, \
              const int32_t srcBlkStride, const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,                \
              toprope::Site site = toprope::Site::here()) {                                                                              \
        TOPROPE_REDUCE_DTYPES(Name);                                                                                                     \
        toprope::choose_mask<isSetMask, T>(toprope::kOp##Name, mask, site);                                                              \
        toprope::reduce_repeats<ReduceType::fold>(toprope::kOp##Name, dst, src, TOPROPE_REPEAT_LANES, TOPROPE_REDUCE_STRIDES, order,     \
                                                  site);                                                                                 \
    }
//: WholeReduceMax | the largest element of each repeat and its index in the repeat | half float | A2 A3 310P | ReduceRepeat
TOPROPE_WHOLE_EXTREME(WholeReduceMax, MAX)
//: WholeReduceMin | the smallest element of each repeat and its index in the repeat | half float | A2 A3 310P | ReduceRepeat
TOPROPE_WHOLE_EXTREME(WholeReduceMin, MIN)
#undef TOPROPE_WHOLE_EXTREME

//: RepeatReduceSum | one sum per repeat (older argument order) | half float | A2 A3 310P | ReduceRepeat
template <typename T, bool isSetMask = true, typename M>
void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const M& mask,
                     [[maybe_unused]] const int32_t dstBlkStride, const int32_t srcBlkStride, const int32_t dstRepStride,
                     const int32_t srcRepStride, toprope::Site site = toprope::Site::here()) {
    WholeReduceSum<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, site);
}

#define TOPROPE_BLOCK_REDUCE(Name, call)                                                                                                 \
    template <typename T, bool isSetMask = true, typename M>                                                                             \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const M& mask, const int32_t dstRepStride, \
              const int32_t srcBlkStride, const int32_t srcRepStride, toprope::Site site = toprope::Site::here()) {                      \
        TOPROPE_REDUCE_DTYPES(Name);                                                                                                     \
        toprope::choose_mask<isSetMask, T>(toprope::kOp##Name, mask, site);                                                              \
        toprope::call(toprope::kOp##Name, dst, src, TOPROPE_REPEAT_LANES, TOPROPE_REDUCE_STRIDES, site);                                 \
    }
//: BlockReduceSum | one sum per 32-byte block | half float | A2 A3 310P | ReduceDataBlock
TOPROPE_BLOCK_REDUCE(BlockReduceSum, reduce_blocks<ReduceType::SUM>)
//: BlockReduceMax | the largest element of each 32-byte block | half float | A2 A3 310P | ReduceDataBlock
TOPROPE_BLOCK_REDUCE(BlockReduceMax, reduce_blocks<ReduceType::MAX>)
//: BlockReduceMin | the smallest element of each 32-byte block | half float | A2 A3 310P | ReduceDataBlock
TOPROPE_BLOCK_REDUCE(BlockReduceMin, reduce_blocks<ReduceType::MIN>)
//: PairReduceSum | sums of neighbours, two by two | half float | A2 A3 310P | ReducePairElem
TOPROPE_BLOCK_REDUCE(PairReduceSum, reduce_pairs)
#undef TOPROPE_BLOCK_REDUCE

//: ReduceRepeat | one sum, maximum or minimum per repeat, chosen by the first template argument | half float | A2 A3 310P | ReduceRepeat
template <ReduceType reduceType, typename T, typename U, bool isSetMask = true, typename M>
void ReduceRepeat(const LocalTensor<T>& dst, const LocalTensor<U>& src, const M& mask, const int32_t repeatTime, const int32_t dstRepStride,
                  const int32_t srcBlkStride, const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,
                  toprope::Site site = toprope::Site::here()) {
    static_assert(std::is_same_v<T, U>, "ReduceRepeat: this chip needs dst and src of one element type");
    if constexpr (reduceType == ReduceType::SUM)
        WholeReduceSum<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, site);
    else if constexpr (reduceType == ReduceType::MAX)
        WholeReduceMax<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, order, site);
    else
        WholeReduceMin<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, order, site);
}

//: ReduceDataBlock | one sum, maximum or minimum per 32-byte block, chosen by the first template argument | half float | A2 A3 310P | ReduceDataBlock
template <ReduceType reduceType, typename T, typename U, bool isSetMask = true, typename M>
void ReduceDataBlock(const LocalTensor<T>& dst, const LocalTensor<U>& src, const M& mask, const int32_t repeatTime,
                     const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                     toprope::Site site = toprope::Site::here()) {
    static_assert(std::is_same_v<T, U>, "ReduceDataBlock: this chip needs dst and src of one element type");
    if constexpr (reduceType == ReduceType::SUM)
        BlockReduceSum<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride, srcRepStride, site);
    else if constexpr (reduceType == ReduceType::MAX)
        BlockReduceMax<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride, srcRepStride, site);
    else
        BlockReduceMin<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride, srcRepStride, site);
}

//: ReducePairElem | sums of neighbours, two by two | half float | A2 A3 310P | ReducePairElem
template <ReduceType reduceType, typename T, typename U, bool isSetMask = true, typename M>
void ReducePairElem(const LocalTensor<T>& dst, const LocalTensor<U>& src, const M& mask, const int32_t repeatTime,
                    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                    toprope::Site site = toprope::Site::here()) {
    static_assert(reduceType == ReduceType::SUM && std::is_same_v<T, U>, "ReducePairElem: this chip adds pairs of one element type only");
    PairReduceSum<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride, srcRepStride, site);
}

}  // namespace AscendC
