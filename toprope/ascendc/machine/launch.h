// A launch as the runtime takes it, and what it gives back: the C interface of runtime.cpp.
#pragma once

#include "machine.h"

namespace toprope {
struct TopropeDelay;
}

extern "C" {

struct TopropeCoreSpec {
    uint16_t block;
    uint8_t sub;
    uint8_t type;
};

struct TopropeLaunch {
    void (*entries[3])(void**);  // by CoreType
    void** arguments;
    const TopropeCoreSpec* cores;
    uint32_t core_count, blocks, ratio, mixed, execute, check_contracts;
    uint32_t space_bytes[3][toprope::kSpaces];  // by CoreType: an AIV has no L1, an AIC no UB
    uint64_t tiling_key;
    double time_limit_s;
    uint32_t gm_count;
    const toprope::GmBuffer* gm;
    uint8_t* system_workspace;
    uint64_t system_workspace_bytes;
    uint64_t capture_limit_bytes;  // 0: no values are kept
    toprope::TopropeDelay* delay;  // nullptr: every instruction takes effect in program order
    const uint32_t* core_order;    // nullptr: core 0 runs first; else every core's number once
    uint32_t poison_flipped;       // bits in which undefined memory differs from its usual 0xff
    uint64_t trace_limit_bytes;    // 0: as large as the memory is
    uint64_t cut_instrs;           // so many instructions are kept of a run that a limit has ended; 0: all
};

int toprope_run(const TopropeLaunch* launch);
void toprope_release();
uint32_t toprope_core_count();
void toprope_core(uint32_t i, const void** instrs, uint64_t* instr_count, const void** accesses, uint64_t* access_count);
uint64_t toprope_site_count();
void toprope_site(uint64_t i, const char** file, uint32_t* line);
uint64_t toprope_op_count();
void toprope_op(uint64_t i, const char** name, uint8_t* pipe, uint8_t* kind, const char** cost);
uint64_t toprope_report_count();
const toprope::Report* toprope_reports();
uint64_t toprope_buffer_count();
const toprope::Buffer* toprope_buffers();
}
