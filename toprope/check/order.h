// Who waits for whom: the clocks of all cores, moved on by flags, barriers and syncs between cores, and the question they answer.
#pragma once

#include "clocks.h"
#include "shadow.h"

namespace toprope_check {

// Pipes whose instructions also complete in order: what follows on the same pipe sees their results without a barrier.
constexpr bool completes_in_order(uint32_t pipe) { return pipe == kS || pipe == kM || pipe == kMte1 || pipe == kFix; }

class Order {
public:
    Order(const Input& input, Causes& causes) : cores(input.core_count), in_(input), causes_(causes) {
        for (uint32_t c = 0; c < input.core_count; ++c) {
            Core& core = cores[c];
            core.next = input.core_begin[c];
            core.end = input.core_begin[c + 1];
            core.next_access = input.access_begin[c];
            core.index = c;
            core.block = input.cores[c].block;
            core.type = input.cores[c].type;
        }
    }

    std::vector<Core> cores;

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

    // With the unit flag on both sides the cube and the fixpipe hand L0C over to each other piece by piece, without an event.
    bool unit_flag_orders(const Record& r, const Core& core, uint32_t pipe) const {
        const auto on = [&](uint64_t instr, uint32_t p) {
            return (p == kM && (in_.instrs[instr].arg >> 10 & 1)) || (p == kFix && (in_.instrs[instr].arg >> 9 & 1));
        };
        return r.core == core.index && r.pipe != pipe && on(r.instr, r.pipe) && on(core.next, pipe);
    }

    // As if a flag pair (or, on one pipe, a barrier) stood right before this instruction.
    void order_now(Core& core, uint32_t from, uint32_t to) {
        Knowledge& target = core.pipe[to];
        if (from != to) target.join(core.pipe[from]);
        target.learn(from, from == to ? core.count[from] - 1 : core.count[from]);
        if (to == kS) ++core.issued;
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
        const Told told{told_by(core, pipe), core.next};
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
        for (const Core& c : cores)
            if (reports(c) && c.cross[id].pending[mode].empty()) return;
        auto joined = std::make_shared<GlobalClock>(size_t{in_.core_count} * kPipes, 0);
        for (Core& c : cores) {
            if (!reports(c)) continue;
            const GlobalClock& part = *c.cross[id].pending[mode].front().known;
            for (size_t i = 0; i < part.size(); ++i) (*joined)[i] = std::max((*joined)[i], part[i]);
            c.cross[id].pending[mode].pop_front();
        }
        for (Core& c : cores) {
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
        hear(core, *queue.front().known);
        queue.pop_front();
        return true;
    }

    // What another core has told is known to everything that this core issues from here on.
    void hear(Core& core, const GlobalClock& told) {
        if (core.all_barrier != ~0ull) causes_.barrier_used(core.all_barrier, core.index, kAll, kAll);
        Knowledge& s = core.pipe[kS];
        auto known = std::make_shared<GlobalClock>(told);
        if (const auto& before = core.remote.back(); before != nullptr)
            for (size_t i = 0; i < known->size(); ++i) (*known)[i] = std::max((*known)[i], (*before)[i]);
        for (uint32_t q = 0; q < kPipes; ++q) s.learn(q, told[core.index * kPipes + q]);
        core.remote.push_back(std::move(known));
        s.level = static_cast<uint32_t>(core.remote.size() - 1);
        ++core.issued;
    }

    // What one pipe of a core knows, for another core to hear.
    std::shared_ptr<GlobalClock> told_by(const Core& core, uint32_t pipe) const {
        return std::make_shared<GlobalClock>(global_view(core, pipe));
    }

    // Does the core know that another one's scalar pipe is past its instruction number `epoch`?
    bool knows(const Core& core, uint32_t other, uint32_t epoch) const {
        const auto& remote = core.remote[core.pipe[kS].level];
        return remote != nullptr && epoch <= (*remote)[other * kPipes + kS];
    }

    void finish(Core& core) {
        core.next = core.end;
        for (auto& by_target : core.flag)
            for (auto& by_id : by_target)
                for (Flag& flag : by_id)
                    if (flag.set)
                        causes_.add({kFlagNeverWaited, 0, core.index, core.index, flag.instr, flag.instr, 0, 0, 0, flag.by_queue});
        for (uint32_t id = 0; id < kHardFlags; ++id)
            for (const Told& told : core.cross[id].released)
                causes_.add({kCrossNeverWaited, 0, core_of(told.instr), core.index, told.instr, told.instr, 0, 0, 0, id});
    }

    uint32_t core_of(uint64_t instr) const {
        return static_cast<uint32_t>(std::upper_bound(in_.core_begin, in_.core_begin + in_.core_count + 1, instr) - in_.core_begin - 1);
    }

private:
    GlobalClock global_view(const Core& core, uint32_t pipe) const {
        const Knowledge& k = core.pipe[pipe];
        GlobalClock view = core.remote[k.level] != nullptr ? *core.remote[k.level] : GlobalClock(size_t{in_.core_count} * kPipes, 0);
        for (uint32_t q = 0; q < kPipes; ++q) view[core.index * kPipes + q] = k.full.complete[q];
        view[core.index * kPipes + pipe] = core.count[pipe];
        return view;
    }

    const Input& in_;
    Causes& causes_;
    std::vector<std::deque<Told>> slots_ = std::vector<std::deque<Told>>(kSlots);
};

}  // namespace toprope_check
