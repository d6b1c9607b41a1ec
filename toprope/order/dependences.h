// The dependences inside one core: which instruction needs which earlier one, through which memory, and what keeps the two in order.
#pragma once

#include <unordered_set>

#include "compiler.h"
#include "footprints.h"

namespace toprope_order {

enum By : uint32_t { kByNothing, kByPipe, kBySync, kByInserted, kByUnitFlag };

struct Dependence {
    uint64_t earlier, later;
    uint32_t kind;  // 0 flow, 1 anti, 2 output
    uint32_t space;
    uint32_t by;
    Row sync;  // the wait or barrier behind kBySync, the instruction that the compiler put a sync before for kByInserted
};

class Dependences {
public:
    void core(const Instr* instrs, uint64_t begin, uint64_t end, const Access* access, const uint8_t* kinds, bool inserts,
              std::vector<Dependence>& out) {
        collect(instrs, begin, end, access, kinds);
        if (inserts) Compiler().core(instrs, begin, end, access, kinds, inserted_);
        auto next = inserted_.begin();
        auto footprint = touched_.begin();
        for (uint64_t i = begin; i < end; ++i) {
            const Instr& instr = instrs[i];
            const uint8_t kind = kinds[instr.op];
            const FlagWork flag(instr);
            if (kind == kSetFlag && flag.valid()) pipes_.set(flag, i);
            if (kind == kWaitFlag && flag.valid()) pipes_.wait(flag, i);
            if (kind == kBarrier) pipes_.barrier(instr.pipe, i);
            if (instr.accesses == 0 || kind == kCache || kind == kMark) continue;
            const uint32_t pipe = instr.pipe < kAll ? instr.pipe : static_cast<uint32_t>(kS);
            pipes_.issue(pipe);
            for (; next != inserted_.end() && next->before == i; ++next)
                pipes_.order(next->from, next->to, pipes_.count[next->from], next->before | kByCompiler);
            ++pipes_.count[pipe];
            const auto first = footprint;
            while (footprint != touched_.end() && footprint->instr == i) ++footprint;
            for (auto t = first; t != footprint; ++t) compare(instrs, i, pipe, *t, out);
            for (auto t = first; t != footprint; ++t) leave(i, pipe, *t);
        }
    }

private:
    struct Touch {
        uint64_t instr;
        uint32_t footprint, space, mode;
    };
    struct Record {
        uint64_t instr;
        uint32_t epoch, pipe, mode;
    };

    void collect(const Instr* instrs, uint64_t begin, uint64_t end, const Access* access, const uint8_t* kinds) {
        for (uint64_t i = begin; i < end; access += instrs[i++].accesses) {
            if (kinds[instrs[i].op] == kCache || kinds[instrs[i].op] == kMark) continue;
            each_operand(access, instrs[i].accesses,
                         [&](const Operand& o) { touched_.push_back({i, footprints_.intern(o.row, o.count), o.space(), o.mode()}); });
        }
        footprints_.partition();
        for (uint32_t s = 0; s < kSpaces; ++s) cells_[s].resize(footprints_.cells_in(s));
    }

    void compare(const Instr* instrs, uint64_t i, uint32_t pipe, const Touch& t, std::vector<Dependence>& out) {
        const uint32_t* cells = footprints_.cells(t.footprint);
        for (uint32_t n = footprints_.cell_count(t.footprint), c = 0; c < n; ++c)
            for (const Record& r : cells_[t.space][cells[c]]) {
                if (r.instr == i || !((r.mode | t.mode) & kWrite)) continue;
                const uint32_t kind = (r.mode & kWrite) ? ((t.mode & kRead) ? 0u : 2u) : 1u;
                if (!told_.insert(mixed(mixed(r.instr << 2 | kind) ^ i)).second) continue;
                Dependence d{r.instr, i, kind, t.space, kByNothing, kNoRow};
                if (r.pipe == pipe && completes_in_order(pipe)) {
                    d.by = kByPipe;
                } else if (pipes_.knows(r.epoch, r.pipe, pipe)) {
                    const Row row = pipes_.pipe[pipe].full.by[r.pipe];
                    d.by = (row & kByCompiler) != 0 ? kByInserted : kBySync;
                    d.sync = row & ~kByCompiler;
                } else if (unit_flags(instrs[r.instr], instrs[i])) {
                    d.by = kByUnitFlag;
                }
                out.push_back(d);
            }
    }

    // The last write and the reads since then.
    void leave(uint64_t i, uint32_t pipe, const Touch& t) {
        const uint32_t* cells = footprints_.cells(t.footprint);
        for (uint32_t n = footprints_.cell_count(t.footprint), c = 0; c < n; ++c) {
            auto& records = cells_[t.space][cells[c]];
            size_t kept = 0;
            for (const Record& r : records) {
                const bool replaced = r.instr != i && ((t.mode & kWrite) || (r.pipe == pipe && !(r.mode & kWrite)));
                if (!replaced) records[kept++] = r;
            }
            records.resize(kept);
            records.push_back({i, pipes_.count[pipe], pipe, t.mode});
        }
    }

    Pipes pipes_;
    std::vector<Inserted> inserted_;
    std::vector<Touch> touched_;
    Footprints footprints_;
    std::vector<std::vector<Record>> cells_[kSpaces];
    std::unordered_set<uint64_t> told_;
};

}  // namespace toprope_order
