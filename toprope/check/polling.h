// Flags in GM that cores poll. A scalar write that is cleaned out of the data cache releases what its core knows; a scalar read of a
// line that was invalidated before (or a read past the cache) takes it over. Page: 缓存控制/DataCacheCleanAndInvalid.md.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "order.h"

namespace toprope_check {

// Lines are numbers of footprints. First see() every scalar access and clean of the run, core by core; is_flag() holds from then on.
class Polling {
public:
    // What one core's data cache holds of a line, as far as flags go.
    class Cache {
    public:
        void write(uint32_t line) { dirty_.insert(line); }
        // Would a read look at GM itself, because the line was invalidated?
        bool looks(uint32_t line) const { return invalid_.count(line) != 0 || (all_invalid_ && fetched_.count(line) == 0); }
        bool read(uint32_t line) {
            const bool fresh = looks(line);
            invalid_.erase(line);
            fetched_.insert(line);
            return fresh;
        }
        bool clean(uint32_t line) {  // did it send a change to GM?
            invalid_.insert(line);
            return dirty_.erase(line) != 0;
        }
        std::unordered_set<uint32_t> clean_all() {
            all_invalid_ = true;
            fetched_.clear();
            return std::exchange(dirty_, {});
        }

    private:
        std::unordered_set<uint32_t> dirty_, invalid_, fetched_;
        bool all_invalid_ = false;
    };

    void released(uint32_t core, uint32_t line) { ++lines_[line].releases[core]; }
    // A core looked at the line; `again`: it looks again after this, or something else has held it up before.
    void acquired(uint32_t core, uint32_t line, uint32_t site, bool again) {
        lines_[line].readers.insert(core);
        if (!again) looks_.push_back({core, line, site});
    }

    // Whether the core that looks here goes on looking until the flag is up. Cores run one after the other, so a core that comes before
    // all who write the line, looks once and goes on does not wait.
    void begin_with_last() { last_first_ = true; }
    bool waits_at(uint32_t site) {
        for (const Look& look : looks_) {
            const Line& line = lines_.at(look.line);
            const auto after = [&](const auto& release) { return last_first_ ? release.first < look.core : release.first > look.core; };
            if (!line.releases.empty() && std::all_of(line.releases.begin(), line.releases.end(), after)) passing_.insert(look.site);
        }
        looks_.clear();
        return passing_.count(site) == 0;
    }

    // Written by one core and looked at by another.
    bool is_flag(uint32_t line) const {
        const auto found = lines_.find(line);
        if (found == lines_.end()) return false;
        const auto& [releases, readers, told] = found->second;
        return std::any_of(readers.begin(), readers.end(), [&, &r = releases](uint32_t reader) { return r.size() > r.count(reader); });
    }

    void release(uint32_t line, uint32_t core, uint32_t epoch, std::shared_ptr<GlobalClock> known) {
        lines_[line].told.push_back({core, epoch, std::move(known)});
    }

    // The first release that the reader does not know of. `more`: the run has one, but the replay has not come to it yet.
    template <typename Knows>
    const GlobalClock* acquire(uint32_t line, uint32_t reader, Knows knows, bool& more) const {
        const Line& of = lines_.at(line);
        for (const Release& r : of.told)
            if (r.core != reader && !knows(r.core, r.epoch)) return r.known.get();
        size_t total = 0;
        for (const auto& [core, times] : of.releases) total += core != reader ? times : 0;
        more =
            static_cast<size_t>(std::count_if(of.told.begin(), of.told.end(), [&](const Release& r) { return r.core != reader; })) < total;
        return nullptr;
    }

private:
    struct Release {
        uint32_t core, epoch;
        std::shared_ptr<GlobalClock> known;
    };
    struct Line {
        std::unordered_map<uint32_t, size_t> releases;
        std::unordered_set<uint32_t> readers;
        std::vector<Release> told;
    };
    struct Look {
        uint32_t core, line, site;
    };
    std::unordered_map<uint32_t, Line> lines_;
    std::vector<Look> looks_;
    bool last_first_ = false;
    std::unordered_set<uint32_t> passing_;  // lines of source that look and go on
};

}  // namespace toprope_check
