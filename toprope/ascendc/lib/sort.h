// Sorting with the advanced library: Concat, Sort, MrgSort with counts, Extract, TopK. Pages: 高阶API/排序操作/*.md.
// On the 910B generation an entry is (score, index) in 8 bytes; Concat only renames its source.
#pragma once

#include "../api/vector_sort.h"
#include "steps.h"
#include "tiling_structs.h"

namespace AscendC {

struct TopKInfo {
    int32_t outter = 1, inner = 0, n = 0;
};
enum class TopKAlgo { RADIX_SELECT = 0, MERGE_SORT };
enum class TopKOrder { UNSET = 0, LARGEST, SMALLEST };
struct TopKConfig {
    TopKAlgo algo = TopKAlgo::MERGE_SORT;
    TopKOrder order = TopKOrder::UNSET;
    bool sorted = true;
};

}  // namespace AscendC

namespace toprope {

template <typename T>
inline constexpr uint32_t kEntryElements = 8 / sizeof(T);

// Merges `lists` sorted lists of `length` entries (the last one of `last`) from `from` into `to`, two to four at a time; returns how many
// lists are left, and their lengths. Groups are as even as possible, so that no list is left alone.
struct ListLengths {
    uint32_t lists, length[64];
};
template <typename T>
void merge_round(const AscendC::LocalTensor<T>& to, const AscendC::LocalTensor<T>& from, ListLengths& l, Site site) {
    const uint32_t groups = (l.lists + 3) / 4;
    ListLengths next{groups, {}};
    uint32_t list = 0, at = 0;
    for (uint32_t g = 0; g < groups; ++g) {
        const uint32_t size = l.lists / groups + (g < l.lists % groups ? 1 : 0);
        AscendC::LocalTensor<T> queue[4];
        uint16_t lengths[4] = {0, 0, 0, 0};
        const uint32_t begin = at;
        for (uint32_t q = 0; q < size; ++q, ++list) {
            queue[q] = from[at * kEntryElements<T>];
            lengths[q] = static_cast<uint16_t>(l.length[list]);
            at += l.length[list];
        }
        next.length[g] = at - begin;
        AscendC::MrgSort(to[begin * kEntryElements<T>], AscendC::MrgSortSrcList<T>(queue[0], queue[1], queue[2], queue[3]),
                         AscendC::MrgSort4Info(lengths, false, static_cast<uint16_t>((1u << size) - 1), 1), site);
    }
    l = next;
    pipe_barrier(Pipe::v, site);
}

// dst = all 32 * repeats entries in order. The first sort goes to whichever buffer makes the last merge end in dst.
template <typename T>
void sort_all(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& score, const AscendC::LocalTensor<uint32_t>& index,
              const AscendC::LocalTensor<T>& tmp, uint32_t repeats, Site site) {
    if (repeats == 0) return;
    uint32_t rounds = 0;
    for (uint32_t lists = repeats; lists > 1; lists = (lists + 3) / 4) ++rounds;
    const AscendC::LocalTensor<T>* buffers[2] = {&dst, &tmp};
    uint32_t now = rounds % 2;
    AscendC::Sort32(*buffers[now], score, index, static_cast<int32_t>(repeats), site);
    pipe_barrier(Pipe::v, site);
    if (rounds == 0) return;
    // The first round has up to 255 lists of 32: full groups of four are one instruction with repeats.
    const uint32_t fours = repeats / 4, rest = repeats % 4;
    ListLengths l{0, {}};
    const uint16_t thirty_two[4] = {32, 32, 32, 32};
    const auto part = [&](uint32_t buffer, uint32_t list) { return (*buffers[buffer])[list * 32 * kEntryElements<T>]; };
    const auto list_of_four = [&](uint32_t first) {
        return AscendC::MrgSortSrcList<T>(part(now, first), part(now, first + 1), part(now, first + 2), part(now, first + 3));
    };
    const uint32_t whole = rest == 1 && fours > 0 ? fours - 1 : fours;  // five lists left are three and two
    if (whole > 0)
        AscendC::MrgSort(part(1 - now, 0), list_of_four(0), AscendC::MrgSort4Info(thirty_two, false, 15, static_cast<uint16_t>(whole)),
                         site);
    for (uint32_t i = 0; i < whole; ++i) l.length[l.lists++] = 128;
    for (uint32_t first = whole * 4; first < repeats;) {
        const uint32_t left = repeats - first, size = left == 5 ? 3 : left < 4 ? left : 4;
        AscendC::MrgSort(part(1 - now, first), list_of_four(first),
                         AscendC::MrgSort4Info(thirty_two, false, static_cast<uint16_t>((1u << size) - 1), 1), site);
        l.length[l.lists++] = size * 32;
        first += size;
    }
    pipe_barrier(Pipe::v, site);
    for (now = 1 - now; l.lists > 1; now = 1 - now) merge_round(*buffers[1 - now], *buffers[now], l, site);
}

// The scores and indices of `entries` sorted entries.
template <typename T>
void extract_entries(const AscendC::LocalTensor<T>& value, const AscendC::LocalTensor<uint32_t>& index,
                     const AscendC::LocalTensor<T>& sorted, uint32_t repeats, Site site) {
    uint64_t kept = 0;
    const AscendC::GatherMaskParams params(1, static_cast<uint16_t>(repeats), 8, 0);
    AscendC::GatherMask(value, sorted, static_cast<uint8_t>(sizeof(T) == 2 ? 3 : 1), false, 0, params, kept, site);
    AscendC::GatherMask(index, sorted.template ReinterpretCast<uint32_t>(), static_cast<uint8_t>(2), false, 0, params, kept, site);
    pipe_barrier(Pipe::v, site);
}

// TopK row by row: sort, take the first k. Rows of `inner` elements, a multiple of 32. NaN comes first either way.
template <typename T, bool has_index, bool has_finish, bool small>
void top_k(Scratch scratch, const AscendC::LocalTensor<T>& dst_value, const AscendC::LocalTensor<int32_t>& dst_index,
           const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<int32_t>& src_index, const AscendC::LocalTensor<bool>& finish,
           uint32_t k, const AscendC::TopKInfo& info, bool largest, Site site) {
    static_assert(kSortable<T>, "TopK: half and float only (see `toprope api TopK`)");
    if (self->type == CoreType::aic) return;
    const auto inner = static_cast<uint32_t>(info.inner);
    const Steps<T> v{static_cast<int32_t>(inner), site};
    const auto entries = scratch.template take<T>(uint64_t{inner} * kEntryElements<T>),
               tmp = scratch.template take<T>(uint64_t{inner} * kEntryElements<T>);
    const auto values = scratch.template take<T>(inner);
    const auto numbers = scratch.template take<uint32_t>(inner), places = scratch.template take<uint32_t>(inner);
    if (!scratch.enough()) return;
    if constexpr (!has_index) {
        AscendC::CreateVecIndex(numbers.template ReinterpretCast<int32_t>(), 0, inner, site);
        v.wait();
    }
    constexpr uint32_t kPer = 32 / sizeof(T);
    const uint32_t value_row = small ? k : (k + kPer - 1) / kPer * kPer, index_row = small ? k : (k + 7) / 8 * 8;
    for (uint32_t row = 0; row < static_cast<uint32_t>(info.outter); ++row) {
        AscendC::LocalTensor<T> score = src[row * inner];
        if (!largest) {
            v.mul(values, score, T(-1));
            score = values;
        }
        const AscendC::LocalTensor<uint32_t> index =
            has_index ? src_index[small ? row * inner : 0].template ReinterpretCast<uint32_t>() : numbers;
        sort_all(entries, score, index, tmp, inner / 32, site);
        extract_entries(values, places, entries, inner * 8 / 256, site);
        if (!largest) v.mul(values, values, T(-1));
        // k need not fill blocks: the copy to an address inside a block is the scalar unit's.
        const bool aligned = !small || (row * k * sizeof(T) % 32 == 0 && row * k * 4 % 32 == 0);
        if (aligned) {
            AscendC::Adds(dst_value[row * value_row], values, T(0), static_cast<int32_t>(k), site);
            AscendC::Adds(dst_index[row * index_row], places.template ReinterpretCast<int32_t>(), 0, static_cast<int32_t>(k), site);
            v.wait();
        } else {
            order_pipes(AscendC::HardEvent::V_S, site);
            for (uint32_t i = 0; i < k; ++i) {
                dst_value.SetValue(row * k + i, values.GetValue(i, site), site);
                dst_index.SetValue(row * k + i, static_cast<int32_t>(places.GetValue(i, site)), site);
            }
            order_pipes(AscendC::HardEvent::S_V, site);
        }
        if constexpr (has_finish) {
            order_pipes(AscendC::HardEvent::V_S, site);
            if (finish.GetValue(row, site)) {
                AscendC::Duplicate(dst_index[row * index_row], info.n, static_cast<int32_t>(k), site);
                v.wait();
            }
            order_pipes(AscendC::HardEvent::S_V, site);
        }
    }
}

}  // namespace toprope

namespace AscendC {

//: GetSortOffset | the place of an entry in sorted data, in elements of T | half float | A2 A3 | GetSortOffset
template <typename T>
uint32_t GetSortOffset(const uint32_t elemOffset) {
    return elemOffset * toprope::kEntryElements<T>;
}
//: GetSortLen | the elements of T that elemCount entries take | half float | A2 A3 | GetSortLen
template <typename T>
uint32_t GetSortLen(const uint32_t elemCount) {
    return elemCount * toprope::kEntryElements<T>;
}

//: Concat | prepares scores for Sort; on this chip concat becomes another name of src | half float | A2 A3 | Concat
template <typename T>
void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>&, const int32_t) {
    TOPROPE_SORT_DTYPES(Concat);
    concat = src;
}

//: Sort | sorts scores with their indices, largest first, in groups of 32 or all together | half float | A2 A3 | Sort
template <typename T, bool isFullSort>
void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat, const LocalTensor<uint32_t>& index, LocalTensor<T>& tmp,
          const int32_t repeatTime, toprope::Site site = toprope::Site::here()) {
    TOPROPE_SORT_DTYPES(Sort);
    if constexpr (isFullSort)
        toprope::sort_all(dst, concat, index, tmp, static_cast<uint32_t>(repeatTime), site);
    else
        Sort32(dst, concat, index, repeatTime, site);
}

template <typename T, bool isExhaustedSuspension = false>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sortList, const uint16_t elementCountList[4], uint32_t sortedNum[4],
             uint16_t validBit, const int32_t repeatTime, toprope::Site site = toprope::Site::here()) {
    MrgSort(dst, sortList, MrgSort4Info(elementCountList, isExhaustedSuspension, validBit, static_cast<uint16_t>(repeatTime)), site);
    if constexpr (isExhaustedSuspension) {
        uint16_t counts[4];
        GetMrgSortResult(counts[0], counts[1], counts[2], counts[3], site);
        for (int q = 0; q < 4; ++q) sortedNum[q] = counts[q];
    }
}

//: Extract | the scores and the indices of sorted entries, 32 per repeat | half float | A2 A3 | Extract
template <typename T>
void Extract(const LocalTensor<T>& dstValue, const LocalTensor<uint32_t>& dstIndex, const LocalTensor<T>& sorted, const int32_t repeatTime,
             toprope::Site site = toprope::Site::here()) {
    TOPROPE_SORT_DTYPES(Extract);
    toprope::extract_entries(dstValue, dstIndex, sorted, static_cast<uint32_t>(repeatTime), site);
}

//: TopK | the k largest (or smallest) elements of each row and their indices | half float | A2 A3 | TopK
#define TOPROPE_TOPK(TMP, SCRATCH)                                                                                            \
    template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,                        \
              enum TopKMode topkMode = TopKMode::TOPK_NORMAL>                                                                 \
    void TopK(const LocalTensor<T>& dstValue, const LocalTensor<int32_t>& dstIndex, const LocalTensor<T>& src,                \
              const LocalTensor<int32_t>& srcIndex, const LocalTensor<bool>& finish TMP, const int32_t k, const TopkTiling&,  \
              const TopKInfo& topKInfo, const bool isLargest = true, toprope::Site site = toprope::Site::here()) {            \
        toprope::top_k<T, isInitIndex, isHasfinish, topkMode == TopKMode::TOPK_NSMALL>(                                       \
            SCRATCH("TopK"), dstValue, dstIndex, src, srcIndex, finish, static_cast<uint32_t>(k), topKInfo, isLargest, site); \
    }
TOPROPE_TOPK(, TOPROPE_REST_SCRATCH)
TOPROPE_TOPK(TOPROPE_TMP_ARGUMENT, TOPROPE_TMP_SCRATCH)
#undef TOPROPE_TOPK

}  // namespace AscendC
