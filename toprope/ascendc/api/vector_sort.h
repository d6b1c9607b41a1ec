// Sorting by score: groups of 32 (or 16 region proposals on 310P) and merges of up to four sorted queues.
// Source of the rules: reference pages Sort32, MrgSort, MrgSort4, GetMrgSortResult, RpSort16, ProposalConcat, ProposalExtract; NaN comes
// first (page TopK).
#pragma once

#include "vector_reduce.h"

namespace AscendC {

template <typename T>
struct MrgSortSrcList {
    LocalTensor<T> src1, src2, src3, src4;
    MrgSortSrcList() = default;
    MrgSortSrcList(const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<T>& c, const LocalTensor<T>& d)
        : src1(a), src2(b), src3(c), src4(d) {}
};

struct MrgSort4Info {
    uint16_t elementLengths[4] = {0, 0, 0, 0};
    bool ifExhaustedSuspension = false;
    uint16_t validBit = 0, repeatTimes = 1;
    MrgSort4Info() = default;
    MrgSort4Info(const uint16_t lengths[4], bool exhausted, uint16_t valid, uint16_t repeats)
        : ifExhaustedSuspension(exhausted), validBit(valid), repeatTimes(repeats) {
        for (int i = 0; i < 4; ++i) elementLengths[i] = lengths[i];
    }
};

}  // namespace AscendC

namespace toprope {

inline constexpr Op kOpSort32{"Sort32", Pipe::v, Kind::compute, "vbs32"};
inline constexpr Op kOpRpSort16{"RpSort16", Pipe::v, Kind::compute, "vbs16"};
inline constexpr Op kOpMrgSort{"MrgSort", Pipe::v, Kind::compute, "vmrgsort4"};
inline constexpr Op kOpProposalConcat{"ProposalConcat", Pipe::v, Kind::compute, "vconcat"};
inline constexpr Op kOpProposalExtract{"ProposalExtract", Pipe::v, Kind::compute, "vextract"};
inline constexpr Op kOpGetMrgSortResult{"GetMrgSortResult", Pipe::s, Kind::scalar, "scalar"};

inline constexpr uint32_t kMaxQueueLength = 4095;

template <typename T>
inline constexpr bool kSortable = is_one_of<T, half, float>;

// Larger scores first; NaN before everything.
inline bool goes_before(float a, float b) { return a > b || (a != a && b == b); }

// How entries lie in memory: their size and where the score is. Sort32 entries are (score, index) in 8 bytes; region proposals have 8
// elements, the fifth is the score.
struct EntryForm {
    uint32_t bytes, score_at;
};
inline constexpr EntryForm kScoreIndex{8, 0};
template <typename T>
inline constexpr EntryForm kProposal{8 * sizeof(T), 4 * sizeof(T)};

template <typename T>
float score_of(const uint8_t* entry, EntryForm form) {
    T score;
    std::memcpy(&score, entry + form.score_at, sizeof(T));
    return static_cast<float>(score);
}

// Stable order of n <= 32 scores, largest first.
inline void rank_scores(const float* score, uint8_t* order, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
        uint32_t at = i;
        for (; at > 0 && goes_before(score[i], score[order[at - 1]]); --at) order[at] = order[at - 1];
        order[at] = static_cast<uint8_t>(i);
    }
}

template <typename T>
void sort_groups_of_32(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& score,
                       const AscendC::LocalTensor<uint32_t>& index, uint32_t repeats, Site site) {
    if (self->type == CoreType::aic || repeats == 0) return;
    const uint64_t n = uint64_t{repeats} * 32;
    if (!(require_ub(kOpSort32, "dst", dst, n * 8, kBlockBytes, site) &
          require_ub(kOpSort32, "src0", score, n * sizeof(T), kBlockBytes, site) &
          require_ub(kOpSort32, "src1", index, n * 4, kBlockBytes, site)))
        return;
    require_apart(kOpSort32, "dst", dst.address(), dst.address() + n * 8, "src0", score.address(), score.address() + n * sizeof(T), site);
    require_apart(kOpSort32, "dst", dst.address(), dst.address() + n * 8, "src1", index.address(), index.address() + n * 4, site);
    Instr& instr = record(kOpSort32, site, repeats, vector_arg<T>());
    touch(instr, Space::ub, Mode::read, score.address(), n * sizeof(T));
    touch(instr, Space::ub, Mode::read, index.address(), n * 4);
    touch(instr, Space::ub, Mode::write, dst.address(), n * 8);
    for (uint32_t r = 0; self->execute && r < repeats; ++r) {
        const T* scores = reinterpret_cast<const T*>(score.host()) + uint64_t{r} * 32;
        float v[32];
        uint8_t order[32], entries[256] = {0};
        load_lanes<T>(v, scores, 32);
        rank_scores(v, order, 32);
        for (uint32_t i = 0; i < 32; ++i) {
            std::memcpy(entries + i * 8, scores + order[i], sizeof(T));
            std::memcpy(entries + i * 8 + 4, index.host() + (uint64_t{r} * 32 + order[i]) * 4, 4);
        }
        std::memcpy(dst.host() + uint64_t{r} * 256, entries, 256);
    }
}

template <typename T>
void sort_proposals(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t repeats, Site site) {
    if (self->type == CoreType::aic || repeats == 0) return;
    constexpr EntryForm form = kProposal<T>;
    const uint64_t bytes = uint64_t{repeats} * 16 * form.bytes;
    if (!(require_ub(kOpRpSort16, "dst", dst, bytes, kBlockBytes, site) & require_ub(kOpRpSort16, "src", src, bytes, kBlockBytes, site)))
        return;
    Instr& instr = record(kOpRpSort16, site, repeats, vector_arg<T>());
    touch(instr, Space::ub, Mode::read, src.address(), bytes);
    touch(instr, Space::ub, Mode::write, dst.address(), bytes);
    for (uint32_t r = 0; self->execute && r < repeats; ++r) {
        uint8_t in[16 * form.bytes], order[16];
        float v[16];
        std::memcpy(in, src.host() + r * sizeof in, sizeof in);
        for (uint32_t i = 0; i < 16; ++i) v[i] = score_of<T>(in + i * form.bytes, form);
        rank_scores(v, order, 16);
        for (uint32_t i = 0; i < 16; ++i) std::memcpy(dst.host() + r * sizeof in + i * form.bytes, in + order[i] * form.bytes, form.bytes);
    }
}

// Merges the first `queues` of the four; returns how many entries were written and, in taken, how many of each queue.
template <typename T>
uint32_t merge_queues(uint8_t* out, const uint8_t* const* in, const uint16_t* lengths, uint32_t queues, bool stop_at_end, EntryForm form,
                      uint16_t* taken) {
    float head[4];
    uint32_t written = 0;
    for (uint32_t q = 0; q < queues; ++q) {
        taken[q] = 0;
        if (lengths[q] == 0 && stop_at_end) return 0;
        if (lengths[q] > 0) head[q] = score_of<T>(in[q], form);
    }
    while (true) {
        uint32_t best = queues;
        for (uint32_t q = 0; q < queues; ++q)
            if (taken[q] < lengths[q] && (best == queues || goes_before(head[q], head[best]))) best = q;
        if (best == queues) return written;
        std::memcpy(out + uint64_t{written++} * form.bytes, in[best] + uint64_t{taken[best]++} * form.bytes, form.bytes);
        if (taken[best] < lengths[best])
            head[best] = score_of<T>(in[best] + uint64_t{taken[best]} * form.bytes, form);
        else if (stop_at_end)
            return written;
    }
}

inline uint32_t queue_count(uint16_t valid_bits) { return valid_bits == 15 ? 4 : valid_bits == 7 ? 3 : valid_bits == 3 ? 2 : 0; }

// Repeats need four queues of one length, one behind the other, that are merged to the end.
template <typename T>
bool may_repeat(const AscendC::MrgSortSrcList<T>& src, const AscendC::MrgSort4Info& p, EntryForm form) {
    const uint32_t step = p.elementLengths[0] * form.bytes;
    for (int q = 1; q < 4; ++q)
        if (p.elementLengths[q] != p.elementLengths[0]) return false;
    return p.validBit == 15 && !p.ifExhaustedSuspension && src.src2.address() == src.src1.address() + step &&
           src.src3.address() == src.src1.address() + 2 * step && src.src4.address() == src.src1.address() + 3 * step;
}

template <typename T>
void merge_sorted(const AscendC::LocalTensor<T>& dst, const AscendC::MrgSortSrcList<T>& src, const AscendC::MrgSort4Info& p, EntryForm form,
                  Site site) {
    if (self->type == CoreType::aic || p.repeatTimes == 0) return;
    const Op& op = kOpMrgSort;
    const uint32_t queues = queue_count(p.validBit);
    if (queues == 0)
        return report("mrgsort-valid-bits", site, &op, "MrgSort: validBit is %u; it must be 3, 7 or 15 for two, three or four queues",
                      p.validBit);
    const bool repeatable = p.repeatTimes > 1 && may_repeat(src, p, form);
    if (p.repeatTimes > 1 && !repeatable)
        warn("mrgsort-repeat-ignored", site, &op,
             "MrgSort: repeatTimes %u needs four queues of equal length, one behind the other, validBit 15 and no suspension; one round is "
             "done",
             p.repeatTimes);
    const uint32_t repeats = repeatable ? p.repeatTimes : 1;
    const AscendC::LocalTensor<T>* tensors[4] = {&src.src1, &src.src2, &src.src3, &src.src4};
    uint64_t total = 0;
    bool fits = true;
    for (uint32_t q = 0; q < queues; ++q) {
        if (p.elementLengths[q] > kMaxQueueLength)
            return report("mrgsort-queue-too-long", site, &op, "MrgSort: queue %u has %u entries; the instruction counts up to %u", q + 1,
                          p.elementLengths[q], kMaxQueueLength);
        const uint64_t span =
            repeatable && q == 0 ? uint64_t{repeats} * 4 * p.elementLengths[0] * form.bytes : uint64_t{p.elementLengths[q]} * form.bytes;
        fits &= require_ub(op, "src", *tensors[q], span, 8, site);
        total += p.elementLengths[q];
    }
    if (!(fits & require_ub(op, "dst", dst, total * repeats * form.bytes, kBlockBytes, site))) return;
    for (uint32_t q = 0; q < queues; ++q)
        require_apart(op, "dst", dst.address(), dst.address() + total * repeats * form.bytes, "src", tensors[q]->address(),
                      tensors[q]->address() + uint64_t{p.elementLengths[q]} * form.bytes, site);
    uint16_t taken[4] = {0, 0, 0, 0};
    uint64_t written = total * repeats;
    // The last queues of a suspended merge stay as they are, so the footprint of dst depends on the data.
    for (uint32_t r = 0; self->execute && r < repeats; ++r) {
        const uint8_t* in[4];
        for (uint32_t q = 0; q < queues; ++q) in[q] = tensors[q]->host() + uint64_t{r} * total * form.bytes;
        const uint32_t n = merge_queues<T>(dst.host() + uint64_t{r} * total * form.bytes, in, p.elementLengths, queues,
                                           p.ifExhaustedSuspension, form, taken);
        if (p.ifExhaustedSuspension) written = n;
    }
    Instr& instr = record(op, site, static_cast<uint32_t>((written + 31) / 32), vector_arg<T>());
    for (uint32_t q = 0; q < queues; ++q)
        if (p.elementLengths[q] > 0)
            touch(instr, Space::ub, Mode::read, tensors[q]->address(), uint64_t{p.elementLengths[q]} * form.bytes, repeats,
                  static_cast<int64_t>(total * form.bytes));
    if (written > 0) touch(instr, Space::ub, Mode::write, dst.address(), written * form.bytes);
    std::memcpy(&self->registers[kRegMergedCounts], taken, sizeof taken);
}

// One element of each of 16 proposals per repeat, into (in = true) or out of field `field`.
template <bool in, typename T>
void move_proposal_field(const Op& op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t repeats,
                         uint32_t field, Site site) {
    if (self->type == CoreType::aic || repeats == 0) return;
    if (field > 5) return report("proposal-field", site, &op, "%s: modeNumber %u; fields go from 0 (x1) to 5 (label)", op.name, field);
    const uint32_t n = repeats * 16;
    const AscendC::LocalTensor<T>&packed = in ? src : dst, &proposals = in ? dst : src;
    if (!(require_ub(op, in ? "src" : "dst", packed, n * sizeof(T), kBlockBytes, site) &
          require_ub(op, in ? "dst" : "src", proposals, uint64_t{n} * 8 * sizeof(T), kBlockBytes, site)))
        return;
    Instr& instr = record(op, site, repeats, vector_arg<T>());
    touch(instr, Space::ub, in ? Mode::read : Mode::write, packed.address(), n * sizeof(T));
    touch(instr, Space::ub, in ? Mode::write : Mode::read, proposals.address() + field * sizeof(T), sizeof(T), n, 8 * sizeof(T));
    T* flat = reinterpret_cast<T*>(packed.host());
    T* fields = reinterpret_cast<T*>(proposals.host()) + field;
    for (uint32_t i = 0; self->execute && i < n; ++i) {
        if constexpr (in)
            fields[i * 8] = flat[i];
        else
            flat[i] = fields[i * 8];
    }
}

}  // namespace toprope

#define TOPROPE_SORT_DTYPES(Name) \
    static_assert(toprope::kSortable<T>, #Name ": this chip sorts half and float only (see `toprope api " #Name "`)")
#define TOPROPE_ONLY_310P(Name)                                                   \
    static_assert(__NPU_ARCH__ == 2002 || __NPU_ARCH__ == 1001 || sizeof(T) == 0, \
                  #Name ": the 910B/910C generation has no region proposals; use Sort32 and MrgSort")

namespace AscendC {

//: Sort32 | sorts 32 scores per repeat, largest first, into (score, index) entries of 8 bytes | half float | A2 A3 | Sort32
template <typename T>
void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1, const int32_t repeatTime,
            toprope::Site site = toprope::Site::here()) {
    TOPROPE_SORT_DTYPES(Sort32);
    static_assert(toprope::kChip.a2_types || sizeof(T) == 0, "Sort32: only the 910B/910C generation has it; use RpSort16 here");
    toprope::sort_groups_of_32(dst, src0, src1, static_cast<uint32_t>(repeatTime), site);
}

//: MrgSort | merges two to four sorted queues of (score, index) entries into one | half float | A2 A3 | MrgSort
template <typename T>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params,
             toprope::Site site = toprope::Site::here()) {
    TOPROPE_SORT_DTYPES(MrgSort);
    toprope::merge_sorted(dst, src, params, toprope::kScoreIndex, site);
}

//: MrgSort4 | merges two to four sorted queues of region proposals into one | half float | 310P | MrgSort4
template <typename T>
void MrgSort4(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params,
              toprope::Site site = toprope::Site::here()) {
    TOPROPE_SORT_DTYPES(MrgSort4);
    TOPROPE_ONLY_310P(MrgSort4);
    toprope::merge_sorted(dst, src, params, toprope::kProposal<T>, site);
}

//: GetMrgSortResult | how many entries of each queue the last suspended merge took | - | A2 A3 310P | GetMrgSortResult
inline void GetMrgSortResult(uint16_t& mrgSortList1, uint16_t& mrgSortList2, uint16_t& mrgSortList3, uint16_t& mrgSortList4,
                             toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpGetMrgSortResult, site, 1, static_cast<uint32_t>(toprope::Dtype::u16));
    const uint64_t counts = toprope::self->registers[toprope::kRegMergedCounts];
    mrgSortList1 = static_cast<uint16_t>(counts);
    mrgSortList2 = static_cast<uint16_t>(counts >> 16);
    mrgSortList3 = static_cast<uint16_t>(counts >> 32);
    mrgSortList4 = static_cast<uint16_t>(counts >> 48);
}

//: RpSort16 | sorts 16 region proposals per repeat by score, largest first | half float | 310P | RpSort16
template <typename T>
void RpSort16(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, toprope::Site site = toprope::Site::here()) {
    TOPROPE_SORT_DTYPES(RpSort16);
    TOPROPE_ONLY_310P(RpSort16);
    toprope::sort_proposals(dst, src, static_cast<uint32_t>(repeatTime), site);
}
//: ProposalConcat | puts 16 elements per repeat into one field of 16 region proposals | half float | 310P | ProposalConcat
template <typename T>
void ProposalConcat(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t modeNumber,
                    toprope::Site site = toprope::Site::here()) {
    TOPROPE_SORT_DTYPES(ProposalConcat);
    TOPROPE_ONLY_310P(ProposalConcat);
    toprope::move_proposal_field<true>(toprope::kOpProposalConcat, dst, src, static_cast<uint32_t>(repeatTime),
                                       static_cast<uint32_t>(modeNumber), site);
}
//: ProposalExtract | takes one field out of 16 region proposals per repeat | half float | 310P | ProposalExtract
template <typename T>
void ProposalExtract(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t modeNumber,
                     toprope::Site site = toprope::Site::here()) {
    TOPROPE_SORT_DTYPES(ProposalExtract);
    TOPROPE_ONLY_310P(ProposalExtract);
    toprope::move_proposal_field<false>(toprope::kOpProposalExtract, dst, src, static_cast<uint32_t>(repeatTime),
                                        static_cast<uint32_t>(modeNumber), site);
}

}  // namespace AscendC
