// When every instruction of a trace starts and ends. Cores are independent data-flow machines (a scalar unit that issues in order
// into pipes that work in order); only GM transfers meet, and those are handled in order of time. See docs/design/timing.md.
#include <algorithm>
#include <queue>

#include "measure.h"
#include "state.h"

namespace timing {
namespace {

class Schedule {
public:
    Schedule(const Chip& chip, const OpCost* ops, const Instr* instrs, const Access* accesses, const float* cycles,
             const int32_t* vector_needs, const uint64_t* core_begin, const Core* cores, uint32_t core_count, double* start, double* end,
             uint8_t* stall, int32_t* blocker, Memory& memory)
        : chip_(chip),
          ops_(ops),
          instrs_(instrs),
          accesses_(accesses),
          cycles_(cycles),
          vector_needs_(vector_needs),
          cores_(cores),
          start_(start),
          end_(end),
          stall_(stall),
          blocker_(blocker),
          memory_(memory),
          states_(core_count),
          cross_(cores) {
        const uint64_t count = core_begin[core_count];
        access_at_.resize(count + 1);
        uint64_t at = 0;
        for (uint64_t i = 0; i < count; ++i) {
            access_at_[i] = at;
            at += instrs[i].accesses;
        }
        for (uint32_t c = 0; c < core_count; ++c) {
            states_[c].code_cache = CodeCache(chip_.code_lines);
            states_[c].begin = states_[c].pc = static_cast<uint32_t>(core_begin[c]);
            states_[c].end = static_cast<uint32_t>(core_begin[c + 1]);
            blocks_ = std::max(blocks_, cores[c].block + 1);
        }
        cores_of_block_.resize(blocks_);
        left_in_block_.resize(blocks_);
        for (uint32_t c = 0; c < core_count; ++c) {
            cores_of_block_[cores[c].block].push_back(c);
            ++left_in_block_[cores[c].block];
        }
        count_partners(core_count);
    }

    void run() {
        while (next_block_ < blocks_ && next_block_ < chip_.slots) launch(chip_.launch_cycles + next_block_ * chip_.block_cycles);
        for (;;) {
            advance_all();
            if (!events_.empty()) {
                const Event event = events_.top();
                events_.pop();
                handle(event);
            } else if (!release_one_stuck()) {
                break;
            }
        }
    }
    void results(Result* out) const {
        for (size_t c = 0; c < states_.size(); ++c) {
            out[c].start = states_[c].started;
            out[c].end = core_end(states_[c]);
            for (unsigned p = 0; p < kPipes; ++p) out[c].busy[p] = states_[c].busy[p];
        }
    }
    double stuck() const { return stuck_; }

private:
    // ---- launching ---------------------------------------------------------------------------------------------------------
    void launch(double at, int32_t after = -1) {
        for (const uint32_t c : cores_of_block_[next_block_]) {
            CoreState& core = states_[c];
            core.started = at;
            core.now = at + chip_.prologue_cycles;
            occupy(core, kS, at, core.now);
            core.running = true;
            core.previous = after;
            for (PipeState& pipe : core.pipes) pipe.free_at = pipe.last_end = pipe.next_ask = pipe.data_end = core.now;
            wake(c, kS);
        }
        ++next_block_;
    }
    void finish_if_done(uint32_t c) {
        CoreState& core = states_[c];
        if (core.finished || core.pc < core.end) return;
        for (const PipeState& pipe : core.pipes)
            if (!pipe.queue.empty() || !pipe.under_way.empty()) return;
        core.finished = true;
        const uint32_t block = cores_[c].block;
        if (--left_in_block_[block] != 0 || next_block_ >= blocks_) return;
        double at = 0;
        int32_t last = -1;
        for (const uint32_t other : cores_of_block_[block]) {
            at = std::max(at, core_end(states_[other]));
            for (uint32_t i = states_[other].begin; i < states_[other].end; ++i)
                if (last < 0 || end_[i] > end_[last]) last = static_cast<int32_t>(i);
        }
        // In turn: another core may have ended before, whichever is looked at first.
        events_.push({at + chip_.block_cycles, order_++, nullptr, last});
    }

    // ---- agents: kS is the scalar unit, the others are pipes ---------------------------------------------------------------
    void wake(uint32_t core, int agent) { work_.push_back({core, agent}); }
    void advance_all() {
        while (!work_.empty()) {
            const auto [core, agent] = work_.back();
            work_.pop_back();
            if (agent == kS)
                advance_scalar(core);
            else
                advance_pipe(core, static_cast<unsigned>(agent));
            finish_if_done(core);
        }
    }

    void place(uint32_t i, double start, double end, Stall stall, int32_t blocker) {
        start_[i] = start;
        end_[i] = end;
        stall_[i] = stall;
        blocker_[i] = blocker;
    }
    void advance_scalar(uint32_t c) {
        CoreState& core = states_[c];
        if (!core.running) return;
        while (core.pc < core.end) {
            const uint32_t i = core.pc;
            const Instr& instr = instrs_[i];
            const OpCost& op = ops_[instr.op];
            const unsigned pipe = instr.pipe;
            if (pipe != kS && pipe != kAll) {
                PipeState& target = core.pipes[pipe];
                if (target.queue.size() >= chip_.queue_depth) {
                    core.queue_pipe = static_cast<int>(pipe);
                    return;
                }
                fetch(core, instr, op);
                issue(core, op.issue);
                if (core.loaded && pipe == kV && op.kind == kCompute) {
                    issue(core, chip_.scalar_use);
                    core.loaded = false;
                }
                const bool was_full = core.queue_pipe == static_cast<int>(pipe) && core.popped_at > core.now;
                if (was_full) core.now = core.popped_at;
                core.queue_pipe = -1;
                target.queue.push_back({i, core.now});
                start_[i] = core.now;
                stall_[i] = was_full ? kQueueFull : core.pc == core.begin ? kLaunch : kIssue;
                blocker_[i] = core.previous;
                advance_pipe(c, pipe);
            } else if (!on_scalar(c, core, i, instr, op)) {
                return;
            }
            core.previous = static_cast<int32_t>(i);
            ++core.pc;
        }
    }
    // Instructions that have never been executed on this core have to come to it first.
    void fetch(CoreState& core, const Instr& instr, const OpCost& op) {
        if (chip_.code_cycles > 0 && op.marks != 2 && core.code_cache.misses(instr, op.marks == 1)) issue(core, chip_.code_cycles);
    }
    void issue(CoreState& core, double cycles) {
        occupy(core, kS, core.now, core.now + cycles);
        core.now += cycles;
    }
    // What the scalar unit works at itself, beyond sending it.
    static bool spends(uint32_t kind) {
        return kind == kScalar || kind == kCache || kind == kState || kind == kAlloc || kind == kFree || kind == kEnque || kind == kDeque;
    }
    // An instruction of the scalar unit itself. False: it waits for something that is not known yet.
    bool on_scalar(uint32_t c, CoreState& core, uint32_t i, const Instr& instr, const OpCost& op) {
        const double at = core.now;
        if (op.kind == kBarrier && instr.pipe == kAll) {
            int32_t last = core.previous;
            double until = at;
            for (unsigned p = kV; p < kAll; ++p) {
                PipeState& pipe = core.pipes[p];
                if (!pipe.queue.empty() || !pipe.under_way.empty()) {
                    barrier_wait_.resize(states_.size(), 0);
                    barrier_wait_[c] = 1;
                    return false;
                }
                if (pipe.last_end > until) {
                    until = pipe.last_end;
                    last = pipe.last;
                }
            }
            issue(core, op.issue);
            core.now = std::max(core.now, until);
            place(i, at, core.now, until > at ? kBarrierWait : kIssue, last);
            return true;
        }
        if (op.kind == kWaitFlag || op.kind == kCrossWait) {
            Channel& channel = channel_of(core, op, instr.work);
            if (channel.tokens.empty()) {
                channel.waiter = kS;
                channel.waiting_core = c;
                return false;
            }
            const Token token = channel.tokens.front();
            channel.tokens.pop_front();
            issue(core, op.issue);
            const bool waited = token.time > core.now;
            core.now = std::max(core.now, token.time);
            place(i, at, core.now, waited ? (op.kind == kWaitFlag ? kFlag : kCrossCore) : kIssue, waited ? token.setter : core.previous);
            return true;
        }
        fetch(core, instr, op);
        core.loaded |= op.loads != 0;
        const bool caches = op.kind == kCache || op.cold > 0;
        const double missed = caches ? core.data_cache.misses(accesses_ + access_at_[i], instr.accesses, op.kind == kCache) : 0;
        issue(core, op.issue + (spends(op.kind) ? cycles_[i] : 0) + missed * op.cold);
        place(i, at, core.now, kIssue, core.previous);
        if (op.kind == kSetFlag) raise(core.flags[flag_slot(instr.work)], {core.now + chip_.flag_latency, static_cast<int32_t>(i)});
        if (op.kind == kCrossSet) cross_set(c, instr.work, core.now, i);
        return true;
    }

    void advance_pipe(uint32_t c, unsigned p) {
        CoreState& core = states_[c];
        PipeState& pipe = core.pipes[p];
        bool moved = false;
        while (!pipe.queue.empty()) {
            const Issued next = pipe.queue.front();
            if (!step(c, core, pipe, p, next)) break;
            pipe.queue.pop_front();
            moved = true;
            if (core.queue_pipe == static_cast<int>(p)) {
                core.popped_at = start_[next.instr];
                wake(c, kS);
            }
        }
        // With the unit flag each of the two waits for what the other still has in its queue, flags included.
        if (p == kM && !core.pipes[kFix].queue.empty()) wake(c, kFix);
        if (p == kFix && moved && !core.pipes[kM].queue.empty()) wake(c, kM);
        if (barrier_waits(c) && pipe.queue.empty() && pipe.under_way.empty()) {
            barrier_wait_[c] = 0;
            wake(c, kS);
        }
    }
    bool barrier_waits(uint32_t c) const { return c < barrier_wait_.size() && barrier_wait_[c]; }

    // The head of a pipe's queue. False: it cannot be placed yet.
    bool step(uint32_t c, CoreState& core, PipeState& pipe, unsigned p, const Issued& next) {
        const uint32_t i = next.instr;
        const Instr& instr = instrs_[i];
        const OpCost& op = ops_[instr.op];
        double start = next.ready;
        auto stall = static_cast<Stall>(stall_[i]);
        int32_t blocker = blocker_[i];
        if (pipe.free_at > start) {
            start = pipe.free_at;
            stall = kPipeBusy;
            blocker = pipe.last;
        }
        if (op.kind == kWaitFlag || op.kind == kCrossWait) {
            Channel& channel = channel_of(core, op, instr.work);
            if (channel.tokens.empty()) {
                channel.waiter = static_cast<int>(p);
                channel.waiting_core = c;
                return false;
            }
            const Token token = channel.tokens.front();
            channel.tokens.pop_front();
            const bool waited = token.time > start;
            const double end = std::max(start, token.time);
            place(i, start, end, waited ? (op.kind == kWaitFlag ? kFlag : kCrossCore) : stall, waited ? token.setter : blocker);
            if (end > pipe.free_at || waited) {
                pipe.free_at = end;
                pipe.last = static_cast<int32_t>(i);
            }
            return true;
        }
        if (op.unit_bit != 0 && (instr.arg >> op.unit_bit & 1u)) {
            const double held = std::max(start, pipe.last_end);
            if (!follow_unit(core, p, i, start, stall, blocker)) return false;
            if (p == kFix) occupy(core, p, held, start);  // a store that waits for the cube already holds its pipe
        }
        if (is_gm_copy(i, op)) return begin_transfer(c, pipe, p, i, start, stall, blocker, op);
        if (!pipe.under_way.empty()) return false;  // everything else keeps its order behind running transfers
        if (op.kind == kSetFlag || op.kind == kCrossSet || op.kind == kBarrier) {
            if (pipe.last_end > start) {
                start = pipe.last_end;
                stall = kPipeBusy;
                blocker = pipe.last;
            }
            place(i, start, start, stall, blocker);
            if (op.kind == kBarrier) pipe.free_at = std::max(pipe.free_at, start);
            if (op.kind == kSetFlag) raise(core.flags[flag_slot(instr.work)], {start + chip_.flag_latency, static_cast<int32_t>(i)});
            if (op.kind == kCrossSet) cross_set(c, instr.work, start, i);
            return true;
        }
        run_here(core, pipe, p, i, start, stall, blocker, op);
        return true;
    }

    // With the unit flag the store of a tile follows the cube's last product piece by piece, and the next tile's first product follows
    // the store. False: the other pipe has not come that far.
    bool follow_unit(CoreState& core, unsigned p, uint32_t i, double& start, Stall& stall, int32_t& blocker) {
        const PipeState& other = core.pipes[p == kM ? kFix : kM];
        if (!other.under_way.empty() || (!other.queue.empty() && other.queue.front().instr < i)) return false;
        const double from = p == kM ? other.last_end - cycles_[i] : other.last_start;
        if (from > start && other.last >= 0) {
            start = from;
            stall = kFlag;
            blocker = other.last;
        }
        return true;
    }
    // A computation or an on-chip copy.
    void run_here(CoreState& core, PipeState& pipe, unsigned p, uint32_t i, double start, Stall stall, int32_t blocker, const OpCost& op) {
        if (p == kV && vector_needs_[i] >= 0 && pipe.last_end + chip_.dependence > start) {
            start = pipe.last_end + chip_.dependence;
            stall = kHazard;
            blocker = pipe.last;
        }
        double duration = cycles_[i];
        if (op.cold > 0 && start > pipe.last_end) duration += op.cold;
        if (p == kMte1 && !core.pipes[kMte2].under_way.empty()) duration *= chip_.l1_delay;
        const double end = start + duration;
        place(i, start, end, stall, blocker);
        occupy(core, p, start, end);
        const double gap = op.interval > 0 ? std::max(op.interval, duration - op.latency) : duration;
        pipe.free_at = start + std::min(gap, duration);
        pipe.last_start = start;
        pipe.last_end = std::max(pipe.last_end, end);
        pipe.last = static_cast<int32_t>(i);
    }
    // ---- GM transfers ------------------------------------------------------------------------------------------------------
    bool is_gm_copy(uint32_t i, const OpCost& op) const {
        if (op.kind != kCopy || op.rate <= 0) return false;
        return gm_side(accesses_ + access_at_[i], instrs_[i].accesses).bytes > 0;
    }
    bool begin_transfer(uint32_t c, PipeState& pipe, unsigned p, uint32_t i, double start, Stall stall, int32_t blocker, const OpCost& op) {
        // A pipe asks ahead, but never for more than arrives within one latency of a miss.
        const double rate = p == kMte2 && op.cold_rate > 0 ? op.cold_rate : op.rate;
        if (!pipe.under_way.empty() && pipe.asked >= (op.latency + chip_.miss_latency) * rate) return false;
        if (pipe.asked_at > start) {
            start = pipe.asked_at;
            stall = kPipeBusy;
            blocker = pipe.last;
        }
        place(i, start, start, stall, blocker);
        const GmSide gm = gm_side(accesses_ + access_at_[i], instrs_[i].accesses);
        Transfer* t = transfers_.take();
        t->core = c;
        t->pipe = p;
        t->instr = i;
        t->write = gm.write;
        t->rate = op.rate;
        t->latency = op.latency;
        t->l2_unit = static_cast<uint64_t>(op.l2_unit);
        t->cold_rate = op.cold_rate;
        t->row = op.row;
        t->odd_rate = op.odd_rate;
        t->row_cycles = cycles_[i];
        if (op.unit_bit != 0 && (instrs_[i].arg >> op.unit_bit & 1u)) t->not_before = states_[c].pipes[kM].last_end;
        pipe.under_way.push_back(t);
        pipe.free_at = start + op.interval;
        pipe.last = static_cast<int32_t>(i);
        pipe.asked += gm.bytes;
        t->start = start;
        if (pipe.beginning + 1 == pipe.under_way.size()) push(start, t);
        return true;
    }
    void push(double time, Transfer* transfer) { events_.push({time, order_++, transfer}); }

    void handle(const Event& event) {
        if (event.transfer == nullptr) {
            if (next_block_ < blocks_) launch(event.time, event.after);
            return;
        }
        Transfer& t = *event.transfer;
        PipeState& pipe = states_[t.core].pipes[t.pipe];
        const OpCost& op = ops_[instrs_[t.instr].op];
        if (!t.begun) {
            t.begun = true;
            if (++pipe.beginning < pipe.under_way.size()) push(pipe.under_way[pipe.beginning]->start, pipe.under_way[pipe.beginning]);
            const bool bypass = (instrs_[t.instr].arg >> 8) & 1;
            const double wait =
                memory_.begin(t, event.time, accesses_ + access_at_[t.instr], instrs_[t.instr].accesses, bypass, op.latency);
            t.ready = event.time + wait;
            if (pipe.under_way[pipe.asking] == &t) push(std::max(t.ready, pipe.next_ask), &t);
            return;
        }
        if (t.remaining > 0)
            ask(t, pipe, event.time);
        else
            complete(t, pipe, event.time);
    }
    void ask(Transfer& t, PipeState& pipe, double now) {
        const double bytes = std::min(t.remaining, kPieceBytes);
        const Memory::Piece piece = memory_.piece(t, now, bytes);
        pipe.asked -= bytes;
        pipe.asked_at = now;
        pipe.data_end = std::max({pipe.data_end, piece.done, t.not_before});
        if (!pipe.queue.empty()) wake(t.core, static_cast<int>(t.pipe));
        if (t.remaining > 0) return push(piece.next, &t);
        push(pipe.data_end, &t);
        pipe.next_ask = piece.next;
        ++pipe.asking;
        if (pipe.asking == pipe.under_way.size()) return;
        Transfer* next = pipe.under_way[pipe.asking];
        if (next->begun) push(std::max(next->ready, pipe.next_ask), next);
    }
    void complete(Transfer& t, PipeState& pipe, double time) {
        memory_.end(t);
        end_[t.instr] = time;
        occupy(states_[t.core], t.pipe, start_[t.instr], time);
        pipe.last_end = std::max(pipe.last_end, time);
        pipe.under_way.pop_front();
        --pipe.beginning;
        --pipe.asking;
        wake(t.core, static_cast<int>(t.pipe));
        if (t.pipe == kFix) wake(t.core, kM);
        transfers_.give(&t);
    }

    // ---- flags -------------------------------------------------------------------------------------------------------------
    static uint32_t flag_slot(uint32_t work) { return ((work >> 16) & 7) * 128 + ((work >> 8) & 7) * 16 + (work & 15); }
    Channel& channel_of(CoreState& core, const OpCost& op, uint32_t work) {
        if (op.kind == kWaitFlag) return core.flags[flag_slot(work)];
        const uint32_t flag = work & 0xff;
        return flag >= kFirstSharedFlag ? shared_flags_[flag - kFirstSharedFlag] : core.cross[flag];
    }
    void raise(Channel& channel, Token token) {
        channel.tokens.push_back(token);
        if (channel.waiter >= 0) {
            wake(channel.waiting_core, channel.waiter);
            channel.waiter = -1;
        }
    }
    // Mode 3 is a flag in GM that anybody may wait for; the others gather.
    void cross_set(uint32_t c, uint32_t work, double at, uint32_t instr) {
        const uint32_t mode = work >> 8, flag = work & 0xff;
        const Token token{at + (flag >= kSoftwareFlag ? chip_.soft_cross_latency : chip_.cross_latency), static_cast<int32_t>(instr)};
        if (flag >= kFirstSharedFlag) return raise(shared_flags_[flag - kFirstSharedFlag], token);
        for (const Token& done : cross_.set(c, mode, flag, token))
            for (uint32_t other = 0; other < states_.size(); ++other)
                if (cross_.released(other, c, mode)) raise(states_[other].cross[flag], done);
    }
    // Which cores take part in each flag, before anything runs.
    void count_partners(uint32_t core_count) {
        for (uint32_t c = 0; c < core_count; ++c)
            for (uint32_t i = states_[c].begin; i < states_[c].end; ++i)
                if (ops_[instrs_[i].op].kind == kCrossSet && (instrs_[i].work & 0xff) < kFirstSharedFlag)
                    cross_.expect(c, instrs_[i].work >> 8, instrs_[i].work & 0xff);
    }
    // Nothing can move although work is left: a wait without its set (already reported by the run). Let it pass, so that the
    // rest of the kernel still gets times.
    bool release_one_stuck() {
        for (uint32_t c = 0; c < states_.size(); ++c) {
            CoreState& core = states_[c];
            if (core.finished || !core.running) continue;
            for (std::vector<Channel>* channels : {&core.flags, &core.cross})
                for (Channel& channel : *channels)
                    if (channel.waiter >= 0) {
                        ++stuck_;
                        raise(channel, {core_end(core), -1});
                        return true;
                    }
        }
        for (Channel& channel : shared_flags_)
            if (channel.waiter >= 0) {
                ++stuck_;
                raise(channel, {core_end(states_[channel.waiting_core]), -1});
                return true;
            }
        return false;
    }

    const Chip& chip_;
    const OpCost* ops_;
    const Instr* instrs_;
    const Access* accesses_;
    const float* cycles_;
    const int32_t* vector_needs_;  // -1, or: all vector work up to here must be complete before the instruction starts
    const Core* cores_;
    double *start_, *end_;
    uint8_t* stall_;
    int32_t* blocker_;
    Memory& memory_;
    std::vector<CoreState> states_;
    std::vector<uint64_t> access_at_;
    std::vector<std::vector<uint32_t>> cores_of_block_;
    std::vector<uint32_t> left_in_block_;
    std::vector<uint8_t> barrier_wait_;
    CrossFlags cross_;
    std::vector<Channel> shared_flags_ = std::vector<Channel>(kSharedFlags);
    Transfers transfers_;
    std::vector<std::pair<uint32_t, int>> work_;
    std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
    uint64_t order_ = 0;
    uint32_t next_block_ = 0, blocks_ = 0;
    double stuck_ = 0;
};

}  // namespace
}  // namespace timing

extern "C" void toprope_schedule(const timing::Chip* chip, const timing::OpCost* ops, const timing::Instr* instrs,
                                 const timing::Access* accesses, const float* cycles, const int32_t* vector_needs,
                                 const uint64_t* core_begin, const timing::Core* cores, uint32_t core_count, double* start, double* end,
                                 uint8_t* stall, int32_t* blocker, timing::Result* results, timing::Traffic* traffic) {
    timing::Memory memory(*chip, core_count);
    for (uint32_t pass = 0; pass <= chip->warm; ++pass) {
        memory.traffic = {};
        timing::Schedule schedule(*chip, ops, instrs, accesses, cycles, vector_needs, core_begin, cores, core_count, start, end, stall,
                                  blocker, memory);
        schedule.run();
        schedule.results(results);
        memory.traffic.stuck = schedule.stuck();
        memory.restart();
    }
    *traffic = memory.traffic;
}

// Sizes of the structures that Python fills, so that a mismatch is noticed before it is used.
extern "C" void toprope_sizes(uint32_t* sizes) {
    const size_t all[] = {sizeof(timing::Chip), sizeof(timing::Traffic), sizeof(timing::OpCost), sizeof(timing::Core),
                          sizeof(timing::Result)};
    for (size_t i = 0; i < 5; ++i) sizes[i] = static_cast<uint32_t>(all[i]);
}
