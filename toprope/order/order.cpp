// The order between the instructions of a run, for Python: what the vendor's compiler inserts, and the dependences of a core.
#include <new>

#include "dependences.h"

namespace {

using namespace toprope_order;

template <typename T>
int64_t hand_over(const std::vector<T>& from, T** out) {
    *out = new T[from.size() + 1];
    std::copy(from.begin(), from.end(), *out);
    return static_cast<int64_t>(from.size());
}

}  // namespace

extern "C" {

// `vector_core[c]`: the compiler inserts on core c. Both return how many rows *out holds, -1 when memory ran out.
int64_t toprope_inserted(const Instr* instrs, const Access* accesses, const uint64_t* core_begin, const uint64_t* access_begin,
                         const uint8_t* vector_core, uint32_t cores, const uint8_t* kinds, Inserted** out) {
    try {
        std::vector<Inserted> found;
        Compiler compiler;
        for (uint32_t c = 0; c < cores; ++c)
            if (vector_core[c]) compiler.core(instrs, core_begin[c], core_begin[c + 1], accesses + access_begin[c], kinds, found);
        return hand_over(found, out);
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

int64_t toprope_dependences(const Instr* instrs, const Access* access, uint64_t begin, uint64_t end, const uint8_t* kinds, uint32_t inserts,
                            Dependence** out) {
    try {
        std::vector<Dependence> found;
        Dependences().core(instrs, begin, end, access, kinds, inserts != 0, found);
        return hand_over(found, out);
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

void toprope_inserted_free(Inserted* rows) { delete[] rows; }
void toprope_dependences_free(Dependence* rows) { delete[] rows; }
}
