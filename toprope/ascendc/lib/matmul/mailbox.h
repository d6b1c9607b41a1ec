// How a vector core asks its cube core for a product: a ring of requests in the system workspace, one for each vector core, and two
// counters that the trace knows as flags. Posting a request comes after everything that the vector core's MTE3 has stored; an answer comes
// after everything that the cube core's FIX pipe has stored. docs/design/matmul.md tells the whole exchange.
#pragma once

#include "../../api/cross_core.h"
#include "job.h"
#include "progress.h"

namespace toprope {

inline constexpr Op kOpPost{"Matmul.post", Pipe::s, Kind::scalar, "scalar_store_gm"};
inline constexpr Op kOpTake{"Matmul.take", Pipe::s, Kind::scalar, "scalar_load_gm"};

struct Mailbox {
    static constexpr uint32_t kRing = 4;
    uint32_t posted, taken, answered, awaited;
    MatmulJob ring[kRing];
    AscendC::tiling::TCubeTiling tiling[kRing];  // of a Request::init
};
// The workspace: mailboxes first, then a piece for each vector core that holds what its UB exchanges with the cube core.
inline constexpr uint64_t kMailboxBytes = 8192, kSpillBegin = 1 << 20, kSpillBytes = 262144;
static_assert(sizeof(Mailbox) <= kMailboxBytes);

inline uint32_t vector_index(uint32_t block, uint32_t sub) { return block * launch_info.ratio + sub; }
inline Mailbox* mailbox_of(uint32_t index) {
    if (launch_info.system_workspace == nullptr) return nullptr;
    return reinterpret_cast<Mailbox*>(launch_info.system_workspace + index * kMailboxBytes);
}
// The two shared flags of a vector core, from the end of the numbers so that IBSet's slots stay apart.
inline uint32_t post_flag(uint32_t index) { return kFirstSlotFlag + kSlotFlags - 1 - 2 * (index % (kSlotFlags / 2)); }
inline uint32_t answer_flag(uint32_t index) { return post_flag(index) - 1; }

// The vector core's end.
class MatmulClient {
public:
    static Mailbox& box() { return *mailbox_of(vector_index(self->block, self->sub)); }

    void post(const MatmulJob& job, const AscendC::tiling::TCubeTiling* tiling, uint32_t answers, Site site) {
        Mailbox& b = box();
        const auto room = [](void* at) { return static_cast<Mailbox*>(at)->posted - static_cast<Mailbox*>(at)->taken < Mailbox::kRing; };
        wait_until(room, &b, "room for a request to the cube core's Matmul objects", site);
        if (read_spill_) order(AscendC::HardEvent::MTE2_MTE3, site);  // the cube core may write the spill again
        read_spill_ = false;
        b.ring[b.posted % Mailbox::kRing] = job;
        b.ring[b.posted % Mailbox::kRing].sub = self->sub;
        if (tiling != nullptr) b.tiling[b.posted % Mailbox::kRing] = *tiling;
        ++b.posted;
        expected_ += answers;
        record(kOpPost, site, 1, 0);
        record(kSoftSet, site, kSlotMode << 8 | post_flag(vector_index(self->block, self->sub)), 0);
    }
    // Until `left` answers are outstanding.
    void wait(uint32_t left, Site site) {
        Mailbox& b = box();
        while (expected_ > left) {
            const auto answered = [](void* at) { return static_cast<Mailbox*>(at)->answered != static_cast<Mailbox*>(at)->awaited; };
            wait_until(answered, &b, "the result of a Matmul object on the cube core", site);
            ++b.awaited;
            --expected_;
            record(kSoftWait, site, answer_flag(vector_index(self->block, self->sub)), 0);
        }
    }
    void expect(uint32_t answers) { expected_ += answers; }

    // A place in GM for `bytes` of this core's UB; the pieces are handed out in turn.
    uint8_t* spill(uint64_t bytes, Site site) {
        bytes = (bytes + 511) / 512 * 512;
        if (next_ + bytes > kSpillBytes) next_ = 0;
        const uint64_t at = kSpillBegin + vector_index(self->block, self->sub) * kSpillBytes + next_;
        if (bytes > kSpillBytes || at + bytes > launch_info.system_workspace_bytes) {
            report("matmul-spill-too-large", site, nullptr,
                   "a Matmul object exchanges %llu bytes of UB with the cube core; the workspace holds %llu for each vector core",
                   static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(kSpillBytes));
            stop();
        }
        next_ += bytes;
        return launch_info.system_workspace + at;
    }
    void spill_was_read() { read_spill_ = true; }

private:
    uint64_t next_ = 0;
    uint32_t expected_ = 0;
    bool read_spill_ = false;
};

// The cube core's end: serves the objects registered on it until its vector cores have finished.
struct ServedObject {
    void* object;
    void (*serve)(void* object, const MatmulJob& job, const AscendC::tiling::TCubeTiling& tiling, Site site);
    void (*finish)(void* object, Site site);
};

class MatmulServer {
public:
    MatmulServer(const ServedObject* objects, uint32_t count, Site site) : objects_(objects), count_(count), site_(site) {}

    void run() {
        for (uint32_t from; (from = next_request()) != kNobody;) {
            Mailbox& b = *mailbox_of(from);
            record(kSoftWait, site_, post_flag(from), 0);
            record(kOpTake, site_, 1, 0);
            const uint32_t slot = b.taken % Mailbox::kRing;
            const MatmulJob job = b.ring[slot];
            const AscendC::tiling::TCubeTiling tiling = b.tiling[slot];
            ++b.taken;
            if (job.object < count_) serve(job, tiling, from);
            // A block that waits in L0C must not be overwritten by the other vector core's.
            bound_to_ = job.request == Request::iterate ? from : kNobody;
        }
        for (uint32_t i = 0; i < count_; ++i) objects_[i].finish(objects_[i].object, site_);
    }

private:
    static constexpr uint32_t kNobody = 0xffffffff;

    void serve(const MatmulJob& job, const AscendC::tiling::TCubeTiling& tiling, uint32_t from) {
        const ServedObject& o = objects_[job.object];
        MatmulJob one = job;
        if (job.request == Request::async) {  // block by block, each answered as soon as it is stored
            const Blocks blocks(tiling, job);
            for (one.block = 0; one.block < blocks.count(); ++one.block) {
                one.request = Request::iterate;
                o.serve(o.object, one, tiling, site_);
                one.request = Request::get;
                one.c = job.c + static_cast<uint64_t>(one.block) * job.block_bytes;
                o.serve(o.object, one, tiling, site_);
                answer(from);
            }
            return;
        }
        o.serve(o.object, job, tiling, site_);
        if (job.request != Request::iterate && job.request != Request::init) answer(from);
    }
    void answer(uint32_t to) {
        ++mailbox_of(to)->answered;
        record(kSoftSet, Pipe::fix, site_, kSlotMode << 8 | answer_flag(to), 0);
    }
    // The vector core whose request comes next, turn by turn; nobody once all of them have finished.
    uint32_t next_request() {
        wait_until(ready, this, "requests of its vector cores to Matmul objects (REGIST_MATMUL_OBJ)", site_);
        return found_;
    }
    static bool ready(void* argument) {
        auto& s = *static_cast<MatmulServer*>(argument);
        bool alive = false;
        s.found_ = kNobody;
        const uint32_t subs = launch_info.ratio, block = s.me_->block;
        for (uint32_t i = 0; i < subs; ++i) {
            const uint32_t sub = (s.turn_ + i) % subs, index = vector_index(block, sub);
            const Mailbox& b = *mailbox_of(index);
            const bool waiting = b.posted != b.taken, done = vector_core_finished(block, sub);
            alive |= !done;
            if (s.bound_to_ == index && done && !waiting) s.bound_to_ = kNobody;
            if (waiting && (s.bound_to_ == kNobody || s.bound_to_ == index)) {
                s.found_ = index;
                s.turn_ = (sub + 1) % subs;
                return true;
            }
        }
        return !alive;
    }
    static bool vector_core_finished(uint32_t block, uint32_t sub) {
        for (uint32_t i = 0; i < core_count(); ++i) {
            const Core& c = *core_at(i);
            if (c.type == CoreType::aiv && c.block == block && c.sub == sub) return c.finished;
        }
        return true;
    }

    const ServedObject* objects_;
    uint32_t count_, turn_ = 0, found_ = kNobody, bound_to_ = kNobody;
    Core* me_ = self;
    Site site_;
};

}  // namespace toprope
