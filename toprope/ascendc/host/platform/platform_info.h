// The chip's numbers under the old interface.
#pragma once

#include "platform_infos_def.h"

namespace fe {

using OptionalInfo = OptionalInfos;

class PlatformInfoManager {
public:
    static PlatformInfoManager& Instance() { return one(); }
    static PlatformInfoManager& GeInstance() { return one(); }
    uint32_t InitializePlatformInfo() { return 0; }
    uint32_t InitRuntimePlatformInfos(const std::string&) { return 0; }
    uint32_t GetPlatformInfoWithOutSocVersion(PlatFormInfos&, OptionalInfos&) { return 0; }
    uint32_t GetRuntimePlatformInfosByDevice(const uint32_t&, PlatFormInfos&, bool = false) { return 0; }
    uint32_t GetPlatformInfos(const std::string&, PlatFormInfos&, OptionalInfos&) { return 0; }

private:
    static PlatformInfoManager& one() {
        static PlatformInfoManager only;
        return only;
    }
};

}  // namespace fe
