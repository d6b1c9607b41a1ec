// Replays a trace over vector clocks: races, uninitialised reads, cache coherence, flags. Pure: reads the columns, returns causes.
#include "clocks.h"
#include "footprints.h"
#include "shadow.h"

namespace toprope_check {
namespace {

// Pipes whose instructions also complete in order: what follows on the same pipe sees their results without a barrier.
constexpr bool completes_in_order(uint32_t pipe) { return pipe == kS || pipe == kM || pipe == kMte1 || pipe == kFix; }

struct Suspect {
    Record earlier;
    uint32_t footprint, cell, hazard;
};

class Engine {
public:
    explicit Engine(const Input& input) : in_(input), causes_(input), cores_(input.core_count) {}

    std::vector<Cause> run() {
        find_written_gm();
        collect();
        footprints_.partition();
        mark_buffers();
        shadow_.open(footprints_, in_);
        for (uint32_t c = 0; c < in_.core_count; ++c) {
            Core& core = cores_[c];
            core.next = in_.core_begin[c];
            core.end = in_.core_begin[c + 1];
            core.next_access = in_.access_begin[c];
            core.index = c;
            core.block = in_.cores[c].block;
            core.type = in_.cores[c].type;
        }
        for (bool progress = true, forced = false; progress || forced;) {
            progress = false;
            for (Core& core : cores_) progress |= advance(core, forced);
            // A deadlock has been reported by the run; go on behind it, one wait at a time, to see the rest.
            forced = !progress && std::any_of(cores_.begin(), cores_.end(), [](const Core& c) { return c.next != c.end; });
        }
        for (Core& core : cores_) finish(core);
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
            if (kind == kCrossSet && (instr.work & 0xff) == kSoftAll) ++cores_[cores_of(i)].soft_all_total;
            for (uint64_t end = a + instr.accesses; a < end;) {
                const uint64_t head = a;
                while (in_.accesses[a].more() && a + 1 < end) ++a;
                ++a;
                const Access& first = in_.accesses[head];
                if (first.row_bytes() == 0 || first.rows() == 0) continue;
                if (first.space() == kGm) {
                    const int32_t row = gm_row(first.address());
                    if (row < 0 || !gm_matters_[static_cast<uint32_t>(row)]) continue;
                }
                const uint32_t number = footprints_.intern(&in_.accesses[head], static_cast<uint32_t>(a - head));
                footprint_of_[head] = number;
                if (first.space() == kGm && instr.pipe == kS) {
                    const Access lines = whole_lines(first);
                    const uint32_t line = footprints_.intern(&lines, 1);
                    if (line_of_.size() <= number) line_of_.resize(number + 1, Footprints::kNone);
                    line_of_[number] = line;
                }
            }
        }
    }

    void mark_buffers() {
        std::vector<Run> runs;
        for (uint32_t f = 0; f < footprints_.size(); ++f) {
            const uint32_t space = footprints_.space(f);
            if (space == kGm) continue;
            footprints_.expand(f, runs);
            for (uint32_t b = 0; b < in_.buffer_count; ++b) {
                Buffer& buffer = in_.buffers[b];
                if (buffer.used || buffer.space != space) continue;
                const auto at = std::upper_bound(runs.begin(), runs.end(), buffer.address, [](uint64_t x, const Run& r) { return x < r.end; });
                buffer.used = at != runs.end() && at->begin < uint64_t{buffer.address} + buffer.bytes;
            }
        }
    }

    // ---- order -------------------------------------------------------------------------------------------------------------

    bool ordered(const Record& r, const Core& core, uint32_t pipe) const {
        const Knowledge& k = core.pipe[pipe];
        if (r.core == core.index) return (r.pipe == pipe && completes_in_order(pipe)) || r.epoch <= k.full.complete[r.pipe];
        const auto& remote = core.remote[k.level];
        return remote != nullptr && r.epoch <= (*remote)[r.core * kPipes + r.pipe];
    }

    // What the vendor's compiler orders by itself on a vector core: V after V, and the scalar pipe against V, MTE2 and MTE3.
    bool compiler_orders(const Record& r, const Core& core, uint32_t pipe) const {
        if (!in_.sync_auto || core.type == kAic || r.core != core.index) return false;
        const auto with_scalar = [](uint32_t p) { return p == kV || p == kMte2 || p == kMte3; };
        return (r.pipe == kV && pipe == kV) || (r.pipe == kS && with_scalar(pipe)) || (pipe == kS && with_scalar(r.pipe));
    }

    // As if a flag pair (or, on one pipe, a barrier) stood right before this instruction.
    void order_now(Core& core, uint32_t from, uint32_t to) {
        Knowledge& target = core.pipe[to];
        if (from != to) target.join(core.pipe[from]);
        target.learn(from, from == to ? core.count[from] - 1 : core.count[from]);
        if (to == kS) ++core.issued;
    }

    GlobalClock global_view(const Core& core, uint32_t pipe) const {
        const Knowledge& k = core.pipe[pipe];
        GlobalClock view = core.remote[k.level] != nullptr ? *core.remote[k.level] : GlobalClock(size_t{in_.core_count} * kPipes, 0);
        for (uint32_t q = 0; q < kPipes; ++q) view[core.index * kPipes + q] = k.full.complete[q];
        view[core.index * kPipes + pipe] = core.count[pipe];
        return view;
    }

    // ---- instructions ------------------------------------------------------------------------------------------------------

    bool advance(Core& core, bool& forced) {
        const uint64_t begin = core.next;
        for (; core.next != core.end; ++core.next) {
            const Instr& instr = in_.instrs[core.next];
            const uint8_t kind = kind_of(instr);
            if (kind == kCrossWait && !cross_wait(core, instr) && !forced) break;
            if (kind == kCrossWait) forced = false;
            if (kind == kSetFlag) set_flag(core, instr);
            else if (kind == kWaitFlag) wait_flag(core, instr);
            else if (kind == kBarrier) barrier(core, instr);
            else if (kind == kCrossSet) cross_set(core, instr);
            else if (kind == kCache) clean_cache(core, instr);
            if (instr.accesses != 0 && kind != kCache) perform(core, instr, kind);
            core.next_access += instr.accesses;
        }
        return core.next != begin;
    }

    // Instructions reach a pipe in the order in which the scalar pipe issues them, after whatever it has waited for.
    void issue(Core& core, uint32_t pipe) {
        if (pipe == kS || core.issue_seen[pipe] == core.issued) return;
        core.issue_seen[pipe] = core.issued;
        Knowledge& k = core.pipe[pipe];
        const Knowledge& s = core.pipe[kS];
        k.full.join_except(s.full, kS);
        k.strict.join_except(s.strict, kS);
        k.level = std::max(k.level, s.level);
    }

    void perform(Core& core, const Instr& instr, uint8_t kind) {
        const uint32_t pipe = instr.pipe < kAll ? instr.pipe : static_cast<uint32_t>(kS);
        issue(core, pipe);
        ++core.count[pipe];
        suspects_.clear();
        cached_ = pipe == kS && kind != kUncached;
        const uint64_t end = core.next_access + instr.accesses;
        for (uint64_t a = core.next_access; a < end; ++a)
            if (footprint_of_[a] != Footprints::kNone) look(core, pipe, in_.accesses[a], footprint_of_[a]);
        // The latest first: ordering it often orders the others too, and then they are not causes of their own.
        std::stable_sort(suspects_.begin(), suspects_.end(), [](const Suspect& a, const Suspect& b) { return a.earlier.instr > b.earlier.instr; });
        for (const Suspect& s : suspects_) judge(core, pipe, s);
        for (uint64_t a = core.next_access; a < end; ++a)
            if (footprint_of_[a] != Footprints::kNone) leave(core, pipe, in_.accesses[a], footprint_of_[a]);
    }

    // The cube's loads take whole fractals; at a matrix's edge their last rows hold anything and reach nobody.
    bool partly_written(const Core& core, uint32_t space, uint32_t footprint) {
        const uint32_t* cells = footprints_.cells(footprint);
        for (uint32_t n = footprints_.cell_count(footprint), i = 0; i < n; ++i)
            if (shadow_.at(core.index, space, cells[i]).written) return true;
        return false;
    }

    void look(Core& core, uint32_t pipe, const Access& access, uint32_t footprint) {
        const uint32_t mode = access.mode(), space = access.space();
        const uint32_t* cells = footprints_.cells(footprint);
        const bool scalar_gm = space == kGm && cached_;
        const bool partly = space == kL1 && (mode & kRead) && partly_written(core, space, footprint);
        for (uint32_t n = footprints_.cell_count(footprint), i = 0; i < n; ++i) {
            Shadow::Cell& cell = shadow_.at(core.index, space, cells[i]);
            if ((mode & kRead) && !cell.written) {
                if (!partly && (space != kGm || shadow_.poisoned(footprints_, footprint, cells[i])))
                    causes_.add({kUninitialised, 0, core.index, core.index, core.next, core.next}, footprints_, footprint, cells[i]);
                cell.written = true;  // one cause is enough: what is computed from it is not reported again
            }
            for (Record& r : cell.records) {
                if (r.mode & kCached) {
                    if (scalar_gm && (mode & kRead) && r.core == core.index && r.stale_instr != Record::kFresh && uncleaned(r))
                        causes_.add({kStaleRead, 0, cores_of(r.stale_instr), core.index, r.stale_instr, core.next}, footprints_, footprint, cells[i]);
                    continue;
                }
                const bool writes = mode & kWrite, wrote = r.mode & kWrite;
                if (!(writes || wrote) || (space == kGm && mode == kUpdate && (r.mode & kUpdate) == kUpdate)) continue;
                if (wrote && space == kGm && r.pipe == kS && uncleaned(r) && (pipe != kS || r.core != core.index)) {
                    causes_.add({kMissingClean, writes ? 2u : 0u, r.core, core.index, r.instr, core.next}, footprints_, footprint, cells[i]);
                    r.mode |= kClean;
                    if (compiler_orders(r, core, pipe)) order_now(core, r.pipe, pipe);
                    continue;
                }
                if (ordered(r, core, pipe)) {
                    note_barrier_use(core, pipe, r);
                    continue;
                }
                if (compiler_orders(r, core, pipe)) order_now(core, r.pipe, pipe);
                else suspects_.push_back({r, footprint, cells[i], wrote ? ((mode & kRead) ? 0u : 2u) : 1u});
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
                if ((r.mode & kCached) && (r.mode & kWrite) && r.core != core.index && (uncleaned(r) || !ordered(r, core, kS)))
                    causes_.add({kSharedLine, 2, r.core, core.index, r.instr, core.next}, footprints_, footprint, footprints_.cells(footprint)[0]);
    }

    void judge(Core& core, uint32_t pipe, const Suspect& s) {
        const Record& r = s.earlier;
        if (ordered(r, core, pipe)) return;  // something the compiler inserts for another operand orders this one too
        causes_.add({kRace, s.hazard, r.core, core.index, r.instr, core.next}, footprints_, s.footprint, s.cell);
        if (r.core == core.index) order_now(core, r.pipe, pipe);  // go on as if it were repaired: each cause is told once
    }

    void leave(Core& core, uint32_t pipe, const Access& access, uint32_t footprint) {
        const uint32_t space = access.space();
        Record me{core.next, core.count[pipe], static_cast<uint16_t>(core.index), static_cast<uint8_t>(pipe), static_cast<uint8_t>(access.mode())};
        if (!cached_) me.mode |= kClean;
        const uint32_t* cells = footprints_.cells(footprint);
        for (uint32_t n = footprints_.cell_count(footprint), i = 0; i < n; ++i) {
            Shadow::Cell& cell = shadow_.at(core.index, space, cells[i]);
            if (me.mode & kWrite) cell.written = true;
            insert(core, pipe, cell.records, me);
            if (space == kGm && (me.mode & kWrite))
                for (Record& r : cell.records)
                    if ((r.mode & kCached) && !(pipe == kS && r.core == core.index) && r.stale_instr == Record::kFresh) r.stale_instr = core.next;
        }
        if (space == kGm && cached_) leave_line(core, footprint, me);
    }

    void leave_line(Core& core, uint32_t footprint, Record me) {
        me.mode = static_cast<uint8_t>(kCached | (me.mode & kWrite));
        const uint32_t line = line_of_[footprint];
        const uint32_t* cells = footprints_.cells(line);
        for (uint32_t n = footprints_.cell_count(line), i = 0; i < n; ++i) {
            auto& records = shadow_.at(core.index, kGm, cells[i]).records;
            auto mine = std::find_if(records.begin(), records.end(), [&](const Record& r) { return (r.mode & kCached) && r.core == core.index; });
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

    void insert(const Core& core, uint32_t pipe, std::vector<Record>& records, const Record& me) {
        size_t kept = 0;
        const bool writes = me.mode & kWrite;
        for (const Record& r : records) {
            const bool replaces = !(r.mode & kCached) && (writes || !(r.mode & kWrite)) && r.instr != me.instr &&
                                  ((r.core == me.core && r.pipe == me.pipe) || ordered(r, core, pipe));
            if (!replaces) records[kept++] = r;
        }
        records.resize(kept);
        records.push_back(me);
    }

    void note_barrier_use(Core& core, uint32_t pipe, const Record& r) {
        if (r.core != core.index || (r.pipe == pipe && completes_in_order(pipe))) return;
        Knowledge& k = core.pipe[pipe];
        if (r.epoch <= k.strict.complete[r.pipe]) return;
        if (compiler_orders(r, core, pipe)) {
            k.strict.complete[r.pipe] = r.epoch;
            return;
        }
        if (core.all_barrier == ~0ull) return;
        causes_.barrier_used(core.all_barrier, core.index, r.pipe, pipe);
        k.strict.complete[r.pipe] = std::max(k.strict.complete[r.pipe], core.all_counts.complete[r.pipe]);
    }

    // ---- flags and barriers inside a core ----------------------------------------------------------------------------------

    bool beside_queue_call(const Core& core, uint64_t other, uint8_t one, uint8_t two) const {
        if (other < in_.core_begin[core.index] || other >= core.end) return false;
        const Instr& near = in_.instrs[other];
        const uint8_t kind = in_.op_kinds[near.op];
        return near.site == in_.instrs[core.next].site && (kind == one || kind == two);
    }

    static bool flag_parts(const Instr& instr, uint32_t& from, uint32_t& to, uint32_t& id) {
        from = instr.work >> 16 & 0xff;
        to = instr.work >> 8 & 0xff;
        id = instr.work & 0xff;
        return from < kPipes && to < kPipes && id < kEventIds;
    }

    void set_flag(Core& core, const Instr& instr) {
        uint32_t from, to, id;
        if (!flag_parts(instr, from, to, id)) return;
        if (from == to) causes_.add({kFlagOnePipe, 0, core.index, core.index, core.next, core.next});
        issue(core, from);
        Flag& flag = core.flag[from][to][id];
        const bool by_queue = core.next > 0 && beside_queue_call(core, core.next - 1, kEnque, kFree);
        if (flag.set && flag.by_queue != by_queue) causes_.add({kEventIdCollision, 0, core.index, core.index, flag.instr, core.next});
        flag.set = true;
        flag.by_queue = by_queue;
        flag.instr = core.next;
        flag.known = core.pipe[from];
        flag.known.learn(from, core.count[from]);
    }

    void wait_flag(Core& core, const Instr& instr) {
        uint32_t from, to, id;
        if (!flag_parts(instr, from, to, id)) return;
        issue(core, to);
        Flag& flag = core.flag[from][to][id];
        if (!flag.set) return;
        if (!flag.by_queue && beside_queue_call(core, core.next + 1, kDeque, kAlloc))
            causes_.add({kEventIdCollision, 0, core.index, core.index, flag.instr, core.next});
        flag.set = false;
        core.pipe[to].join(flag.known);
        if (to == kS) ++core.issued;
    }

    void barrier(Core& core, const Instr& instr) {
        if (instr.pipe != kAll) {
            issue(core, instr.pipe);
            core.pipe[instr.pipe].learn(instr.pipe, core.count[instr.pipe]);
            if (instr.pipe == kS)  // DataSyncBarrier: what is issued from here on finds the scalar accesses done
                for (uint32_t q = 0; q < kAll; ++q) core.pipe[q].learn(kS, core.count[kS]);
            return;
        }
        Knowledge all = core.pipe[kS];
        for (uint32_t q = 0; q < kAll; ++q) {
            all.full.join(core.pipe[q].full);
            all.level = std::max(all.level, core.pipe[q].level);
            all.full.complete[q] = std::max(all.full.complete[q], core.count[q]);
        }
        for (uint32_t q = 0; q < kAll; ++q) {
            core.pipe[q].full = all.full;
            core.pipe[q].level = all.level;
        }
        ++core.issued;
        core.all_barrier = core.next;
        core.all_counts = all.full;
        causes_.barrier_seen(core.next, core.index);
    }

    // ---- flags between cores -----------------------------------------------------------------------------------------------

    static constexpr size_t kCounterLimit = 15;

    void cross_set(Core& core, const Instr& instr) {
        const uint32_t id = instr.work & 0xff, mode = instr.work >> 8 & 0xff;
        const uint32_t pipe = instr.pipe < kAll ? instr.pipe : static_cast<uint32_t>(kS);
        issue(core, pipe);
        if (core.all_barrier != ~0ull) causes_.barrier_used(core.all_barrier, core.index, kAll, kAll);
        const Told told{std::make_shared<GlobalClock>(global_view(core, pipe)), core.next};
        if (mode == kSlotMode && id >= kFirstSlot) {
            slots_[id - kFirstSlot].push_back(told);
        } else if (mode < 3 && id < core.cross.size()) {
            if (id == kSoftAll) ++core.soft_all_sets;
            core.cross[id].pending[mode].push_back(told);
            release(core, id, mode);
        }
    }

    // Everybody who has to report has done so: the flag goes up on every core that it releases.
    void release(const Core& core, uint32_t id, uint32_t mode) {
        const auto reports = [&](const Core& c) {
            if (id == kSoftAll) return c.soft_all_total >= core.soft_all_sets;  // it can be called for some of the cores only
            return c.type == core.type && (mode == 0 || c.block == core.block);
        };
        const auto waits = [&](const Core& c) { return mode == 2 ? c.block == core.block && c.type != core.type : reports(c); };
        for (const Core& c : cores_)
            if (reports(c) && c.cross[id].pending[mode].empty()) return;
        auto joined = std::make_shared<GlobalClock>(size_t{in_.core_count} * kPipes, 0);
        for (Core& c : cores_) {
            if (!reports(c)) continue;
            const GlobalClock& part = *c.cross[id].pending[mode].front().known;
            for (size_t i = 0; i < part.size(); ++i) (*joined)[i] = std::max((*joined)[i], part[i]);
            c.cross[id].pending[mode].pop_front();
        }
        for (Core& c : cores_) {
            if (!waits(c)) continue;
            auto& counter = c.cross[id].released;
            counter.push_back({joined, core.next});
            if (id < kHardFlags && counter.size() == kCounterLimit + 1)
                causes_.add({kCrossOverflow, 0, core.index, c.index, core.next, core.next, 0, 0, 0, id});
        }
    }

    bool cross_wait(Core& core, const Instr& instr) {
        const uint32_t id = instr.work & 0xff;
        if (id >= core.cross.size() && id < kFirstSlot) return false;
        auto& queue = id < kFirstSlot ? core.cross[id].released : slots_[id - kFirstSlot];
        if (queue.empty()) return false;
        if (core.all_barrier != ~0ull) causes_.barrier_used(core.all_barrier, core.index, kAll, kAll);
        const GlobalClock& told = *queue.front().known;
        Knowledge& s = core.pipe[kS];
        auto known = std::make_shared<GlobalClock>(told);
        if (const auto& before = core.remote.back(); before != nullptr)
            for (size_t i = 0; i < known->size(); ++i) (*known)[i] = std::max((*known)[i], (*before)[i]);
        for (uint32_t q = 0; q < kPipes; ++q) s.learn(q, told[core.index * kPipes + q]);
        queue.pop_front();
        core.remote.push_back(std::move(known));
        s.level = static_cast<uint32_t>(core.remote.size() - 1);
        ++core.issued;
        return true;
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

    void finish(Core& core) {
        core.next = core.end;
        for (auto& by_target : core.flag)
            for (auto& by_id : by_target)
                for (Flag& flag : by_id)
                    if (flag.set) causes_.add({kFlagNeverWaited, 0, core.index, core.index, flag.instr, flag.instr, 0, 0, 0, flag.by_queue});
        for (uint32_t id = 0; id < kHardFlags; ++id)
            for (const Told& told : core.cross[id].released)
                causes_.add({kCrossNeverWaited, 0, cores_of(told.instr), core.index, told.instr, told.instr, 0, 0, 0, id});
    }

    void find_dirty_lines() {
        shadow_.each_gm_cell([&](const std::vector<Record>& records) {
            for (const Record& r : records)
                if (!(r.mode & kCached) && (r.mode & kWrite) && r.pipe == kS && uncleaned(r)) causes_.add({kDirtyAtEnd, 0, r.core, r.core, r.instr, r.instr});
        });
    }

    uint32_t cores_of(uint64_t instr) const {
        return static_cast<uint32_t>(std::upper_bound(in_.core_begin, in_.core_begin + in_.core_count + 1, instr) - in_.core_begin - 1);
    }

    const Input& in_;
    Causes causes_;
    std::vector<Core> cores_;
    Footprints footprints_;
    Shadow shadow_;
    std::vector<uint8_t> gm_matters_;
    std::vector<uint32_t> footprint_of_, line_of_;
    std::vector<std::deque<Told>> slots_ = std::vector<std::deque<Told>>(kSlots);
    std::vector<Suspect> suspects_;
    uint32_t last_gm_ = 0;
    bool cached_ = false;  // the instruction at work goes through the scalar data cache
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
