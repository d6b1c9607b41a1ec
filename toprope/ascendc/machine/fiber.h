// Switching between call stacks, by what the platforms' calling conventions ask a function to keep. Not <ucontext.h>: musl has none,
// macOS has given it up, and glibc's makes two system calls at every switch.
#pragma once

#include <cstddef>
#include <cstdint>

// toprope_switch(from, to): pushes what is kept, *from = stack pointer, stack pointer = to, pops, returns there.
extern "C" void toprope_switch(void** from, void* to);
#if defined(__APPLE__)
#define TOPROPE_SWITCH_SYMBOL ".private_extern _toprope_switch\n_toprope_switch:\n"
#else
#define TOPROPE_SWITCH_SYMBOL ".globl toprope_switch\n.hidden toprope_switch\ntoprope_switch:\n"
#endif
#if defined(__x86_64__)
asm(".text\n.p2align 4\n" TOPROPE_SWITCH_SYMBOL
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#elif defined(__aarch64__)
asm(".text\n.p2align 2\n" TOPROPE_SWITCH_SYMBOL
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp, #0]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\n"
    "stp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp, #0]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\n"
    "ldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n");
#else
#error "toprope: cores run as fibers, and switching between them is written for x86-64 and arm64 only"
#endif
#undef TOPROPE_SWITCH_SYMBOL

namespace toprope {

// A stack pointer from which toprope_switch begins `entry`, which must not return.
inline void* fresh_stack(void* stack, size_t bytes, void (*entry)()) {
    auto* top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack) + bytes) / 16 * 16);
#if defined(__x86_64__)
    top -= 8;  // six registers, where to begin, and nowhere to return to: aligned as behind a call
    for (int i = 0; i < 8; ++i) top[i] = nullptr;
    top[6] = reinterpret_cast<void*>(entry);
#else
    top -= 20;
    for (int i = 0; i < 20; ++i) top[i] = nullptr;
    top[11] = reinterpret_cast<void*>(entry);  // x30
#endif
    return top;
}

}  // namespace toprope
