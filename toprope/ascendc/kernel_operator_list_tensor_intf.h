// The vendor's header name for lists of tensors.
#pragma once
#include "api/list_tensor.h"
#include "kernel_operator.h"
