// The runtime behind the headers: tables, reports, fibers and the launcher. Compiled once per machine; kernels link to it.
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <new>
#include <vector>

#include "cube.h"
#include "fiber.h"
#include "processor.h"

namespace toprope {

Core* self = nullptr;
LaunchInfo launch_info;
bool capturing = false, watched = false;
void before_pause();  // as before_instruction, where a core waits or ends

namespace {

struct Stop {};
struct SiteEntry {
    const char* file;
    uint32_t line;
};
constexpr uint32_t kSiteSlots = 1u << 14;
// The guard is a page of the largest size that the processor's systems use.
#if defined(__aarch64__)
constexpr size_t kPageBytes = 65536;
#else
constexpr size_t kPageBytes = 4096;
#endif
constexpr size_t kStackBytes = 1u << 20, kGuardBytes = kPageBytes, kStackStride = kStackBytes + kGuardBytes;
constexpr uint32_t kNoOp = 0xffff;

Column<SiteEntry> sites;
Column<const Op*> ops;        // the table of the trace
Column<const Op*> op_copies;  // every registered declaration: the AIC and AIV builds have one each
Column<Report> reports;
Column<Buffer> buffers;
Column<GmView> views;
Column<GmBuffer> gm_buffers;
Column<Captured> captured;
Column<uint8_t> captured_bytes;
uint32_t site_slot[kSiteSlots];
Core* cores = nullptr;
uint32_t cores_used = 0;
uint64_t trace_limit_bytes = 0, trace_bytes = 0, cut_instrs = 0;
[[noreturn]] void trace_is_full();

}  // namespace

}  // namespace toprope

#include "tables.cpp"

namespace toprope {

#include "block_local.cpp"

// ---- fibers and launch --------------------------------------------------------------------------------------------------

struct Fiber {
    void* at = nullptr;  // its stack pointer while it does not run
    void* stack = nullptr;
    char* locals = nullptr;  // its __BLOCK_LOCAL__ variables while it does not run
    bool started = false, done = false, waiting = false;
    bool (*ready)(void*) = nullptr;
    void* argument = nullptr;
    const char* what = "";
    Site site = {"", 0};
};

namespace {

void* scheduler = nullptr;  // its stack pointer while a fiber runs
sigjmp_buf crash_exit;
volatile sig_atomic_t crash_signal = 0;
volatile sig_atomic_t inside_kernel = 0, overdue = 0;
constexpr int kTraceFull = -1;           // beside the numbers of signals: the trace has reached its limit
const uint8_t* crash_address = nullptr;  // what the instruction that crashed touched
void* crash_at = nullptr;                // the instruction itself
uint64_t crash_library = 0, crash_offset = 0, left_out = 0;
void (*entry_of[3])(void**) = {nullptr, nullptr, nullptr};
void** entry_arguments = nullptr;

// On-chip memory of the running cores. A finished core's memory goes to the next one, so that it stays in the host's cache.
struct Arena {
    uint8_t* base = nullptr;
    size_t per_core = 0, total = 0;
    uint32_t sizes[3][kSpaces] = {};
    uint32_t used = 0, free_count = 0;
    uint32_t* free_slots = nullptr;

    void open(const uint32_t (&space_bytes)[3][kSpaces], uint32_t count) {
        std::memcpy(sizes, space_bytes, sizeof sizes);
        per_core = 4096;
        for (const auto& by_type : sizes) {
            size_t bytes = 0;
            for (int s = 1; s < kSpaces; ++s) bytes += rounded(by_type[s]);
            if (bytes > per_core) per_core = bytes;
        }
        total = per_core * count;
        base = static_cast<uint8_t*>(mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        free_slots = static_cast<uint32_t*>(std::malloc(sizeof(uint32_t) * count));
        used = free_count = 0;
    }
    void close() {
        munmap(base, total);
        std::free(free_slots);
    }
    static size_t rounded(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
    void give(Core* core) {
        uint8_t* next = base + per_core * (free_count != 0 ? free_slots[--free_count] : used++);
        const uint32_t* bytes = sizes[static_cast<int>(core->type)];
        for (int s = 1; s < kSpaces; ++s) {
            core->memory[s] = next;
            core->bytes[s] = bytes[s];
            std::memset(next, launch_info.poison, bytes[s]);  // by default NaN in every float format, -1 in every integer
            next += rounded(bytes[s]);
        }
    }
    void take_back(Core* core) {
        free_slots[free_count++] = static_cast<uint32_t>((core->memory[1] - base) / static_cast<ptrdiff_t>(per_core));
    }
} arena;

void fiber_main() {
    try {
        entry_of[static_cast<int>(self->type)](entry_arguments);
    } catch (const Stop&) {
    } catch (...) {
        report("kernel-exception", self->last_site, nullptr, "the kernel threw a C++ exception, which a device kernel cannot do");
    }
    if (self->referenced.at != nullptr) settle_reference();
    if (watched) before_pause();
    self->fiber->done = self->finished = true;
    toprope_switch(&self->fiber->at, scheduler);
}

void set_alarm(double seconds) {
    itimerval timer{};
    timer.it_value.tv_sec = static_cast<time_t>(seconds);
    timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
    setitimer(ITIMER_REAL, &timer, nullptr);
}

// The first alarm only asks: the next instruction ends the run where no allocation is under way. A loop without one is torn out of.
void on_alarm() {
    overdue = 1;
    watched = true;
    set_alarm(0.2);
}

void tear_out(int number) {
    crash_signal = number;
    siglongjmp(crash_exit, 1);
}

void trace_is_full() {
    tear_out(kTraceFull);
    __builtin_unreachable();
}

void on_crash(int number, siginfo_t* info, void* context) {
    if (number == SIGALRM && (overdue == 0 || !inside_kernel)) return on_alarm();
    if (!inside_kernel) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    crash_address = static_cast<const uint8_t*>(info->si_addr);
#if defined(__linux__) && defined(__x86_64__)
    crash_at = reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__linux__) && defined(__aarch64__)
    crash_at = reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
    static_cast<void>(context);
#endif
    tear_out(number);
}

void say_why(double time_limit_s) {
    const Site here = self->last_site;
    const unsigned core = self->index;
    if (crash_signal == SIGALRM)
        return report("kernel-time-limit", here, nullptr, "core %u was still running after %g s; its last instruction was here", core,
                      time_limit_s);
    if (crash_signal == kTraceFull)
        return report("kernel-trace-limit", here, nullptr,
                      "core %u had not ended when the record of the run reached its limit of %llu MiB; its last instruction was here", core,
                      static_cast<unsigned long long>(trace_limit_bytes >> 20));
    Dl_info where{};
    if (crash_at != nullptr && dladdr(crash_at, &where) != 0) {
        crash_offset = static_cast<uint64_t>(static_cast<uint8_t*>(crash_at) - static_cast<uint8_t*>(where.dli_fbase));
        for (int t = 0; t < 3; ++t) {
            Dl_info entry{};
            if (entry_of[t] != nullptr && dladdr(reinterpret_cast<void*>(entry_of[t]), &entry) != 0 && entry.dli_fbase == where.dli_fbase)
                crash_library = static_cast<uint64_t>(t) + 1;
        }
    }
    if (crash_signal == SIGFPE)
        return report("division-by-zero", here, nullptr, "core %u divides an integer by zero at or after this instruction", core);
    if (crash_signal == SIGABRT) return report("kernel-crash", here, nullptr, "core %u called abort() at or after this instruction", core);
    char hint[120] = "";
    if (crash_signal == SIGSEGV || crash_signal == SIGBUS) {
        const GmBuffer* near = nearest_gm(crash_address);
        const int64_t at = near != nullptr ? crash_address - near->host : 0;
        if (crash_address < reinterpret_cast<const uint8_t*>(4096))
            std::snprintf(hint, sizeof hint, ": it used a null pointer");
        else if (near != nullptr && at > -8192 && at < static_cast<int64_t>(near->bytes) + 8192)
            std::snprintf(hint, sizeof hint, ": it touched byte %lld of %s, which has %llu bytes", static_cast<long long>(at), near->name,
                          static_cast<unsigned long long>(near->bytes));
    }
    report("kernel-crash", here, nullptr, "core %u died of signal %d (%s) at or after this instruction%s", core,
           static_cast<int>(crash_signal), strsignal(crash_signal), hint);
}

void resume(Core* core) {
    self = core;
    Fiber* f = core->fiber;
    if (!f->started) {
        f->started = true;
        arena.give(core);
        f->at = fresh_stack(f->stack, kStackBytes, fiber_main);
    }
    bring_block_locals(f->locals);
    inside_kernel = 1;
    toprope_switch(&scheduler, f->at);
    inside_kernel = 0;
    keep_block_locals(f->locals);
    if (f->done) arena.take_back(core);
}

// Runs every core as far as it goes, in `order`, until all are done or none can go on.
void run_all(const uint32_t* order) {
    for (bool progress = true; progress;) {
        progress = false;
        for (uint32_t n = 0; n < cores_used; ++n) {
            const uint32_t i = order != nullptr ? order[n] : n;
            Fiber* f = cores[i].fiber;
            if (f->done || (f->waiting && !f->ready(f->argument))) continue;
            resume(&cores[i]);
            progress = true;
        }
    }
    for (uint32_t i = 0; i < cores_used; ++i) {
        const Fiber* f = cores[i].fiber;
        if (f->done) continue;
        self = &cores[i];
        report("deadlock", f->site, nullptr, "core %u waits for ever for %s; no other core can make progress", cores[i].index, f->what);
    }
}

struct Alternate {  // signal handlers need a stack of their own: a fiber's may be what overflowed
    stack_t old_stack{};
    static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    static constexpr int kCount = 6;
    struct sigaction old_action[kCount]{};
    void* stack = nullptr;
    Alternate() {
        stack = std::malloc(1 << 16);
        stack_t s{};
        s.ss_sp = stack;
        s.ss_size = 1 << 16;
        sigaltstack(&s, &old_stack);
        struct sigaction action{};
        action.sa_sigaction = on_crash;
        action.sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO;
        for (int i = 0; i < kCount; ++i) sigaction(kSignals[i], &action, &old_action[i]);
    }
    ~Alternate() {
        for (int i = 0; i < kCount; ++i) sigaction(kSignals[i], &old_action[i], nullptr);
        sigaltstack(&old_stack, nullptr);
        std::free(stack);
    }
};

}  // namespace

void wait_until(bool (*ready)(void*), void* argument, const char* what, Site site) {
    Fiber* f = self->fiber;
    if (self->referenced.at != nullptr) settle_reference();
    while (!ready(argument)) {
        if (watched) before_pause();  // before another core can change what was written
        f->waiting = true;
        f->ready = ready;
        f->argument = argument;
        f->what = what;
        f->site = site;
        Core* me = self;
        toprope_switch(&f->at, scheduler);
        self = me;
        f->waiting = false;
    }
}

// ---- bulk conversions ---------------------------------------------------------------------------------------------------

void half_to_float_n(float* out, const uint16_t* in, size_t n) {
    size_t i = 0;
    if (kConvertsHalf)
        for (; i + 8 <= n; i += 8) widen_halves(out + i, in + i);
    for (; i < n; ++i) out[i] = half_to_float(in[i]);
}
void float_to_half_n(uint16_t* out, const float* in, size_t n) {
    size_t i = 0;
    if (kConvertsHalf)
        for (; i + 8 <= n; i += 8) narrow_halves(out + i, in + i);
    for (; i < n; ++i) out[i] = float_to_half(in[i]);
}

#include "cube.cpp"

#include "accumulate.cpp"

#include "copy.cpp"

}  // namespace toprope

#include "bit_masks.cpp"
#include "cast.cpp"
#include "queue.cpp"
#include "vector.cpp"

#include "schedule.cpp"

#include "launch.h"

// ---- the C interface that toprope/native.py calls -----------------------------------------------------------------------

using namespace toprope;

extern "C" {

// Where a launch in a process of its own finds its kernel, and where its report goes.
struct TopropeChild {
    const char* libraries[3];  // by CoreType
    const char* symbol;
    const uint32_t* argument_bytes;
    uint32_t argument_count;
    int32_t report, quiet, parent;
};

static void end_of_run();

void toprope_release() {
    for (uint32_t i = 0; i < cores_used; ++i) {
        cores[i].instrs.release();
        cores[i].accesses.release();
    }
    std::free(static_cast<void*>(cores));
    cores = nullptr;
    cores_used = 0;
    for (uint64_t i = 0; i < op_copies.size; ++i) op_copies.data[i]->id = kNoOp;
    op_copies.release();
    ops.release();
    sites.release();
    reports.release();
    buffers.release();
    views.release();
    gm_buffers.release();
    captured.release();
    captured_bytes.release();
    capturing = watched = false;
    schedule = Schedule{};
    std::memset(site_slot, 0, sizeof site_slot);
    self = nullptr;
}

// Runs a launch. Returns 0, or the number of the signal that ended it (the trace up to there is kept).
int toprope_run(const TopropeLaunch* launch) {
    toprope_release();
    launch_info = {launch->blocks,
                   launch->ratio,
                   launch->mixed != 0,
                   launch->tiling_key,
                   launch->system_workspace_bytes,
                   launch->system_workspace,
                   launch->check_contracts != 0,
                   launch->capture_limit_bytes,
                   static_cast<uint8_t>(0xff ^ launch->poison_flipped)};
    for (int t = 0; t < 3; ++t) entry_of[t] = launch->entries[t];
    entry_arguments = launch->arguments;
    for (uint32_t i = 0; i < launch->gm_count; ++i) gm_buffers.push(launch->gm[i]);

    cores_used = launch->core_count;
    cores = static_cast<Core*>(std::calloc(cores_used, sizeof(Core)));
    auto* fibers = static_cast<Fiber*>(std::calloc(cores_used, sizeof(Fiber)));
    arena.open(launch->space_bytes, cores_used);
    auto* stacks = static_cast<uint8_t*>(
        mmap(nullptr, kStackStride * cores_used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (uint32_t i = 0; i < cores_used; ++i) {
        Core& core = *new (&cores[i]) Core();
        core.index = static_cast<uint16_t>(i);
        core.block = launch->cores[i].block;
        core.sub = launch->cores[i].sub;
        core.type = static_cast<CoreType>(launch->cores[i].type);
        core.execute = launch->execute != 0;
        core.fiber = new (&fibers[i]) Fiber();
        core.fiber->stack = stacks + i * kStackStride + kGuardBytes;
        mprotect(stacks + i * kStackStride, kGuardBytes, PROT_NONE);
    }
    capturing = launch->capture_limit_bytes != 0 && launch->execute != 0;
    open_schedule(launch->delay);
    watched = capturing || launch->delay != nullptr;
    crash_signal = overdue = 0;
    crash_at = nullptr;
    crash_library = crash_offset = left_out = 0;
    trace_limit_bytes = launch->trace_limit_bytes;
    trace_bytes = 0;
    cut_instrs = launch->cut_instrs;
    {
        Alternate handlers;
        if (launch->time_limit_s > 0) set_alarm(launch->time_limit_s);
        if (sigsetjmp(crash_exit, 1) == 0) {
            run_all(launch->core_order);
        } else {
            inside_kernel = 0;
            say_why(launch->time_limit_s);
        }
        set_alarm(0);
    }
    arena.close();
    munmap(stacks, kStackStride * cores_used);
    for (uint32_t i = 0; i < cores_used; ++i) std::free(fibers[i].locals);
    std::free(static_cast<void*>(fibers));
    end_of_run();
    return crash_signal;
}

// What the report of a run needs no more, and the rest of a run that a limit has ended: an endless loop says everything in its first
// rounds.
static void end_of_run() {
    for (uint32_t i = 0; i < cores_used; ++i) {
        cores[i].fiber = nullptr;
        for (auto& m : cores[i].memory) m = nullptr;
    }
    if (cut_instrs == 0 || (crash_signal != SIGALRM && crash_signal != kTraceFull)) return;
    const uint64_t most = std::max<uint64_t>(1, cut_instrs / cores_used);
    for (uint32_t i = 0; i < cores_used; ++i) {
        Core& core = cores[i];
        if (core.instrs.size <= most) continue;
        left_out += core.instrs.size - most;
        core.instrs.size = most;
        uint64_t accesses = 0;
        for (uint64_t k = 0; k < most; ++k) accesses += core.instrs.data[k].accesses;
        core.accesses.size = std::min(core.accesses.size, accesses);
    }
    for (uint64_t i = 0; i < reports.size; ++i) {
        Report& r = reports.data[i];
        r.instr = std::min(r.instr, cores[r.core].instrs.size);
    }
}
uint32_t toprope_core_count() { return cores_used; }
void toprope_core(uint32_t i, const void** instrs, uint64_t* instr_count, const void** accesses, uint64_t* access_count) {
    *instrs = cores[i].instrs.data;
    *instr_count = cores[i].instrs.size;
    *accesses = cores[i].accesses.data;
    *access_count = cores[i].accesses.size;
}
// The kept rows and bytes. 1: everything was kept; 0: the limit was reached.
uint32_t toprope_captured(const void** rows, uint64_t* row_count, const void** bytes, uint64_t* byte_count) {
    *rows = captured.data;
    *row_count = captured.size;
    *bytes = captured_bytes.data;
    *byte_count = captured_bytes.size;
    return capturing;
}
uint64_t toprope_site_count() { return sites.size; }
void toprope_site(uint64_t i, const char** file, uint32_t* line) {
    *file = sites.data[i].file;
    *line = sites.data[i].line;
}
uint64_t toprope_op_count() { return ops.size; }
void toprope_op(uint64_t i, const char** name, uint8_t* pipe, uint8_t* kind, const char** cost) {
    *name = ops.data[i]->name;
    *pipe = static_cast<uint8_t>(ops.data[i]->pipe);
    *kind = static_cast<uint8_t>(ops.data[i]->kind);
    *cost = ops.data[i]->cost;
}
uint64_t toprope_report_count() { return reports.size; }
const Report* toprope_reports() { return reports.data; }
uint64_t toprope_buffer_count() { return buffers.size; }
const Buffer* toprope_buffers() { return buffers.data; }
}

#include "image.cpp"

#include "child.cpp"
