// The host's interface to the device (ACL).
#ifndef TOPROPE_ACL_H
#define TOPROPE_ACL_H

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif
aclError aclInit(const char* config);
aclError aclFinalize(void);
aclError aclFinalizeReference(uint64_t* count);
const char* aclGetRecentErrMsg(void);
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag);
#ifdef __cplusplus
}
#endif

#endif
