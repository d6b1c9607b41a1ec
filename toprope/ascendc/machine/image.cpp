// A finished run as one piece of bytes in a file, for the process that asked for it. Included by runtime.cpp; read by toprope/image.py.

namespace {

constexpr uint64_t kImageMagic = 0x31656761'6d497254ull;
constexpr size_t kImageHeader = 4096;

enum Stage : uint64_t { kStageStarted, kStageLoading, kStageRunning, kStageSaving, kStageRefused };

struct ImageHeader {
    uint64_t magic;  // written last: without it the process ended before its report was complete
    uint64_t stage;
    uint64_t signal;
    uint64_t counts[10];  // cores, sites, ops, reports, buffers, instructions, accesses, kept rows, kept bytes, views
    uint64_t complete;    // of the kept values
    uint64_t left_out;    // instructions that were executed and are not in the columns
    uint64_t
        crash_library;  // where a crash happened: in which loaded library (0: unknown, else 1 + its place in `entries`), at which offset
    uint64_t crash_offset;
    uint64_t size_count;  // kStageRefused: the sizes of the kernel's arguments
    uint32_t sizes[64];
    char text[512];  // kStageRefused: why a library could not be loaded
};
static_assert(sizeof(ImageHeader) <= kImageHeader);

struct ImageWriter {
    uint8_t* base = nullptr;
    size_t at = kImageHeader;
    void put(const void* data, size_t bytes) {
        if (base != nullptr && bytes != 0) std::memcpy(base + at, data, bytes);
        at += (bytes + 7) / 8 * 8;
    }
};

struct ImageOp {
    uint64_t pipe, kind, name, cost;
};
struct ImageSite {
    uint64_t line, file;
};

// All sections in order; called once to count and once to write.
void put_all(ImageWriter& w) {
    for (uint32_t i = 0; i < cores_used; ++i) {
        const uint64_t sizes[] = {cores[i].instrs.size, cores[i].accesses.size};
        w.put(sizes, sizeof sizes);
    }
    for (uint32_t i = 0; i < cores_used; ++i) w.put(cores[i].instrs.data, cores[i].instrs.size * sizeof(Instr));
    for (uint32_t i = 0; i < cores_used; ++i) w.put(cores[i].accesses.data, cores[i].accesses.size * sizeof(Access));
    w.put(reports.data, reports.size * sizeof(Report));
    w.put(buffers.data, buffers.size * sizeof(Buffer));
    w.put(views.data, views.size * sizeof(GmView));
    uint64_t text = 0;
    for (uint64_t i = 0; i < sites.size; ++i) {
        const ImageSite s{sites.data[i].line, text};
        w.put(&s, sizeof s);
        text += std::strlen(sites.data[i].file) + 1;
    }
    for (uint64_t i = 0; i < ops.size; ++i) {
        const Op& op = *ops.data[i];
        const uint64_t name = text, cost = text + std::strlen(op.name) + 1;
        const ImageOp o{static_cast<uint64_t>(op.pipe), static_cast<uint64_t>(op.kind), name, cost};
        w.put(&o, sizeof o);
        text = cost + std::strlen(op.cost) + 1;
    }
    w.put(captured.data, captured.size * sizeof(Captured));
    w.put(captured_bytes.data, captured_bytes.size);
    const auto put_text = [&w](const char* s) {
        const size_t bytes = std::strlen(s) + 1;
        if (w.base != nullptr) std::memcpy(w.base + w.at, s, bytes);
        w.at += bytes;
    };
    for (uint64_t i = 0; i < sites.size; ++i) put_text(sites.data[i].file);
    for (uint64_t i = 0; i < ops.size; ++i) {
        put_text(ops.data[i]->name);
        put_text(ops.data[i]->cost);
    }
}

void fill(ImageHeader& h) {
    h.signal = static_cast<uint64_t>(crash_signal);
    const uint64_t counts[] = {cores_used, sites.size, ops.size,      reports.size,        buffers.size,
                               0,          0,          captured.size, captured_bytes.size, views.size};
    std::memcpy(h.counts, counts, sizeof counts);
    for (uint32_t i = 0; i < cores_used; ++i) {
        h.counts[5] += cores[i].instrs.size;
        h.counts[6] += cores[i].accesses.size;
    }
    h.complete = capturing;
    h.left_out = left_out;
    h.crash_library = crash_library;
    h.crash_offset = crash_offset;
}

void say_stage(int fd, uint64_t stage) {
    if (pwrite(fd, &stage, sizeof stage, offsetof(ImageHeader, stage)) < 0) _exit(4);
}

}  // namespace
