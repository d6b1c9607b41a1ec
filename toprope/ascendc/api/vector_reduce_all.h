// Reductions of a whole tensor, built from the repeat reductions, and the registers that reductions leave behind.
// Source of the rules: reference pages ReduceSum, ReduceMax, ReduceMin, GetReduceRepeatSumSpr(ISASI), GetReduceRepeatMaxMinSpr(ISASI).
#pragma once

#include "vector_reduce.h"

namespace toprope {

inline constexpr Op kOpReduceSum{"ReduceSum", Pipe::v, Kind::compute, "vcadd"};
inline constexpr Op kOpReduceMax{"ReduceMax", Pipe::v, Kind::compute, "vcmax"};
inline constexpr Op kOpReduceMin{"ReduceMin", Pipe::v, Kind::compute, "vcmin"};
inline constexpr Op kOpGetAccVal{"GetAccVal", Pipe::s, Kind::scalar, "scalar"};
inline constexpr Op kOpGetReduceMaxMinCount{"GetReduceMaxMinCount", Pipe::s, Kind::scalar, "scalar"};

// Orders two pipes inside a library function with an event id that nobody has set.
inline void order_pipes(AscendC::HardEvent event, Site site) {
    const uint8_t* flags = self->flag[static_cast<int>(event)];
    int32_t id = self->pipe != nullptr ? AscendC::GetTPipePtr()->FetchEventID(event) : 0;
    while (id < kEventIds - 1 && flags[id] != 0) ++id;
    set_flag(event, id, site);
    wait_flag(event, id, site);
}

template <typename T>
T register_value(int which) {
    T value;
    std::memcpy(&value, &self->registers[which], sizeof(T));
    return value;
}

// The count form of ReduceSum: the accumulator register collects the repeats in order, the scalar unit stores it.
template <typename T>
void reduce_sum_all(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& work,
                    const Lanes& l, Site site) {
    if (self->type == CoreType::aic || l.empty()) return;
    const Operand<T> s{src.host(), src.address(), 1, 8};
    if (!(require_ub(kOpReduceSum, "dst", dst, sizeof(T), sizeof(T), site) & require_source(kOpReduceSum, src, s, l, site))) return;
    Instr& instr = record(kOpReduceSum, site, l.repeats, vector_arg<T>());
    touch_lanes(instr, Mode::read, s, l);
    touch_spared(work);
    float sum = -0.0f;
    for (uint32_t r = 0; self->execute && r < l.repeats; ++r) {
        float v[kRepeatBytes / sizeof(T)];
        load_repeat<T>(v, s, l, r, -0.0f);
        fold_levels<T, Fold::SUM>(v, kRepeatBytes / sizeof(T), sizeof(T) == 2 ? 7 : 6);
        sum = static_cast<float>(static_cast<T>(sum + v[0]));
    }
    const T typed = static_cast<T>(sum);
    self->registers[kRegReduceSum] = 0;
    std::memcpy(&self->registers[kRegReduceSum], &typed, sizeof(T));
    order_pipes(AscendC::HardEvent::V_S, site);
    dst.SetValue(0, typed, site);
    order_pipes(AscendC::HardEvent::S_V, site);
}

// The mask forms of ReduceSum: repeats first, then repeats over the sums until one is left; the work tensor holds the sums in between.
template <typename T>
void reduce_sum_tree(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& work, Lanes l,
                     uint32_t src_repeat, Site site) {
    if (self->type == CoreType::aic || l.empty()) return;
    AscendC::LocalTensor<T> from = src;
    ReduceStrides st{1, 1, src_repeat};
    while (true) {
        const uint32_t sums = l.repeats;
        reduce_repeats<Fold::SUM>(kOpReduceSum, sums == 1 ? dst : work, from, l, st, AscendC::ReduceOrder::ORDER_VALUE_INDEX, site);
        if (sums == 1) touch_spared(work);
        pipe_barrier(Pipe::v, site);
        if (sums == 1) return;
        from = work;
        l = count_lanes(lane_width(sizeof(T)), sums);
        st.src_repeat = 8;
    }
}

// The extreme of each repeat of an array of (value, index) pairs, of which only the values take part. A last repeat that is not full is an
// instruction of its own: what lies behind the pairs is anything.
template <Fold fold, typename T>
void reduce_values(const Op& op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& from, uint32_t pairs,
                   AscendC::ReduceOrder order, Site site) {
    constexpr uint32_t kWidth = kRepeatBytes / sizeof(T), kPairs = kWidth / 2;
    constexpr uint64_t kValues = 0x5555555555555555ull;
    const uint32_t full = pairs / kPairs, tail = pairs % kPairs;
    Lanes l = count_lanes(kWidth, uint64_t{full} * kWidth);
    l.bitmap = true;
    l.bits[0] = l.bits[1] = kValues;
    if (full > 0) reduce_repeats<fold>(op, dst, from, l, {1, 1, 8}, order, site);
    if (tail == 0) return;
    l = count_lanes(kWidth, kWidth);
    l.bitmap = true;
    l.bits[0] = kValues & run_of_ones(2 * tail);
    l.bits[1] = kValues & (tail > 32 ? run_of_ones(2 * tail - 64) : 0);
    reduce_repeats<fold>(op, dst[full * 2], from[full * kWidth], l, {1, 1, 8}, order, site);
}

// ReduceMax and ReduceMin: pairs per repeat into the work tensor, pairs of pairs behind them, until one is left. Indices inside a repeat
// are turned into the index in the whole tensor by the scalar unit, from the last round back to the first.
template <Fold fold, typename T>
void reduce_extreme(const Op& op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                    const AscendC::LocalTensor<T>& work, const Lanes& first, uint32_t src_repeat, bool with_index, Site site) {
    using AscendC::ReduceOrder;
    if (self->type == CoreType::aic || first.empty()) return;
    if (first.repeats == 1) {
        reduce_repeats<fold>(op, dst, src, first, {1, 1, src_repeat},
                             with_index ? ReduceOrder::ORDER_VALUE_INDEX : ReduceOrder::ORDER_ONLY_VALUE, site);
        return touch_spared(work);
    }
    constexpr uint32_t kPer = kBlockBytes / sizeof(T), kWidth = kRepeatBytes / sizeof(T);
    uint32_t at[8] = {0}, round = 0, pairs = first.repeats;  // where each round's pairs begin in the work tensor
    reduce_repeats<fold>(op, work, src, first, {1, 1, src_repeat}, ReduceOrder::ORDER_VALUE_INDEX, site);
    while (pairs > 1) {
        pipe_barrier(Pipe::v, site);
        const AscendC::LocalTensor<T> from = work[at[round]];
        const uint32_t results = (pairs + kWidth / 2 - 1) / (kWidth / 2);
        if (results == 1 && !with_index) return reduce_values<fold>(op, dst, from, pairs, ReduceOrder::ORDER_ONLY_VALUE, site);
        at[round + 1] = with_index ? at[round] + (pairs * 2 + kPer - 1) / kPer * kPer : 0;
        ++round;
        reduce_values<fold>(op, work[at[round]], from, pairs, ReduceOrder::ORDER_VALUE_INDEX, site);
        pairs = results;
    }
    order_pipes(AscendC::HardEvent::V_S, site);
    const T value = work.GetValue(at[round], site);
    uint32_t pair = 0;
    for (uint32_t r = round + 1; r-- > 0;) {
        const uint32_t inside = __builtin_bit_cast(BitsOf<T>, work.GetValue(at[r] + 2 * pair + 1, site));
        const uint32_t element = pair * kWidth + inside;
        pair = r > 0 ? element / 2 : element;
        if (!self->execute) pair = 0;
    }
    dst.SetValue(0, value, site);
    dst.SetValue(1, __builtin_bit_cast(T, static_cast<BitsOf<T>>(pair)), site);
    order_pipes(AscendC::HardEvent::S_V, site);
}

}  // namespace toprope

namespace AscendC {

//: ReduceSum | the sum of all elements | half float | A2 A3 310P | ReduceSum
template <typename T, bool isSetMask = true>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t count,
               toprope::Site site = toprope::Site::here()) {
    TOPROPE_REDUCE_DTYPES(ReduceSum);
    using namespace toprope;
    const Lanes lanes = isSetMask ? count_lanes(lane_width(sizeof(T)), static_cast<uint32_t>(count)) : mask_lanes(lane_width(sizeof(T)), 1);
    if constexpr (kChip.split)
        reduce_sum_all(dst, src, sharedTmpBuffer, lanes, site);
    else
        reduce_sum_tree(dst, src, sharedTmpBuffer, lanes, 8, site);
}
template <typename T, typename M>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const M& mask,
               const int32_t repeatTime, const int32_t srcRepStride, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REDUCE_DTYPES(ReduceSum);
    toprope::choose_mask<true, T>(toprope::kOpReduceSum, mask, site);
    toprope::reduce_sum_tree(dst, src, sharedTmpBuffer, TOPROPE_REPEAT_LANES, static_cast<uint32_t>(srcRepStride), site);
}

#define TOPROPE_REDUCE_EXTREME(Name, fold)                                                                                               \
    template <typename T>                                                                                                                \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t count,          \
              bool calIndex = false, toprope::Site site = toprope::Site::here()) {                                                       \
        TOPROPE_REDUCE_DTYPES(Name);                                                                                                     \
        const toprope::Lanes lanes = toprope::count_lanes(toprope::lane_width(sizeof(T)), static_cast<uint32_t>(count));                 \
        toprope::reduce_extreme<ReduceType::fold>(toprope::kOp##Name, dst, src, sharedTmpBuffer, lanes, 8, calIndex, site);              \
    }                                                                                                                                    \
    template <typename T, typename M>                                                                                                    \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const M& mask,                \
              const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = false, toprope::Site site = toprope::Site::here()) { \
        TOPROPE_REDUCE_DTYPES(Name);                                                                                                     \
        toprope::choose_mask<true, T>(toprope::kOp##Name, mask, site);                                                                   \
        toprope::reduce_extreme<ReduceType::fold>(toprope::kOp##Name, dst, src, sharedTmpBuffer, TOPROPE_REPEAT_LANES,                   \
                                                  static_cast<uint32_t>(srcRepStride), calIndex, site);                                  \
    }
//: ReduceMax | the largest of all elements, with its index if calIndex | half float | A2 A3 310P | ReduceMax
TOPROPE_REDUCE_EXTREME(ReduceMax, MAX)
//: ReduceMin | the smallest of all elements, with its index if calIndex | half float | A2 A3 310P | ReduceMin
TOPROPE_REDUCE_EXTREME(ReduceMin, MIN)
#undef TOPROPE_REDUCE_EXTREME

//: GetReduceRepeatSumSpr | the result of the last count-form ReduceSum | half float | A2 A3 | GetReduceRepeatSumSpr(ISASI)
template <typename T>
T GetReduceRepeatSumSpr(toprope::Site site = toprope::Site::here()) {
    TOPROPE_REDUCE_DTYPES(GetReduceRepeatSumSpr);
    toprope::record(toprope::kOpGetAccVal, site, 1, toprope::vector_arg<T>());
    return toprope::register_value<T>(toprope::kRegReduceSum);
}
//: GetAccVal | older name of GetReduceRepeatSumSpr | half float | A2 A3 | GetReduceRepeatSumSpr(ISASI)
template <typename T>
T GetAccVal(toprope::Site site = toprope::Site::here()) {
    return GetReduceRepeatSumSpr<T>(site);
}
// Without a type: the register itself, a float in its low half.
inline uint64_t GetAccVal(toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpGetAccVal, site, 1, toprope::vector_arg<float>());
    return toprope::special_register(toprope::kRegReduceSum);
}

//: GetReduceRepeatMaxMinSpr | the extreme value (and its index, as bits of T) over all repeats of the last reduction | half float | A2 A3 310P | GetReduceRepeatMaxMinSpr(ISASI)
template <typename T>
void GetReduceRepeatMaxMinSpr(T& maxMinValue, T& maxMinIndex, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REDUCE_DTYPES(GetReduceRepeatMaxMinSpr);
    toprope::record(toprope::kOpGetReduceMaxMinCount, site, 1, toprope::vector_arg<T>());
    maxMinValue = toprope::register_value<T>(toprope::kRegBestValue);
    maxMinIndex = toprope::register_value<T>(toprope::kRegBestIndex);
}
template <typename T>
void GetReduceRepeatMaxMinSpr(T& maxMinValue, toprope::Site site = toprope::Site::here()) {
    T index;
    GetReduceRepeatMaxMinSpr(maxMinValue, index, site);
}
//: GetReduceMaxMinCount | older name of GetReduceRepeatMaxMinSpr | half float | A2 A3 310P | GetReduceRepeatMaxMinSpr(ISASI)
template <typename T>
void GetReduceMaxMinCount(T& maxMinValue, T& maxMinIndex, toprope::Site site = toprope::Site::here()) {
    GetReduceRepeatMaxMinSpr(maxMinValue, maxMinIndex, site);
}
template <typename T>
void GetReduceMaxMinCount(T& maxMinValue, toprope::Site site = toprope::Site::here()) {
    GetReduceRepeatMaxMinSpr(maxMinValue, site);
}

}  // namespace AscendC
