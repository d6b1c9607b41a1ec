// The vendor's name for the descriptors that aclnn calls take.
#pragma once

#include "acl/aclnn.h"
