// Integer lanes whose exact result leaves the type. They wrap, which is no mistake in hashes and random numbers, and one where the result
// is an offset: the check looks whether a Gather takes it as such (check/wrapped_offsets.py).
#pragma once

#include "vector.h"

namespace toprope {

// The arithmetic of integers: unsigned, so that overflow wraps; and the exact one.
template <typename L>
using Wrap = std::conditional_t<std::is_integral_v<L>, std::conditional_t<sizeof(L) <= 4, uint32_t, uint64_t>, L>;
template <typename L>
using WideLane = std::conditional_t<std::is_integral_v<L>, int64_t, L>;

// An operation's functor that has a member `exact`, which computes its result in 64 bits.
template <typename F, typename = void>
struct HasExact : std::false_type {};
template <typename F>
struct HasExact<F, std::void_t<decltype(&F::exact)>> : std::true_type {};
template <typename D>
inline constexpr bool kMayWrap = std::is_integral_v<D> && std::is_signed_v<D> && sizeof(D) <= 4;

template <typename F>
struct Wrapped {
    const F* f;
    uint64_t count = 0, first = ~0ull, last = 0;  // lanes that wrap
};
template <typename F, typename D, size_t sources>
void wraps_body(const void* context, void*, const void* const* src, size_t n, uint64_t begin) {
    auto& seen = **static_cast<Wrapped<F>* const*>(context);
    const auto exact = [&](size_t i) {
        const D a = static_cast<const D*>(src[0])[i];
        if constexpr (sources == 2)
            return seen.f->exact(a, static_cast<const D*>(src[1])[i]);
        else
            return seen.f->exact(a, seen.f->s_);
    };
    uint64_t count = 0;
    for (size_t i = 0; i < n; ++i) count += exact(i) != static_cast<D>(exact(i));
    if (TOPROPE_UNLIKELY(count != 0))
        for (size_t i = 0; i < n; ++i)
            if (exact(i) != static_cast<D>(exact(i))) {
                seen.first = begin + i < seen.first ? begin + i : seen.first;
                seen.last = begin + i > seen.last ? begin + i : seen.last;
            }
    seen.count += count;
}

// Leaves a note "lanes begin end": how many wrap, and the bytes of UB from the first of them to the last.
template <typename F, typename D, typename... S>
void note_wrapping(const Op& op, const F& f, const Lanes& lanes, Site site, const VectorOperand& dst, const S&... src) {
    if (self->type == CoreType::aic || !self->execute || lanes.empty()) return;
    const VectorOperand operands[] = {src...};
    Layout rows[sizeof...(S)];
    for (size_t i = 0; i < sizeof...(S); ++i) {
        rows[i] = operands[i].layout;
        if (operands[i].view.space != Space::ub || rows[i].address + span_bytes(rows[i], lanes) > self->bytes[static_cast<int>(Space::ub)])
            return;  // the call itself refuses it
    }
    Wrapped<F> seen{&f};
    Wrapped<F>* const at = &seen;
    run_rows(lanes, wraps_body<F, D, sizeof...(S)>, &at, nullptr, rows, sizeof...(S));
    if (seen.count == 0) return;
    const bool flat = dst.layout.flat(lanes);
    note("integer-overflow", site, &op, "%llu %llu %llu", static_cast<unsigned long long>(seen.count),
         static_cast<unsigned long long>(dst.layout.address + (flat ? seen.first * sizeof(D) : 0)),
         static_cast<unsigned long long>(dst.layout.address + (flat ? (seen.last + 1) * sizeof(D) : span_bytes(dst.layout, lanes))));
}

}  // namespace toprope
