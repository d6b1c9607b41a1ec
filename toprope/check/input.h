// What check/engine.py hands over (a Trace's own columns, in place) and gets back. The structures are mirrored there.
#pragma once

#include <cstdint>

namespace toprope_check {

inline constexpr uint32_t kSpaces = 8, kPipes = 8, kEventIds = 8;
enum Space : uint32_t { kGm, kUb, kL1, kL0a, kL0b, kL0c, kBias, kFixbuf };
enum Pipe : uint32_t { kS, kV, kM, kMte1, kMte2, kMte3, kFix, kAll };
enum Kind : uint8_t {
    kCompute,
    kCopy,
    kScalar,
    kSetFlag,
    kWaitFlag,
    kBarrier,
    kAlloc,
    kFree,
    kEnque,
    kDeque,
    kCrossSet,
    kCrossWait,
    kCache,
    kMark,
    kState,
    kUncached /* scalar access to GM past the data cache */
};
enum CoreType : uint8_t { kAiv, kAic, kCoupled };

struct Instr {
    uint16_t op;
    uint8_t pipe, accesses;
    uint32_t site, work, arg;
};

struct Access {
    uint64_t low, high;
    uint64_t address() const { return low & 0xffffffffffull; }
    uint64_t row_bytes() const { return low >> 40; }
    uint64_t rows() const { return high & 0xffff; }
    uint32_t space() const { return (high >> 16) & 15; }
    uint32_t mode() const { return (high >> 20) & 3; }
    bool more() const { return (high >> 22) & 1; }
    bool masked() const { return (high >> 23) & 1; }
    int64_t stride() const { return static_cast<int64_t>(high) >> 24; }
};

struct CoreSpec {
    uint16_t block;
    uint8_t sub, type;
};
// poisoned: nothing had been written to it before the launch. touched: set by the replay when any instruction reads or writes it.
struct GmRow {
    uint64_t address, bytes;
    uint32_t poisoned, touched;
};

struct Buffer {
    uint32_t space, address, bytes, used;
};  // used: set by the replay when any instruction touches it

struct Input {
    const Instr* instrs;
    const Access* accesses;
    const uint64_t* core_begin;    // core_count + 1
    const uint64_t* access_begin;  // core_count + 1
    const CoreSpec* cores;
    const uint8_t* op_kinds;
    GmRow* gm;  // sorted by address
    Buffer* buffers;
    uint32_t core_count, op_count, gm_count, buffer_count;
    uint32_t sync_auto;  // the compiler inserts the barriers it promises to insert
};

enum Code : uint32_t {
    kRace,
    kUninitialised,
    kMissingClean,
    kStaleRead,
    kSharedLine,
    kDirtyAtEnd,
    kFlagNeverWaited,
    kEventIdCollision,
    kBarrierUse,
    kCrossOverflow,
    kCrossNeverWaited,
    kFlagOnePipe
};

inline constexpr uint32_t kLater = 7;

// One cause. a is the earlier instruction, b the later one that shows the mistake; instructions are rows of Trace.instrs.
struct Cause {
    uint32_t code, hazard;  // hazard: 0 read after write, 1 write after read, 2 write after write
    uint32_t core_a, core_b;
    uint64_t instr_a, instr_b;
    uint64_t begin, end;  // bytes
    uint64_t count, detail;
    uint32_t space, padding;
    uint64_t cores[4];          // which of the first 256 cores showed it
    uint64_t later[kLater][2];  // further pairs (a, b) of the same kind, in order of discovery
    uint32_t later_count, padding2;
};

}  // namespace toprope_check
