// The tiling of a product for callers that are not C++. Compiled on demand.
#include "matmul_tiling.h"

// `in`: m, n, k, cores, element types of A (also B) and C as DataType, A transposed, B transposed, bias, split K allowed, L1 and L0C bytes
// (0: all of an A2). `out`: TCubeTiling. Returns 0, or -1 if no cut fits.
extern "C" int32_t toprope_matmul_tiling(const int32_t* in, AscendC::tiling::TCubeTiling* out) {
    using namespace matmul_tiling;
    MultiCoreMatmulTiling t;
    t.SetDim(in[3]);
    t.SetAType(TPosition::GM, CubeFormat::ND, static_cast<DataType>(in[4]), in[6] != 0);
    t.SetBType(TPosition::GM, CubeFormat::ND, static_cast<DataType>(in[4]), in[7] != 0);
    t.SetCType(TPosition::GM, CubeFormat::ND, static_cast<DataType>(in[5]));
    t.SetBias(in[8] != 0);
    t.EnableMultiCoreSplitK(in[9] != 0);
    t.SetBufferSpace(in[10] > 0 ? in[10] : -1, in[11] > 0 ? in[11] : -1);
    t.SetShape(in[0], in[1], in[2]);
    t.SetOrgShape(in[0], in[1], in[2]);
    return static_cast<int32_t>(t.GetTiling(*out));
}
