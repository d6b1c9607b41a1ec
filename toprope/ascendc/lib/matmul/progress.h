// Ordering between pipes inside a Matmul object: numbered marks of one pipe's progress that another pipe can wait for.
#pragma once

#include "../../machine/vector.h"

namespace toprope {

// The target pipe goes on after everything that the source pipe was given so far.
TOPROPE_OUTLINE inline void order(AscendC::HardEvent event, Site site) {
    if (!event_applies(event)) return;
    const int id = AscendC::GetTPipePtr()->FetchEventID(event);
    set_flag(event, id, site);
    wait_flag(event, id, site);
}

// Marks lie in the source pipe's stream; wait(n) lets the target pipe go on after mark n. A mark is one event id until it is waited for,
// so at most kMarks are open: making another one waits for the oldest.
template <int kMarks>
class Progress {
public:
    explicit Progress(AscendC::HardEvent event) : event_(event) {}
    uint32_t marks() const { return made_; }
    TOPROPE_OUTLINE void mark(Site site) {
        if (made_ - waited_ == kMarks) wait(waited_ + 1, site);
        AscendC::TEventID& id = ids_[made_ % kMarks];
        id = AscendC::GetTPipePtr()->AllocEventID(event_, site);
        set_flag(event_, id, site);
        ++made_;
    }
    TOPROPE_OUTLINE void wait(uint32_t mark, Site site) {
        while (waited_ < mark && waited_ < made_) {
            const AscendC::TEventID id = ids_[waited_++ % kMarks];
            wait_flag(event_, id, site);
            AscendC::GetTPipePtr()->ReleaseEventID(event_, id);
        }
    }
    void drain(Site site) { wait(made_, site); }

private:
    AscendC::HardEvent event_;
    uint32_t made_ = 0, waited_ = 0;
    AscendC::TEventID ids_[kMarks] = {};
};

// L0A and L0B are shared by all Matmul objects of a core: two halves that take turns. The state lives in a register of the core.
class L0Halves {
public:
    static constexpr int kRegister = kRegL0Halves;
    // The half to fill next; a base block larger than half of the memory uses it whole.
    TOPROPE_OUTLINE static uint32_t take(bool whole, Site site) {
        State s = load();
        const uint32_t half = whole ? 0 : s.next;
        for (uint32_t h = 0; h < 2; ++h)
            if (whole || h == half) settle(s, h, site);
        s.next = static_cast<uint8_t>(half ^ 1);
        store(s);
        return half;
    }
    // After the last instruction of the cube that reads the half.
    TOPROPE_OUTLINE static void give(uint32_t half, Site site) {
        State s = load();
        s.id[half] = static_cast<uint8_t>(AscendC::GetTPipePtr()->AllocEventID(AscendC::HardEvent::M_MTE1, site));
        set_flag(AscendC::HardEvent::M_MTE1, s.id[half], site);
        s.busy |= static_cast<uint8_t>(1u << half);
        store(s);
    }
    TOPROPE_OUTLINE static void drain(Site site) {
        State s = load();
        settle(s, 0, site);
        settle(s, 1, site);
        store(s);
    }

private:
    struct State {
        uint8_t next, busy, id[2];
    };
    static State load() {
        State s;
        std::memcpy(&s, &self->registers[kRegister], sizeof s);
        return s;
    }
    static void store(const State& s) { std::memcpy(&self->registers[kRegister], &s, sizeof s); }
    static void settle(State& s, uint32_t half, Site site) {
        if (!(s.busy >> half & 1)) return;
        wait_flag(AscendC::HardEvent::M_MTE1, s.id[half], site);
        AscendC::GetTPipePtr()->ReleaseEventID(AscendC::HardEvent::M_MTE1, static_cast<AscendC::TEventID>(s.id[half]));
        s.busy &= static_cast<uint8_t>(~(1u << half));
    }
};

}  // namespace toprope
