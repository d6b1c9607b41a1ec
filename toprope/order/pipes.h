// Who waits for whom inside one core: a clock for each pipe, moved on by flags, barriers and what the vendor's compiler inserts.
// The one place that knows these rules; the checker, the dependence graph and the timeline all ask it. See docs/design/order.md.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../trace_columns.h"

namespace toprope_order {

using namespace toprope_trace;

inline constexpr uint32_t kEventIds = 8;

// Rows of Trace.instrs: what taught a pipe that others are complete. With kByCompiler it is the row that the compiler put a sync before.
using Row = uint32_t;
inline constexpr Row kNoRow = 0x7fffffffu, kByCompiler = 0x80000000u;

// Pipes whose instructions also complete in order: what follows on the same pipe sees their results without a barrier.
constexpr bool completes_in_order(uint32_t pipe) { return pipe == kS || pipe == kM || pipe == kMte1 || pipe == kFix; }

// What the vendor's compiler orders by itself on a core with a vector unit: V after V, and S with V, MTE2 and MTE3, both ways.
constexpr bool compiler_covers(uint32_t from, uint32_t to) {
    const auto with_scalar = [](uint32_t p) { return p == kV || p == kMte2 || p == kMte3; };
    return (from == kV && to == kV) || (from == kS && with_scalar(to)) || (to == kS && with_scalar(from));
}

// With the unit flag on both sides the cube and the fixpipe hand L0C over to each other piece by piece, without an event.
inline bool unit_flags(const Instr& one, const Instr& two) { return one.pipe != two.pipe && one.has_unit_flag() && two.has_unit_flag(); }

// complete[q] = how many instructions of pipe q of this core are complete before the next one starts; by[q]: what says so.
struct Clock {
    uint32_t complete[kPipes] = {};
    Row by[kPipes] = {kNoRow, kNoRow, kNoRow, kNoRow, kNoRow, kNoRow, kNoRow, kNoRow};
    void learn(uint32_t q, uint32_t count, Row row) {
        if (count <= complete[q]) return;
        complete[q] = count;
        by[q] = row;
    }
    void join(const Clock& other, Row row) {
        for (uint32_t q = 0; q < kPipes; ++q) learn(q, other.complete[q], row);
    }
    void join_except(const Clock& other, uint32_t skipped) {
        for (uint32_t q = 0; q < kPipes; ++q)
            if (q != skipped) learn(q, other.complete[q], other.by[q]);
    }
};

// Knowledge of a pipe. `strict` leaves PIPE_ALL barriers out: what it lacks against `full` is what such a barrier was needed for.
struct Knowledge {
    Clock full, strict;
    uint32_t level = 0;  // what is known of the other cores: the checker's index
    void join(const Knowledge& other, Row row) {
        full.join(other.full, row);
        strict.join(other.strict, row);
        level = std::max(level, other.level);
    }
    // Everything of pipe q up to `count` is complete.
    void learn(uint32_t q, uint32_t count, Row row) {
        full.learn(q, count, row);
        strict.learn(q, count, row);
    }
};

struct Flag {
    bool set = false, by_queue = false;
    Knowledge known;
    uint64_t instr = 0;
};

struct FlagWork {
    uint32_t from, to, id;
    explicit FlagWork(const Instr& instr) : from(instr.flag_from()), to(instr.flag_to()), id(instr.flag_id()) {}
    bool valid() const { return from < kPipes && to < kPipes && id < kEventIds; }
};

// The pipes of one core while its instructions pass in program order.
class Pipes {
public:
    uint32_t count[kPipes] = {};
    Knowledge pipe[kPipes];
    Flag flag[kPipes][kPipes][kEventIds];

    void restart() {
        for (uint32_t& c : count) c = 0;
        for (Knowledge& k : pipe) k = Knowledge();
        for (auto& by_target : flag)
            for (auto& by_id : by_target)
                for (Flag& f : by_id) f.set = false;
        issued_ = 0;
        for (uint32_t& seen : issue_seen_) seen = 0;
    }
    bool knows(uint32_t epoch, uint32_t from, uint32_t to) const {
        return (from == to && completes_in_order(from)) || epoch <= pipe[to].full.complete[from];
    }

    // Instructions reach a pipe in the order in which the scalar pipe issues them, after whatever it has waited for.
    void issue(uint32_t to) {
        if (to == kS || issue_seen_[to] == issued_) return;
        issue_seen_[to] = issued_;
        Knowledge& k = pipe[to];
        const Knowledge& s = pipe[kS];
        k.full.join_except(s.full, kS);
        k.strict.join_except(s.strict, kS);
        k.level = std::max(k.level, s.level);
    }
    void scalar_learned() { ++issued_; }

    void set(const FlagWork& work, uint64_t row) {
        issue(work.from);
        Flag& f = flag[work.from][work.to][work.id];
        f.set = true;
        f.instr = row;
        f.known = pipe[work.from];
        f.known.learn(work.from, count[work.from], static_cast<Row>(row));
    }
    // False: the flag is not set.
    bool wait(const FlagWork& work, uint64_t row) {
        issue(work.to);
        Flag& f = flag[work.from][work.to][work.id];
        if (!f.set) return false;
        f.set = false;
        pipe[work.to].join(f.known, static_cast<Row>(row));
        if (work.to == kS) scalar_learned();
        return true;
    }

    void barrier(uint32_t on, uint64_t at) {
        const Row row = static_cast<Row>(at);
        if (on != kAll) {
            issue(on);
            pipe[on].learn(on, count[on], row);
            if (on == kS)  // DataSyncBarrier: what is issued from here on finds the scalar accesses done
                for (uint32_t q = 0; q < kAll; ++q) pipe[q].learn(kS, count[kS], row);
            return;
        }
        Clock all;
        uint32_t level = 0;
        for (uint32_t q = 0; q < kAll; ++q) {
            all.join(pipe[q].full, row);
            all.learn(q, count[q], row);
            level = std::max(level, pipe[q].level);
        }
        for (uint32_t q = 0; q < kAll; ++q) {
            pipe[q].full.join(all, row);
            pipe[q].level = level;
        }
        scalar_learned();
    }

    // As if a flag pair (or, on one pipe, a barrier) stood right before the next instruction; `done` is how many of `from` count.
    void order(uint32_t from, uint32_t to, uint32_t done, Row row) {
        Knowledge& target = pipe[to];
        if (from != to) {
            issue(from);
            target.join(pipe[from], row);
        }
        target.learn(from, done, row);
        if (to == kS) scalar_learned();
    }

private:
    uint32_t issued_ = 0, issue_seen_[kPipes] = {};  // the scalar pipe's knowledge reaches another pipe with the next instruction
};

}  // namespace toprope_order
