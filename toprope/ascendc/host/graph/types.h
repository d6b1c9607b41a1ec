// Element types, data formats and result codes, with the vendor's numbers. Pages: the lists of C_DT_ and C_FORMAT_ names in
// Utils-API/Tiling模板编程/模板参数定义.md, whose order is that of these enumerations.
#pragma once

#include <cstdint>
#include <iostream>  // host sources use std::cout without an include of theirs, as the vendor's headers allow
#include <string>

#include "ascend_string.h"

namespace ge {

using char_t = char;
using float32_t = float;
using float64_t = double;
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0, GRAPH_FAILED = 0xFFFFFFFF, GRAPH_PARAM_INVALID = 50331649, GRAPH_NOT_CHANGED = 1343242304,
                      GRAPH_NODE_WITHOUT_CONST_INPUT = 50331648, GRAPH_NODE_NEED_REPASS = 50331647, GRAPH_INVALID_IR_DEF = 50331646,
                      OP_WITHOUT_IR_DATATYPE_INFER_RULE = 50331645;
using Status = uint32_t;
constexpr Status SUCCESS = 0, FAILED = 0xFFFFFFFF, PARAM_INVALID = 50331649;

constexpr int64_t UNKNOWN_DIM = -1, UNKNOWN_DIM_NUM = -2;
constexpr int64_t UNKNOWN_DIM_SIZE = -1;

enum DataType {
    DT_FLOAT = 0,
    DT_FLOAT16 = 1,
    DT_INT8 = 2,
    DT_INT32 = 3,
    DT_UINT8 = 4,
    DT_INT16 = 6,
    DT_UINT16 = 7,
    DT_UINT32 = 8,
    DT_INT64 = 9,
    DT_UINT64 = 10,
    DT_DOUBLE = 11,
    DT_BOOL = 12,
    DT_STRING = 13,
    DT_DUAL_SUB_INT8 = 14,
    DT_DUAL_SUB_UINT8 = 15,
    DT_COMPLEX64 = 16,
    DT_COMPLEX128 = 17,
    DT_QINT8 = 18,
    DT_QINT16 = 19,
    DT_QINT32 = 20,
    DT_QUINT8 = 21,
    DT_QUINT16 = 22,
    DT_RESOURCE = 23,
    DT_STRING_REF = 24,
    DT_DUAL = 25,
    DT_VARIANT = 26,
    DT_BF16 = 27,
    DT_UNDEFINED = 28,
    DT_INT4 = 29,
    DT_UINT1 = 30,
    DT_INT2 = 31,
    DT_UINT2 = 32,
    DT_COMPLEX32 = 33,
    DT_HIFLOAT8 = 34,
    DT_FLOAT8_E5M2 = 35,
    DT_FLOAT8_E4M3FN = 36,
    DT_FLOAT8_E8M0 = 37,
    DT_FLOAT6_E3M2 = 38,
    DT_FLOAT6_E2M3 = 39,
    DT_FLOAT4_E2M1 = 40,
    DT_FLOAT4_E1M2 = 41,
    DT_HIFLOAT4 = 42,
    DT_MAX
};

// The order of the list is the number, from NCHW = 0.
enum Format {
    FORMAT_NCHW = 0,
    FORMAT_NHWC,
    FORMAT_ND,
    FORMAT_NC1HWC0,
    FORMAT_FRACTAL_Z,
    FORMAT_NC1C0HWPAD,
    FORMAT_NHWC1C0,
    FORMAT_FSR_NCHW,
    FORMAT_FRACTAL_DECONV,
    FORMAT_C1HWNC0,
    FORMAT_FRACTAL_DECONV_TRANSPOSE,
    FORMAT_FRACTAL_DECONV_SP_STRIDE_TRANS,
    FORMAT_NC1HWC0_C04,
    FORMAT_FRACTAL_Z_C04,
    FORMAT_CHWN,
    FORMAT_FRACTAL_DECONV_SP_STRIDE8_TRANS,
    FORMAT_HWCN,
    FORMAT_NC1KHKWHWC0,
    FORMAT_BN_WEIGHT,
    FORMAT_FILTER_HWCK,
    FORMAT_HASHTABLE_LOOKUP_LOOKUPS,
    FORMAT_HASHTABLE_LOOKUP_KEYS,
    FORMAT_HASHTABLE_LOOKUP_VALUE,
    FORMAT_HASHTABLE_LOOKUP_OUTPUT,
    FORMAT_HASHTABLE_LOOKUP_HITS,
    FORMAT_C1HWNCoC0,
    FORMAT_MD,
    FORMAT_NDHWC,
    FORMAT_FRACTAL_ZZ,
    FORMAT_FRACTAL_NZ,
    FORMAT_NCDHW,
    FORMAT_DHWCN,
    FORMAT_NDC1HWC0,
    FORMAT_FRACTAL_Z_3D,
    FORMAT_CN,
    FORMAT_NC,
    FORMAT_DHWNC,
    FORMAT_FRACTAL_Z_3D_TRANSPOSE,
    FORMAT_FRACTAL_ZN_LSTM,
    FORMAT_FRACTAL_Z_G,
    FORMAT_RESERVED,
    FORMAT_ALL,
    FORMAT_NULL,
    FORMAT_ND_RNN_BIAS,
    FORMAT_FRACTAL_ZN_RNN,
    FORMAT_NYUV,
    FORMAT_NYUV_A,
    FORMAT_NCL,
    FORMAT_FRACTAL_Z_WINO,
    FORMAT_C1HWC0,
    FORMAT_FRACTAL_NZ_C0_16,
    FORMAT_FRACTAL_NZ_C0_32,
    FORMAT_FRACTAL_NZ_C0_2,
    FORMAT_FRACTAL_NZ_C0_4,
    FORMAT_FRACTAL_NZ_C0_8,
    FORMAT_END,
    FORMAT_MAX = 0xff
};

// A format's number holds a sub-format above its low byte (groups of a fractal format).
inline Format GetPrimaryFormat(int32_t format) { return static_cast<Format>(static_cast<uint32_t>(format) & 0xff); }
inline int32_t GetSubFormat(int32_t format) { return static_cast<int32_t>((static_cast<uint32_t>(format) & 0xffff00) >> 8); }
inline bool HasSubFormat(int32_t format) { return GetSubFormat(format) > 0; }
inline int32_t GetFormatFromSub(int32_t primary, int32_t sub) {
    return static_cast<int32_t>((static_cast<uint32_t>(primary) & 0xff) | ((static_cast<uint32_t>(sub) & 0xffff) << 8));
}
inline int64_t GetC0Value(int32_t format) { return static_cast<int64_t>((static_cast<uint32_t>(format) >> 24) & 0xf); }

// Bits of an element; 0 where the type has no fixed size.
inline int BitsOf(DataType type) {
    switch (type) {
        case DT_UINT1:
            return 1;
        case DT_INT2:
        case DT_UINT2:
            return 2;
        case DT_INT4:
        case DT_FLOAT4_E2M1:
        case DT_FLOAT4_E1M2:
        case DT_HIFLOAT4:
            return 4;
        case DT_FLOAT6_E3M2:
        case DT_FLOAT6_E2M3:
            return 6;
        case DT_INT8:
        case DT_UINT8:
        case DT_BOOL:
        case DT_QINT8:
        case DT_QUINT8:
        case DT_HIFLOAT8:
        case DT_FLOAT8_E5M2:
        case DT_FLOAT8_E4M3FN:
        case DT_FLOAT8_E8M0:
        case DT_DUAL_SUB_INT8:
        case DT_DUAL_SUB_UINT8:
            return 8;
        case DT_FLOAT16:
        case DT_BF16:
        case DT_INT16:
        case DT_UINT16:
        case DT_QINT16:
        case DT_QUINT16:
            return 16;
        case DT_FLOAT:
        case DT_INT32:
        case DT_UINT32:
        case DT_QINT32:
        case DT_COMPLEX32:
            return 32;
        case DT_DUAL:
            return 40;
        case DT_INT64:
        case DT_UINT64:
        case DT_DOUBLE:
        case DT_COMPLEX64:
        case DT_RESOURCE:
        case DT_VARIANT:
            return 64;
        case DT_COMPLEX128:
        case DT_STRING_REF:
            return 128;
        default:
            return 0;
    }
}
constexpr int kDataTypeSizeBitOffset = 1000;
// Bytes of an element; types below a byte give 1000 + their bits.
inline int GetSizeByDataType(DataType type) {
    const int bits = BitsOf(type);
    return bits == 0 ? -1 : bits % 8 == 0 ? bits / 8 : kDataTypeSizeBitOffset + bits;
}
// Bytes of `count` elements.
inline int64_t GetSizeInBytes(int64_t count, DataType type) { return count < 0 || BitsOf(type) == 0 ? -1 : (count * BitsOf(type) + 7) / 8; }

enum Placement { kPlacementHost = 0, kPlacementDevice = 1 };

}  // namespace ge
