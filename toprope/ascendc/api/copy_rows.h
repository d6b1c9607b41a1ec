// The engine below every DataCopy form: which path, what may be touched, what is recorded, how bytes move.
// A copy is `count` rows of `bytes`, each end with its own distance between the starts of two rows.
#pragma once

#include "copy_params.h"

namespace toprope {

struct CopyRows {
    uint64_t count, bytes, src_step, dst_step;
    uint64_t span(uint64_t step) const { return (count - 1) * step + bytes; }
};

// Form-specific bits of `arg` (from bit 9 on).
enum CopyForm : uint32_t { kFormPlain = 0, kFormPad = 1, kFormNd2Nz = 2, kFormNz2Nd = 4, kFormSlice = 8 };

enum class Path : uint8_t { gm_ub, ub_gm, gm_l1, l1_gm, ub_ub, ub_l1, l1_ub, l1_bias, l1_fixbuf, none };

inline constexpr Op kCopyOps[] = {
    {"DataCopy", Pipe::mte2, Kind::copy, "gm_to_ub"},    {"DataCopy", Pipe::mte3, Kind::copy, "ub_to_gm"},
    {"DataCopy", Pipe::mte2, Kind::copy, "gm_to_l1"},    {"DataCopy", Pipe::mte3, Kind::copy, "l1_to_gm"},
    {"DataCopy", Pipe::v, Kind::copy, "ub_to_ub"},       {"DataCopy", Pipe::mte3, Kind::copy, "ub_to_l1"},
    {"DataCopy", Pipe::mte1, Kind::copy, "l1_to_ub"},    {"DataCopy", Pipe::mte1, Kind::copy, "l1_to_bias"},
    {"DataCopy", Pipe::fix, Kind::copy, "l1_to_fixbuf"},
};
inline constexpr Op kPadOps[] = {{"DataCopyPad", Pipe::mte2, Kind::copy, "gm_to_ub"}, {"DataCopyPad", Pipe::mte3, Kind::copy, "ub_to_gm"}};
inline constexpr Op kNd2NzOps[] = {{"DataCopy(ND2NZ)", Pipe::mte2, Kind::copy, "gm_to_ub_nd2nz"},
                                   {"DataCopy(ND2NZ)", Pipe::mte2, Kind::copy, "gm_to_l1_nd2nz"},
                                   {"DataCopy(ND2NZ)", Pipe::mte3, Kind::copy, "ub_to_l1"}};
inline constexpr Op kNz2NdOp{"DataCopy(NZ2ND)", Pipe::mte3, Kind::copy, "ub_to_gm_nz2nd"};

constexpr Path path_of(Space from, Space to) {
    switch (from) {
        case Space::gm:
            return to == Space::ub ? Path::gm_ub : (to == Space::l1 ? Path::gm_l1 : Path::none);
        case Space::ub:
            return to == Space::gm ? Path::ub_gm : (to == Space::ub ? Path::ub_ub : (to == Space::l1 ? Path::ub_l1 : Path::none));
        case Space::l1:
            return to == Space::gm
                       ? Path::l1_gm
                       : (to == Space::ub ? Path::l1_ub
                                          : (to == Space::bias ? Path::l1_bias : (to == Space::fixbuf ? Path::l1_fixbuf : Path::none)));
        default:
            return Path::none;
    }
}

// Paths of the chip that this build is for. Page: 数据搬运导览/概览/数据通路, and the support tables of the DataCopy pages.
constexpr bool chip_has(Path path) {
    switch (path) {
        case Path::none:
            return false;
        case Path::l1_gm:
            return kChip.l1_to_gm;
        case Path::l1_bias:
        case Path::l1_fixbuf:
            return kChip.bias_table;
        case Path::l1_ub:
            return kChip.l1_to_ub;
        default:
            return true;
    }
}

constexpr uint32_t copy_alignment(Space space) {
    return space == Space::gm ? 1
                              : (space == Space::bias || space == Space::l0c
                                     ? 64
                                     : (space == Space::fixbuf ? 128 : (space == Space::l0a || space == Space::l0b ? 512 : 32)));
}

template <typename T>
Space end_space(const AscendC::LocalTensor<T>& t) {
    return t.space();
}
template <typename T>
Space end_space(const AscendC::GlobalTensor<T>&) {
    return Space::gm;
}

// The path of a copy, or `none`: after a report if the chip has no such path, silently if this core lacks the memories
// (the other core type of the chip does the work).
inline Path route(Space from, Space to, const char* what, Site site) {
    const Path path = path_of(from, to);
    if (TOPROPE_UNLIKELY(!chip_has(path))) {
        report("no-such-path", site, nullptr, "%s from %s to %s: this chip (__NPU_ARCH__ %d) has no such path", what,
               kSpaceNames[static_cast<int>(from)], kSpaceNames[static_cast<int>(to)], __NPU_ARCH__);
        return Path::none;
    }
    if (from != Space::gm && self->bytes[static_cast<int>(from)] == 0) return Path::none;
    if (to != Space::gm && self->bytes[static_cast<int>(to)] == 0 && path != Path::ub_l1) return Path::none;
    return path;
}

struct CopyEnd {
    Space space = Space::gm;
    uint8_t* host = nullptr;
    uint64_t address = 0;
    bool bypass_l2 = false, traced = true;
};

// UB to L1 of a split chip goes from a vector core to the L1 of its cube core (in software, through GM). Null if that core does not run.
inline uint8_t* neighbour_l1() {
    for (uint32_t i = 0; i < core_count(); ++i) {
        Core* core = core_at(i);
        if (core->block == self->block && core->type == CoreType::aic)
            return core->fiber != nullptr ? core->memory[static_cast<int>(Space::l1)] : nullptr;
    }
    return nullptr;
}

template <typename T>
bool open_end(CopyEnd& end, const Op& op, const char* role, const AscendC::LocalTensor<T>& t, uint64_t span, bool, Site site) {
    end.space = t.space();
    end.address = t.address();
    if (TOPROPE_UNLIKELY(end.space == Space::l1 && self->type == CoreType::aiv)) {
        uint8_t* l1 = neighbour_l1();
        if (l1 == nullptr) {
            report("no-such-path", site, &op, "%s from UB to L1: no cube core runs beside this vector core, so there is no L1 to write to",
                   op.name);
            return false;
        }
        end.host = l1 + t.address();
        end.traced = false;  // it is another core's memory
        return true;
    }
    end.host = t.host();
    return require_operand(op, role, t, span, copy_alignment(end.space), site);
}

template <typename T>
bool open_end(CopyEnd& end, const Op& op, const char* role, const AscendC::GlobalTensor<T>& t, uint64_t span, bool writes, Site site) {
    end.space = Space::gm;
    end.host = reinterpret_cast<uint8_t*>(t.pointer());
    end.bypass_l2 = t.bypasses_l2(writes);
    end.address = gm_address(t.pointer(), span, op, site, writes);
    (void)role;
    return end.address != 0;
}

// GM writes are read-modify-write while an atomic mode is set.
inline Mode write_mode(Space space) { return space == Space::gm && self->atomic != AtomicOp::none ? Mode::update : Mode::write; }

inline void touch_rows(Instr& instr, const CopyEnd& end, Mode mode, uint64_t offset, uint64_t bytes, uint64_t count, uint64_t step) {
    if (!end.traced || bytes == 0) return;
    if (count == 1 || step == bytes) return touch(instr, end.space, mode, end.address + offset, count * bytes);
    touch(instr, end.space, mode, end.address + offset, bytes, count, static_cast<int64_t>(step));
}

inline uint32_t copy_arg(Dtype dtype, const CopyEnd& a, const CopyEnd& b, uint32_t form) {
    return static_cast<uint32_t>(dtype) | static_cast<uint32_t>(a.bypass_l2 || b.bypass_l2) << 8 | form << 9;
}

// Bytes from an on-chip row to its place; into GM they pass the atomic unit if it is on.
inline void move_bytes(const CopyEnd& dst, uint64_t dst_offset, const uint8_t* from, uint64_t bytes) {
    if (dst.space == Space::gm && self->atomic != AtomicOp::none) return accumulate(dst.host + dst_offset, from, bytes);
    copy_bytes(dst.host + dst_offset, from, bytes, dst.space == Space::gm);
}

inline void warn_atomic_type(const Op& op, Dtype dtype, Space to, Site site) {
    if (TOPROPE_UNLIKELY(to == Space::gm && self->atomic != AtomicOp::none && self->atomic_type != dtype))
        warn("atomic-type-mismatch", site, &op, "%s writes %s, but the atomic mode is set for %s: the hardware combines the bytes as %s",
             op.name, kDtypeNames[static_cast<int>(dtype)], kDtypeNames[static_cast<int>(self->atomic_type)],
             kDtypeNames[static_cast<int>(self->atomic_type)]);
}

// The whole of a plain strided copy: require, record, run.
template <typename T, typename Dst, typename Src>
void copy_rows(const Op& op, const Dst& dst, const Src& src, const CopyRows& rows, uint32_t form, Site site) {
    if (rows.count == 0 || rows.bytes == 0) return;  // documented as an empty operation
    CopyEnd d, s;
    // & rather than &&: one call reports the mistakes of both ends.
    if (!(open_end(d, op, "dst", dst, rows.span(rows.dst_step), true, site) &
          open_end(s, op, "src", src, rows.span(rows.src_step), false, site)))
        return refuse(d.space, d.address, rows.span(rows.dst_step), site);
    warn_atomic_type(op, dtype_of<T>, d.space, site);
    Instr& instr = record(op, site, static_cast<uint32_t>(rows.count), copy_arg(dtype_of<T>, d, s, form));
    touch_rows(instr, s, Mode::read, 0, rows.bytes, rows.count, rows.src_step);
    touch_rows(instr, d, write_mode(d.space), 0, rows.bytes, rows.count, rows.dst_step);
    if (!self->execute) return;
    if (rows.src_step == rows.bytes && rows.dst_step == rows.bytes) return move_bytes(d, 0, s.host, rows.count * rows.bytes);
    for (uint64_t r = 0; r < rows.count; ++r) move_bytes(d, r * rows.dst_step, s.host + r * rows.src_step, rows.bytes);
}

}  // namespace toprope
