// The chip's numbers, as host code is handed them: an opaque object that platform_ascendc::PlatformAscendC reads.
#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "../state.h"

namespace fe {

enum class LocalMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, RESERVED };

class PlatFormInfos {
public:
    bool Init() { return true; }
    uint32_t GetCoreNum() const { return static_cast<uint32_t>(chip().split ? chip().aiv : chip().aic); }
    uint32_t GetCoreNumByType(const std::string& kind) const {
        return static_cast<uint32_t>(kind == "VectorCore" ? chip().aiv : chip().aic);
    }
    void SetCoreNumByCoreType(const std::string&) {}
    void GetLocalMemSize(const LocalMemType& kind, uint64_t& bytes) const {
        const uint64_t all[] = {chip().l0a_bytes, chip().l0b_bytes, chip().l0c_bytes, chip().l1_bytes,
                                chip().l2_bytes,  chip().ub_bytes,  chip().gm_bytes};
        const auto at = static_cast<size_t>(kind);
        bytes = at < sizeof all / sizeof *all ? all[at] : 0;
    }
    void GetLocalMemBw(const LocalMemType& kind, uint64_t& bytes_per_cycle) const {
        bytes_per_cycle = kind == LocalMemType::L2 ? chip().l2_bytes_per_cycle : kind == LocalMemType::HBM ? chip().gm_bytes_per_cycle : 0;
    }
    // Other values than the chip's, as unit tests of host code give them; the numbers among them become the chip of this process.
    void SetPlatformRes(const std::string& group, std::map<std::string, std::string>& values) {
        toprope::host::Chip& c = toprope::host::chip;
        const std::map<std::string, uint64_t*> numbers = {
            {"cube_core_cnt", &c.aic},   {"vector_core_cnt", &c.aiv},  {"ub_size", &c.ub_bytes},     {"l1_size", &c.l1_bytes},
            {"l0_a_size", &c.l0a_bytes}, {"l0_b_size", &c.l0b_bytes},  {"l0_c_size", &c.l0c_bytes},  {"l2_size", &c.l2_bytes},
            {"bt_size", &c.bias_bytes},  {"fb_size", &c.fixbuf_bytes}, {"memory_size", &c.gm_bytes}, {"NpuArch", &c.npu_arch},
        };
        if (values.count("ai_core_cnt") != 0) c.aic = c.aiv = std::strtoull(values["ai_core_cnt"].c_str(), nullptr, 10);
        for (const auto& [name, value] : values) {
            given_[group][name] = value;
            const auto found = numbers.find(name);
            if (found != numbers.end()) *found->second = std::strtoull(value.c_str(), nullptr, 10);
            if (name == "Short_SoC_version" && family() != value) std::snprintf(c.name, sizeof c.name, "%s", value.c_str());
        }
        if (group == "version") c.split = c.npu_arch == 2201 || c.npu_arch == 3510;
    }
    // A value of the chip's configuration by group and name; false if there is none under these names.
    bool GetPlatformRes(const std::string& group, const std::string& name, std::string& value) const {
        const auto of_group = given_.find(group);
        if (of_group != given_.end() && of_group->second.count(name) != 0) return value = of_group->second.at(name), true;
        const std::map<std::string, uint64_t> numbers = {
            {"ai_core_cnt", chip().aic},     {"cube_core_cnt", chip().aic},    {"vector_core_cnt", chip().split ? chip().aiv : 0},
            {"ub_size", chip().ub_bytes},    {"l1_size", chip().l1_bytes},     {"l0_a_size", chip().l0a_bytes},
            {"l0_b_size", chip().l0b_bytes}, {"l0_c_size", chip().l0c_bytes},  {"l2_size", chip().l2_bytes},
            {"bt_size", chip().bias_bytes},  {"memory_size", chip().gm_bytes}, {"fb_size", chip().fixbuf_bytes},
        };
        if (group == "version") {
            const std::string text = name == "SoC_version"         ? chip().name
                                     : name == "Short_SoC_version" ? family()
                                     : name == "NpuArch"           ? std::to_string(chip().npu_arch)
                                                                   : "";
            if (!text.empty()) value = text;
            return !text.empty();
        }
        const auto found = numbers.find(name);
        if (found != numbers.end()) value = std::to_string(found->second);
        return found != numbers.end();
    }
    bool GetPlatformResWithLock(const std::string& group, const std::string& name, std::string& value) const {
        return GetPlatformRes(group, name, value);
    }
    bool GetPlatformResWithLock(const std::string&, std::map<std::string, std::string>&) const { return false; }

    const toprope::host::Chip& chip() const { return toprope::host::chip; }
    // "Ascend910B" for every chip of the A2 series, and so on.
    std::string family() const {
        const std::string name = chip().name;
        if (name.compare(0, 12, "Ascend910_95") == 0) return "Ascend950";
        for (const char* known : {"Ascend910_93", "Ascend910B", "Ascend310P", "Ascend310B", "Ascend950", "Ascend910"})
            if (name.compare(0, std::string(known).size(), known) == 0) return known;
        return name;
    }

private:
    std::map<std::string, std::map<std::string, std::string>> given_;
};

class OptionalInfos {
public:
    std::string GetSocVersion() const { return toprope::host::chip.name; }
    std::string GetCoreType() const { return "AiCore"; }
    void Init() {}
    std::string soc_version, core_type = "AiCore";
    uint32_t ai_core_num = 0;
    std::string l1_fusion_flag;
};

// The chip of the present call, under the old interface.
inline PlatFormInfos& present_platform() {
    static PlatFormInfos only;
    return only;
}

}  // namespace fe
