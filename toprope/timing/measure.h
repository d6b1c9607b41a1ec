// Two columns that only the addresses can tell: bytes moved by on-chip copies, and how many cycles a repeat of a vector instruction
// needs because of UB bank groups.
#pragma once

#include <algorithm>

#include "columns.h"

namespace timing {

struct UbBanks {
    uint32_t groups, reads_per_group;
};

// One operand of a vector instruction, in 32-byte blocks.
struct Operand {
    int64_t start, block_stride, repeat_stride;
    uint64_t blocks;
    bool read, write;
};

inline Operand operand_of(const Access* access, uint64_t repeats) {
    const auto blocks = [](uint64_t bytes) { return bytes < 32 ? uint64_t{1} : bytes / 32; };
    Operand o{static_cast<int64_t>(access->address() / 32), 1, 0, 1, (access->mode() & kRead) != 0, (access->mode() & kWrite) != 0};
    if (access->more()) {
        o.block_stride = access->stride() / 32;
        o.repeat_stride = access[1].stride() / 32;
        o.blocks = access->rows() * blocks(access->row_bytes());
    } else if (access->rows() > 1 && repeats == 1) {
        o.block_stride = access->stride() / 32;
        o.blocks = access->rows();
    } else if (access->rows() > 1) {
        o.repeat_stride = access->stride() / 32;
        o.blocks = blocks(access->row_bytes());
    } else {
        o.blocks = blocks(access->row_bytes() / std::max<uint64_t>(1, repeats));
        o.repeat_stride = static_cast<int64_t>(o.blocks);
    }
    o.blocks = o.block_stride == 0 ? 1 : std::min<uint64_t>(o.blocks, 8);  // one block for all lanes is read once
    return o;
}

// Cycles per repeat: how often the busiest bank group is asked in one repeat, by the reads or by the writes.
inline float bank_cycles(const Access* accesses, unsigned count, uint64_t repeats, const UbBanks& banks) {
    Operand operands[8];
    unsigned n = 0;
    bool in_step = true;
    for (unsigned a = 0; a < count && n < 8; ++a) {
        if (accesses[a].space() != kUb || accesses[a].row_bytes() == 0) continue;
        operands[n] = operand_of(accesses + a, repeats);
        in_step &= (operands[n].repeat_stride - operands[0].repeat_stride) % banks.groups == 0;
        a += accesses[a].more();
        ++n;
    }
    const uint64_t rounds = in_step ? 1 : std::min<uint64_t>(repeats, banks.groups);
    unsigned total = 0;
    for (uint64_t r = 0; r < rounds; ++r) {
        uint8_t hits[2][32] = {};
        unsigned worst = 1;
        for (unsigned k = 0; k < n; ++k)
            for (uint64_t b = 0; b < operands[k].blocks; ++b) {
                const auto block = static_cast<uint64_t>(operands[k].start + static_cast<int64_t>(r) * operands[k].repeat_stride +
                                                         static_cast<int64_t>(b) * operands[k].block_stride);
                const uint64_t group = block % banks.groups;
                if (operands[k].read) worst = std::max(worst, (++hits[0][group] + banks.reads_per_group - 1) / banks.reads_per_group);
                if (operands[k].write) worst = std::max<unsigned>(worst, ++hits[1][group]);
            }
        total += worst;
    }
    return rounds ? static_cast<float>(total) / static_cast<float>(rounds) : 1.0f;
}

// Bytes that an on-chip copy is priced by: those it writes, since one source may be written often (image windows, padding), or those
// it reads where nothing is written to memory. The way out of L0C takes 64 elements a cycle however narrow they become, and its rates are
// stated for two bytes: an element, four bytes there, costs at least two.
inline float bytes_moved(const Access* accesses, unsigned count) {
    double written = 0, read = 0;
    bool out_of_l0c = false;
    for (unsigned a = 0; a < count; ++a) {
        double bytes = static_cast<double>(accesses[a].row_bytes() * accesses[a].rows());
        const bool reads = accesses[a].mode() == kRead;
        out_of_l0c |= reads && accesses[a].space() == kL0c;
        if (accesses[a].more()) bytes *= static_cast<double>(accesses[++a].rows());
        (reads ? read : written) += bytes;
    }
    if (written == 0) return static_cast<float>(read);
    return static_cast<float>(out_of_l0c ? std::max(written, read / 2) : written);
}

}  // namespace timing

extern "C" void toprope_measure(const timing::Instr* instrs, uint64_t count, const timing::Access* accesses, const uint8_t* kind_of_op,
                                uint32_t groups, uint32_t reads_per_group, float* bytes, float* bank_cycles) {
    const timing::UbBanks banks{groups, reads_per_group};
    for (uint64_t i = 0; i < count; ++i) {
        const timing::Instr& instr = instrs[i];
        bank_cycles[i] = 1;
        bytes[i] = 0;
        if (kind_of_op[instr.op] == timing::kCompute && instr.pipe == timing::kV)
            bank_cycles[i] = timing::bank_cycles(accesses, instr.accesses, instr.work, banks);
        if (kind_of_op[instr.op] == timing::kCopy) bytes[i] = timing::bytes_moved(accesses, instr.accesses);
        accesses += instr.accesses;
    }
}
