// The columns of a trace as they lie in memory; trace.py describes the same bytes to NumPy, ascendc/machine/trace.h writes them.
#pragma once

#include <cstdint>

namespace toprope_trace {

enum Space : uint32_t { kGm, kUb, kL1, kL0a, kL0b, kL0c, kBias, kFixbuf };
enum Pipe : uint32_t { kS, kV, kM, kMte1, kMte2, kMte3, kFix, kAll };
inline constexpr uint32_t kSpaces = 8, kPipes = 8, kRead = 1, kWrite = 2, kUpdate = 3;  // bits of an access's mode
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
    kUncached /* only while checking: a scalar access to GM past the data cache */,
    kRefused /* only while checking: what a refused access would have written */
};
enum CoreType : uint8_t { kAiv, kAic, kCoupled };

struct Instr {
    uint16_t op;
    uint8_t pipe, accesses;
    uint32_t site, work, arg;
    // Of SetFlag and WaitFlag.
    uint32_t flag_from() const { return work >> 16 & 0xff; }
    uint32_t flag_to() const { return work >> 8 & 0xff; }
    uint32_t flag_id() const { return work & 0xff; }
    // Of flags between cores.
    uint32_t cross_mode() const { return work >> 8 & 0xff; }
    uint32_t cross_id() const { return work & 0xff; }
    // Of the cube and of copies out of L0C.
    bool has_unit_flag() const { return (pipe == kM && (arg >> 10 & 1)) || (pipe == kFix && (arg >> 9 & 1)); }
};

struct Access {
    uint64_t low, high;
    uint64_t address() const { return low & 0xffffffffffull; }
    uint64_t row_bytes() const { return low >> 40; }
    uint64_t rows() const { return high & 0xffff; }
    uint32_t space() const { return (high >> 16) & 15; }
    uint32_t mode() const { return (high >> 20) & 3; }
    bool more() const { return (high >> 22) & 1; }                // the next access continues this one in a third dimension
    bool masked() const { return (high >> 23) & 1; }              // vectors: the range covers more than the mask lets through
    bool filler() const { return masked() && mode() == kWrite; }  // copies: padding that nobody gave a value
    int64_t stride() const { return static_cast<int64_t>(high) >> 24; }
};
static_assert(sizeof(Instr) == 16 && sizeof(Access) == 16);

}  // namespace toprope_trace
