#include "state.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <unordered_set>

#include "link.h"

namespace toprope::device {

State& state() {
    static State& all = *new State;  // never destroyed: other libraries' destructors call in
    return all;
}

namespace {

thread_local Site noted;
thread_local Site current;
thread_local const char* current_call = "";
thread_local int depth = 0;

const char* interned(const char* text) {
    static std::unordered_set<std::string>& all = *new std::unordered_set<std::string>;
    return all.insert(text).first->c_str();
}

bool set_chip(const std::string& wanted, uint32_t arch) {
    std::ifstream file(prefix() + "/share/toprope/chips.tsv");
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream row(line);
        Chip c;
        row >> c.name >> c.shown >> c.aiv;
        for (uint64_t& number : c.host) row >> number;
        c.npu_arch = static_cast<uint32_t>(c.host[0]), c.aic = static_cast<int64_t>(c.host[2]);
        c.l2_bytes = c.host[11], c.memory_bytes = c.host[12];
        for (auto& type : c.space_bytes)
            for (uint32_t& bytes : type) row >> bytes;
        c.split = c.host[1] != 0;
        if (!row || !(c.name == wanted || (wanted.empty() && c.npu_arch == arch))) continue;
        state().chip = c;
        state().chip_known = true;
        return true;
    }
    return false;
}

std::string lower(const char* text) {
    std::string out = text == nullptr ? "" : text;
    for (char& each : out) each = static_cast<char>(tolower(each));
    return out;
}

void at_exit(int code, void*) {
    State& s = state();
    if (s.ended) return;
    {
        std::lock_guard<std::recursive_mutex> hold(s.lock);
        if (s.device_was_used) {
            execute_all();
            report_leaks();
        }
        std::fflush(nullptr);
        if (s.device_was_used)
            send(Json("end").add("code", code).add("peak", s.peak_bytes).add("host_peak", s.host_bytes).add("live", s.live_bytes));
        s.ended = true;
    }
    close_link();
}

}  // namespace

const Chip& chip() {
    if (!state().chip_known) {
        const std::string wanted = lower(getenv("TOPROPE_SOC"));
        if (!set_chip(wanted.empty() ? "ascend910b1" : wanted, 0)) {
            std::fprintf(stderr, "toprope: TOPROPE_SOC names the chip %s, which is not in %s/share/toprope/chips.tsv\n", wanted.c_str(),
                         prefix().c_str());
            _exit(2);
        }
    }
    return state().chip;
}

void prefer_arch(uint32_t npu_arch) {
    if (state().chip_known || getenv("TOPROPE_SOC") != nullptr) return;
    set_chip("", npu_arch);
}

Call::Call(const char* name, const void* pc) {
    static const bool watched = (on_exit(at_exit, nullptr), true);
    (void)watched;
    if (depth++ != 0) return;
    state().lock.lock();
    current_call = name;
    if (noted.line != 0)
        current = {interned(noted.file), noted.line, nullptr};
    else
        current = {"", 0, pc};
    noted = {};
}
Call::~Call() {
    if (--depth == 0) state().lock.unlock();
}
const Site& here() { return current; }
const char* call_name() { return current_call; }

std::string& error_text() {
    static thread_local std::string* text = new std::string;  // outlives the thread's own end
    return *text;
}
namespace {
thread_local aclError last_error = ACL_SUCCESS;
}
aclError fail(aclError code, const char* format, ...) {
    char text[1024];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    error_text() = std::string(call_name()) + ": " + text;
    last_error = code;
    return code;
}

void report(const char* code, const Site& where, const char* action, const Site& other, const char* other_action, const char* format, ...) {
    char text[1024];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    error_text() = text;
    Json message("finding");
    message.add("code", code).add("message", text).add("at", where).add("action", action);
    if (other.line != 0 || other.pc != nullptr) message.add("other", other).add("other_action", other_action);
    send(message);
}

void* new_handle(const char* kind) {
    void* made = reinterpret_cast<void*>(0x10000 + 16 * ++state().handles);
    remember(made, kind);
    return made;
}
bool known(const void* at, const char* kind) {
    const auto found = state().things.find(at);
    return found != state().things.end() && strcmp(found->second.kind, kind) == 0;
}
bool forget(const void* at, const char* kind) {
    if (known(at, kind)) {
        state().things.erase(at);
        return true;
    }
    report("acl-bad-free", here(), "destroys", {}, "", "%s: this %s does not exist, or is gone already", call_name(), kind);
    return false;
}

}  // namespace toprope::device

using namespace toprope::device;

extern "C" {
void toprope_note_site(const char* file, int line) { noted = {file, line, nullptr}; }
const char* aclGetRecentErrMsg() { return error_text().c_str(); }
aclError aclrtGetLastError(aclrtLastErrLevel) {
    const aclError code = last_error;
    last_error = ACL_SUCCESS;
    return code;
}
aclError aclrtPeekAtLastError(aclrtLastErrLevel) { return last_error; }
// A function that there is no answer for: says so and ends the program, because any answer would be a guess.
__attribute__((noreturn)) void toprope_absent(const char* name, const char* cure) {
    std::fflush(nullptr);
    std::fprintf(stderr, "toprope: the program calls %s, which this toolkit does not have\n  cure: %s\n", name, cure);
    if (state().device_was_used) {
        send(Json("finding")
                 .add("code", "acl-absent")
                 .add("message", std::string("the program calls ") + name + ", which this toolkit does not have")
                 .add("at", Site{"", 0, __builtin_return_address(0)})
                 .add("action", "calls it"));
        at_exit(134, nullptr);
    }
    _exit(134);
}
}
