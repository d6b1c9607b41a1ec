// What crosses the border between Python and the scheduler: the raw trace columns and the tables of one chip.
// toprope/timing/native.py mirrors the structures; trace field meanings are those of ascendc/machine/trace.h.
#pragma once

#include "../trace_columns.h"

namespace timing {

using namespace toprope_trace;

// One operation of the trace, priced: all numbers are cycles or bytes per cycle of the core clock.
struct OpCost {
    double issue;      // time of the scalar unit to send one
    double interval;   // least distance between two starts on the pipe; 0 = the instruction's own duration
    double latency;    // GM copies: from the start to the first byte on an L2 hit
    double rate;       // copies: bytes per cycle of one core
    double row;        // GM copies: least time of a row
    double odd_rate;   // GM copies: bytes per cycle of rows that are not a multiple of 32 bytes apart, 0 = as others
    double l2_unit;    // GM copies: L2 hands out at least this many bytes of a row, at a time
    double cold;       // added when the pipe stood idle before it (cube), or for each line outside the data cache (scalar unit)
    double cold_rate;  // GM copies: bytes per cycle of one core from lines that are not in L2, 0 = as others
    uint32_t kind;
    uint32_t unit_bit;  // cube and fixpipe: the bit of the arg column that turns the unit flag on, 0 = none
    uint32_t marks;     // 1: begins a function of the library; 2: takes no instructions of the scalar unit
    uint32_t loads;     // 1: brings a value of UB to the scalar unit
};

// The numbers of a chip that the schedule itself needs.
struct Chip {
    double hbm_rate, hbm_write_weight, l2_read_rate, l2_write_rate, l2_bytes;
    double miss_latency;         // added to a GM copy's latency when any of its lines is not in L2
    double unaligned_weight;     // memory-side cost of rows that do not start on a sector
    double miss_interval;        // of one core, two lines that have to be fetched follow each other after so many cycles at least
    double cold_store_latency;   // added to a store's latency when any of its lines is not in L2
    double part_line_weight;     // HBM cost of reading less than a line past L2
    double same_address_weight;  // HBM cost of reading past L2 what another core is reading now
    double same_address_delay;   // each other transfer that begins in the same page slows short rows by this share
    double page_rate;            // lines a cycle that L2 gives to all transfers that begin in one page
    double part_block_cycles;    // of one line, two reads of less than a block by different cores follow each other after so many cycles
    double code_cycles;          // until one more line of instructions has come to the scalar unit, 0 = all are in its cache
    double code_lines;           // lines of instructions that are on their way before the kernel starts
    double scalar_use;           // of a vector instruction that uses what the scalar unit has just loaded
    double l1_delay;             // copies out of L1 take this many times as long while others write into it
    double atomic_weight;        // L2 cost of read-modify-write
    double queue_depth, launch_cycles, block_cycles, prologue_cycles, flag_latency, cross_latency, soft_cross_latency, dependence;
    uint32_t slots, warm, ratio, mixed;
    uint64_t gm_begin, gm_end;
};

struct Core {
    uint32_t block, sub, type, pad;
};

struct Result {  // what one core did, summed
    double start, end;
    double busy[kPipes];
};

struct Traffic {
    double hbm_read, hbm_write, l2_read, l2_write, l2_hit, stuck;
};

}  // namespace timing
