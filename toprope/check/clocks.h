// What is known to be complete: vector clocks over (core, pipe), one entry a pipe of the own core and, after a sync between cores, of the
// others.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "input.h"

namespace toprope_check {

// complete[q] = how many instructions of pipe q of this core are complete before the next one starts.
struct Clock {
    uint32_t complete[kPipes] = {};
    void join(const Clock& other) {
        for (uint32_t q = 0; q < kPipes; ++q) complete[q] = std::max(complete[q], other.complete[q]);
    }
    void join_except(const Clock& other, uint32_t skipped) {
        for (uint32_t q = 0; q < kPipes; ++q)
            if (q != skipped) complete[q] = std::max(complete[q], other.complete[q]);
    }
};

// Knowledge of a pipe. `strict` leaves PIPE_ALL barriers out: what it lacks against `full` is what such a barrier was needed for.
struct Knowledge {
    Clock full, strict;
    uint32_t level = 0;  // index into Core::remote: what is known of the other cores
    void join(const Knowledge& other) {
        full.join(other.full);
        strict.join(other.strict);
        level = std::max(level, other.level);
    }
    // Everything of pipe q up to `count` is complete.
    void learn(uint32_t q, uint32_t count) {
        full.complete[q] = std::max(full.complete[q], count);
        strict.complete[q] = std::max(strict.complete[q], count);
    }
};

using GlobalClock = std::vector<uint32_t>;  // core * kPipes + pipe

struct Flag {
    bool set = false, by_queue = false;
    Knowledge known;
    uint64_t instr = 0;
};

// Knowledge handed to another core, and the instruction that handed it over.
struct Told {
    std::shared_ptr<GlobalClock> known;
    uint64_t instr;
};

struct CrossFlag {
    std::deque<Told> released;    // the counter of this core: one entry per count
    std::deque<Told> pending[3];  // by mode: set here, partners still missing
};

inline constexpr uint32_t kHardFlags = 16, kSoftAll = 16, kFirstSlot = 32, kSlots = 224, kSlotMode = 3;

struct Core {
    uint64_t next = 0, end = 0, next_access = 0;
    uint32_t index = 0, block = 0, type = kAiv;
    uint32_t count[kPipes] = {};
    Knowledge pipe[kPipes];
    uint32_t issued = 0, issue_seen[kPipes] = {};  // the scalar pipe's knowledge reaches another pipe with the next instruction
    Flag flag[kPipes][kPipes][kEventIds];
    std::vector<CrossFlag> cross = std::vector<CrossFlag>(kHardFlags + 1);
    uint64_t soft_all_sets = 0, soft_all_total = 0;  // calls of the SyncAll that works through GM: so far, in the whole run
    std::vector<std::shared_ptr<GlobalClock>> remote{nullptr};
    uint32_t cleaned = 0;          // scalar instructions before the last clean of the whole data cache
    uint64_t all_barrier = ~0ull;  // the last PIPE_ALL barrier, and what it waited for
    Clock all_counts;
    bool waiting = false;
};

}  // namespace toprope_check
