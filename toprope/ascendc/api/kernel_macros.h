// The macros around a kernel: tiling data, tiling keys, kernel types, core types, and the numbers of dtypes and formats.
// Pages: Kernel-Tiling/*.md, Utils-API/Tiling模板编程/*.md. DTYPE_* and ORIG_DTYPE_* come from the build (-D).
#pragma once

#include "../machine/vector.h"
#include <utility>

#include "std.h"
#include "system.h"

// ---- which core ----------------------------------------------------------------------------------------------------------

// Written as `if ASCEND_IS_AIC { ... }`: the condition brings its own parentheses.
#define ASCEND_IS_AIC constexpr(g_coreType == AscendC::AIC)
#define ASCEND_IS_AIV constexpr(g_coreType == AscendC::AIV)
#define ASCEND_IS_NOT_AIC constexpr(g_coreType != AscendC::AIC)
#define ASCEND_IS_NOT_AIV constexpr(g_coreType != AscendC::AIV)

// Read from the source before it is compiled (toprope/source.py); nothing is left at run time.
enum KernelMetaType {
    KERNEL_TYPE_AIV_ONLY,
    KERNEL_TYPE_AIC_ONLY,
    KERNEL_TYPE_MIX_AIV_1_0,
    KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2,
    KERNEL_TYPE_AICORE,
    KERNEL_TYPE_VECTORCORE,
    KERNEL_TYPE_MIX_AICORE,
    KERNEL_TYPE_MIX_VECTOR_CORE,
    KERNEL_TYPE_MAX
};
#define KERNEL_TASK_TYPE_DEFAULT(value)
#define KERNEL_TASK_TYPE(key, value)

// A launch in a file of kernels, such as the wrapper k_do(){ k<<<...>>>(...); }: host code that a kernel's build does not run.
#ifndef TOPROPE_LAUNCH
namespace toprope {
struct NoLaunch {
    template <typename... A>
    NoLaunch operator()(A&&...) const {
        return {};
    }
};
}  // namespace toprope
#define TOPROPE_LAUNCH(...) toprope::NoLaunch()
#endif

// ---- tiling --------------------------------------------------------------------------------------------------------------

namespace toprope {

inline constexpr Op kOpTiling{"GET_TILING_DATA", Pipe::s, Kind::scalar, "scalar_load_gm"};

// The host pads tiling data to 8 bytes; any other difference means that it filled another struct than the kernel reads.
inline bool tiling_fits(const void* from, uint64_t bytes, Site site) {
    const GmBuffer* b = find_gm(from);
    if (b == nullptr || from != b->host || (b->bytes >= bytes && b->bytes < bytes + 8)) return true;
    const bool small = b->bytes < bytes;
    (small ? report : warn)("tiling-size-mismatch", site, &kOpTiling, "the kernel's tiling struct has %llu bytes, %s has %llu: %s",
                            static_cast<unsigned long long>(bytes), b->name, static_cast<unsigned long long>(b->bytes),
                            small ? "the last fields are read from behind it" : "the host fills another struct");
    return !small;
}

// Copies tiling data from GM; zeros, after a report, if the argument is smaller than the struct.
inline bool load_tiling(void* to, const void* from, uint64_t bytes, Site site) {
    const uint64_t device = gm_address(from, bytes, kOpTiling, site, false);
    if (device == 0) {
        std::memset(to, 0, bytes);
        return false;
    }
    touch(record(kOpTiling, site, static_cast<uint32_t>((bytes + 7) / 8), static_cast<uint32_t>(Dtype::u64)), Space::gm, Mode::read, device,
          bytes);
    std::memcpy(to, from, bytes);
    return true;
}
template <typename T>
void load_tiling_struct(T* to, const void* from, Site site) {
    if (tiling_fits(from, sizeof(T), site))
        load_tiling(static_cast<void*>(to), from, sizeof(T), site);
    else
        std::memset(static_cast<void*>(to), 0, sizeof(T));
}
template <typename T>
T* tiling_pointer(const void* from, Site site) {
    if (!tiling_fits(from, sizeof(T), site)) stop();
    const uint64_t device = gm_address(from, sizeof(T), kOpTiling, site, false);
    if (device == 0) stop();
    touch(record(kOpTiling, site, static_cast<uint32_t>((sizeof(T) + 7) / 8), static_cast<uint32_t>(Dtype::u64)), Space::gm, Mode::read,
          device, sizeof(T));
    return static_cast<T*>(const_cast<void*>(from));
}
template <typename T>
const T& tiling_source(const T& value) {
    return value;
}
template <typename T>
const T& tiling_source(const T* value) {
    return *value;
}
template <typename T, size_t n>
struct TilingArray {
    T values[n];
};
template <typename T, size_t n>
TilingArray<T, n> tiling_array(const T* from) {
    TilingArray<T, n> copy;
    std::memcpy(copy.values, from, sizeof copy.values);
    return copy;
}

}  // namespace toprope

// GET_TILING_DATA without a struct: the type that REGISTER_TILING_DEFAULT names in the function, else the build's default.
#ifdef TOPROPE_DEFAULT_TILING
using TopropeTiling = TOPROPE_DEFAULT_TILING;
#else
struct GET_TILING_DATA_needs_REGISTER_TILING_DEFAULT_before_it;
using TopropeTiling = GET_TILING_DATA_needs_REGISTER_TILING_DEFAULT_before_it;
#endif
#define REGISTER_TILING_DEFAULT(TilingStruct) using TopropeTiling = TilingStruct
#define REGISTER_TILING_FOR_TILINGKEY(expression, TilingStruct) static_assert(sizeof(TilingStruct) != 0, "")
#define REGISTER_NONE_TILING
#define __tiling_data_ptr__

// The assertion makes the compiler name the missing macro.
#define GET_TILING_DATA(tiling_data, tiling_arg)   \
    static_assert(sizeof(TopropeTiling) != 0, ""); \
    GET_TILING_DATA_WITH_STRUCT(TopropeTiling, tiling_data, tiling_arg)
#define GET_TILING_DATA_WITH_STRUCT(tiling_struct, tiling_data, tiling_arg) \
    tiling_struct tiling_data;                                              \
    toprope::load_tiling_struct(&tiling_data, tiling_arg, toprope::Site::here())
#define GET_TILING_DATA_MEMBER(tiling_struct, member, tiling_data, tiling_arg)                                                        \
    std::remove_reference_t<decltype(reinterpret_cast<tiling_struct*>(tiling_arg)->member)> tiling_data;                              \
    toprope::load_tiling(static_cast<void*>(&tiling_data), &reinterpret_cast<tiling_struct*>(tiling_arg)->member, sizeof tiling_data, \
                         toprope::Site::here())
#define GET_TILING_DATA_PTR_WITH_STRUCT(tiling_struct, dst_ptr, tiling_ptr) \
    tiling_struct* dst_ptr = toprope::tiling_pointer<tiling_struct>(tiling_ptr, toprope::Site::here())
#define COPY_TILING_WITH_STRUCT(tiling_struct, src_ptr, dst_ptr)                   \
    tiling_struct dst_ptr##_copy = toprope::tiling_source<tiling_struct>(src_ptr); \
    tiling_struct* dst_ptr = &dst_ptr##_copy
#define COPY_TILING_WITH_ARRAY(arr_type, arr_count, src_ptr, dst_ptr)          \
    auto dst_ptr##_copy = toprope::tiling_array<arr_type, arr_count>(src_ptr); \
    arr_type(*dst_ptr)[arr_count] = &dst_ptr##_copy.values

#define TILING_KEY_VAR (toprope::launch_info.tiling_key)
#define TILING_KEY_IS(key) (toprope::launch_info.tiling_key == static_cast<uint64_t>(key))
#define TILING_KEY_LIST(key1, key2) (TILING_KEY_IS(key1) || TILING_KEY_IS(key2))

// ---- template tiling keys ------------------------------------------------------------------------------------------------

// The lists are the host's business: they are read from the source, and the kernel is instantiated with the chosen arguments.
// TOPROPE_KEEP_TPL leaves them in the preprocessor's output for that reading.
#ifndef TOPROPE_KEEP_TPL
#define ASCENDC_TPL_ARGS_DECL(...)
#define ASCENDC_TPL_SEL(...)
#define ASCENDC_TPL_ARGS_SEL(...)
#define ASCENDC_TPL_DTYPE_DECL(...)
#define ASCENDC_TPL_DATATYPE_DECL(...)
#define ASCENDC_TPL_FORMAT_DECL(...)
#define ASCENDC_TPL_UINT_DECL(...)
#define ASCENDC_TPL_BOOL_DECL(...)
#define ASCENDC_TPL_KERNEL_TYPE_DECL(...)
#define ASCENDC_TPL_DTYPE_SEL(...)
#define ASCENDC_TPL_DATATYPE_SEL(...)
#define ASCENDC_TPL_FORMAT_SEL(...)
#define ASCENDC_TPL_UINT_SEL(...)
#define ASCENDC_TPL_BOOL_SEL(...)
#define ASCENDC_TPL_KERNEL_TYPE_SEL(...)
#define ASCENDC_TPL_SHARED_KERNEL_TYPE_SEL(...)
#define ASCENDC_TPL_DETERMINISTIC_SEL(...)
#define ASCENDC_TPL_TILING_STRUCT_SEL(...)
#define ASCENDC_TPL_INPUT(x)
#define ASCENDC_TPL_OUTPUT(x)
#define ASCENDC_TPL_UI_RANGE 0
#define ASCENDC_TPL_UI_MIX 1
#define ASCENDC_TPL_UI_LIST 2
#endif
#define ASCENDC_TPL_1_BW 1
#define ASCENDC_TPL_2_BW 2
#define ASCENDC_TPL_4_BW 4
#define ASCENDC_TPL_8_BW 8
#define ASCENDC_TPL_AIV_ONLY KERNEL_TYPE_AIV_ONLY
#define ASCENDC_TPL_AIC_ONLY KERNEL_TYPE_AIC_ONLY
#define ASCENDC_TPL_MIX_AIV_1_0 KERNEL_TYPE_MIX_AIV_1_0
#define ASCENDC_TPL_MIX_AIC_1_0 KERNEL_TYPE_MIX_AIC_1_0
#define ASCENDC_TPL_MIX_AIC_1_1 KERNEL_TYPE_MIX_AIC_1_1
#define ASCENDC_TPL_MIX_AIC_1_2 KERNEL_TYPE_MIX_AIC_1_2
#define ASCENDC_TPL_AICORE KERNEL_TYPE_AICORE
#define ASCENDC_TPL_MIX_VECTOR_CORE KERNEL_TYPE_MIX_VECTOR_CORE

// ---- numbers of dtypes and formats, for #if ------------------------------------------------------------------------------

#ifndef TOPROPE_HOST_PROGRAM  // there, ge::DT_FLOAT and the like are names of host code in the same file
#define DT_FLOAT 0
#define DT_FLOAT16 1
#define DT_INT8 2
#define DT_INT32 3
#define DT_UINT8 4
#define DT_INT16 6
#define DT_UINT16 7
#define DT_UINT32 8
#define DT_INT64 9
#define DT_UINT64 10
#define DT_DOUBLE 11
#define DT_BOOL 12
#define DT_STRING 13
#define DT_COMPLEX64 16
#define DT_COMPLEX128 17
#define DT_BF16 27
#define DT_UNDEFINED 28
#define DT_INT4 29
#define DT_UINT1 30
#define DT_INT2 31
#define DT_UINT2 32
#define DT_COMPLEX32 33
#define DT_HIFLOAT8 34
#define DT_FLOAT8_E5M2 35
#define DT_FLOAT8_E4M3FN 36
#define DT_FLOAT8_E8M0 37
#define DT_FLOAT6_E3M2 38
#define DT_FLOAT6_E2M3 39
#define DT_FLOAT4_E2M1 40
#define DT_FLOAT4_E1M2 41

#define FORMAT_NCHW 0
#define FORMAT_NHWC 1
#define FORMAT_ND 2
#define FORMAT_NC1HWC0 3
#define FORMAT_FRACTAL_Z 4
#define FORMAT_HWCN 16
#define FORMAT_NDHWC 27
#define FORMAT_FRACTAL_ZZ 28
#define FORMAT_FRACTAL_NZ 29
#define FORMAT_NCDHW 30
#define FORMAT_DHWCN 31
#define FORMAT_NDC1HWC0 32
#define FORMAT_FRACTAL_Z_3D 33
#define FORMAT_NCL 47

// The same numbers as template arguments.
#define C_DT_FLOAT DT_FLOAT
#define C_DT_FLOAT16 DT_FLOAT16
#define C_DT_INT8 DT_INT8
#define C_DT_INT32 DT_INT32
#define C_DT_UINT8 DT_UINT8
#define C_DT_INT16 DT_INT16
#define C_DT_UINT16 DT_UINT16
#define C_DT_UINT32 DT_UINT32
#define C_DT_INT64 DT_INT64
#define C_DT_UINT64 DT_UINT64
#define C_DT_DOUBLE DT_DOUBLE
#define C_DT_BOOL DT_BOOL
#define C_DT_COMPLEX64 DT_COMPLEX64
#define C_DT_BF16 DT_BF16
#define C_DT_INT4 DT_INT4
#define C_DT_UINT1 DT_UINT1
#define C_DT_INT2 DT_INT2
#define C_DT_COMPLEX32 DT_COMPLEX32
#define C_DT_HIFLOAT8 DT_HIFLOAT8
#define C_DT_FLOAT8_E5M2 DT_FLOAT8_E5M2
#define C_DT_FLOAT8_E4M3FN DT_FLOAT8_E4M3FN
#define C_DT_FLOAT4_E2M1 DT_FLOAT4_E2M1
#define C_DT_FLOAT4_E1M2 DT_FLOAT4_E1M2
#define C_FORMAT_NCHW FORMAT_NCHW
#define C_FORMAT_NHWC FORMAT_NHWC
#define C_FORMAT_ND FORMAT_ND
#define C_FORMAT_NC1HWC0 FORMAT_NC1HWC0
#define C_FORMAT_FRACTAL_Z FORMAT_FRACTAL_Z
#define C_FORMAT_HWCN FORMAT_HWCN
#define C_FORMAT_NDHWC FORMAT_NDHWC
#define C_FORMAT_FRACTAL_ZZ FORMAT_FRACTAL_ZZ
#define C_FORMAT_FRACTAL_NZ FORMAT_FRACTAL_NZ
#define C_FORMAT_NCDHW FORMAT_NCDHW
#define C_FORMAT_DHWCN FORMAT_DHWCN
#define C_FORMAT_NDC1HWC0 FORMAT_NDC1HWC0
#define C_FORMAT_FRACTAL_Z_3D FORMAT_FRACTAL_Z_3D
#define C_FORMAT_NCL FORMAT_NCL
#endif

// ---- small types ---------------------------------------------------------------------------------------------------------

namespace AscendC {

//: IsSameType | whether two types are the same | any | A2 A3 310P 910 | Utils-API/CPP标准库
template <typename A, typename B>
struct IsSameType : std::is_same<A, B> {};
//: AlignUp | a rounded up to a multiple of b | integers | A2 A3 310P 910 | Utils-API/CPP标准库
template <typename T, typename U>
constexpr auto AlignUp(T a, U b) {
    return b == 0 ? a : (a + b - 1) / b * b;
}
//: DivCeil | a / b rounded up | integers | A2 A3 310P 910 | Utils-API/CPP标准库
template <typename T, typename U>
constexpr auto DivCeil(T a, U b) {
    return b == 0 ? a : (a + b - 1) / b;
}

}  // namespace AscendC
