// The advanced vector library, one file per topic. The 910 (dav-1001) has none of it.
#pragma once

#if __NPU_ARCH__ != 1001
#include "activation.h"
#include "filter.h"
#include "gamma.h"
#include "layout.h"
#include "norm_gradient.h"
#include "norm_groups.h"
#include "power.h"
#include "quant.h"
#include "softmax_pasa.h"
#include "sort.h"
#include "reduce_pattern.h"
#include "transpose.h"
#endif
