// Runs one launch on the machine that this is compiled for. Reads a description (tests/machines/emulated.py writes it) from standard
// input, kernels from shared libraries, GM from files; writes GM back. Prints the reports; exit code: 0, or the signal of a crash.
#include "standalone.h"

#include <dlfcn.h>

#include <fstream>
#include <iostream>
#include <string>

using namespace toprope;

int main() {
    static TopropeLaunch launch{};
    std::vector<TopropeCoreSpec> cores;
    std::vector<GmBuffer> gm;
    std::vector<std::string> files;
    std::vector<std::vector<uint8_t>> contents, values;
    std::vector<std::pair<size_t, size_t>> pointers;  // argument -> GM buffer
    uint64_t device = 0x10000000;
    for (std::string word; std::cin >> word;) {
        if (word == "entry") {
            std::string type, library, symbol;
            std::cin >> type >> library >> symbol;
            void* loaded = dlopen(library.c_str(), RTLD_NOW);
            if (loaded == nullptr) return std::cerr << dlerror() << "\n", 100;
            launch.entries[std::stoi(type)] = reinterpret_cast<void (*)(void**)>(dlsym(loaded, symbol.c_str()));
        } else if (word == "space") {
            uint32_t type = 0;
            std::cin >> type;
            for (auto& bytes : launch.space_bytes[type]) std::cin >> bytes;
        } else if (word == "core") {
            uint32_t block = 0, sub = 0, type = 0;
            std::cin >> block >> sub >> type;
            cores.push_back({static_cast<uint16_t>(block), static_cast<uint8_t>(sub), static_cast<uint8_t>(type)});
        } else if (word == "launch") {
            std::cin >> launch.blocks >> launch.ratio >> launch.mixed >> launch.tiling_key;
        } else if (word == "gm" || word == "workspace") {
            uint64_t bytes = 0;
            std::string name, file;
            std::cin >> name >> bytes >> file;
            std::vector<uint8_t> data(bytes);
            std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(bytes));
            contents.push_back(std::move(data));
            files.push_back(file);
            gm.push_back({contents.back().data(), bytes, device, {}});
            std::snprintf(gm.back().name, sizeof gm.back().name, "%s", name.c_str());
            device += (bytes + 1023) / 512 * 512;
            if (word == "workspace") {
                launch.system_workspace = contents.back().data();
                launch.system_workspace_bytes = bytes;
            }
        } else if (word == "pointer") {
            size_t index = 0;
            std::cin >> index;
            pointers.emplace_back(values.size(), index);
            values.emplace_back(8);
        } else if (word == "value") {
            std::string hex;
            std::cin >> hex;
            std::vector<uint8_t> bytes;
            for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
            values.push_back(std::move(bytes));
        }
    }
    for (const auto& [argument, index] : pointers) {
        uint8_t* host = gm[index].host;
        std::memcpy(values[argument].data(), &host, sizeof host);
    }
    std::vector<void*> arguments;
    for (auto& v : values) arguments.push_back(v.data());
    arguments.push_back(nullptr);
    launch.arguments = arguments.data();
    launch.cores = cores.data();
    launch.core_count = static_cast<uint32_t>(cores.size());
    launch.execute = launch.check_contracts = 1;
    launch.gm_count = static_cast<uint32_t>(gm.size());
    launch.gm = gm.data();
    const int signal = toprope_run(&launch);
    for (uint64_t i = 0; i < toprope_report_count(); ++i)
        std::cout << toprope_reports()[i].code << ": " << toprope_reports()[i].text << "\n";
    for (size_t i = 0; i < gm.size(); ++i)
        std::ofstream(files[i], std::ios::binary)
            .write(reinterpret_cast<char*>(contents[i].data()), static_cast<std::streamsize>(contents[i].size()));
    return signal;
}
