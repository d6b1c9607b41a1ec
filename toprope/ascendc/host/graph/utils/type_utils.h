// Names of element types and formats, and back.
#pragma once

#include <map>
#include <string>

#include "../types.h"

namespace toprope {
namespace host {

// Enumerators by name. The lists are those of graph/types.h; the numbers that the enumeration skips stay out.
inline const std::map<std::string, ge::DataType>& data_types() {
    static const std::map<std::string, ge::DataType> all = [] {
        const char* names[] = {"FLOAT",         "FLOAT16",     "INT8",          "INT32",          "UINT8",       "",
                               "INT16",         "UINT16",      "UINT32",        "INT64",          "UINT64",      "DOUBLE",
                               "BOOL",          "STRING",      "DUAL_SUB_INT8", "DUAL_SUB_UINT8", "COMPLEX64",   "COMPLEX128",
                               "QINT8",         "QINT16",      "QINT32",        "QUINT8",         "QUINT16",     "RESOURCE",
                               "STRING_REF",    "DUAL",        "VARIANT",       "BF16",           "UNDEFINED",   "INT4",
                               "UINT1",         "INT2",        "UINT2",         "COMPLEX32",      "HIFLOAT8",    "FLOAT8_E5M2",
                               "FLOAT8_E4M3FN", "FLOAT8_E8M0", "FLOAT6_E3M2",   "FLOAT6_E2M3",    "FLOAT4_E2M1", "FLOAT4_E1M2",
                               "HIFLOAT4"};
        std::map<std::string, ge::DataType> out;
        int number = 0;
        for (const char* name : names) {
            if (*name != 0) out[std::string("DT_") + name] = static_cast<ge::DataType>(number);
            ++number;
        }
        return out;
    }();
    return all;
}
inline const std::map<std::string, ge::Format>& formats() {
    static const std::map<std::string, ge::Format> all = [] {
        const char* names[] = {"NCHW",
                               "NHWC",
                               "ND",
                               "NC1HWC0",
                               "FRACTAL_Z",
                               "NC1C0HWPAD",
                               "NHWC1C0",
                               "FSR_NCHW",
                               "FRACTAL_DECONV",
                               "C1HWNC0",
                               "FRACTAL_DECONV_TRANSPOSE",
                               "FRACTAL_DECONV_SP_STRIDE_TRANS",
                               "NC1HWC0_C04",
                               "FRACTAL_Z_C04",
                               "CHWN",
                               "FRACTAL_DECONV_SP_STRIDE8_TRANS",
                               "HWCN",
                               "NC1KHKWHWC0",
                               "BN_WEIGHT",
                               "FILTER_HWCK",
                               "HASHTABLE_LOOKUP_LOOKUPS",
                               "HASHTABLE_LOOKUP_KEYS",
                               "HASHTABLE_LOOKUP_VALUE",
                               "HASHTABLE_LOOKUP_OUTPUT",
                               "HASHTABLE_LOOKUP_HITS",
                               "C1HWNCoC0",
                               "MD",
                               "NDHWC",
                               "FRACTAL_ZZ",
                               "FRACTAL_NZ",
                               "NCDHW",
                               "DHWCN",
                               "NDC1HWC0",
                               "FRACTAL_Z_3D",
                               "CN",
                               "NC",
                               "DHWNC",
                               "FRACTAL_Z_3D_TRANSPOSE",
                               "FRACTAL_ZN_LSTM",
                               "FRACTAL_Z_G",
                               "RESERVED",
                               "ALL",
                               "NULL",
                               "ND_RNN_BIAS",
                               "FRACTAL_ZN_RNN",
                               "NYUV",
                               "NYUV_A",
                               "NCL",
                               "FRACTAL_Z_WINO",
                               "C1HWC0",
                               "FRACTAL_NZ_C0_16",
                               "FRACTAL_NZ_C0_32",
                               "FRACTAL_NZ_C0_2",
                               "FRACTAL_NZ_C0_4",
                               "FRACTAL_NZ_C0_8"};
        std::map<std::string, ge::Format> out;
        int number = 0;
        for (const char* name : names) out[name] = static_cast<ge::Format>(number++);
        return out;
    }();
    return all;
}

}  // namespace host
}  // namespace toprope

namespace ge {

class TypeUtils {
public:
    static std::string DataTypeToSerialString(DataType type) { return name_of(toprope::host::data_types(), type, "DT_UNDEFINED"); }
    static std::string FormatToSerialString(Format format) {
        return name_of(toprope::host::formats(), GetPrimaryFormat(format), "RESERVED");
    }
    static AscendString DataTypeToAscendString(const DataType& type) { return DataTypeToSerialString(type).c_str(); }
    static AscendString FormatToAscendString(const Format& format) { return FormatToSerialString(format).c_str(); }
    static DataType SerialStringToDataType(const std::string& name) { return value_of(toprope::host::data_types(), name, DT_UNDEFINED); }
    static Format SerialStringToFormat(const std::string& name) { return value_of(toprope::host::formats(), name, FORMAT_RESERVED); }
    static DataType AscendStringToDataType(const AscendString& name) { return SerialStringToDataType(name.GetString()); }
    static Format AscendStringToFormat(const AscendString& name) { return SerialStringToFormat(name.GetString()); }
    static bool IsDataTypeValid(DataType type) { return type < DT_MAX && type != DT_UNDEFINED; }
    static bool IsFormatValid(Format format) { return format <= FORMAT_END && format != FORMAT_RESERVED; }
    static bool GetDataTypeLength(DataType type, uint32_t& length) {
        const int bytes = GetSizeByDataType(type);
        if (bytes > 0) length = static_cast<uint32_t>(bytes);
        return bytes > 0;
    }

private:
    template <class Map, class Value>
    static std::string name_of(const Map& map, Value value, const char* otherwise) {
        for (const auto& [name, each] : map)
            if (each == value) return name;
        return otherwise;
    }
    template <class Map, class Value>
    static Value value_of(const Map& map, const std::string& name, Value otherwise) {
        const auto found = map.find(name);
        return found == map.end() ? otherwise : found->second;
    }
};

}  // namespace ge
