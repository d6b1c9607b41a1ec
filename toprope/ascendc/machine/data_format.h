// Orders of a tensor's elements, and the pair of them that TransData takes. Plain C++, for host code too.
#pragma once

#include <cstdint>

namespace AscendC {

enum class DataFormat : uint8_t { ND = 0, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };
struct TransDataConfig {
    DataFormat srcFormat, dstFormat;
};

}  // namespace AscendC
