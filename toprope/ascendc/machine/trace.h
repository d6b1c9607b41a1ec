// What a run leaves behind: one Instr per instruction and the ranges it touches. Field meanings are mirrored in toprope/trace.py.
#pragma once

#include <cstdlib>

#include "formats.h"

namespace toprope {

enum class Space : uint8_t { gm, ub, l1, l0a, l0b, l0c, bias, fixbuf, count };
enum class Pipe : uint8_t { s, v, m, mte1, mte2, mte3, fix, all, count };
enum class Kind : uint8_t {
    compute,
    copy,
    scalar,
    set_flag,
    wait_flag,
    barrier,
    alloc,
    free,
    enque,
    deque,
    cross_set,
    cross_wait,
    cache,
    mark,
    state
};
enum class Mode : uint8_t { read = 1, write = 2, update = 3 };  // update = read-modify-write (atomics to GM)

inline constexpr const char* kSpaceNames[] = {"GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};
inline constexpr const char* kPipeNames[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};

// A place in the user's source. As a defaulted last argument it names the line of the call.
struct Site {
    const char* file;
    uint32_t line;
    static constexpr Site here(const char* f = __builtin_FILE(), uint32_t l = __builtin_LINE()) { return {f, l}; }
};

// One operation of the API, declared next to its code. `cost` names a row of the chip file; a missing row is an error there.
struct Op {
    const char* name;
    Pipe pipe;
    Kind kind;
    const char* cost;
    mutable uint16_t id = 0xffff;
    constexpr Op(const char* name_, Pipe pipe_, Kind kind_, const char* cost_) : name(name_), pipe(pipe_), kind(kind_), cost(cost_) {}
};

struct Instr {         // 16 bytes
    uint16_t op;       // index into the op table
    uint8_t pipe;      // Pipe; usually the op's own, but copies choose theirs by path
    uint8_t accesses;  // how many Access rows belong to it
    uint32_t site;     // index into the site table
    uint32_t work;     // vector: repeats; cube: m<<16|k... in units of the cube; set/wait: event type << 8 | id
    uint32_t arg;      // low byte Dtype; the rest is the op's own
};
static_assert(sizeof(Instr) == 16);

// rows x row_bytes starting at address, rows row_stride_bytes apart. `more` says that the next Access is an outer loop of this one:
// its rows and row_stride_bytes repeat the whole pattern.
struct Access {     // 16 bytes
    uint64_t low;   // address:40 row_bytes:24
    uint64_t high;  // rows:16 space:4 mode:2 more:1 masked:1 row_stride_bytes:40 (signed)
    static Access make(Space space, Mode mode, uint64_t address, uint64_t row_bytes, uint64_t rows, int64_t stride, bool more = false,
                       bool masked = false) {
        return {(address & 0xffffffffffull) | (row_bytes << 40),
                (rows & 0xffffull) | (static_cast<uint64_t>(space) << 16) | (static_cast<uint64_t>(mode) << 20) |
                    (static_cast<uint64_t>(more) << 22) | (static_cast<uint64_t>(masked) << 23) | (static_cast<uint64_t>(stride) << 24)};
    }
};
static_assert(sizeof(Access) == 16);

// A plain growing column; the analysis side reads it in place.
template <typename T>
struct Column {
    T* data = nullptr;
    uint64_t size = 0, capacity = 0;
    T* grow() {
        if (TOPROPE_UNLIKELY(size == capacity)) {
            capacity = capacity ? capacity * 2 : 1024;
            data = static_cast<T*>(std::realloc(static_cast<void*>(data), capacity * sizeof(T)));
        }
        return &data[size++];
    }
    void push(const T& value) { *grow() = value; }
    void release() {
        std::free(data);
        data = nullptr;
        size = capacity = 0;
    }
};

// A mistake seen while executing: which rule, where, how often, with the numbers. Text is built once, at the first occurrence.
struct Report {
    char code[40];
    char text[440];
    uint32_t site;
    uint32_t core;
    uint32_t op;
    uint32_t severity;  // 0 error, 1 warning, 2 a note for the check
    uint64_t count;
    uint64_t instr;  // index in the core's instruction column at the first occurrence
};

// What a launch with `capture` keeps of an instruction, in the order in which all cores executed: first its operands as lanes (fields of
// Layout and Lanes in vector.h) and its scalars, then the bytes that it wrote.
enum class CapturedKind : uint8_t { written, read_lanes, write_lanes, scalars };
// Scalars are what a functor holds, or, of the cube's instructions and of copies that reorder, numbers: see keep_numbers.
struct Captured {    // 72 bytes
    uint64_t instr;  // index in the core's instruction column
    uint64_t at;     // where its `bytes` bytes begin in the column of captured bytes
    uint64_t bits[2];
    uint32_t bytes;
    uint32_t address, block_stride, repeat_stride;
    uint32_t repeats, width, active, tail;
    uint16_t core, block_lanes;
    CapturedKind kind;
    uint8_t element_bits, block_offset, bitmap;
};
static_assert(sizeof(Captured) == 72);

// What a kernel takes a GM argument for: SetGlobalBuffer with this element type. `begin` and `end` (bytes in the argument) enclose what
// all its calls at this line claim.
struct GmView {
    uint32_t gm, dtype, site, core;
    int64_t begin, end;
};

// A buffer handed out by InitBuffer or AllocTensor's pool: where it lies and who asked for it.
struct Buffer {
    uint32_t address, bytes;
    uint32_t site;
    uint16_t core;
    uint8_t space, position;
    uint32_t queue;  // buffers of one InitBuffer call share this number
};

}  // namespace toprope
