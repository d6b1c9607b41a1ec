// The chip's numbers under the old interface.
#pragma once

#include "platform_infos_def.h"

namespace fe {

using OptionalInfo = OptionalInfos;

// The chip's numbers as fields: what operators read of them.
struct PlatformInfo {
    struct {
        std::string aic_version, short_soc_version;
    } str_info;
    struct {
        uint32_t ai_core_cnt = 0, vector_core_cnt = 0;
        uint64_t l2_size = 0, memory_size = 0;
    } soc_info;
    struct {
        uint64_t ub_size = 0, l1_size = 0, l0_a_size = 0, l0_b_size = 0, l0_c_size = 0;
    } ai_core_spec;
};

class PlatformInfoManager {
public:
    static PlatformInfoManager& Instance() { return one(); }
    static PlatformInfoManager& GeInstance() { return one(); }
    uint32_t InitializePlatformInfo() { return 0; }
    uint32_t InitRuntimePlatformInfos(const std::string&) { return 0; }
    uint32_t GetPlatformInfoWithOutSocVersion(PlatFormInfos&, OptionalInfos&) { return 0; }
    uint32_t GetRuntimePlatformInfosByDevice(const uint32_t&, PlatFormInfos&, bool = false) { return 0; }
    uint32_t GetPlatformInfoWithOutSocVersion(PlatformInfo& info, OptionalInfos& optional) {
        const toprope::host::Chip& chip = toprope::host::chip;
        optional.soc_version = chip.name;
        info.str_info.short_soc_version = present_platform().family();
        info.soc_info.ai_core_cnt = static_cast<uint32_t>(chip.aic);
        info.soc_info.vector_core_cnt = static_cast<uint32_t>(chip.aiv);
        info.soc_info.l2_size = chip.l2_bytes;
        info.soc_info.memory_size = chip.gm_bytes;
        info.ai_core_spec.ub_size = chip.ub_bytes;
        info.ai_core_spec.l1_size = chip.l1_bytes;
        info.ai_core_spec.l0_a_size = chip.l0a_bytes;
        info.ai_core_spec.l0_b_size = chip.l0b_bytes;
        info.ai_core_spec.l0_c_size = chip.l0c_bytes;
        return chip.name[0] == 0 ? 0xFFFFFFFF : 0;
    }
    // Chips as unit tests describe them; the one that is chosen becomes the chip of this process.
    std::map<std::string, PlatformInfo> platform_info_map_;
    void SetOptionalCompilationInfo(const OptionalInfos& chosen) {
        const auto found = platform_info_map_.find(chosen.soc_version);
        if (found == platform_info_map_.end()) return;
        toprope::host::Chip& chip = toprope::host::chip;
        const PlatformInfo& given = found->second;
        if (given.soc_info.ai_core_cnt != 0) chip.aic = chip.aiv = given.soc_info.ai_core_cnt;
        if (given.ai_core_spec.ub_size != 0) chip.ub_bytes = given.ai_core_spec.ub_size;
        const std::string& family = given.str_info.short_soc_version;
        if (!family.empty() && present_platform().family() != family) std::snprintf(chip.name, sizeof chip.name, "%s", family.c_str());
    }
    uint32_t GetPlatformInfos(const std::string&, PlatFormInfos&, OptionalInfos&) { return 0; }

private:
    static PlatformInfoManager& one() {
        static PlatformInfoManager only;
        return only;
    }
};

}  // namespace fe
