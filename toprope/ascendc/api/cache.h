// Caches of a core. The software machine keeps GM coherent, so that these only leave their mark for the checks and the timing.
// Pages: 缓存控制/*.md, 标量计算/ReadGmByPassDCache(ISASI).md, 标量计算/WriteGmByPassDCache(ISASI).md.
#pragma once

#include "../machine/vector.h"

namespace toprope {

// work = cache lines; its range is the line in GM, none for the whole cache.
inline constexpr Op kOpDcci{"DataCacheCleanAndInvalid", Pipe::s, Kind::cache, "dcci"};
inline constexpr Op kOpDcachePreload{"DataCachePreload", Pipe::s, Kind::cache, "dcache_preload"};
inline constexpr Op kOpIcachePreload{"ICachePreLoad", Pipe::s, Kind::cache, "icache_preload"};
inline constexpr Op kOpReadGm{"ReadGmByPassDCache", Pipe::s, Kind::scalar, "scalar_load_gm"};
inline constexpr Op kOpWriteGm{"WriteGmByPassDCache", Pipe::s, Kind::scalar, "scalar_store_gm"};
inline constexpr uint32_t kCacheLineBytes = 64;

// Lets the other cores run once: a kernel that polls GM waits for one of them.
inline void give_turn(Site site) {
    bool given = false;
    const auto ready = [](void* argument) {
        bool& was = *static_cast<bool*>(argument);
        const bool before = was;
        was = true;
        return before;
    };
    wait_until(ready, &given, "its next turn", site);
}

// Was this core here a moment ago, with this address? Then it may wait for another one. Who comes here once does not.
inline bool spins(const Op& op, Site site, uint64_t device) {
    constexpr uint64_t kFarthest = 64;
    const Column<Instr>& past = self->instrs;
    const uint32_t here = site_index(site);
    uint64_t a = self->accesses.size;
    for (uint64_t i = past.size; i-- > 0 && i + kFarthest > past.size;) {
        const Instr& instr = past.data[i];
        a -= instr.accesses;
        if (instr.op == op.id && instr.site == here && (instr.accesses == 0 || (self->accesses.data[a].low & 0xffffffffffull) == device))
            return true;
    }
    return false;
}

template <typename T>
void clean_line(const AscendC::GlobalTensor<T>& dst, bool entire, Site site) {
    bool again = false;
    if (entire) {
        again = spins(kOpDcci, site, 0);
        record(kOpDcci, site, 0, 0);
    } else {
        const uint64_t device = gm_address(dst.pointer(), 1, kOpDcci, site, false);
        if (device == 0) return;
        again = spins(kOpDcci, site, device);
        // From an address inside a line, only the rest of that line.
        touch(record(kOpDcci, site, 1, 0), Space::gm, Mode::read, device, kCacheLineBytes - device % kCacheLineBytes);
    }
    if (again) give_turn(site);
}

}  // namespace toprope

namespace AscendC {

//: DataCacheCleanAndInvalid | writes the data cache's changes to GM and reads anew next time, one 64-byte line or all | any | A2 A3 310P | 缓存控制/DataCacheCleanAndInvalid.md
template <typename T, CacheLine entireType, DcciDst dcciDst>
void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst, toprope::Site site = toprope::Site::here()) {
    toprope::clean_line(dst, entireType == CacheLine::ENTIRE_DATA_CACHE, site);
}
template <typename T, CacheLine entireType, DcciDst dcciDst>
void DataCacheCleanAndInvalid(const LocalTensor<T>& dst, toprope::Site site = toprope::Site::here()) {
    (void)dst;
    toprope::record(toprope::kOpDcci, site, entireType == CacheLine::ENTIRE_DATA_CACHE ? 0 : 1, 0);
}
template <typename T, CacheLine entireType>
void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst, toprope::Site site = toprope::Site::here()) {
    toprope::clean_line(dst, entireType == CacheLine::ENTIRE_DATA_CACHE, site);
}

//: DataCachePreload | loads one 64-byte line of GM into the data cache ahead of use; cacheOffset in bytes | uint64 | A2 A3 310P | 缓存控制/DataCachePreload.md
template <typename T>
void DataCachePreload(const GlobalTensor<uint64_t>& src, const T cacheOffset, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(is_one_of<T, int16_t, int64_t>, "DataCachePreload: cacheOffset is int16_t or int64_t");
    const uint64_t device = gm_address(reinterpret_cast<const uint8_t*>(src.pointer()) + cacheOffset, 1, kOpDcachePreload, site, false);
    if (device != 0) record(kOpDcachePreload, site, 1, 0);
}
//: ICachePreLoad | loads instructions ahead of use; preFetchLen in units of 2 KiB | any | A2 A3 310P | 缓存控制/ICachePreLoad(ISASI).md
inline void ICachePreLoad(const int64_t preFetchLen, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    const int64_t most = self->type == CoreType::aiv ? 8 : 16;  // caches of 16 and 32 KiB
    if (kChip.split && (preFetchLen < 0 || preFetchLen >= most))
        report("field-overflow", site, &kOpIcachePreload, "ICachePreLoad: preFetchLen = %lld is outside its range [0, %lld]",
               static_cast<long long>(preFetchLen), static_cast<long long>(most - 1));
    record(kOpIcachePreload, site, static_cast<uint32_t>(preFetchLen), 0);
}
//: GetICachePreloadStatus | 0: an ICachePreLoad is always done here | any | A2 A3 | 缓存控制/GetICachePreloadStatus(ISASI).md
inline int64_t GetICachePreloadStatus() { return 0; }
//: PRELOAD | loads instructions ahead of use | any | A2 A3 | 缓存控制/ICachePreLoad(ISASI).md
inline void PRELOAD(int64_t preFetchLen, toprope::Site site = toprope::Site::here()) { ICachePreLoad(preFetchLen, site); }

//: ReadGmByPassDCache | reads a scalar from GM without the data cache | integers of 8 to 64 bits | A2 A3 | 标量计算/ReadGmByPassDCache(ISASI).md
template <typename T>
T ReadGmByPassDCache(T* addr, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(std::is_integral_v<T>, "ReadGmByPassDCache reads integers");
    const uint64_t device = gm_address(addr, sizeof(T), kOpReadGm, site, false);
    if (device == 0) return T{};
    if (spins(kOpReadGm, site, device)) give_turn(site);
    touch(record(kOpReadGm, site, 1, static_cast<uint32_t>(dtype_of<T>)), Space::gm, Mode::read, device, sizeof(T));
    return *addr;
}
//: WriteGmByPassDCache | writes a scalar to GM without the data cache | integers of 8 to 64 bits | A2 A3 | 标量计算/WriteGmByPassDCache(ISASI).md
template <typename T>
void WriteGmByPassDCache(T* addr, T value, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(std::is_integral_v<T>, "WriteGmByPassDCache writes integers");
    const uint64_t device = gm_address(addr, sizeof(T), kOpWriteGm, site, true);
    if (device == 0) return;
    touch(record(kOpWriteGm, site, 1, static_cast<uint32_t>(dtype_of<T>)), Space::gm, Mode::write, device, sizeof(T));
    *addr = value;
}

}  // namespace AscendC

// The built-in spelling: a line of GM, or everything.
template <typename T>
void dcci(T* address, cache_line_t line, dcci_dst_t = CACHELINE_ALL, toprope::Site site = toprope::Site::here()) {
    AscendC::GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(address);
    toprope::clean_line(tensor, line == ENTIRE_DATA_CACHE, site);
}
template <typename T>
void dcci(T* address, int line, toprope::Site site = toprope::Site::here()) {
    dcci(address, static_cast<cache_line_t>(line), CACHELINE_ALL, site);
}
