// The chip's numbers for tiling functions. Pages: Utils-API/平台信息获取/*.md; the numbers come from the chip file.
#pragma once

#include <memory>

#include "../../graph/types.h"
#include "../../platform/platform_infos_def.h"
#include "../../platform/soc_spec.h"

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, FB = 7, BT = 8, RESERVED };
enum class ReservedSize { RESERVED_SIZE_8K, RESERVED_SIZE_16K, RESERVED_SIZE_32K };
// The reference leaves the numbers to the installed header; only the names carry meaning here.
enum class SocVersion {
    ASCEND910 = 0,
    ASCEND910B,
    ASCEND310P,
    ASCEND310B,
    ASCEND310C,
    ASCEND950,
    ASCEND910_95 = ASCEND950,
    ASCEND910_55,
    AS31XM1,
    BS9SX1A,
    BS9SX2A,
    ASCEND610Lite,
    ASCEND910_93,
    MC61AM21A,
    MC62CM12A,
    KIRINX90,
    KIRIN9030,
    ASCEND350,
    RESERVED_VERSION = 99999
};

class PlatformAscendC {
public:
    PlatformAscendC() = delete;
    explicit PlatformAscendC(fe::PlatFormInfos* platform) : platform_(platform != nullptr ? platform : &fe::present_platform()) {}
    // A3 answers as A2, so that binaries can serve both.
    SocVersion GetSocVersion() const {
        const std::string family = platform_->family();
        if (family == "Ascend910B" || family == "Ascend910_93") return SocVersion::ASCEND910B;
        if (family == "Ascend310P") return SocVersion::ASCEND310P;
        if (family == "Ascend310B") return SocVersion::ASCEND310B;
        if (family == "Ascend950") return SocVersion::ASCEND950;
        return family == "Ascend910" ? SocVersion::ASCEND910 : SocVersion::RESERVED_VERSION;
    }
    NpuArch GetCurNpuArch() const { return static_cast<NpuArch>(chip().npu_arch); }
    uint32_t GetCoreNum() const { return platform_->GetCoreNum(); }
    uint32_t GetCoreNumAic() const { return static_cast<uint32_t>(chip().aic); }
    uint32_t GetCoreNumAiv() const { return static_cast<uint32_t>(chip().split ? chip().aiv : chip().aic); }
    // Separate vector cores exist on the 310P only.
    uint32_t GetCoreNumVector() const { return chip().npu_arch == 2002 ? static_cast<uint32_t>(chip().aiv) : 0; }
    uint32_t CalcTschBlockDim(uint32_t sliceNum, uint32_t aicCoreNum, uint32_t aivCoreNum) const {
        if (aicCoreNum == 0 || aivCoreNum == 0 || aivCoreNum <= aicCoreNum) return sliceNum;
        const uint32_t each = aivCoreNum / aicCoreNum;  // vector cores that start with one cube core
        return (sliceNum + each - 1) / each;
    }
    uint32_t CalcTschNumBlocks(uint32_t sliceNum, uint32_t aicCoreNum, uint32_t aivCoreNum) const {
        return CalcTschBlockDim(sliceNum, aicCoreNum, aivCoreNum);
    }
    void GetCoreMemSize(const CoreMemType& memType, uint64_t& size) const {
        const uint64_t all[] = {chip().l0a_bytes, chip().l0b_bytes, chip().l0c_bytes,    chip().l1_bytes,  chip().l2_bytes,
                                ub_bytes(),       chip().gm_bytes,  chip().fixbuf_bytes, chip().bias_bytes};
        const auto at = static_cast<size_t>(memType);
        size = at < sizeof all / sizeof *all ? all[at] : 0;
    }
    void GetCoreMemBw(const CoreMemType& memType, uint64_t& bwSize) const {
        platform_->GetLocalMemBw(static_cast<fe::LocalMemType>(memType), bwSize);
    }
    uint32_t GetLibApiWorkSpaceSize() const { return static_cast<uint32_t>(chip().library_workspace_bytes); }
    // No group of cores needs room of its own here; the vendor's library asks for some.
    uint32_t GetResCubeGroupWorkSpaceSize() const { return 1024 * 1024; }
    uint32_t GetResGroupBarrierWorkSpaceSize() const { return 1024 * 1024; }
    uint32_t GetVecRegLen() const { return chip().npu_arch >= 3000 ? 256 : 0; }
    void ReserveLocalMemory(ReservedSize size) { reserved_bytes_ = uint64_t{8192} << static_cast<int>(size); }

private:
    const toprope::host::Chip& chip() const { return platform_->chip(); }
    uint64_t ub_bytes() const { return chip().ub_bytes > reserved_bytes_ ? chip().ub_bytes - reserved_bytes_ : 0; }
    fe::PlatFormInfos* platform_;
    uint64_t reserved_bytes_ = 0;
};

class PlatformAscendCManager {
public:
    static PlatformAscendC* GetInstance(const char* = nullptr) {
        static PlatformAscendC only(&fe::present_platform());
        return &only;
    }
};

}  // namespace platform_ascendc
