// What the replay remembers of memory (who touched each cell) and what it has found (one Cause per code and pair of source lines).
#pragma once

#include <unordered_map>
#include <vector>

#include "../order/footprints.h"
#include "input.h"

namespace toprope_check {

enum Mode : uint8_t { kCached = 4, kClean = 8 };  // beside kRead and kWrite

// An access that later ones may have to be ordered with. kCached: a line in a core's scalar cache; kClean: written back to GM.
struct Record {
    static constexpr uint64_t kFresh = ~0ull;
    uint64_t instr;
    uint32_t epoch;  // how many instructions the pipe had started, this one included
    uint16_t core;
    uint8_t pipe, mode;
    uint64_t stale_instr = kFresh;  // kCached: who changed GM since
};

class Shadow {
public:
    struct Cell {
        std::vector<Record> records;
        bool written = false, filler = false;  // filler: what a copy put behind its rows is no content
    };

    void open(const Footprints& footprints, const Input& in) {
        in_ = &in;
        gm_.resize(footprints.cells_in(kGm));
        for (uint32_t s = 1; s < kSpaces; ++s) {
            width_[s] = footprints.cells_in(s);
            local_[s].resize(size_t{width_[s]} * in.core_count);
        }
    }
    Cell& at(uint32_t core, uint32_t space, uint32_t cell) {
        return space == kGm ? gm_[cell] : local_[space][size_t{core} * width_[space] + cell];
    }

    // Does a GM cell lie in memory that nothing had written before the launch?
    bool poisoned(const Footprints& footprints, uint32_t footprint, uint32_t cell) const {
        bool any = false;
        for (uint32_t i = 0; i < in_->gm_count; ++i) any |= in_->gm[i].poisoned != 0;
        if (!any) return false;
        const uint64_t at = footprints.range_of(footprint, cell).begin;
        for (uint32_t i = 0; i < in_->gm_count; ++i)
            if (at >= in_->gm[i].address && at < in_->gm[i].address + in_->gm[i].bytes) return in_->gm[i].poisoned != 0;
        return false;
    }
    template <typename F>
    void each_gm_cell(F f) const {
        for (const Cell& cell : gm_) f(cell.records);
    }

private:
    const Input* in_ = nullptr;
    std::vector<Cell> gm_, local_[kSpaces];
    uint32_t width_[kSpaces] = {};
};

class Causes {
public:
    explicit Causes(const Input& in) : in_(in) {}

    void add(Cause cause) { put(cause); }
    void add(Cause cause, const Footprints& footprints, uint32_t footprint, uint32_t cell) {
        Cause& stored = put(cause);
        if (stored.end != 0) return;
        const Run range = footprints.range_of(footprint, cell);
        stored.begin = range.begin;
        stored.end = range.end;
        stored.space = footprints.space(footprint);
    }

    void barrier_seen(uint64_t instr, uint32_t core) { put({kBarrierUse, 0, core, core, instr, instr}); }
    // The barrier was needed to order pipe `to` after pipe `from`; kAll, kAll: for another core.
    void barrier_used(uint64_t instr, uint32_t core, uint32_t from, uint32_t to) {
        const auto found = index_.find(key({kBarrierUse, 0, core, core, instr, instr}));
        if (found != index_.end()) all_[found->second].detail |= 1ull << (from * kPipes + to);
    }
    std::vector<Cause> take() { return std::move(all_); }

private:
    // Between cores there is no first and second: reading too early and overwriting too early at two lines are one cause.
    uint64_t key(const Cause& c) const {
        uint64_t one = in_.instrs[c.instr_a].site, two = in_.instrs[c.instr_b].site, hazard = c.hazard;
        if (c.code == kRace && c.core_a != c.core_b) {
            if (one > two) std::swap(one, two);
            hazard = c.hazard == 2 ? 2 : 3;
        }
        return mixed(mixed(uint64_t{c.code} << 8 | hazard) ^ (one << 32 | two));
    }
    Cause& put(Cause cause) {
        const auto [found, fresh] = index_.try_emplace(key(cause), static_cast<uint32_t>(all_.size()));
        if (fresh) all_.push_back(cause);
        Cause& stored = all_[found->second];
        if (!fresh && cause.hazard < stored.hazard) {  // a read that comes too early tells more than a write that does
            cause.count = stored.count;
            std::copy(stored.cores, stored.cores + 4, cause.cores);
            stored = cause;
        }
        if (!fresh && cause.hazard == stored.hazard && stored.later_count < kLater) {
            const uint64_t last = stored.later_count != 0 ? stored.later[stored.later_count - 1][1] : stored.instr_b;
            uint64_t* pair = stored.later[stored.later_count];
            pair[0] = cause.instr_a;
            pair[1] = cause.instr_b;
            stored.later_count += cause.instr_b != last;
        }
        ++stored.count;
        if (cause.core_b < 256) stored.cores[cause.core_b / 64] |= 1ull << (cause.core_b % 64);
        return stored;
    }

    const Input& in_;
    std::vector<Cause> all_;
    std::unordered_map<uint64_t, uint32_t> index_;
};

}  // namespace toprope_check
