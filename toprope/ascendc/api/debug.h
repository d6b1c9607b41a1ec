// Output and stops of a kernel: printf, DumpTensor, assert, Trap. Text goes to standard output behind the name of the core.
// Pages: 调试接口/上板打印/*.md, 调试接口/异常检测/*.md, Utils-API/调测接口/*.md.
#pragma once

#include <cstdio>

#include "../machine/vector.h"
#include "system.h"

namespace toprope {

inline constexpr Op kOpPrint{"printf", Pipe::s, Kind::mark, "print"};
inline constexpr Op kOpDump{"DumpTensor", Pipe::s, Kind::mark, "print"};
inline constexpr Op kOpTrap{"Trap", Pipe::s, Kind::mark, "trap"};

// What C's printf can take: 16-bit floats as double, the rest as it is.
template <typename T>
auto printable(const T& value) {
    if constexpr (is_float16<T>)
        return static_cast<double>(static_cast<float>(value));
    else
        return value;
}
inline const char* printable(const char* text) { return text; }

inline void print_core() {
    const char* type = self->type == CoreType::aic ? "AIC" : (self->type == CoreType::aiv ? "AIV" : "core");
    std::printf("[%s %lld] ", type, static_cast<long long>(AscendC::GetBlockIdx()));
}

template <typename T>
void print_element(const uint8_t* at, uint32_t index) {
    if constexpr (std::is_same_v<T, int4b_t>) {
        const uint8_t byte = at[index / 2];
        std::printf("%d", static_cast<int8_t>(index % 2 ? byte & 0xf0 : byte << 4) >> 4);
    } else {
        T value;
        std::memcpy(static_cast<void*>(&value), at + index * sizeof(T), sizeof(T));
        if constexpr (is_float16<T>)
            std::printf("%g", static_cast<double>(static_cast<float>(value)));
        else if constexpr (std::is_floating_point_v<T>)
            std::printf("%g", static_cast<double>(value));
        else if constexpr (std::is_signed_v<T>)
            std::printf("%lld", static_cast<long long>(value));
        else
            std::printf("%llu", static_cast<unsigned long long>(value));
    }
}

template <typename T>
void dump_elements(const char* where, const uint8_t* at, uint32_t desc, uint32_t count, const AscendC::ShapeInfo* shape) {
    print_core();
    std::printf("DumpTensor %u: %u x %s in %s", desc, count, kDtypeNames[static_cast<int>(dtype_of<T>)], where);
    uint32_t columns = 8;
    if (shape != nullptr && shape->shapeDim > 0) {
        std::printf(", shape");
        for (int i = 0; i < shape->shapeDim; ++i) std::printf(" %u", shape->shape[i]);
        columns = shape->shape[shape->shapeDim - 1] != 0 ? shape->shape[shape->shapeDim - 1] : columns;
    }
    for (uint32_t i = 0; i < count; ++i) {
        std::printf(i % columns == 0 ? "\n  " : " ");
        print_element<T>(at, i);
    }
    std::printf("\n");
    std::fflush(stdout);
}

template <typename T>
void dump_local(const AscendC::LocalTensor<T>& tensor, uint32_t desc, uint32_t count, const AscendC::ShapeInfo* shape, Site site) {
    if (self->bytes[static_cast<int>(tensor.space())] == 0 || !self->execute) return;
    if (!require_operand(kOpDump, "tensor", tensor, bytes_of<T>(count), 1, site)) return;
    record(kOpDump, site, 1, static_cast<uint32_t>(dtype_of<T>));
    dump_elements<T>(kSpaceNames[static_cast<int>(tensor.space())], tensor.host(), desc, count, shape);
}
template <typename T>
void dump_global(const AscendC::GlobalTensor<T>& tensor, uint32_t desc, uint32_t count, const AscendC::ShapeInfo* shape, Site site) {
    if (!self->execute || gm_address(tensor.pointer(), bytes_of<T>(count), kOpDump, site, false) == 0) return;
    record(kOpDump, site, 1, static_cast<uint32_t>(dtype_of<T>));
    dump_elements<T>("GM", reinterpret_cast<const uint8_t*>(tensor.pointer()), desc, count, shape);
}

// A failed assertion ends this core, as on the chip; the text is the user's, if there is one.
template <typename... A>
[[noreturn]] TOPROPE_COLD void assertion_failed(Site site, const char* condition, const char* format, const A&... arguments) {
    char text[300] = "";
    std::snprintf(text, sizeof text, format, printable(arguments)...);
    report("kernel-assert", site, nullptr, "assert(%s) failed on core %u%s%s", condition, self->index, text[0] != 0 ? ": " : "", text);
    stop();
}

// What ASSERT leaves behind.
struct Asserted {};
constexpr void operator-(Asserted) {}
template <typename T>
constexpr T operator-(T value, Asserted) {
    return value;
}

}  // namespace toprope

namespace AscendC {

//: printf | prints to standard output behind the name of the core | any | A2 A3 310P | 调试接口/上板打印/上板打印.md
template <typename... A>
void printf(const char* format, const A&... arguments) {
    using namespace toprope;
    record(kOpPrint, self->last_site, 1, 0);
    if (!self->execute) return;
    print_core();
    std::printf(format, printable(arguments)...);
    std::fflush(stdout);
}
//: PRINTF | prints to standard output behind the name of the core | any | A2 A3 310P | 调试接口/上板打印/上板打印.md
template <typename... A>
void PRINTF(const char* format, const A&... arguments) {
    AscendC::printf(format, arguments...);
}

//: DumpTensor | prints the first dumpSize elements of a tensor, with a number to tell dumps apart | any | A2 A3 310P | 调试接口/上板打印/DumpTensor.md
template <typename T>
void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, toprope::Site site = toprope::Site::here()) {
    toprope::dump_local(tensor, desc, dumpSize, nullptr, site);
}
template <typename T>
void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, toprope::Site site = toprope::Site::here()) {
    toprope::dump_global(tensor, desc, dumpSize, nullptr, site);
}
template <typename T>
void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, const ShapeInfo& shapeInfo,
                toprope::Site site = toprope::Site::here()) {
    toprope::dump_local(tensor, desc, dumpSize, &shapeInfo, site);
}
template <typename T>
void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, const ShapeInfo& shapeInfo,
                toprope::Site site = toprope::Site::here()) {
    toprope::dump_global(tensor, desc, dumpSize, &shapeInfo, site);
}
//: DumpAccChkPoint | prints dumpSize elements of a tensor from element countOff on | any | A2 A3 310P | 调试接口/上板打印/DumpAccChkPoint.md
template <typename T>
void DumpAccChkPoint(const LocalTensor<T>& tensor, uint32_t index, uint32_t countOff, uint32_t dumpSize,
                     toprope::Site site = toprope::Site::here()) {
    toprope::dump_local(tensor[countOff], index, dumpSize, nullptr, site);
}
template <typename T>
void DumpAccChkPoint(const GlobalTensor<T>& tensor, uint32_t index, uint32_t countOff, uint32_t dumpSize,
                     toprope::Site site = toprope::Site::here()) {
    toprope::dump_global(tensor[countOff], index, dumpSize, nullptr, site);
}
//: PrintTimeStamp | prints descId and the core's instruction count if ASCENDC_TIME_STAMP_ON is defined | any | A2 A3 | 调试接口/上板打印/PrintTimeStamp.md
inline void PrintTimeStamp(uint32_t descId) {
#ifdef ASCENDC_TIME_STAMP_ON
    AscendC::printf("time stamp %u: %llu instructions\n", descId, static_cast<unsigned long long>(toprope::self->instrs.size));
#else
    (void)descId;
#endif
}
//: Trap | ends the core with an error | any | A2 A3 310P | 调试接口/异常检测/Trap.md
inline void Trap(toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kOpTrap, site, 1, 0);
    toprope::report("kernel-trap", site, &toprope::kOpTrap, "Trap was called on core %u", toprope::self->index);
    toprope::stop();
}

// Profiling marks do nothing here: `toprope profile` shows every instruction anyway.
inline void MetricsProfStart() {}
inline void MetricsProfStop() {}

}  // namespace AscendC

//: assert, ascendc_assert | ends the core when the condition is false, with the text of its further arguments as for printf | - | A2 A3 310P | assert, ascendc_assert
#undef assert
#define assert(condition, ...) \
    ((condition) ? static_cast<void>(0) : toprope::assertion_failed(toprope::Site::here(), #condition, "" __VA_ARGS__))
#define ascendc_assert(condition, ...) assert(condition, ##__VA_ARGS__)
#define ASCENDC_ASSERT(condition, behaviour) \
    do {                                     \
        if (!(condition)) {                  \
            behaviour;                       \
            assert(condition);               \
        }                                    \
    } while (0)
// On the chip ASSERT is nothing unless it is asked for, so that `x = n ASSERT(n > 0);` is legal there: here a binary minus that changes
// nothing.
#define ASSERT(condition, ...)          \
    -((condition) ? toprope::Asserted{} \
                  : (toprope::assertion_failed(toprope::Site::here(), #condition, "" __VA_ARGS__), toprope::Asserted{}))
#define TRACE_START(id)
#define TRACE_STOP(id)
