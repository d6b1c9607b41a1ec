// What check/engine.py hands over (a Trace's own columns, in place) and gets back. The structures are mirrored there.
#pragma once

#include "../order/compiler.h"

namespace toprope_check {

using namespace toprope_order;

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
    const Inserted* inserted;  // what the vendor's compiler inserts, in order of the instructions
    uint64_t inserted_count;
    uint32_t core_count, op_count, gm_count, buffer_count;
    uint32_t sync_auto;  // the compiler inserts where it promises to
    uint32_t last_core_first;
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

// Reads of undefined bytes that are common in kernels without fault; whether their values reach an output has to be found out.
enum Weak : uint64_t { kCertain, kFiller, kEdge };

// One cause. a is the earlier instruction, b the later one that shows the mistake; instructions are rows of Trace.instrs.
struct Cause {
    uint32_t code, hazard;  // hazard: 0 read after write, 1 write after read, 2 write after write
    uint32_t core_a, core_b;
    uint64_t instr_a, instr_b;
    uint64_t begin, end;     // bytes
    uint64_t count, detail;  // kUninitialised: a Weak
    uint32_t space, padding;
    uint64_t cores[4];          // which of the first 256 cores showed it
    uint64_t later[kLater][2];  // further pairs (a, b) of the same kind, in order of discovery
    uint32_t later_count, padding2;
};

}  // namespace toprope_check
