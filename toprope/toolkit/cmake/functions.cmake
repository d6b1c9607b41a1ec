# What projects of kernels and operators call.
include_guard(GLOBAL)
