// Schedule exploration: a run is repeated with one instruction, `late`, taking effect after another, `early`, that follows it in program
// order without waiting for it. Every instruction still executes whole and in program order; only the bytes that both touch are put to
// what the other schedule would show. Included by runtime.cpp.

namespace toprope {

struct TopropeDelayed {
    uint64_t instr;  // index in the core's instruction column
    const Access* accesses;
    uint32_t core, access_count, op, line;
};

enum class DelayKind : uint32_t {
    write,    // `early` finds the bytes as they were before `late`; what `late` wrote lands behind it
    observe,  // notes what `early` changes, for a `read` in a later run
    read      // `late` finds what `early` is going to write
};

struct TopropeDelay {
    TopropeDelayed late, early;
    DelayKind kind;
    uint32_t happened;        // out: 1 if the order of the two makes any byte different
    uint8_t *before, *after;  // of kinds observe (out) and read (in): the shared bytes around `early`
};

namespace {

struct ByteRange {
    uint64_t begin, end;  // space << kAddressBits | address
};
constexpr uint64_t kAddressBits = 40;

struct Schedule {
    TopropeDelay* delay = nullptr;
    std::vector<ByteRange> shared;  // the bytes that the delay is about
    std::vector<uint8_t> before_late, after_late, swapped;
    const Core *in_late = nullptr, *in_early = nullptr;
    bool late_done = false;
} schedule;

void add_rows(const Access* a, int level, uint64_t key, std::vector<ByteRange>& out) {
    const auto rows = static_cast<uint32_t>(a[level].high & 0xffff);
    const int64_t stride = static_cast<int64_t>(a[level].high) >> 24;
    for (uint32_t r = 0; r < rows; ++r, key += static_cast<uint64_t>(stride)) {
        if (level > 0)
            add_rows(a, level - 1, key, out);
        else if (a[0].low >> 40 != 0)
            out.push_back({key, key + (a[0].low >> 40)});
    }
}

// What the ranges of an instruction touch in one of the modes, in order and without overlap.
std::vector<ByteRange> touched(const TopropeDelayed& by, uint32_t modes) {
    std::vector<ByteRange> rows, joined;
    for (const Access *a = by.accesses, *end = a + by.access_count; a < end; ++a) {
        int levels = 0;
        while (a[levels].high >> 22 & 1) ++levels;
        const uint64_t space = a->high >> 16 & 15;
        if ((a->high >> 20 & 3 & modes) != 0) add_rows(a, levels, space << kAddressBits | (a->low & 0xffffffffffull), rows);
        a += levels;
    }
    std::sort(rows.begin(), rows.end(), [](const ByteRange& x, const ByteRange& y) { return x.begin < y.begin; });
    for (const ByteRange& r : rows)
        if (!joined.empty() && r.begin <= joined.back().end)
            joined.back().end = std::max(joined.back().end, r.end);
        else
            joined.push_back(r);
    return joined;
}

std::vector<ByteRange> common(const std::vector<ByteRange>& a, const std::vector<ByteRange>& b) {
    std::vector<ByteRange> out;
    for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
        const uint64_t begin = std::max(a[i].begin, b[k].begin), end = std::min(a[i].end, b[k].end);
        if (begin < end) out.push_back({begin, end});
        if (a[i].end < b[k].end)
            ++i;
        else
            ++k;
    }
    return out;
}

// Calls f(byte in memory, its number among the shared bytes); a range outside every memory is left out.
template <typename F>
void each_shared_byte(F f) {
    size_t n = 0;
    for (const ByteRange& r : schedule.shared) {
        const uint64_t address = r.begin & ((1ull << kAddressBits) - 1), bytes = r.end - r.begin;
        auto* at = const_cast<uint8_t*>(memory_at(static_cast<Space>(r.begin >> kAddressBits), address, bytes));
        for (uint64_t i = 0; i < bytes; ++i, ++n)
            if (at != nullptr) f(at[i], n);
    }
}

void open_schedule(TopropeDelay* delay) {
    schedule = Schedule{};
    if (delay == nullptr) return;
    schedule.delay = delay;
    constexpr uint32_t reads = 1, writes = 2, both = 3;
    const auto whole = [](const Access* a, uint32_t n) {
        return std::any_of(a, a + n, [](const Access& x) { return (x.high >> 20 & 3) == both && (x.high >> 16 & 15) == 0; });
    };
    if (delay->kind != DelayKind::write)
        schedule.shared = common(touched(delay->late, reads), touched(delay->early, writes));
    else  // an atomic addition that is late adds to what it then finds, which only a reader leaves as it was
        schedule.shared = common(touched(delay->late, writes),
                                 touched(delay->early, whole(delay->late.accesses, delay->late.access_count) ? reads : both));
    size_t bytes = 0;
    for (const ByteRange& r : schedule.shared) bytes += r.end - r.begin;
    schedule.before_late.assign(bytes, 0);
    schedule.after_late.assign(bytes, 0);
    schedule.swapped.assign(bytes, 0);
}

void begin_late() {
    Schedule& s = schedule;
    s.in_late = self;
    each_shared_byte([&](uint8_t& byte, size_t n) {
        s.before_late[n] = byte;
        if (s.delay->kind != DelayKind::read || s.delay->after[n] == s.delay->before[n]) return;
        s.swapped[n] = 1;
        s.delay->happened |= byte != s.delay->after[n];
        byte = s.delay->after[n];
    });
}

void end_late() {
    Schedule& s = schedule;
    s.in_late = nullptr;
    s.late_done = true;
    each_shared_byte([&](uint8_t& byte, size_t n) {
        s.after_late[n] = byte;
        if (s.swapped[n] != 0 && byte == s.delay->after[n]) byte = s.before_late[n];
    });
}

void begin_early() {
    Schedule& s = schedule;
    s.in_early = self;
    each_shared_byte([&](uint8_t& byte, size_t n) {
        if (s.delay->kind == DelayKind::observe) s.delay->before[n] = byte;
        if (s.delay->kind != DelayKind::write || !s.late_done || byte != s.after_late[n]) return;
        s.swapped[n] = 1;
        byte = s.before_late[n];
    });
}

void end_early() {
    Schedule& s = schedule;
    s.in_early = nullptr;
    each_shared_byte([&](uint8_t& byte, size_t n) {
        if (s.delay->kind == DelayKind::observe) s.delay->after[n] = byte;
        if (s.delay->kind != DelayKind::write || s.swapped[n] == 0) return;
        s.delay->happened |= s.before_late[n] != s.after_late[n] || byte != s.after_late[n];
        byte = s.after_late[n];
    });
}

bool is_next(const TopropeDelayed& d, const Op& op, Site site) {
    return d.core == self->index && d.instr == self->instrs.size && d.op == op.id && d.line == site.line;
}

void end_delayed() {
    if (schedule.in_late == self) end_late();
    if (schedule.in_early == self) end_early();
}

}  // namespace

void before_instruction(const Op& op, Site site) {
    if (overdue != 0) tear_out(SIGALRM);
    if (capturing) capture_written();
    if (schedule.delay == nullptr) return;
    end_delayed();
    if (is_next(schedule.delay->late, op, site)) begin_late();
    if (is_next(schedule.delay->early, op, site)) begin_early();
}

void before_pause() {
    if (capturing) capture_written();
    if (schedule.delay != nullptr) end_delayed();
}

}  // namespace toprope
