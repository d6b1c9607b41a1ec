// The software machine: cores with their memories and registers, GM buffers, and the calls every operation makes.
#pragma once

#include <initializer_list>

#include "trace.h"

namespace toprope {

enum class CoreType : uint8_t { aiv, aic, coupled };
inline constexpr int kSpaces = static_cast<int>(Space::count);
inline constexpr int kEventTypes = 40, kEventIds = 8, kCrossFlags = 16, kCrossModes = 3;

struct GmBuffer {
    uint8_t* host;
    uint64_t bytes;
    uint64_t device;  // address in the trace: the same in every run
    char name[40];
};

enum class AtomicOp : uint8_t { none, add, max, min };

struct VectorState {
    bool counter = false;  // SetMaskCount
    uint64_t mask_low = ~0ull, mask_high = ~0ull;
};

struct Fiber;

// The special registers of a core that this library models, all in one place so that no two share a number.
enum Register : int {
    kRegCubeModes,     // HF32, HF32 transpose, column major
    kRegFmatrix,       // SetFmatrix: feature map of the 3D load
    kRegLoadPadValue,  // SetLoadDataPaddingValue
    kRegLoadRepeat,    // SetLoadDataRepeat
    kRegL0Halves,      // which half of L0 the Matmul objects fill next
    kRegSmallProduct,  // the last Mmad, if its successor must wait for it
    kRegReduceSum,     // last sum of a reduction
    kRegBestValue,     // last value and index of ReduceMax/Min
    kRegBestIndex,
    kRegMergedCounts,  // four 16-bit counts of the last merge sort
    kRegGathered,      // elements that the last GatherMask kept
    kRegHcclRounds,    // rounds of Hccl tasks that this core has committed
    kRegHcclContext,   // SetHcclContext, two groups
    kRegHcclContext1,
    kRegCmpMask,  // CMPMASK, two words
    kRegCmpMaskHigh,
    kRegDeqScale,         // SetDeqScale
    kRegSaturate,         // SetSaturationFlag
    kRegNz2Nd,            // SetFixpipeNz2ndFlag
    kRegQuantScalar,      // SetFixpipePreQuantFlag
    kRegQuantTensor,      // SetFixPipeConfig
    kRegOrderedInits,     // InitDetermineComputeWorkspace calls so far
    kRegSoftSyncs,        // software SyncAll calls so far
    kRegPadSet,           // SetPadValue was called
    kRegPadValue,         // SetPadValue: the value's bits
    kRegControl,          // CTRL: SetCtrlSpr
    kRegSystemWorkspace,  // SetSysWorkspace
    kRegisterCount = 40
};

// A kernel library's __BLOCK_LOCAL__ variables; called when it is loaded.
void add_block_locals(char* begin, char* end);

// What tensor(i) gave out last. Whether that was a read or a write shows when the next instruction begins.
struct Referenced {
    const uint8_t* at = nullptr;
    uint8_t bytes = 0, before[8] = {};
    const Op* store = nullptr;
};

struct Core {
    uint8_t* memory[kSpaces] = {};
    uint32_t bytes[kSpaces] = {};
    uint16_t index = 0;  // position among all cores of the launch
    uint16_t block = 0;  // AI core it belongs to
    uint8_t sub = 0;     // which AIV of that AI core
    CoreType type = CoreType::aiv;
    bool execute = true;    // false: record only, skip the arithmetic
    bool finished = false;  // its kernel function has returned
    VectorState vector;
    AtomicOp atomic = AtomicOp::none;
    Dtype atomic_type = Dtype::none;
    uint64_t registers[kRegisterCount] = {};
    void* pipe = nullptr;  // AscendC::TPipe*
    uint8_t flag[kEventTypes][kEventIds] = {};
    uint8_t cross_flag[kCrossFlags] = {};                   // CrossCoreWaitFlag counts down
    uint8_t cross_reported[kCrossModes][kCrossFlags] = {};  // CrossCoreSetFlag of this core that its group has not completed yet
    uint32_t last_gm = 0;                                   // GM buffer found last
    Site last_site = {"", 0};
    Referenced referenced;
    Column<Instr> instrs;
    Column<Access> accesses;
    uint64_t captured_instrs = 0;  // so many instructions have had their written bytes captured
    Fiber* fiber = nullptr;
};

struct LaunchInfo {
    uint32_t blocks = 1;  // numBlocks of the launch
    uint32_t ratio = 1;   // AIVs per AI core that take part (1 or 2)
    bool mixed = false;   // both core types run
    uint64_t tiling_key = 0;
    uint64_t system_workspace_bytes = 0;
    uint8_t* system_workspace = nullptr;
    bool check_contracts = true;
    uint64_t capture_limit_bytes = 0;
    uint8_t poison = 0xff;  // what memory holds that nothing has written
};

// The runtime (runtime.cpp) owns these; one copy per process, shared by the AIC and AIV builds of a kernel.
extern Core* self;  // the core whose fiber is running
extern LaunchInfo launch_info;
extern bool capturing;  // the launch keeps values: see Captured
extern bool watched;    // it keeps values or delays an instruction: before_instruction wants to be called

uint32_t site_index(Site site);
uint16_t register_op(const Op& op);
const GmBuffer* find_gm(const void* address);
const GmBuffer* nearest_gm(const void* address);
void add_buffer(const Buffer& buffer);
void note_view(const void* pointer, uint64_t bytes, Dtype type, Site site);
// Adds a finding; printf-style. Same code at the same site counts up.
TOPROPE_COLD void report(const char* code, Site site, const Op* op, const char* format, ...) __attribute__((format(printf, 4, 5)));
TOPROPE_COLD void warn(const char* code, Site site, const Op* op, const char* format, ...) __attribute__((format(printf, 4, 5)));
// What is a mistake only together with something that comes later; the check decides.
TOPROPE_COLD void note(const char* code, Site site, const Op* op, const char* format, ...) __attribute__((format(printf, 4, 5)));
[[noreturn]] TOPROPE_COLD void stop();  // ends this core after a report that leaves nothing sensible to do
// Gives the processor to other cores until `ready` holds; `what` is shown if nobody can make progress.
void wait_until(bool (*ready)(void*), void* argument, const char* what, Site site);
uint32_t core_count();
Core* core_at(uint32_t index);

// Execution is synchronous: what the last instruction of the running core wrote lies in memory when the next one begins. Here values
// are kept (capture.cpp) and delays take effect (schedule.cpp).
void before_instruction(const Op& op, Site site);
// Keeps numbers of the last instruction that its ranges do not tell: sizes, modes, the order of a copy. For `if (capturing)`.
// A copy that reorders: 0, source and target address, bytes of a run, then for each loop from the outermost its count and its steps
// in source and target. An image load: 1, ... (load_data.h). Mmad and Fixpipe: their own (mmad.h, fixpipe.h).
TOPROPE_COLD void keep_numbers(std::initializer_list<int64_t> numbers);
inline constexpr int64_t kKeptLoops = 0, kKeptImage = 1;

// Appends an instruction to the running core's column; and, below, the bytes that it touches.
Instr& record(const Op& op, Pipe pipe, Site site, uint32_t work, uint32_t arg);
inline Instr& record(const Op& op, Site site, uint32_t work = 0, uint32_t arg = 0) { return record(op, op.pipe, site, work, arg); }

// tensor(i) has been given out by the instruction recorded last, `load`; a change seen later makes a `store` of it.
void referenced(const void* at, uint32_t bytes, const Op& store);
void settle_reference();

// Marks the beginning of a library function's instructions, all of which have its site; `address`, `bytes`: its temporary space in UB.
inline constexpr const char* kLibraryMark = "library ";  // before its name, which is the operation's
void library_call(const char* name, uint32_t address, uint32_t bytes, Site site);

// An access was refused after a report: what it would have written counts as written, so that one mistake is one finding.
void refuse(Space space, uint64_t address, uint64_t bytes, Site site);

void touch(Instr& instr, Space space, Mode mode, uint64_t address, uint64_t row_bytes, uint64_t rows = 1, int64_t stride = 0,
           bool more = false, bool masked = false);

// memmove; the runtime has its own loop for long copies (copy.cpp).
void copy_long(uint8_t* to, const uint8_t* from, uint64_t bytes, bool to_gm);
inline void copy_bytes(uint8_t* to, const uint8_t* from, uint64_t bytes, bool to_gm = false) {
    if (bytes < 4096)
        std::memmove(to, from, bytes);
    else
        copy_long(to, from, bytes, to_gm);
}

// Combines `bytes` with GM as the running core's atomic mode says (SetAtomicAdd, ...); the element type rounds.
void accumulate(uint8_t* gm, const uint8_t* from, uint64_t bytes);

// The trace address of a GM pointer, or 0 after a report when [address, address+bytes) is not inside one buffer.
uint64_t gm_address(const void* address, uint64_t bytes, const Op& op, Site site, bool writes);

}  // namespace toprope
