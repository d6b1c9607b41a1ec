// A launch in a process of its own: what a kernel does to its process (a wild pointer, exit(), an endless loop) it does to that one.
// Included by runtime.cpp.

namespace {

int child_report = -1;

void save_image(int fd) {
    say_stage(fd, kStageSaving);
    ImageWriter count;
    put_all(count);
    if (ftruncate(fd, static_cast<off_t>(count.at)) != 0) _exit(4);
    ImageWriter write;
    write.base = static_cast<uint8_t*>(mmap(nullptr, count.at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    if (write.base == MAP_FAILED) _exit(4);
    put_all(write);
    auto& header = *reinterpret_cast<ImageHeader*>(write.base);
    fill(header);
    std::atomic_thread_fence(std::memory_order_release);
    header.magic = kImageMagic;
    munmap(write.base, count.at);
}

// exit() inside a kernel: the run is over, and what it has done so far is still worth a report.
void on_exit_called() {
    const int fd = child_report;
    if (fd < 0) return;
    child_report = -1;
    set_alarm(0);
    if (self == nullptr) _exit(5);  // while a library was loaded
    report("kernel-exit", self->last_site, nullptr, "core %u ended its process with exit(); its last instruction was here", self->index);
    crash_signal = SIGTERM;
    end_of_run();
    save_image(fd);
    std::fflush(nullptr);
    _exit(0);
}

// The sizes of the kernel's arguments must be those that were given: it reads them by its own types.
bool sizes_agree(void* library, const char* symbol, const TopropeChild* child, ImageHeader& header) {
    char name[512];
    std::snprintf(name, sizeof name, "toprope_sizes_%s", symbol);
    auto* sizes_of = reinterpret_cast<uint32_t (*)(uint32_t*)>(dlsym(library, name));
    if (sizes_of == nullptr) return true;
    std::vector<uint32_t> sizes(sizes_of(nullptr) + 1);
    header.size_count = sizes_of(sizes.data());
    constexpr uint32_t room = sizeof header.sizes / sizeof header.sizes[0];
    std::copy_n(sizes.begin(), header.size_count < room ? header.size_count : room, header.sizes);
    return header.size_count == child->argument_count &&
           std::equal(child->argument_bytes, child->argument_bytes + child->argument_count, sizes.begin());
}

[[noreturn]] void run_child(TopropeLaunch launch, const TopropeChild* child) {
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != child->parent) _exit(6);
#endif
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (child->quiet != 0) dup2(2, 1);  // standard output is the caller's: it may hold JSON
    child_report = child->report;
    std::atexit(on_exit_called);
    say_stage(child->report, kStageLoading);
    char name[512];
    std::snprintf(name, sizeof name, "toprope_call_%s", child->symbol);
    ImageHeader header{};
    for (int t = 0; t < 3; ++t) {
        launch.entries[t] = nullptr;
        if (child->libraries[t] == nullptr) continue;
        void* library = dlopen(child->libraries[t], RTLD_NOW | RTLD_LOCAL);
        if (library != nullptr && sizes_agree(library, child->symbol, child, header))
            launch.entries[t] = reinterpret_cast<void (*)(void**)>(dlsym(library, name));
        if (launch.entries[t] == nullptr) {
            if (const char* why = dlerror()) std::snprintf(header.text, sizeof header.text, "%s", why);
            header.stage = kStageRefused;
            header.magic = kImageMagic;
            child_report = -1;
            _exit(pwrite(child->report, &header, sizeof header, 0) == sizeof header ? 0 : 4);
        }
    }
    say_stage(child->report, kStageRunning);
    toprope_run(&launch);
    child_report = -1;
    save_image(child->report);
    std::fflush(nullptr);
    _exit(0);
}

}  // namespace

extern "C" {

// Starts a launch in a process of its own; its report goes into the file `report`. Returns its number, or minus errno.
int toprope_start(const TopropeLaunch* launch, const TopropeChild* child) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) run_child(*launch, child);
    if (pid < 0) return -errno;
    setpgid(pid, pid);
    return pid;
}

// Memory that processes share, between two pages that nobody may touch: `bytes` from the returned address end at the second.
uint8_t* toprope_share(uint64_t bytes) {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), room = (bytes + page - 1) / page * page;
    auto* base = static_cast<uint8_t*>(mmap(nullptr, room + 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (base == MAP_FAILED) return nullptr;
    mprotect(base, page, PROT_NONE);
    mprotect(base + page + room, page, PROT_NONE);
    return base + page;
}
void toprope_unshare(uint8_t* address, uint64_t bytes) {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), room = (bytes + page - 1) / page * page;
    munmap(address - page, room + 2 * page);
}
void toprope_save(int fd) { save_image(fd); }
}
