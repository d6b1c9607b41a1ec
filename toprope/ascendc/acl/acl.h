// The host's interface to the device (ACL) on this computer: what host programs of operator samples use.
#pragma once

#include "acl_base.h"
#include "acl_desc.h"
#include "acl_rt.h"

extern "C" {
inline aclError aclInit(const char*) {
    toprope::acl::State& s = toprope::acl::state();
    if (s.initialised) return ACL_ERROR_REPEAT_INITIALIZE;
    s.initialised = true;
    return ACL_SUCCESS;
}
inline aclError aclFinalize() {
    toprope::acl::State& s = toprope::acl::state();
    if (!s.initialised) return ACL_ERROR_UNINITIALIZE;
    s.initialised = false;
    return ACL_SUCCESS;
}
inline aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
    *major = 1, *minor = 0, *patch = 0;
    return ACL_SUCCESS;
}
inline const char* aclGetRecentErrMsg() { return toprope::acl::last_error(); }
}
