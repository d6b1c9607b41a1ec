// The tables of a trace (sites, operations, GM buffers) and the reports. Included by runtime.cpp.

namespace toprope {

// ---- tables -------------------------------------------------------------------------------------------------------------

uint32_t site_index(Site site) {
    uint32_t slot = (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(site.file)) * 2654435761u ^ site.line * 40503u) & (kSiteSlots - 1);
    for (;; slot = (slot + 1) & (kSiteSlots - 1)) {
        const uint32_t found = site_slot[slot];
        if (found == 0) break;
        if (sites.data[found - 1].line == site.line && sites.data[found - 1].file == site.file) return found - 1;
    }
    sites.push({site.file, site.line});
    if (sites.size < kSiteSlots / 2) site_slot[slot] = static_cast<uint32_t>(sites.size);
    return static_cast<uint32_t>(sites.size - 1);
}

uint16_t register_op(const Op& op) {
    op_copies.push(&op);
    for (uint64_t i = 0; i < ops.size; ++i)  // the AIC and AIV builds of a kernel declare the same operations
        if (std::strcmp(ops.data[i]->name, op.name) == 0 && std::strcmp(ops.data[i]->cost, op.cost) == 0 && ops.data[i]->kind == op.kind)
            return static_cast<uint16_t>(i);
    ops.push(&op);
    return static_cast<uint16_t>(ops.size - 1);
}

// Makes room in a column of the trace, up to the limit of the run.
template <typename T>
static TOPROPE_COLD void widen(Column<T>& column) {
    uint64_t more = column.capacity != 0 ? column.capacity : 1024;
    if (trace_limit_bytes != 0 && trace_bytes + more * sizeof(T) > trace_limit_bytes) {
        more = (trace_limit_bytes - std::min(trace_bytes, trace_limit_bytes)) / sizeof(T);
        if (more < 1024) trace_is_full();
    }
    void* wider = std::realloc(static_cast<void*>(column.data), (column.capacity + more) * sizeof(T));
    if (wider == nullptr) trace_is_full();
    trace_bytes += more * sizeof(T);
    column.capacity += more;
    column.data = static_cast<T*>(wider);
}

Instr& record(const Op& op, Pipe pipe, Site site, uint32_t work, uint32_t arg) {
    if (TOPROPE_UNLIKELY(op.id == kNoOp)) op.id = register_op(op);
    if (TOPROPE_UNLIKELY(self->referenced.at != nullptr)) settle_reference();
    if (TOPROPE_UNLIKELY(watched)) before_instruction(op, site);
    if (TOPROPE_UNLIKELY(self->instrs.size == self->instrs.capacity)) widen(self->instrs);
    Instr* instr = self->instrs.grow();
    *instr = {op.id, static_cast<uint8_t>(pipe), 0, site_index(site), work, arg};
    self->last_site = site;
    return *instr;
}

void touch(Instr& instr, Space space, Mode mode, uint64_t address, uint64_t row_bytes, uint64_t rows, int64_t stride, bool more,
           bool masked) {
    if (TOPROPE_UNLIKELY(self->accesses.size == self->accesses.capacity)) widen(self->accesses);
    self->accesses.push(Access::make(space, mode, address, row_bytes, rows, stride, more, masked));
    ++instr.accesses;
}

void referenced(const void* at, uint32_t bytes, const Op& store) {
    self->referenced = {static_cast<const uint8_t*>(at), static_cast<uint8_t>(bytes), {}, &store};
    std::memcpy(self->referenced.before, at, bytes);
}

void settle_reference() {
    const Referenced r = self->referenced;
    self->referenced.at = nullptr;
    if (std::memcmp(r.at, r.before, r.bytes) == 0) return;
    if (r.store->id == kNoOp) r.store->id = register_op(*r.store);
    self->instrs.data[self->instrs.size - 1].op = r.store->id;
    Access& access = self->accesses.data[self->accesses.size - 1];
    access.high = (access.high & ~(uint64_t{3} << 20)) | static_cast<uint64_t>(Mode::write) << 20;
}

// Operations that are known by name only; they live as long as the process.
static const Op& library_op(const char* name) {
    static std::vector<Op*> known;
    for (const Op* op : known)
        if (std::strcmp(op->name + std::strlen(kLibraryMark), name) == 0) return *op;
    char whole[64];
    std::snprintf(whole, sizeof whole, "%s%s", kLibraryMark, name);
    known.push_back(new Op{strdup(whole), Pipe::s, Kind::mark, "init_buffer"});
    return *known.back();
}

void library_call(const char* name, uint32_t address, uint32_t bytes, Site site) { record(library_op(name), site, address, bytes); }

inline constexpr Op kRefused{"refused access", Pipe::s, Kind::mark, "init_buffer"};

void refuse(Space space, uint64_t address, uint64_t bytes, Site site) {
    const uint64_t size = self->bytes[static_cast<int>(space)];
    if (space == Space::gm || address >= size || bytes == 0) return;
    touch(record(kRefused, site), space, Mode::write, address, bytes < size - address ? bytes : size - address);
}

void add_buffer(const Buffer& buffer) { buffers.push(buffer); }
void note_view(const void* pointer, uint64_t bytes, Dtype type, Site site) {
    if (self == nullptr) return;
    const GmBuffer* b = find_gm(pointer);
    if (b == nullptr) return;
    const auto gm = static_cast<uint32_t>(b - gm_buffers.data), dtype = static_cast<uint32_t>(type), where = site_index(site);
    const int64_t begin = static_cast<const uint8_t*>(pointer) - b->host, end = begin + static_cast<int64_t>(bytes);
    for (uint64_t i = views.size; i-- > 0;) {
        GmView& v = views.data[i];
        if (v.gm != gm || v.dtype != dtype || v.site != where) continue;
        v.begin = std::min(v.begin, begin);
        v.end = std::max(v.end, end);
        return;
    }
    views.push({gm, dtype, where, self->index, begin, end});
}
uint32_t core_count() { return cores_used; }
Core* core_at(uint32_t index) { return &cores[index]; }

const GmBuffer* find_gm(const void* address) {
    const auto* p = static_cast<const uint8_t*>(address);
    const auto inside = [p](const GmBuffer& b) { return p >= b.host && p < b.host + b.bytes; };
    if (self->last_gm < gm_buffers.size && inside(gm_buffers.data[self->last_gm])) return &gm_buffers.data[self->last_gm];
    for (uint32_t i = 0; i < gm_buffers.size; ++i)
        if (inside(gm_buffers.data[i])) {
            self->last_gm = i;
            return &gm_buffers.data[i];
        }
    return nullptr;
}

const GmBuffer* nearest_gm(const void* address) {
    const auto* p = static_cast<const uint8_t*>(address);
    const GmBuffer* best = nullptr;
    uint64_t best_distance = ~0ull;
    for (uint32_t i = 0; i < gm_buffers.size; ++i) {
        const GmBuffer& b = gm_buffers.data[i];
        const uint64_t distance =
            p < b.host ? static_cast<uint64_t>(b.host - p) : (p >= b.host + b.bytes ? static_cast<uint64_t>(p - (b.host + b.bytes)) : 0);
        if (distance < best_distance) {
            best_distance = distance;
            best = &b;
        }
    }
    return best;
}

constexpr uintptr_t kNullPages = uintptr_t{1} << 26;

uint64_t gm_address(const void* address, uint64_t bytes, const Op& op, Site site, bool writes) {
    const auto* p = static_cast<const uint8_t*>(address);
    const GmBuffer* b = find_gm(address);
    if (b != nullptr && bytes <= static_cast<uint64_t>(b->host + b->bytes - p)) return b->device + static_cast<uint64_t>(p - b->host);
    const GmBuffer* near = b != nullptr ? b : nearest_gm(address);
    // A null pointer with an offset lies in the first pages, where no argument can be.
    const bool null = reinterpret_cast<uintptr_t>(address) < kNullPages;
    if (near == nullptr || null) {
        report("gm-null-pointer", site, &op, "%s %s %llu bytes of GM through a pointer that belongs to no argument", op.name,
               writes ? "writes" : "reads", static_cast<unsigned long long>(bytes));
        return 0;
    }
    const int64_t begin = p - near->host, end = begin + static_cast<int64_t>(bytes);
    const int64_t too_many = begin < 0 ? -begin : end - static_cast<int64_t>(near->bytes);
    char hint[120] = "";
    // An offset that has left 32 bits lies 2^32 elements beside the one that was meant.
    for (int64_t element = 1; element <= 8 && hint[0] == 0; element *= 2)
        for (int64_t wrap : {element << 32, -(element << 32)})
            if (begin - wrap >= -static_cast<int64_t>(near->bytes) && end - wrap <= 2 * static_cast<int64_t>(near->bytes))
                std::snprintf(hint, sizeof hint, "; 2^32 elements of %lld bytes %s it lies byte %lld: the offset left 32 bits",
                              static_cast<long long>(element), wrap > 0 ? "before" : "behind", static_cast<long long>(begin - wrap));
    const char* cure = "";
    if (hint[0] != 0) {
        cure = "\ncure: compute the offset in 64 bits: cast one factor to uint64_t (or int64_t) before multiplying";
    } else if (begin < 0) {
        std::snprintf(hint, sizeof hint, "; the offset is negative: it begins %lld bytes before %s", static_cast<long long>(-begin),
                      near->name);
        cure = "\ncure: correct the sign of the offset (a subtraction that goes below 0, or a product that left 32 bits)";
    } else if (self->block > 0 && begin >= static_cast<int64_t>(near->bytes)) {
        std::snprintf(hint, sizeof hint, "; all of it lies behind the end, on block %u of %u", self->block, launch_info.blocks);
        cure =
            "\ncure: compare what the blocks copy together (blocks x tiles x tile length) with the argument's length: launch fewer blocks, "
            "count fewer tiles, pass a longer array, or let blocks without data return";
    }
    report("gm-out-of-bounds", site, &op, "%s %s %s[%lld:%lld] (bytes), but %s has %llu bytes: %lld too many%s%s", op.name,
           writes ? "writes" : "reads", near->name, static_cast<long long>(begin), static_cast<long long>(end), near->name,
           static_cast<unsigned long long>(near->bytes), static_cast<long long>(too_many), hint, cure);
    return 0;
}

// ---- reports ------------------------------------------------------------------------------------------------------------

static void add_report(uint32_t severity, const char* code, Site site, const Op* op, const char* format, va_list arguments) {
    const uint32_t where = site_index(site);
    for (uint64_t i = 0; i < reports.size; ++i)
        if (reports.data[i].site == where && reports.data[i].severity == severity && std::strcmp(reports.data[i].code, code) == 0) {
            ++reports.data[i].count;
            return;
        }
    Report* r = reports.grow();
    std::memset(r, 0, sizeof *r);
    std::snprintf(r->code, sizeof r->code, "%s", code);
    std::vsnprintf(r->text, sizeof r->text, format, arguments);
    r->site = where;
    r->core = self != nullptr ? self->index : 0;
    if (op != nullptr && op->id == kNoOp) op->id = register_op(*op);
    r->op = op != nullptr ? op->id : kNoOp;
    r->severity = severity;
    r->count = 1;
    r->instr = self != nullptr ? self->instrs.size : 0;
}

void report(const char* code, Site site, const Op* op, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_report(0, code, site, op, format, arguments);
    va_end(arguments);
}

void warn(const char* code, Site site, const Op* op, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_report(1, code, site, op, format, arguments);
    va_end(arguments);
}

void note(const char* code, Site site, const Op* op, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_report(2, code, site, op, format, arguments);
    va_end(arguments);
}

void stop() { throw Stop{}; }

}  // namespace toprope
