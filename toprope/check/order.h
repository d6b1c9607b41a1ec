// Who waits for whom: the clocks of all cores, moved on by flags, barriers and syncs between cores, and the question they answer.
#pragma once

#include "cores.h"
#include "shadow.h"

namespace toprope_check {

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
        if (r.core == core.index) return core.knows(r.epoch, r.pipe, pipe);
        const auto& remote = core.remote[core.pipe[pipe].level];
        return remote != nullptr && r.epoch <= (*remote)[r.core * kPipes + r.pipe];
    }

    bool unit_flag_orders(const Record& r, const Core& core) const {
        return r.core == core.index && unit_flags(in_.instrs[r.instr], in_.instrs[core.next]);
    }

    // As if a flag pair (or, on one pipe, a barrier) stood right before the instruction at work, which counts already.
    static void order_now(Core& core, uint32_t from, uint32_t to) {
        core.order(from, to, from == to ? core.count[from] - 1 : core.count[from], kNoRow);
    }

    // The syncs that the vendor's compiler puts before this instruction.
    void compiler_inserts(Core& core) {
        const Inserted* end = in_.inserted + in_.inserted_count;
        if (core.next_inserted == nullptr)
            core.next_inserted =
                std::lower_bound(in_.inserted, end, core.next, [](const Inserted& s, uint64_t at) { return s.before < at; });
        for (; core.next_inserted != end && core.next_inserted->before <= core.next; ++core.next_inserted) {
            const Inserted& s = *core.next_inserted;
            core.order(s.from, s.to, core.count[s.from], s.before | kByCompiler);
        }
    }

    void note_barrier_use(Core& core, uint32_t pipe, const Record& r) {
        if (r.core != core.index || (r.pipe == pipe && completes_in_order(pipe))) return;
        Knowledge& k = core.pipe[pipe];
        if (r.epoch <= k.strict.complete[r.pipe]) return;
        if (in_.sync_auto && core.type != kAic && compiler_covers(r.pipe, pipe)) {
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

    void set_flag(Core& core, const Instr& instr) {
        const FlagWork work(instr);
        if (!work.valid()) return;
        if (work.from == work.to) causes_.add({kFlagOnePipe, 0, core.index, core.index, core.next, core.next});
        Flag& flag = core.flag[work.from][work.to][work.id];
        const bool by_queue = core.next > 0 && beside_queue_call(core, core.next - 1, kEnque, kFree);
        if (flag.set && flag.by_queue != by_queue) causes_.add({kEventIdCollision, 0, core.index, core.index, flag.instr, core.next});
        core.set(work, core.next);
        flag.by_queue = by_queue;
    }

    void wait_flag(Core& core, const Instr& instr) {
        const FlagWork work(instr);
        if (!work.valid()) return;
        const Flag& flag = core.flag[work.from][work.to][work.id];
        if (flag.set && !flag.by_queue && beside_queue_call(core, core.next + 1, kDeque, kAlloc))
            causes_.add({kEventIdCollision, 0, core.index, core.index, flag.instr, core.next});
        core.wait(work, core.next);
    }

    void barrier(Core& core, const Instr& instr) {
        core.barrier(instr.pipe, core.next);
        if (instr.pipe != kAll) return;
        core.all_barrier = core.next;
        core.all_counts = core.pipe[kS].full;
        causes_.barrier_seen(core.next, core.index);
    }

    // ---- flags between cores -----------------------------------------------------------------------------------------------

    static constexpr size_t kCounterLimit = 15;

    void cross_set(Core& core, const Instr& instr) {
        const uint32_t id = instr.cross_id(), mode = instr.cross_mode();
        const uint32_t pipe = instr.pipe < kAll ? instr.pipe : static_cast<uint32_t>(kS);
        core.issue(pipe);
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
        const uint32_t id = instr.cross_id();
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
        for (uint32_t q = 0; q < kPipes; ++q) s.learn(q, told[core.index * kPipes + q], static_cast<Row>(core.next));
        core.remote.push_back(std::move(known));
        s.level = static_cast<uint32_t>(core.remote.size() - 1);
        core.scalar_learned();
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
