// Keeping values for `toprope bisect-precision`: operands as lanes, scalars, and the bytes that instructions write. Included by
// runtime.cpp.

static void keep(const Captured& row, const void* bytes) {
    captured.push(row);
    captured.data[captured.size - 1].at = captured_bytes.size;
    for (uint32_t i = 0; i < row.bytes; ++i) captured_bytes.push(static_cast<const uint8_t*>(bytes)[i]);
}

static Captured captured_row(CapturedKind kind, uint64_t instr) {
    Captured row{};
    row.kind = kind;
    row.core = self->index;
    row.instr = instr;
    return row;
}

static void capture_lanes(Mode mode, const Layout& o, const Lanes& l) {
    Captured row = captured_row(mode == Mode::read ? CapturedKind::read_lanes : CapturedKind::write_lanes, self->instrs.size - 1);
    row.address = o.address, row.block_stride = o.block_stride, row.repeat_stride = o.repeat_stride;
    row.element_bits = o.element_bits, row.block_offset = o.block_offset, row.block_lanes = o.block_lanes;
    row.repeats = l.repeats, row.width = l.width, row.active = l.active, row.tail = l.tail;
    row.bitmap = l.bitmap, row.bits[0] = l.bits[0], row.bits[1] = l.bits[1];
    keep(row, nullptr);
}

static void capture_scalars(const void* context, uint32_t bytes) {
    Captured row = captured_row(CapturedKind::scalars, self->instrs.size - 1);
    row.bytes = bytes;
    keep(row, context);
}

void keep_numbers(std::initializer_list<int64_t> numbers) {
    capture_scalars(numbers.begin(), static_cast<uint32_t>(numbers.size() * sizeof(int64_t)));
}

static const uint8_t* memory_at(Space space, uint64_t address, uint64_t bytes) {
    if (space != Space::gm) {
        const auto s = static_cast<size_t>(space);
        return self->memory[s] != nullptr && address + bytes <= self->bytes[s] ? self->memory[s] + address : nullptr;
    }
    for (uint64_t i = 0; i < gm_buffers.size; ++i) {
        const GmBuffer& b = gm_buffers.data[i];
        if (address >= b.device && address + bytes <= b.device + b.bytes) return b.host + (address - b.device);
    }
    return nullptr;
}

// The rows of an access from its outermost loop in: `a[0]` is the pattern, `a[levels]` the loop that is left to run.
static void capture_rows(const Access* a, int level, Space space, uint64_t address) {
    const auto rows = static_cast<uint32_t>(a[level].high & 0xffff);
    const int64_t stride = static_cast<int64_t>(a[level].high) >> 24;
    for (uint32_t r = 0; r < rows; ++r, address += static_cast<uint64_t>(stride)) {
        if (level > 0) {
            capture_rows(a, level - 1, space, address);
            continue;
        }
        const uint64_t bytes = a[0].low >> 40;
        const uint8_t* from = memory_at(space, address, bytes);
        for (uint64_t i = 0; i < bytes; ++i) captured_bytes.push(from != nullptr ? from[i] : 0);
    }
}

void capture_written() {
    if (self->instrs.size == self->captured_instrs) return;
    self->captured_instrs = self->instrs.size;
    const Instr& last = self->instrs.data[self->instrs.size - 1];
    if (last.accesses == 0) return;
    Captured row = captured_row(CapturedKind::written, self->instrs.size - 1);
    row.at = captured_bytes.size;
    const Access* a = self->accesses.data + (self->accesses.size - last.accesses);
    for (const Access* end = self->accesses.data + self->accesses.size; a < end;) {
        int levels = 0;
        while (a[levels].high >> 22 & 1) ++levels;
        if ((a->high >> 20 & 2) != 0) capture_rows(a, levels, static_cast<Space>(a->high >> 16 & 15), a->low & 0xffffffffffull);
        a += levels + 1;
    }
    row.bytes = static_cast<uint32_t>(captured_bytes.size - row.at);
    captured.push(row);
    if (captured_bytes.size > launch_info.capture_limit_bytes) capturing = false;
}
