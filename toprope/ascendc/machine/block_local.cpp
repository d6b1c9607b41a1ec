// Variables that every core has for itself (__BLOCK_LOCAL__). A kernel's library keeps them in one section; while a core runs, its values
// lie there. Part of runtime.cpp.

namespace {

struct BlockLocals {
    char* begin;
    size_t bytes;
    char* initial;  // what the library was loaded with
};
Column<BlockLocals> block_locals;

}  // namespace

void add_block_locals(char* begin, char* end) {
    if (begin == end) return;
    const auto bytes = static_cast<size_t>(end - begin);
    auto* initial = static_cast<char*>(std::malloc(bytes));
    std::memcpy(initial, begin, bytes);
    block_locals.push({begin, bytes, initial});
}

// Puts a core's values into place; a core that has none yet gets the initial ones.
static void bring_block_locals(char*& own) {
    if (block_locals.size == 0) return;
    const bool fresh = own == nullptr;
    size_t at = 0;
    for (uint64_t i = 0; i < block_locals.size; ++i) at += block_locals.data[i].bytes;
    if (fresh) own = static_cast<char*>(std::malloc(at));
    at = 0;
    for (uint64_t i = 0; i < block_locals.size; ++i) {
        const BlockLocals& b = block_locals.data[i];
        std::memcpy(b.begin, fresh ? b.initial : own + at, b.bytes);
        at += b.bytes;
    }
}

static void keep_block_locals(char* own) {
    size_t at = 0;
    for (uint64_t i = 0; i < block_locals.size; ++i) {
        const BlockLocals& b = block_locals.data[i];
        std::memcpy(own + at, b.begin, b.bytes);
        at += b.bytes;
    }
}
