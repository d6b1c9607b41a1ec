// Flags that cores set for each other: who takes part in each, and whom a complete round releases.
#pragma once

#include <unordered_map>
#include <vector>

#include "columns.h"

namespace timing {

struct Token {
    double time;
    int32_t setter;
};

// Mode 0: all cores of one type; 1: the vector cores of one AI core; 2: one side of an AI core tells the other. A round is complete when
// every core that sets this flag at all has set it.
class CrossFlags {
public:
    explicit CrossFlags(const Core* cores) : cores_(cores) {}

    // Before anything runs: this core sets the flag somewhere.
    void expect(uint32_t core, uint32_t mode, uint32_t flag) { gatherings_[key(core, mode, flag)].rounds[core] = 0; }

    // The core sets the flag once more; returns the rounds that are complete now, each with the time of its last set.
    std::vector<Token> set(uint32_t core, uint32_t mode, uint32_t flag, Token token) {
        Gathering& g = gatherings_[key(core, mode, flag)];
        const uint32_t round = g.rounds[core]++;
        if (g.arrived.size() <= round) {
            g.arrived.resize(round + 1, 0);
            g.latest.resize(round + 1, Token{0, -1});
        }
        ++g.arrived[round];
        if (token.time >= g.latest[round].time) g.latest[round] = token;
        std::vector<Token> done;
        while (g.completed < g.arrived.size() && g.arrived[g.completed] >= g.rounds.size()) done.push_back(g.latest[g.completed++]);
        return done;
    }
    bool released(uint32_t core, uint32_t by, uint32_t mode) const {
        const bool same_type = cores_[core].type == cores_[by].type, same_block = cores_[core].block == cores_[by].block;
        if (mode == 0) return same_type;
        return same_block && same_type == (mode != 2);
    }

private:
    struct Gathering {
        std::unordered_map<uint32_t, uint32_t> rounds;  // how often each core has set the flag
        std::vector<uint32_t> arrived;                  // per round
        std::vector<Token> latest;
        size_t completed = 0;
    };
    uint64_t key(uint32_t core, uint32_t mode, uint32_t flag) const {
        return (uint64_t{mode == 0 ? 0 : cores_[core].block + 1} << 16) | (cores_[core].type << 12) | (mode << 8) | flag;
    }
    const Core* cores_;
    std::unordered_map<uint64_t, Gathering> gatherings_;
};

}  // namespace timing
