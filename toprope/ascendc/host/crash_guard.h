// Runs host code of a user so that a crash in it ends the call and not the process.
#pragma once

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>

namespace toprope {
namespace host {

inline sigjmp_buf& way_out() {
    static sigjmp_buf out;
    return out;
}
inline void leave_by_signal(int signal) { siglongjmp(way_out(), signal); }

// What stopped the function: "" if nothing did. Not for two threads at once; objects of a crashed function are leaked.
template <class Function>
std::string guarded(const Function& function) {
    static char* const stack = static_cast<char*>(std::malloc(1 << 18));
    stack_t own = {}, before_stack = {};
    own.ss_sp = stack;
    own.ss_size = 1 << 18;
    sigaltstack(&own, &before_stack);
    constexpr int kinds[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction before[5], action = {};
    action.sa_handler = leave_by_signal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < 5; ++i) sigaction(kinds[i], &action, &before[i]);
    std::string problem;
    const int signal = sigsetjmp(way_out(), 1);
    if (signal == 0) {
        try {
            function();
        } catch (const std::exception& error) {
            problem = std::string("it threw ") + error.what();
        } catch (...) {
            problem = "it threw an exception";
        }
    } else {
        problem = signal == SIGFPE    ? "it divided an integer by zero (SIGFPE)"
                  : signal == SIGABRT ? "it called abort (SIGABRT)"
                                      : "it used a null or wild pointer (SIGSEGV)";
    }
    for (int i = 0; i < 5; ++i) sigaction(kinds[i], &before[i], nullptr);
    sigaltstack(&before_stack, nullptr);
    return problem;
}

}  // namespace host
}  // namespace toprope
