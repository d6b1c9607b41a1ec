// What the scheduler remembers: flags, pipes and cores while they run.
#pragma once

#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cross.h"
#include "memory.h"

namespace timing {

enum Stall : uint8_t { kIssue, kPipeBusy, kFlag, kBarrierWait, kQueueFull, kCrossCore, kHazard, kLaunch };

inline constexpr double kPieceBytes = 8192;
inline constexpr int kFlagSlots = 8 * 8 * 16, kCrossSlots = 32;
inline constexpr uint32_t kFirstSharedFlag = 32, kSharedFlags = 224, kSoftwareFlag = 16;  // as in ascendc/api/cross_core.h

template <typename T>
class Fifo {
public:
    bool empty() const { return head_ == items_.size(); }
    size_t size() const { return items_.size() - head_; }
    const T& front() const { return items_[head_]; }
    const T& operator[](size_t k) const { return items_[head_ + k]; }
    void push_back(const T& item) { items_.push_back(item); }
    void pop_front() {
        if (++head_ == items_.size()) {
            items_.clear();
            head_ = 0;
        } else if (head_ > 1024) {
            items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(head_));
            head_ = 0;
        }
    }

private:
    std::vector<T> items_;
    size_t head_ = 0;
};
struct Channel {  // a flag: tokens from sets, consumed by waits in order
    Fifo<Token> tokens;
    int waiter = -1;  // the agent that sleeps on it; -1 nobody
    uint32_t waiting_core = 0;
};

struct Issued {
    uint32_t instr;
    double ready;
};

struct PipeState {
    Fifo<Issued> queue;
    double free_at = 0, last_start = 0, last_end = 0;
    double next_ask = 0, data_end = 0;  // when the next transfer may ask for data; when the last one asked for has it all
    size_t beginning = 0, asking = 0;   // the transfers under way whose turn it is to begin and to ask
    double asked = 0, asked_at = 0;     // bytes asked for that have not come, and when that last changed
    int32_t last = -1;                  // the instruction that freed the pipe last
    Fifo<Transfer*> under_way;
};

// The scalar unit's cache of GM: 32 KB in lines of 64 bytes, one place for each.
class DataCache {
public:
    // How many lines of GM a scalar instruction finds missing; one where it does not say what it reads. A cache instruction lets go of the
    // lines it names, of all where it names none.
    double misses(const Access* access, unsigned count, bool drops) {
        if (count == 0 && drops) std::fill(lines_.begin(), lines_.end(), 0);
        double missed = count == 0;
        for (unsigned a = 0; a < count; ++a) {
            if (access[a].space() != kGm || access[a].row_bytes() == 0) continue;
            const uint64_t end = access[a].address() + access[a].row_bytes();
            for (uint64_t line = access[a].address() / kLineBytes; line * kLineBytes < end; ++line) {
                uint64_t& place = lines_[line % kLines];
                missed += place != line + 1;
                place = drops ? 0 : line + 1;
            }
        }
        return missed;
    }

private:
    static constexpr uint64_t kLineBytes = 64, kLines = 512;
    std::vector<uint64_t> lines_ = std::vector<uint64_t>(kLines, 0);  // line + 1, 0 = nothing
};

// Lines of instructions by where a kernel's text has them, one for each call of the API: a function of the library takes one for each of
// its instructions, up to a bound, behind which it is taken for a loop.
class CodeCache {
public:
    explicit CodeCache(double preloaded = 0) : left_(preloaded) {}
    // Whether the scalar unit waits for this instruction's line.
    bool misses(const Instr& instr, bool begins_library) {
        if (begins_library) {
            library_ = instr.site;
            step_ = 0;
        }
        const bool inside = library_ == instr.site;
        if (!inside) library_ = kNowhere;
        const uint32_t step = inside ? step_++ : kLongest + instr.op % 64;
        if (step >= kLongest && inside) return false;
        uint64_t& seen = seen_[uint64_t{instr.site} * 4 + step / 64];
        const uint64_t bit = uint64_t{1} << step % 64;
        if (seen & bit) return false;
        seen |= bit;
        return (left_ -= 1) < 0;
    }

private:
    static constexpr uint32_t kLongest = 128, kNowhere = ~0u;
    uint32_t library_ = kNowhere, step_ = 0;
    double left_;
    std::unordered_map<uint64_t, uint64_t> seen_;
};

struct CoreState {
    DataCache data_cache;
    CodeCache code_cache;
    bool loaded = false;  // the scalar unit has just read UB
    uint32_t begin, end, pc;
    double now = 0, started = 0;
    int32_t previous = -1;  // the instruction before, in program order; at first the one that ended the block before this one
    PipeState pipes[kPipes];
    std::vector<Channel> flags = std::vector<Channel>(kFlagSlots);
    std::vector<Channel> cross = std::vector<Channel>(kCrossSlots);
    double busy[kPipes] = {}, busy_until[kPipes] = {};
    bool running = false, finished = false;
    int queue_pipe = -1;
    double popped_at = 0;
};

inline double core_end(const CoreState& core) {
    double end = core.now;
    for (const PipeState& pipe : core.pipes) end = std::max(end, pipe.last_end);
    return end;
}
// The pipe is busy from start to end; what overlaps counts once.
inline void occupy(CoreState& core, unsigned pipe, double start, double end) {
    const double from = std::max(start, core.busy_until[pipe]);
    if (end > from) {
        core.busy[pipe] += end - from;
        core.busy_until[pipe] = end;
    }
}

// Transfers that are under way keep their place; finished ones are used again.
class Transfers {
public:
    Transfer* take() {
        if (idle_.empty()) {
            all_.push_back(std::make_unique<Transfer>());
            idle_.push_back(all_.back().get());
        }
        Transfer* t = idle_.back();
        idle_.pop_back();
        *t = {};
        return t;
    }
    void give(Transfer* t) { idle_.push_back(t); }

private:
    std::vector<std::unique_ptr<Transfer>> all_;
    std::vector<Transfer*> idle_;
};

struct Event {
    double time;
    uint64_t order;
    Transfer* transfer;
    int32_t after = -1;  // without a transfer: the instruction whose end made room for the next block
    // Without a branch: which of two events comes first cannot be guessed.
    bool operator>(const Event& other) const {
        return static_cast<bool>((time > other.time) | ((time == other.time) & (order > other.order)));
    }
};

}  // namespace timing
