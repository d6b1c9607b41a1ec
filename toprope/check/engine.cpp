// Replays a trace over vector clocks: races, uninitialised reads, cache coherence, flags. Pure: reads the columns, returns causes.
#include "polling.h"

namespace toprope_check {
namespace {

struct Suspect {
    Record earlier;
    uint32_t footprint, cell, hazard;
};

struct Touch {
    uint32_t footprint, space, mode;
    bool filler = false, masked = false;
};

class Engine {
public:
    explicit Engine(const Input& input) : in_(input), causes_(input), order_(input, causes_) {}

    std::vector<Cause> run() {
        find_written_gm();
        collect();
        if (in_.last_core_first) polling_.begin_with_last();
        if (cleans_) find_flags();
        footprints_.partition();
        mark_buffers();
        shadow_.open(footprints_, in_);
        for (bool progress = true, forced = false; progress || forced;) {
            progress = false;
            for (Core& core : cores_) progress |= advance(core, forced);
            // A deadlock has been reported by the run; go on behind it, one wait at a time, to see the rest.
            forced = !progress && std::any_of(cores_.begin(), cores_.end(), [](const Core& c) { return c.next != c.end; });
        }
        for (Core& core : cores_) order_.finish(core);
        find_dirty_lines();
        return causes_.take();
    }

private:
    // ---- preparation -------------------------------------------------------------------------------------------------------

    int32_t gm_row(uint64_t address) {
        const auto inside = [&](uint32_t i) { return address >= in_.gm[i].address && address < in_.gm[i].address + in_.gm[i].bytes; };
        if (last_gm_ < in_.gm_count && inside(last_gm_)) return static_cast<int32_t>(last_gm_);
        for (uint32_t i = 0; i < in_.gm_count; ++i)
            if (inside(i)) return static_cast<int32_t>(last_gm_ = i);
        return -1;
    }

    // Arguments that nobody writes cannot race: their accesses need no shadow.
    void find_written_gm() {
        gm_matters_.assign(in_.gm_count, 0);
        for (uint32_t i = 0; i < in_.gm_count; ++i) gm_matters_[i] = in_.gm[i].poisoned != 0;
        for (uint64_t a = 0; a < in_.access_begin[in_.core_count]; ++a) {
            const Access& access = in_.accesses[a];
            if (access.space() != kGm) continue;
            const int32_t row = gm_row(access.address());
            if (row < 0) continue;
            in_.gm[row].touched = 1;
            if (access.mode() & kWrite) gm_matters_[static_cast<uint32_t>(row)] = 1;
        }
    }

    static Access whole_lines(const Access& access) {
        const uint64_t begin = access.address() & ~63ull, end = (access.address() + access.row_bytes() + 63) & ~63ull;
        return {begin | (end - begin) << 40, 1};  // one row in GM
    }

    uint8_t kind_of(const Instr& instr) const { return instr.op < in_.op_count ? in_.op_kinds[instr.op] : static_cast<uint8_t>(kMark); }

    void collect() {
        const uint64_t total = in_.access_begin[in_.core_count];
        footprint_of_.assign(total, Footprints::kNone);
        uint64_t a = 0;
        for (uint64_t i = 0; i < in_.core_begin[in_.core_count]; ++i) {
            const Instr& instr = in_.instrs[i];
            const uint8_t kind = kind_of(instr);
            cleans_ |= kind == kCache || kind == kUncached;
            if (kind == kCrossSet && instr.cross_id() == kSoftAll) ++cores_[order_.core_of(i)].soft_all_total;
            for (uint64_t end = a + instr.accesses; a < end;) {
                const uint64_t head = a;
                while (in_.accesses[a].more() && a + 1 < end) ++a;
                ++a;
                const Access& first = in_.accesses[head];
                if (first.rows() == 0) continue;
                if (first.row_bytes() == 0) {  // given to the instruction, which leaves it alone
                    spared_.insert(first.address() << 8 | first.space());
                    continue;
                }
                if (first.space() == kGm) {
                    const int32_t row = gm_row(first.address());
                    if (row < 0 || !gm_matters_[static_cast<uint32_t>(row)]) continue;
                }
                const uint32_t number = footprints_.intern(&in_.accesses[head], static_cast<uint32_t>(a - head));
                footprint_of_[head] = number;
                if (first.space() == kGm && (instr.pipe == kS || instr.pipe >= kAll)) {
                    const Access lines = whole_lines(first);
                    const uint32_t line = footprints_.intern(&lines, 1);
                    if (line_of_.size() <= number) line_of_.resize(number + 1, Footprints::kNone);
                    line_of_[number] = line;
                }
            }
        }
    }

    // The line in GM that a scalar instruction or a clean is about; kNone for others and for the whole cache.
    uint32_t line_at(const Instr& instr, uint64_t access) const {
        if (instr.accesses == 0 || instr.pipe != kS || in_.accesses[access].space() != kGm) return Footprints::kNone;
        const uint32_t footprint = footprint_of_[access];
        return footprint == Footprints::kNone ? Footprints::kNone : line_of_[footprint];
    }

    void find_flags() {
        for (Core& core : cores_) {
            Polling::Cache cache;
            uint64_t a = core.next_access;
            bool waited = false;
            std::unordered_set<uint64_t> looped;  // line of source and cache line
            for (uint64_t i = core.next; i < core.end; a += in_.instrs[i++].accesses) {
                const Instr& instr = in_.instrs[i];
                const uint8_t kind = kind_of(instr);
                const uint32_t line = line_at(instr, a);
                waited |= kind == kCrossWait;
                if (kind == kCache && instr.accesses == 0 && instr.work == 0) {
                    for (uint32_t sent : cache.clean_all()) polling_.released(core.index, sent);
                } else if (line == Footprints::kNone) {
                    continue;
                } else if (kind == kCache) {
                    if (cache.clean(line)) polling_.released(core.index, line);
                } else if (in_.accesses[a].mode() & kWrite) {
                    if (kind == kUncached)
                        polling_.released(core.index, line);
                    else
                        cache.write(line);
                } else if (kind == kUncached || cache.read(line)) {
                    const uint64_t look = uint64_t{instr.site} << 32 | line;
                    const bool again = looks_again(instr, i, core.end, a, line);
                    if (again) looped.insert(look);
                    polling_.acquired(core.index, line, instr.site, waited || again || looped.count(look) != 0);
                }
            }
        }
    }

    void mark_buffers() {
        for (uint32_t b = 0; b < in_.buffer_count; ++b) {
            Buffer& buffer = in_.buffers[b];
            const auto at = std::find_if(spared_.begin(), spared_.end(), [&](uint64_t place) {
                return (place & 0xff) == buffer.space && place >> 8 >= buffer.address &&
                       place >> 8 < uint64_t{buffer.address} + buffer.bytes;
            });
            buffer.used |= at != spared_.end();
        }
        std::vector<Run> runs;
        for (uint32_t f = 0; f < footprints_.size(); ++f) {
            const uint32_t space = footprints_.space(f);
            if (space == kGm) continue;
            footprints_.expand(f, runs);
            for (uint32_t b = 0; b < in_.buffer_count; ++b) {
                Buffer& buffer = in_.buffers[b];
                if (buffer.used || buffer.space != space) continue;
                const auto at =
                    std::upper_bound(runs.begin(), runs.end(), buffer.address, [](uint64_t x, const Run& r) { return x < r.end; });
                buffer.used = at != runs.end() && at->begin < uint64_t{buffer.address} + buffer.bytes;
            }
        }
    }

    // ---- instructions ------------------------------------------------------------------------------------------------------

    bool advance(Core& core, bool& forced) {
        const uint64_t begin = core.next;
        for (; core.next != core.end; ++core.next) {
            const Instr& instr = in_.instrs[core.next];
            const uint8_t kind = kind_of(instr);
            if (kind == kCrossWait && !order_.cross_wait(core, instr) && !forced) break;
            if (cleans_ && !poll(core, instr, kind) && !forced) break;
            if (kind == kCrossWait) forced = false;
            if (kind == kSetFlag)
                order_.set_flag(core, instr);
            else if (kind == kWaitFlag)
                order_.wait_flag(core, instr);
            else if (kind == kBarrier)
                order_.barrier(core, instr);
            else if (kind == kCrossSet)
                order_.cross_set(core, instr);
            else if (kind == kCache)
                clean_cache(core, instr);
            if (instr.accesses != 0 && kind != kCache) perform(core, instr, kind);
            core.next_access += instr.accesses;
        }
        return core.next != begin;
    }

    // A flag in GM: what its writer knows when the flag reaches GM is known to whoever reads it there. False: not yet written.
    bool poll(Core& core, const Instr& instr, uint8_t kind) {
        const uint32_t line = line_at(instr, core.next_access);
        auto& cache = caches_[core.index];
        const auto release = [&](uint32_t sent) {
            if (polling_.is_flag(sent)) polling_.release(sent, core.index, core.count[kS] + (kind == kUncached), order_.told_by(core, kS));
        };
        if (kind == kCache && instr.accesses == 0 && instr.work == 0) {
            for (uint32_t sent : cache.clean_all()) release(sent);
        } else if (line == Footprints::kNone) {
            return true;
        } else if (kind == kCache) {
            if (cache.clean(line)) release(line);
        } else if (in_.accesses[core.next_access].mode() & kWrite) {
            if (kind == kUncached)
                release(line);
            else
                cache.write(line);
        } else if (polling_.is_flag(line) && polling_.waits_at(instr.site) && (kind == kUncached || cache.looks(line)) &&
                   !looks_again(instr, core.next, core.end, core.next_access, line)) {
            bool more = false;
            const auto known = [&](uint32_t other, uint32_t epoch) { return order_.knows(core, other, epoch); };
            if (const GlobalClock* told = polling_.acquire(line, core.index, known, more))
                order_.hear(core, *told);
            else if (more)
                return false;
            cache.read(line);
        } else {
            cache.read(line);
        }
        return true;
    }

    // Does the core only turn in a loop here? The next thing it does, cleaning aside, is the same look at the same line.
    bool looks_again(const Instr& instr, uint64_t at, uint64_t end, uint64_t access, uint32_t line) const {
        uint64_t a = access + instr.accesses;
        for (uint64_t i = at + 1; i < end; a += in_.instrs[i++].accesses)
            if (kind_of(in_.instrs[i]) != kCache) return in_.instrs[i].site == instr.site && line_at(in_.instrs[i], a) == line;
        return false;
    }

    // Nothing happened there, and what comes of it is no cause of its own.
    void refuse(Core& core, const Instr& instr) {
        for (uint64_t a = core.next_access; a < core.next_access + instr.accesses; ++a) {
            const uint32_t footprint = footprint_of_[a];
            if (footprint == Footprints::kNone) continue;
            const uint32_t* cells = footprints_.cells(footprint);
            for (uint32_t n = footprints_.cell_count(footprint), i = 0; i < n; ++i) {
                Shadow::Cell& cell = shadow_.at(core.index, in_.accesses[a].space(), cells[i]);
                cell.written = true;
                cell.filler = false;
            }
        }
    }

    void perform(Core& core, const Instr& instr, uint8_t kind) {
        if (kind == kRefused) return refuse(core, instr);
        const uint32_t pipe = instr.pipe < kAll ? instr.pipe : static_cast<uint32_t>(kS);
        core.issue(pipe);
        order_.compiler_inserts(core);
        ++core.count[pipe];
        suspects_.clear();
        copies_ = kind == kCopy;
        cached_ = pipe == kS && kind != kUncached;
        gather(core.next_access, core.next_access + instr.accesses);
        for (const Touch& t : touches_) look(core, pipe, t);
        // The latest first: ordering it often orders the others too, and then they are not causes of their own.
        std::stable_sort(suspects_.begin(), suspects_.end(),
                         [](const Suspect& a, const Suspect& b) { return a.earlier.instr > b.earlier.instr; });
        for (const Suspect& s : suspects_) judge(core, pipe, s);
        for (const Touch& t : touches_) leave(core, pipe, t);
    }

    // What an instruction touches. Operands at one place are one touch, except in GM, where reading and writing at once means atomic.
    void gather(uint64_t begin, uint64_t end) {
        touches_.clear();
        for (uint64_t a = begin; a < end; ++a) {
            const uint32_t footprint = footprint_of_[a], space = in_.accesses[a].space(), mode = in_.accesses[a].mode();
            if (footprint == Footprints::kNone) continue;
            const bool filler = copies_ && in_.accesses[a].filler();
            const auto same = [&](const Touch& t) { return t.footprint == footprint && space != kGm; };
            const auto found = std::find_if(touches_.begin(), touches_.end(), same);
            if (found == touches_.end())
                touches_.push_back({footprint, space, mode, filler, in_.accesses[a].masked()});
            else
                found->mode |= mode;
        }
    }

    // The cube's loads take whole fractals, loads into a vector register whole registers, and a range under a mask may cover more than the
    // mask lets through; at the edge of the data the rest holds anything and reaches nobody.
    bool partly_written(const Core& core, uint32_t space, uint32_t footprint) {
        const uint32_t* cells = footprints_.cells(footprint);
        for (uint32_t n = footprints_.cell_count(footprint), i = 0; i < n; ++i)
            if (shadow_.at(core.index, space, cells[i]).written) return true;
        return false;
    }

    void look(Core& core, uint32_t pipe, const Touch& touch) {
        const auto [footprint, space, mode, filler, masked] = touch;
        const uint32_t* cells = footprints_.cells(footprint);
        const bool scalar_gm = space == kGm && cached_;
        const bool flag = cleans_ && space == kGm && pipe == kS && polling_.is_flag(line_of_[footprint]) &&
                          ((mode & kWrite) || polling_.waits_at(in_.instrs[core.next].site));
        const bool partly = (space == kL1 || (masked && !filler)) && (mode & kRead) && partly_written(core, space, footprint);
        for (uint32_t n = footprints_.cell_count(footprint), i = 0; i < n; ++i) {
            Shadow::Cell& cell = shadow_.at(core.index, space, cells[i]);
            if ((mode & kRead) && (!cell.written || cell.filler)) {
                const Weak weak = cell.filler ? kFiller : (partly ? kEdge : kCertain);
                if (space != kGm || shadow_.poisoned(footprints_, footprint, cells[i]))
                    causes_.add({kUninitialised, 0, core.index, core.index, core.next, core.next, 0, 0, 0, weak}, footprints_, footprint,
                                cells[i]);
                cell.written = true;  // one cause is enough: what is computed from it is not reported again
                cell.filler = false;
            }
            for (Record& r : cell.records) {
                if (r.mode & kCached) {
                    if (scalar_gm && (mode & kRead) && r.core == core.index && r.stale_instr != Record::kFresh && uncleaned(r))
                        causes_.add({kStaleRead, 0, order_.core_of(r.stale_instr), core.index, r.stale_instr, core.next}, footprints_,
                                    footprint, cells[i]);
                    continue;
                }
                const bool writes = mode & kWrite, wrote = r.mode & kWrite;
                if (flag && r.pipe == kS && r.core != core.index && (wrote || polling_.waits_at(in_.instrs[r.instr].site))) continue;
                if (!(writes || wrote) || (space == kGm && mode == kUpdate && (r.mode & kUpdate) == kUpdate)) continue;
                if (wrote && space == kGm && r.pipe == kS && uncleaned(r) && (pipe != kS || r.core != core.index)) {
                    causes_.add({kMissingClean, writes ? 2u : 0u, r.core, core.index, r.instr, core.next}, footprints_, footprint,
                                cells[i]);
                    r.mode |= kClean;
                    continue;
                }
                if (order_.ordered(r, core, pipe)) {
                    order_.note_barrier_use(core, pipe, r);
                    continue;
                }
                if (space == kL0c && order_.unit_flag_orders(r, core)) continue;
                suspects_.push_back({r, footprint, cells[i], wrote ? ((mode & kRead) ? 0u : 2u) : 1u});
            }
        }
        if (scalar_gm && (mode & kWrite)) look_at_line(core, footprint);
    }

    // A cache line (or the write that changed it) that has not been cleaned since.
    bool uncleaned(const Record& r) const { return !(r.mode & kClean) && r.epoch > cores_[r.core].cleaned; }

    // Two cores that write different bytes of one cache line overwrite each other when the line goes back to GM.
    void look_at_line(Core& core, uint32_t footprint) {
        const uint32_t line = line_of_[footprint];
        const uint32_t* cells = footprints_.cells(line);
        for (uint32_t n = footprints_.cell_count(line), i = 0; i < n; ++i)
            for (Record& r : shadow_.at(core.index, kGm, cells[i]).records)
                if ((r.mode & kCached) && (r.mode & kWrite) && r.core != core.index && (uncleaned(r) || !order_.ordered(r, core, kS)))
                    causes_.add({kSharedLine, 2, r.core, core.index, r.instr, core.next}, footprints_, footprint,
                                footprints_.cells(footprint)[0]);
    }

    void judge(Core& core, uint32_t pipe, const Suspect& s) {
        const Record& r = s.earlier;
        if (order_.ordered(r, core, pipe)) return;  // repairing another operand's race orders this one too
        causes_.add({kRace, s.hazard, r.core, core.index, r.instr, core.next}, footprints_, s.footprint, s.cell);
        if (r.core == core.index) order_.order_now(core, r.pipe, pipe);  // go on as if it were repaired: each cause is told once
    }

    void leave(Core& core, uint32_t pipe, const Touch& touch) {
        const auto [footprint, space, mode, filler, masked] = touch;
        (void)masked;
        Record me{core.next, core.count[pipe], static_cast<uint16_t>(core.index), static_cast<uint8_t>(pipe), static_cast<uint8_t>(mode)};
        if (!cached_) me.mode |= kClean;
        const uint32_t* cells = footprints_.cells(footprint);
        for (uint32_t n = footprints_.cell_count(footprint), i = 0; i < n; ++i) {
            Shadow::Cell& cell = shadow_.at(core.index, space, cells[i]);
            if (me.mode & kWrite) {
                cell.written |= !filler;
                cell.filler = filler;
            }
            insert(core, pipe, space, cell.records, me);
            if (space == kGm && (me.mode & kWrite))
                for (Record& r : cell.records)
                    if ((r.mode & kCached) && !(pipe == kS && r.core == core.index) && r.stale_instr == Record::kFresh)
                        r.stale_instr = core.next;
        }
        if (space == kGm && cached_) leave_line(core, footprint, me);
    }

    void leave_line(Core& core, uint32_t footprint, Record me) {
        me.mode = static_cast<uint8_t>(kCached | (me.mode & kWrite));
        const uint32_t line = line_of_[footprint];
        const uint32_t* cells = footprints_.cells(line);
        for (uint32_t n = footprints_.cell_count(line), i = 0; i < n; ++i) {
            auto& records = shadow_.at(core.index, kGm, cells[i]).records;
            auto mine =
                std::find_if(records.begin(), records.end(), [&](const Record& r) { return (r.mode & kCached) && r.core == core.index; });
            if (mine == records.end()) {
                records.push_back(me);
            } else if (!uncleaned(*mine)) {
                *mine = me;  // the line was fetched anew
            } else if (me.mode & kWrite) {
                mine->mode |= kWrite;
                mine->epoch = me.epoch;
                mine->instr = me.instr;
            }
        }
    }

    void insert(const Core& core, uint32_t pipe, uint32_t space, std::vector<Record>& records, const Record& me) {
        size_t kept = 0;
        // What conflicts with the old access must conflict with the new one too. Atomic updates of GM do not conflict with each other,
        // so one hides neither a plain write nor a read.
        const auto hides = [space](uint8_t later, uint8_t earlier) {
            if (space == kGm && (later & kUpdate) == kUpdate) return (earlier & kUpdate) == kUpdate;
            return (later & kWrite) || !(earlier & kWrite);
        };
        for (const Record& r : records) {
            const bool replaces = !(r.mode & kCached) && hides(me.mode, r.mode) && r.instr != me.instr &&
                                  ((r.core == me.core && r.pipe == me.pipe) || order_.ordered(r, core, pipe));
            if (!replaces) records[kept++] = r;
        }
        records.resize(kept);
        records.push_back(me);
    }

    // Without a range it is the whole cache.
    void clean_cache(Core& core, const Instr& instr) {
        if (instr.accesses == 0) {
            if (instr.work == 0) core.cleaned = core.count[kS];
            return;
        }
        const uint32_t footprint = footprint_of_[core.next_access];
        if (footprint == Footprints::kNone) return;
        const uint32_t* cells = footprints_.cells(footprint);
        for (uint32_t n = footprints_.cell_count(footprint), i = 0; i < n; ++i) {
            for (Record& r : shadow_.at(core.index, kGm, cells[i]).records)
                if (r.core == core.index && r.pipe == kS) r.mode |= kClean;
        }
    }

    // ---- the end -----------------------------------------------------------------------------------------------------------

    uint64_t gm_of(uint64_t instr) const {
        const uint32_t core = order_.core_of(instr);
        uint64_t a = in_.access_begin[core];
        for (uint64_t i = in_.core_begin[core]; i < instr; ++i) a += in_.instrs[i].accesses;
        return in_.accesses[a].address();
    }

    void find_dirty_lines() {
        shadow_.each_gm_cell([&](const std::vector<Record>& records) {
            for (const Record& r : records)
                if (!(r.mode & kCached) && (r.mode & kWrite) && r.pipe == kS && uncleaned(r))
                    causes_.add({kDirtyAtEnd, 0, r.core, r.core, r.instr, r.instr, gm_of(r.instr), 0});
        });
    }

    const Input& in_;
    Causes causes_;
    Order order_;
    std::vector<Core>& cores_ = order_.cores;
    Footprints footprints_;
    Shadow shadow_;
    std::vector<uint8_t> gm_matters_;
    std::vector<uint32_t> footprint_of_, line_of_;
    Polling polling_;
    std::vector<Polling::Cache> caches_ = std::vector<Polling::Cache>(in_.core_count);
    bool cleans_ = false;                  // the run has instructions that pass or clean the data cache
    std::unordered_set<uint64_t> spared_;  // address << 8 | space
    std::vector<Suspect> suspects_;
    std::vector<Touch> touches_;  // of the instruction at work
    uint32_t last_gm_ = 0;
    bool cached_ = false;  // the instruction at work goes through the scalar data cache
    bool copies_ = false;
};

}  // namespace
}  // namespace toprope_check

extern "C" {

// Returns the number of causes; *out points to them until toprope_check_free. A negative number: out of memory.
int64_t toprope_check_run(const toprope_check::Input* input, toprope_check::Cause** out) {
    try {
        const std::vector<toprope_check::Cause> causes = toprope_check::Engine(*input).run();
        *out = new toprope_check::Cause[causes.size() + 1];
        std::copy(causes.begin(), causes.end(), *out);
        return static_cast<int64_t>(causes.size());
    } catch (const std::bad_alloc&) {
        *out = nullptr;
        return -1;
    }
}
void toprope_check_free(toprope_check::Cause* causes) { delete[] causes; }
}
