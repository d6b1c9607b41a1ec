// The vendor's header name, and its low-level view of a context for harnesses that name it: a context here has no such form, and nothing
// may be read through it.
#pragma once
#include "tiling_parse_context.h"

struct AsyncAnyValue {
    union {
        void* pointer;
        unsigned char inplace[sizeof(void*)];
    } data;
    void* deleter;
};
struct KernelRunContext {
    size_t input_size, output_size;
    const void *compute_node_info, *kernel_extend_info;
    AsyncAnyValue** output_start;
    AsyncAnyValue* values[1];
};
