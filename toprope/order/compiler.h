// The syncs that the vendor's compiler inserts on cores with a vector unit (--cce-auto-sync=on). They are a part of the run like the
// kernel's own: the checker, the dependence graph and the timeline read this list. Page: 核内同步/关键特性说明.
#pragma once

#include <cstring>
#include <vector>

#include "meeting.h"
#include "pipes.h"

namespace toprope_order {

// Before instruction `before` pipe `to` waits for all that `from` has begun (from == to: PipeBarrier). `on` is the instruction that it is
// for.
struct Inserted {
    Row before, on;
    uint32_t from, to;
};

// What one pipe has touched and another may not know to be complete, in program order, with hulls so that a search skips what is far
// away. Instructions are taken apart only when somebody asks: most are forgotten before.
class Log {
public:
    // Instruction `row` is number `epoch` of its pipe; `access` is its first.
    void add(const Instr* instrs, const Access* access, Row row, uint32_t epoch) {
        if (!waiting_.empty() && waiting_.back().next == access && taken_ < waiting_.size()) {  // nothing else has touched memory since
            waiting_.back().last = row;
            waiting_.back().epoch = epoch;
            waiting_.back().next = access + instrs[row].accesses;
        } else {
            waiting_.push_back({access, access + instrs[row].accesses, row, row, epoch});
        }
        instrs_ = instrs;
        last_epoch_ = epoch;
    }
    // Of an instruction that has been taken apart.
    void add(const std::vector<Operand>& operands, Row row, uint32_t epoch) {
        for (const Operand& o : operands) enter(o, row, epoch);
        last_epoch_ = epoch;
    }
    // The latest entry after `epoch` that conflicts with the operand; kNoRow: none.
    Row conflict(const Operand& o, uint32_t epoch, Meeting& meeting) {
        take_apart(epoch);
        for (size_t end = entries_.size(); end != 0;) {
            const size_t g = (end - 1) / kGroup, begin = g * kGroup;
            if (entries_[end - 1].epoch <= epoch) return kNoRow;
            if (g >= groups_.size() || groups_[g].near(o))
                for (size_t i = end; i-- > begin && entries_[i].epoch > epoch;)
                    if (meeting.conflict(entries_[i].o, o)) return entries_[i].row;
            end = begin;
        }
        return kNoRow;
    }
    bool several() const { return waiting_.size() + entries_.size() > 2; }
    void forget(uint32_t epoch) {
        if (last_epoch_ <= epoch) clear();
    }
    void clear() {
        last_epoch_ = 0;
        waiting_.clear();
        entries_.clear();
        groups_.clear();
        taken_ = 0;
    }

private:
    static constexpr size_t kGroup = 32;
    struct Waiting {  // instructions whose accesses stand behind each other
        const Access *access, *next;
        Row first, last;
        uint32_t epoch;  // of the last
    };
    struct Entry {
        Operand o;
        Row row;
        uint32_t epoch;
        bool open;  // single elements, which may go on
    };
    struct Hull {  // on chip and in GM, all and written
        uint64_t low[2][2] = {{~0ull, ~0ull}, {~0ull, ~0ull}}, high[2][2] = {};
        void add(const Operand& o) {
            const uint64_t base = uint64_t{o.space()} << 44;
            for (int w = 0; w <= (o.writes() ? 1 : 0); ++w) {
                low[o.space() == kGm][w] = std::min(low[o.space() == kGm][w], base + o.low);
                high[o.space() == kGm][w] = std::max(high[o.space() == kGm][w], base + o.high);
            }
        }
        bool near(const Operand& o) const {
            const uint64_t base = uint64_t{o.space()} << 44;
            const int w = o.writes() ? 0 : 1;
            return base + o.low < high[o.space() == kGm][w] && low[o.space() == kGm][w] < base + o.high;
        }
    };
    void take_apart(uint32_t epoch) {
        for (; taken_ < waiting_.size(); ++taken_) {
            const Waiting& w = waiting_[taken_];
            if (w.epoch <= epoch) continue;
            uint32_t of = w.epoch;
            for (Row row = w.last; row > w.first; --row) of -= instrs_[row].accesses != 0;
            const Access* access = w.access;
            for (Row row = w.first; row <= w.last; ++row) {
                const uint32_t count = instrs_[row].accesses;
                if (count == 0) continue;
                each_operand(access, count, [&](const Operand& o) { enter(o, row, of); });
                access += count;
                ++of;
            }
        }
    }
    void enter(const Operand& o, Row row, uint32_t epoch) {
        if (entries_.size() % kGroup != 0) {
            Entry& last = entries_.back();
            if (last.open && last.o.solid && o.solid && last.o.high == o.low && last.o.mode() == o.mode() && last.o.space() == o.space()) {
                last.o.high = o.high;  // element after element
                last.row = row;
                last.epoch = epoch;
                return;
            }
        }
        entries_.push_back({o, row, epoch, o.high - o.low <= 8});
        if (entries_.size() % kGroup != 0) return;
        Hull& hull = groups_.emplace_back();
        for (size_t i = entries_.size() - kGroup; i < entries_.size(); ++i) hull.add(entries_[i].o);
    }

    const Instr* instrs_ = nullptr;
    std::vector<Waiting> waiting_;
    size_t taken_ = 0;
    uint32_t last_epoch_ = 0;
    std::vector<Entry> entries_;
    std::vector<Hull> groups_;  // of entries that stand together, as far as there are enough of them
};

class Compiler {
public:
    // Of the instructions begin:end of one core; `access` belongs to the first of them. `kinds` is Kind by operation.
    void core(const Instr* instrs, uint64_t begin, uint64_t end, const Access* access, const uint8_t* kinds, std::vector<Inserted>& out) {
        instrs_ = instrs;
        kinds_ = kinds;
        out_ = &out;
        pipes_.restart();
        for (Log& log : logs_) log.clear();
        scalar_ = std::any_of(instrs + begin, instrs + end, [&](const Instr& i) { return on_scalar(i); });
        for (uint64_t i = begin; i < end; access += instrs[i++].accesses) step(i, access);
    }

private:
    bool on_scalar(const Instr& i) const { return i.accesses != 0 && kinds_[i.op] != kCache && (i.pipe == kS || i.pipe >= kAll); }

    void step(uint64_t i, const Access* access) {
        const Instr& instr = instrs_[i];
        const uint8_t kind = kinds_[instr.op];
        if (instr.accesses == 0 || kind == kCache || kind == kMark) return sync(i, instr, kind);
        const uint32_t to = instr.pipe < kAll ? instr.pipe : static_cast<uint32_t>(kS);
        pipes_.issue(to);
        operands_.clear();
        if (to == kS)
            for (uint32_t from : {kV, kMte2, kMte3}) look(i, access, from, to);
        else if (scalar_ && compiler_covers(kS, to))
            look(i, access, kS, to);
        if (to == kV) look(i, access, kV, kV);
        const uint32_t epoch = ++pipes_.count[to];
        if (to != kV && !(scalar_ && (to == kS || compiler_covers(kS, to)))) return;
        if (logs_[to].several()) forget(to);
        if (to != kV) return logs_[to].add(instrs_, access, static_cast<Row>(i), epoch);
        if (operands_.empty()) take_apart(access, instr.accesses);
        logs_[to].add(operands_, static_cast<Row>(i), epoch);
    }
    void sync(uint64_t i, const Instr& instr, uint8_t kind) {
        if (kind == kBarrier) return pipes_.barrier(instr.pipe, i);
        if (kind != kSetFlag && kind != kWaitFlag) return;
        const FlagWork flag(instr);
        if (!flag.valid()) return;
        if (kind == kSetFlag)
            pipes_.set(flag, i);
        else
            pipes_.wait(flag, i);
    }
    void take_apart(const Access* access, uint32_t count) {
        each_operand(access, count, [&](const Operand& o) { operands_.push_back(o); });
    }
    // Is there anything on pipe `from` that this instruction has to wait for?
    void look(uint64_t i, const Access* access, uint32_t from, uint32_t to) {
        if (pipes_.count[from] <= pipes_.pipe[to].full.complete[from]) return;
        if (operands_.empty()) take_apart(access, instrs_[i].accesses);
        Row on = kNoRow;
        for (const Operand& o : operands_) {
            const Row row = logs_[from].conflict(o, pipes_.pipe[to].full.complete[from], meeting_);
            if (row != kNoRow && (on == kNoRow || row > on)) on = row;
        }
        if (on == kNoRow) return;
        out_->push_back({static_cast<Row>(i), on, from, to});
        pipes_.order(from, to, pipes_.count[from], static_cast<Row>(i) | kByCompiler);
    }
    // What every pipe that could ask knows to be complete need not be kept.
    void forget(uint32_t of) {
        uint32_t known = ~0u;
        for (uint32_t to : {kS, kV, kMte2, kMte3})
            if (compiler_covers(of, to) && (to == kV || scalar_)) known = std::min(known, pipes_.pipe[to].full.complete[of]);
        logs_[of].forget(known);
    }

    const Instr* instrs_ = nullptr;
    const uint8_t* kinds_ = nullptr;
    std::vector<Inserted>* out_ = nullptr;
    Pipes pipes_;
    Log logs_[kPipes];
    std::vector<Operand> operands_;  // of the instruction at work
    Meeting meeting_;
    bool scalar_ = false;
};

}  // namespace toprope_order
