// A name that samples include beside acl.h; single operators by name and models are not run here, aclnn calls are.
#pragma once

#include "acl.h"
