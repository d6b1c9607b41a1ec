#include "link.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

extern char** environ;

namespace toprope::device {

namespace {

int link_fd = -1;
pid_t recorder = 0, owner = 0;
bool refused = false;

bool write_all(const void* data, uint64_t bytes) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t n = ::send(link_fd, at, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= static_cast<uint64_t>(n);
    }
    return true;
}
bool read_all(void* data, uint64_t bytes) {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
        const ssize_t n = recv(link_fd, at, bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= static_cast<uint64_t>(n);
    }
    return true;
}
void lost() {
    if (link_fd < 0) return;
    close(link_fd);
    link_fd = -1;
    refused = true;
    std::fprintf(stderr, "toprope: the recorder has gone; the program goes on without findings and times\n");
}

// The memory file goes along with the first message.
void send_hello() {
    char path[4096] = "?";
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 1] = 0;
    Json hello("hello");
    hello.add("pid", static_cast<int64_t>(getpid())).add("program", path).add("soc", chip().name);
    const std::string text = hello.done();
    const uint64_t head[2] = {text.size(), 0};
    int fd = memory_file();
    iovec parts[2] = {{const_cast<uint64_t*>(head), sizeof head}, {const_cast<char*>(text.data()), text.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    char room[CMSG_SPACE(sizeof(int))] = {};
    if (fd >= 0) {
        message.msg_control = room;
        message.msg_controllen = sizeof room;
        cmsghdr* control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(control), &fd, sizeof fd);
    }
    ssize_t sent;
    do sent = sendmsg(link_fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0) lost();
}

bool connect_to(const char* path) {
    link_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(link_fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return true;
    close(link_fd);
    link_fd = -1;
    return false;
}

bool start_recorder() {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return false;
    const std::string command = prefix() + "/bin/toprope-recorder";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 3);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t all, none;  // a Ctrl-C is the program's; the recorder writes what there is when the line closes
    sigemptyset(&all);
    sigemptyset(&none);
    sigaddset(&all, SIGINT);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    std::vector<char*> environment;  // what the program preloads is not for the recorder
    for (char** e = environ; *e != nullptr; ++e)
        if (strncmp(*e, "LD_PRELOAD=", 11) != 0) environment.push_back(*e);
    environment.push_back(nullptr);
    char* argv[] = {const_cast<char*>(command.c_str()), const_cast<char*>("3"), nullptr};
    const int failed = posix_spawn(&recorder, command.c_str(), &actions, &attributes, argv, environment.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(pair[1]);
    if (failed != 0) {
        close(pair[0]);
        recorder = 0;
        return false;
    }
    link_fd = pair[0];
    return true;
}

void after_fork_in_child() {
    if (link_fd >= 0) close(link_fd);
    link_fd = -1;
    recorder = 0;
    refused = false;
    // What the parent has on the device stays the parent's.
    State& s = state();
    s.device = -1;
    s.device_was_used = s.initialised = false;
    s.blocks.clear(), s.streams.clear(), s.stream_by_id.clear(), s.events.clear(), s.things.clear(), s.done.clear(),
        s.host_accesses.clear();
    s.live_bytes = s.peak_bytes = 0;
}

}  // namespace

std::string prefix() {
    // Never destroyed, like everything that is needed while the process ends.
    static const std::string& found = *new std::string([] {
        Dl_info info{};
        dladdr(reinterpret_cast<void*>(&open_link), &info);
        char real[4096];
        std::string path = realpath(info.dli_fname, real) != nullptr ? real : info.dli_fname;
        for (int up = 0; up < 2; ++up) path.erase(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
        return path;
    }());
    return found;
}

void open_link() {
    if (link_fd >= 0 || refused || state().ended) return;
    static const bool watched = (pthread_atfork(nullptr, nullptr, after_fork_in_child), true);
    (void)watched;
    owner = getpid();
    const char* socket = getenv("TOPROPE_RECORDER");
    const bool opened = socket != nullptr && *socket != 0 ? connect_to(socket) || start_recorder() : start_recorder();
    if (!opened) {
        refused = true;
        std::fprintf(stderr, "toprope: %s/bin/toprope-recorder does not start (%s): no findings, no times\n", prefix().c_str(),
                     strerror(errno));
        return;
    }
    send_hello();
}

void send(const Json& message, const std::vector<Piece>& payload) {
    open_link();
    if (link_fd < 0) return;
    const std::string text = message.done();
    uint64_t head[2] = {text.size(), 0};
    for (const Piece& piece : payload) head[1] += piece.bytes;
    std::string begin(reinterpret_cast<char*>(head), sizeof head);
    begin += text;
    if (!write_all(begin.data(), begin.size())) return lost();
    for (const Piece& piece : payload)
        if (!write_all(piece.data, piece.bytes)) return lost();
}

std::string ask(const Json& message, const std::vector<Piece>& payload, std::string* answer_payload) {
    send(message, payload);
    uint64_t head[2] = {0, 0};
    if (link_fd < 0 || !read_all(head, sizeof head)) {
        lost();
        return "";
    }
    std::string answer(head[0], 0), extra(head[1], 0);
    if (!read_all(answer.data(), answer.size()) || !read_all(extra.data(), extra.size())) lost();
    if (answer_payload != nullptr) *answer_payload = extra;
    return answer;
}

void close_link() {
    if (link_fd < 0 || owner != getpid()) return;
    shutdown(link_fd, SHUT_WR);
    pollfd wait{link_fd, POLLIN, 0};
    char rest[64];
    while (poll(&wait, 1, 120000) > 0 && recv(link_fd, rest, sizeof rest, 0) > 0) continue;
    close(link_fd);
    link_fd = -1;
    if (recorder > 0) {
        int status = 0;
        while (waitpid(recorder, &status, 0) < 0 && errno == EINTR) continue;
        recorder = 0;
    }
}

std::string Json::quoted(const std::string& text) {
    std::string out = "\"";
    for (const char each : text) {
        const auto byte = static_cast<unsigned char>(each);
        if (each == '"' || each == '\\') {
            out += '\\';
            out += each;
        } else if (byte < 0x20 || byte == 0x7f) {
            char code[8];
            std::snprintf(code, sizeof code, "\\u%04x", byte);
            out += code;
        } else {
            out += each;
        }
    }
    return out + "\"";
}
std::string Json::place(const Site& site) {
    if (site.line != 0 || site.pc == nullptr) return "[" + quoted(site.file) + "," + std::to_string(site.line) + "]";
    Dl_info info{};
    if (dladdr(site.pc, &info) == 0 || info.dli_fname == nullptr) return "[\"\",0]";
    const auto offset = static_cast<const char*>(site.pc) - static_cast<const char*>(info.dli_fbase) - 1;
    char real[4096];
    return "[" + quoted(realpath(info.dli_fname, real) != nullptr ? real : info.dli_fname) + ",-" + std::to_string(offset) + "]";
}
Json& Json::raw(const char* name, const std::string& json) {
    text_ += std::string(",\"") + name + "\":" + json;
    return *this;
}
Json& Json::add(const char* name, const std::string& value) { return raw(name, quoted(value)); }
Json& Json::add(const char* name, int64_t value) { return raw(name, std::to_string(value)); }
Json& Json::add(const char* name, uint64_t value) { return raw(name, std::to_string(value)); }
Json& Json::add(const char* name, double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    return raw(name, text);
}
Json& Json::add(const char* name, const Site& site) { return raw(name, place(site)); }

}  // namespace toprope::device
