// Exact footprints at the price of a few cells: all bytes that belong to the same set of footprints behave alike in every check,
// so a memory is cut once into such classes ("cells") and every access becomes a short list of cell numbers.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "meeting.h"

namespace toprope_order {

inline uint64_t mixed(uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

class Footprints {
public:
    static constexpr uint32_t kNone = 0xffffffffu;

    // A chain of rows as the trace records it; `row[0]` is the innermost loop. Equal chains get the same number.
    uint32_t intern(const Access* row, uint32_t count) {
        constexpr uint64_t kShapeBits = ~((3ull << 20) | (1ull << 23));  // mode and masked are not part of the shape
        uint64_t key = count;
        for (uint32_t i = 0; i < count; ++i) key = mixed(mixed(key ^ row[i].low) ^ (row[i].high & kShapeBits));
        const size_t slot = key & (kRecent - 1);
        if (recent_[slot].key == key && recent_[slot].number != kNone) return recent_[slot].number;
        const auto [found, fresh] = numbers_.try_emplace(key, static_cast<uint32_t>(shapes_.size()));
        if (fresh) {
            shapes_.push_back({static_cast<uint32_t>(rows_.size()), count});
            for (uint32_t i = 0; i < count; ++i) rows_.push_back({row[i].low, row[i].high & kShapeBits});
        }
        recent_[slot] = {key, found->second};
        return found->second;
    }

    uint32_t size() const { return static_cast<uint32_t>(shapes_.size()); }
    uint32_t space(uint32_t number) const { return rows_[shapes_[number].first].space(); }

    // Sorted, disjoint byte ranges of a footprint.
    void expand(uint32_t number, std::vector<Run>& runs) const {
        toprope_order::expand(&rows_[shapes_[number].first], shapes_[number].count, runs);
    }

    // Cuts every memory into cells. Call once, after the last intern().
    void partition() {
        first_.assign(shapes_.size() + 1, 0);
        std::vector<std::vector<uint32_t>> by_space(kSpaces);
        for (uint32_t f = 0; f < size(); ++f) by_space[space(f)].push_back(f);
        std::vector<uint32_t> counts(shapes_.size(), 0), offsets(shapes_.size(), 0);
        for (uint32_t s = 0; s < kSpaces; ++s) cut(s, by_space[s], counts, offsets);
        for (uint32_t f = 0; f < size(); ++f) first_[f] = offsets[f];
        counts_ = std::move(counts);
    }

    const uint32_t* cells(uint32_t number) const { return cell_list_.data() + first_[number]; }
    uint32_t cell_count(uint32_t number) const { return counts_[number]; }
    uint32_t cells_in(uint32_t space) const { return cells_in_[space]; }

    // The first contiguous range of a footprint that belongs to a cell.
    Run range_of(uint32_t number, uint32_t cell) const {
        std::vector<Run> runs;
        expand(number, runs);
        const Cuts& c = cuts_[space(number)];
        Run out{0, 0};
        for (const Run& run : runs) {
            auto i = static_cast<size_t>(std::lower_bound(c.begin.begin(), c.begin.end(), run.begin) - c.begin.begin());
            for (; i < c.cell.size() && c.begin[i] < run.end; ++i) {
                if (c.cell[i] != cell) {
                    if (out.end != 0) return out;
                } else if (out.end == c.begin[i] && out.end != 0) {
                    out.end = c.begin[i + 1];
                } else if (out.end != 0) {
                    return out;
                } else {
                    out = {c.begin[i], c.begin[i + 1]};
                }
            }
        }
        return out;
    }

private:
    static constexpr size_t kRecent = 1 << 14;
    struct Shape {
        uint32_t first, count;
    };
    struct Recent {
        uint64_t key = 0;
        uint32_t number = kNone;
    };
    struct Cuts {
        std::vector<uint64_t> begin;
        std::vector<uint32_t> cell;
    };  // begin has one entry more
    struct Edge {
        uint64_t at, delta;
    };

    void cut(uint32_t space, const std::vector<uint32_t>& members, std::vector<uint32_t>& counts, std::vector<uint32_t>& offsets) {
        Cuts& c = cuts_[space];
        std::vector<Edge> edges;
        std::vector<Run> runs;
        for (uint32_t f : members) {
            expand(f, runs);
            const uint64_t weight = mixed(f + 1) | 1;
            for (const Run& run : runs) {
                edges.push_back({run.begin, weight});
                edges.push_back({run.end, 0 - weight});
            }
        }
        std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
        std::unordered_map<uint64_t, uint32_t> cell_of;
        uint64_t signature = 0;  // sum of the weights of the footprints that cover this place
        for (size_t i = 0; i < edges.size();) {
            const uint64_t at = edges[i].at;
            for (; i < edges.size() && edges[i].at == at; ++i) signature += edges[i].delta;
            c.begin.push_back(at);
            c.cell.push_back(signature == 0 ? kNone : cell_of.try_emplace(signature, static_cast<uint32_t>(cell_of.size())).first->second);
        }
        if (!c.cell.empty()) c.cell.pop_back();  // the last edge closes the last interval
        cells_in_[space] = static_cast<uint32_t>(cell_of.size());
        std::vector<uint32_t> seen(cell_of.size(), kNone);
        for (uint32_t f : members) {
            expand(f, runs);
            offsets[f] = static_cast<uint32_t>(cell_list_.size());
            for (const Run& run : runs) {
                auto i = static_cast<size_t>(std::lower_bound(c.begin.begin(), c.begin.end(), run.begin) - c.begin.begin());
                for (; i < c.cell.size() && c.begin[i] < run.end; ++i) {
                    const uint32_t cell = c.cell[i];
                    if (cell == kNone || seen[cell] == f) continue;
                    seen[cell] = f;
                    cell_list_.push_back(cell);
                }
            }
            counts[f] = static_cast<uint32_t>(cell_list_.size()) - offsets[f];
        }
    }

    std::vector<Recent> recent_ = std::vector<Recent>(kRecent);
    std::unordered_map<uint64_t, uint32_t> numbers_;
    std::vector<Shape> shapes_;
    std::vector<Access> rows_;
    Cuts cuts_[kSpaces];
    uint32_t cells_in_[kSpaces] = {};
    std::vector<uint32_t> cell_list_, first_, counts_;
};

}  // namespace toprope_order
