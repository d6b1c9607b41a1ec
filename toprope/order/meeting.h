// Whether two instructions touch a common byte, without cutting the memory into cells first. Exact, with strides and outer loops.
#pragma once

#include <algorithm>
#include <vector>

#include "../trace_columns.h"

namespace toprope_order {

using namespace toprope_trace;

struct Run {
    uint64_t begin, end;
};

// Sorted, disjoint from here on.
inline void merge(std::vector<Run>& runs) {
    if (!std::is_sorted(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; }))
        std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
    size_t kept = 0;
    for (size_t i = 1; i < runs.size(); ++i) {
        if (runs[i].begin <= runs[kept].end)
            runs[kept].end = std::max(runs[kept].end, runs[i].end);
        else
            runs[++kept] = runs[i];
    }
    if (!runs.empty()) runs.resize(kept + 1);
}

// The byte ranges of a chain of rows; `row[0]` is the innermost loop.
inline void expand(const Access* row, uint32_t count, std::vector<Run>& runs) {
    const Access& inner = row[0];
    runs.clear();
    if (inner.row_bytes() == 0) return;
    for (uint64_t r = 0; r < inner.rows(); ++r) {
        const uint64_t begin = inner.address() + static_cast<uint64_t>(static_cast<int64_t>(r) * inner.stride());
        if (!runs.empty() && runs.back().end == begin)
            runs.back().end += inner.row_bytes();
        else
            runs.push_back({begin, begin + inner.row_bytes()});
    }
    for (uint32_t level = 1; level < count; ++level) {
        const Access& outer = row[level];
        const size_t pattern = runs.size();
        runs.reserve(pattern * outer.rows());
        for (uint64_t r = 1; r < outer.rows(); ++r) {
            const auto shift = static_cast<uint64_t>(static_cast<int64_t>(r) * outer.stride());
            for (size_t i = 0; i < pattern; ++i) runs.push_back({runs[i].begin + shift, runs[i].end + shift});
        }
    }
    merge(runs);
}

// One operand: a chain of rows and the range around it.
struct Operand {
    const Access* row;
    uint32_t count;
    uint64_t low, high;
    bool solid;  // it touches all of low:high

    uint32_t space() const { return row->space(); }
    uint32_t mode() const { return row->mode(); }
    bool writes() const { return row->mode() & kWrite; }
};

inline Operand operand(const Access* row, uint32_t count) {
    Operand o{row, count, row->address(), row->address() + row->row_bytes(), true};
    if (count == 1 && row->rows() == 1) return o;
    for (uint32_t level = 0; level < count; ++level) {
        const uint64_t rows = row[level].rows();
        if (rows <= 1) continue;
        const int64_t stride = row[level].stride();
        const auto width = static_cast<int64_t>(o.high - o.low);
        o.solid &= stride <= width && -stride <= width;
        const int64_t reach = static_cast<int64_t>(rows - 1) * stride;
        if (reach > 0)
            o.high += static_cast<uint64_t>(reach);
        else
            o.low -= static_cast<uint64_t>(-reach);
    }
    return o;
}

// Calls f with each operand of an instruction that touches at least a byte.
template <typename F>
void each_operand(const Access* access, uint32_t count, F f) {
    for (uint32_t a = 0; a < count;) {
        const uint32_t head = a;
        while (access[a].more() && a + 1 < count) ++a;
        ++a;
        if (access[head].rows() != 0 && access[head].row_bytes() != 0) f(operand(access + head, a - head));
    }
}

class Meeting {
public:
    bool share(const Operand& a, const Operand& b) {
        if (a.space() != b.space() || a.low >= b.high || b.low >= a.high) return false;
        if (a.solid && b.solid) return true;
        runs(a, one_);
        runs(b, two_);
        for (size_t i = 0, k = 0; i < one_.size() && k < two_.size();) {
            if (one_[i].begin < two_[k].end && two_[k].begin < one_[i].end) return true;
            if (one_[i].end <= two_[k].end)
                ++i;
            else
                ++k;
        }
        return false;
    }
    // One of the two must wait for the other: they meet, and not both read. Atomic updates of GM are no conflict among themselves.
    bool conflict(const Operand& a, const Operand& b) {
        if (!(a.writes() || b.writes())) return false;
        if (a.space() == kGm && a.mode() == kUpdate && b.mode() == kUpdate) return false;
        return share(a, b);
    }

private:
    static void runs(const Operand& o, std::vector<Run>& out) {
        if (o.solid)
            out.assign(1, {o.low, o.high});
        else
            expand(o.row, o.count, out);
    }
    std::vector<Run> one_, two_;
};

}  // namespace toprope_order
