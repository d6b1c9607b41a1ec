// What the function that prepares a tiling's compile information is given.
#pragma once

#include "../../platform/platform_infos_def.h"
#include "extended_kernel_context.h"

namespace gert {

class TilingParseContext : public ExtendedKernelContext {
public:
    TilingParseContext(Node* node, void* compile_info, fe::PlatFormInfos* platform)
        : ExtendedKernelContext(node), compile_info_(compile_info), platform_(platform) {}
    const char* GetCompiledJson() const { return "{}"; }
    template <typename T>
    T* GetCompiledInfo() {
        return static_cast<T*>(compile_info_);
    }
    fe::PlatFormInfos* GetPlatformInfo() const { return platform_; }

private:
    void* compile_info_;
    fe::PlatFormInfos* platform_;
};
class KernelContext : public ExtendedKernelContext {
public:
    using ExtendedKernelContext::ExtendedKernelContext;
};

}  // namespace gert
