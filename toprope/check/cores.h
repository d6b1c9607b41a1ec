// The cores of a launch while their instructions are replayed: the pipes of each, its flags between cores, and what it has heard of others.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "input.h"

namespace toprope_check {

using GlobalClock = std::vector<uint32_t>;  // core * kPipes + pipe

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

struct Core : Pipes {
    uint64_t next = 0, end = 0, next_access = 0;
    uint32_t index = 0, block = 0, type = kAiv;
    std::vector<CrossFlag> cross = std::vector<CrossFlag>(kHardFlags + 1);
    uint64_t soft_all_sets = 0, soft_all_total = 0;  // calls of the SyncAll that works through GM: so far, in the whole run
    std::vector<std::shared_ptr<GlobalClock>> remote{nullptr};
    uint32_t cleaned = 0;          // scalar instructions before the last clean of the whole data cache
    uint64_t all_barrier = ~0ull;  // the last PIPE_ALL barrier, and what it waited for
    Clock all_counts;
    const Inserted* next_inserted = nullptr;
};

}  // namespace toprope_check
