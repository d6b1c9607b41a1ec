// The columns of a trace as they lie in memory; trace.py describes the same bytes to NumPy, ascendc/machine/trace.h writes them.
#pragma once

#include <cstdint>

namespace toprope_trace {

enum Space : uint32_t { kGm, kUb, kL1, kL0a, kL0b, kL0c, kBias, kFixbuf };
enum Pipe : uint32_t { kS, kV, kM, kMte1, kMte2, kMte3, kFix, kAll };
inline constexpr uint32_t kSpaces = 8, kPipes = 8, kRead = 1, kWrite = 2;  // kRead, kWrite: bits of an access's mode
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
    kUncached /* only while checking: a scalar access to GM past the data cache */
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
    bool more() const { return (high >> 22) & 1; }  // the next access continues this one in a third dimension
    bool masked() const { return (high >> 23) & 1; }
    int64_t stride() const { return static_cast<int64_t>(high) >> 24; }
};
static_assert(sizeof(Instr) == 16 && sizeof(Access) == 16);

}  // namespace toprope_trace
