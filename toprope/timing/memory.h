// GM as all cores see it: an L2 in front of HBM that gives up written pages first, then the least recently used, and two servers that hand
// out bytes in order of arrival.
#pragma once

#include <algorithm>
#include <vector>

#include "columns.h"

namespace timing {

inline constexpr uint64_t kPageBytes = 4096, kSectorBytes = 128, kFillBytes = 256, kLineBytes = 512, kBlockBytes = 32;

// What one transfer costs the memory side, in bytes.
struct Demand {
    double hit = 0, miss = 0, evicted = 0;  // evicted: modified bytes that had to leave L2 for it
    double cold = 0;                        // written to lines that were not in L2
    double fills = 0;                       // lines of which something had to be fetched
    double l2 = 0, hbm = 0;                 // bytes of bandwidth taken: whole lines at L2, misses at HBM, both weighted
    double fetched = 0;                     // bytes that come out of HBM, with the rest of what a fetch brings
    double bytes = 0;
    double lines = 0, rows = 0, odd_bytes = 0;  // odd: in rows that start at changing offsets within a block
    uint64_t first = 0;                         // first line: how other cores recognise the same range
};

class L2 {
public:
    L2(uint64_t begin, uint64_t end, double capacity)
        : begin_(begin / kPageBytes * kPageBytes), capacity_(capacity), pages_((end - begin_) / kPageBytes + 2) {}

    // A read or write of one row. Bypassing reads look but do not stay; bypassing writes go through.
    void access(uint64_t address, uint64_t bytes, bool write, bool bypass, Demand& demand) {
        const uint64_t end = address + bytes;
        while (address < end) {
            const uint64_t page_index = (address - begin_) / kPageBytes;
            if (page_index >= pages_.size()) {  // outside every buffer: reported by the run, never cached
                (write ? demand.hit : demand.miss) += static_cast<double>(end - address);
                return;
            }
            const uint64_t page_end = begin_ + (page_index + 1) * kPageBytes;
            const uint64_t upto = end < page_end ? end : page_end;
            touch(page_index, address - (page_end - kPageBytes), upto - (page_end - kPageBytes), write, bypass, demand);
            address = upto;
        }
    }

private:
    struct Page {
        uint32_t valid = 0, dirty = 0;
        int32_t previous = -1, next = -1;
        bool linked = false, written = false;  // written: which of the two orders it is in
    };
    struct Order {
        int32_t newest = -1, oldest = -1;
    };
    // What a fetch brings: whole pieces of kFillBytes.
    static uint32_t filled(uint32_t mask) {
        static_assert(kFillBytes == 2 * kSectorBytes);
        return mask | (mask & 0x55555555u) << 1 | (mask & 0xaaaaaaaau) >> 1;
    }
    static uint32_t sectors(uint64_t from, uint64_t to) {
        const uint64_t first = from / kSectorBytes, last = (to - 1) / kSectorBytes;
        return static_cast<uint32_t>(((2ull << last) - 1) & ~((1ull << first) - 1));
    }
    static double bytes_in(uint32_t mask) { return __builtin_popcount(mask) * double(kSectorBytes); }

    void touch(uint64_t index, uint64_t from, uint64_t to, bool write, bool bypass, Demand& demand) {
        Page& page = pages_[index];
        const uint32_t mask = sectors(from, to);
        const double present = bytes_in(mask & page.valid), absent = bytes_in(mask & ~page.valid);
        if (write) {
            demand.hit += present + absent;
            demand.cold += absent;
        } else {
            demand.hit += present;
            demand.miss += absent;
            for (uint32_t lines = mask & ~page.valid, line = 0; lines != 0; lines >>= kLineBytes / kSectorBytes, ++line)
                demand.fills += (lines & 15) != 0;
        }
        if (bypass) {
            if (write) demand.evicted += present + absent;
            return;
        }
        const uint32_t brought = (write ? mask : filled(mask & ~page.valid)) & ~page.valid;
        if (!write) demand.fetched += bytes_in(brought);
        page.valid |= mask | brought;
        if (write) page.dirty |= mask;
        used_ += bytes_in(brought);
        to_front(static_cast<int32_t>(index));
        while (used_ > capacity_) {
            const int32_t victim = orders_[1].oldest >= 0 ? orders_[1].oldest : orders_[0].oldest;
            if (victim < 0 || victim == static_cast<int32_t>(index)) break;
            evict(victim, demand);
        }
    }
    void evict(int32_t index, Demand& demand) {
        Page& page = pages_[index];
        used_ -= bytes_in(page.valid);
        demand.evicted += bytes_in(page.dirty);
        unlink(index);
        page = {};
    }
    void unlink(int32_t index) {
        Page& page = pages_[index];
        Order& order = orders_[page.written];
        if (page.previous >= 0) pages_[page.previous].next = page.next;
        if (page.next >= 0) pages_[page.next].previous = page.previous;
        if (order.newest == index) order.newest = page.next;
        if (order.oldest == index) order.oldest = page.previous;
        page.previous = page.next = -1;
        page.linked = false;
    }
    void to_front(int32_t index) {
        Page& page = pages_[index];
        if (page.linked && orders_[page.written].newest == index && page.written == (page.dirty != 0)) return;
        if (page.linked) unlink(index);
        page.written = page.dirty != 0;
        page.linked = true;
        Order& order = orders_[page.written];
        page.next = order.newest;
        if (order.newest >= 0) pages_[order.newest].previous = index;
        order.newest = index;
        if (order.oldest < 0) order.oldest = index;
    }

    uint64_t begin_;
    double capacity_, used_ = 0;
    std::vector<Page> pages_;
    Order orders_[2];  // of pages that were only read, and of written ones
};

// The GM side of a copy; no bytes: it has none.
struct GmSide {
    bool write = false;
    double bytes = 0;
};
inline GmSide gm_side(const Access* access, unsigned count) {
    GmSide side;
    for (unsigned a = 0; a < count; a += access[a].more() ? 2 : 1) {
        if (access[a].space() != kGm) continue;
        side.write = access[a].mode() & kWrite;
        side.bytes += static_cast<double>(access[a].row_bytes() * access[a].rows() * (access[a].more() ? access[a + 1].rows() : 1));
    }
    return side;
}

// First come, first served, at a fixed rate.
struct Server {
    double free_at = 0;
    double serve(double now, double bytes, double rate) {
        free_at = (now > free_at ? now : free_at) + bytes / rate;
        return free_at;
    }
};

// A range of GM that is being read or written now, by its first line.
struct Sharing {
    uint64_t first = 0;
    uint32_t core = 0, transfers = 0;  // under way, and the core that began
    bool several = false;              // other cores, too
    double fetched = 0;                // when all that was asked from HBM is in L2
};

// The transfers under way that begin in one page of GM: their rows meet in the same part of L2, which answers so many lines a cycle to all
// of them together. Two pages may share a slot, which costs a little accuracy and no time.
struct Line {  // of 512 bytes, and who read less than a block of it
    uint32_t core = 0;
    bool several = false;
    Server server;
};
struct Near {
    uint32_t transfers = 0;
    Server server;
    struct Own {  // the page of a core's last transfer, and how many of the core's own are under way there
        uint64_t page = 0;
        uint32_t transfers = 0;
    };
};

// One GM copy under way.
struct Transfer {
    uint32_t core = 0, pipe = 0, instr = 0;
    bool write = false, counted = false, begun = false;
    double rate = 1, cold_rate = 0, latency = 0, row = 0, odd_rate = 0;
    double row_cycles = 0;                       // least time of its rows, longer for others that read near them
    uint64_t l2_unit = kLineBytes;               // L2 hands out whole units of this many bytes
    double window = 0;                           // bytes in flight while it streams
    double not_before = 0;                       // it cannot end earlier: the cube still computes what it stores
    double start = 0, ready = 0, remaining = 0;  // ready: when its data may begin to flow; remaining: bytes
    Demand demand;
    Sharing* range = nullptr;  // who else transfers the same range
    uint64_t page = 0;         // slot of the page it begins in
    Line* line = nullptr;      // of a read of less than a block, where other cores read such parts, too
};

// What several cores transfer at once. A slot follows one range at a time; a range that finds its slot taken by another goes unnoticed,
// which costs a little accuracy and no time.
class Ranges {
public:
    // The transfer joins the others of its range; null: not followed.
    Sharing* enter(uint64_t first, uint32_t core) {
        Sharing& range = slots_[(first * 0x9e3779b97f4a7c15ull) >> 50];
        if (range.transfers == 0) range = {first, core, 0, false, 0};
        if (range.first != first) return nullptr;
        ++range.transfers;
        range.several |= range.core != core;
        return &range;
    }

private:
    std::vector<Sharing> slots_ = std::vector<Sharing>(1 << 14);
};

class Memory {
public:
    Memory(const Chip& chip, uint32_t cores)
        : chip_(chip), l2_(chip.gm_begin, chip.gm_end, chip.l2_bytes), ports_(cores), asked_(cores, 0), own_(cores) {}

    // The transfer starts: what is in L2, what must be fetched, and how long until the first byte.
    double begin(Transfer& t, double now, const Access* accesses, unsigned count, bool bypass, double latency) {
        bool atomic = false;
        for (unsigned i = 0; i < count; i += accesses[i].more() ? 2 : 1) {
            if (accesses[i].space() != kGm) continue;
            atomic |= accesses[i].mode() == (kRead | kWrite);
            rows(t, accesses + i, bypass);
        }
        const double weight = atomic ? chip_.atomic_weight : 1;
        t.demand.l2 *= weight;
        t.remaining = t.demand.bytes;
        t.range = ranges_.enter(t.demand.first, t.core);
        if (bypass && t.range && t.range->several) t.demand.hbm *= chip_.same_address_weight;
        if (!t.write && t.demand.bytes < kBlockBytes) t.line = part_of_line(t);
        t.page = t.demand.first / (kPageBytes / kLineBytes) * 0x9e3779b97f4a7c15ull >> 50;
        Near& near = near_[t.page];
        Near::Own& own = own_[t.core];
        if (own.page != t.page) own = {t.page, 0};
        const double crowd = 1 + (near.transfers++ - own.transfers++) * chip_.same_address_delay;
        t.row_cycles += std::max(t.row * t.demand.rows * crowd, t.odd_rate > 0 ? t.demand.odd_bytes / t.odd_rate : 0);
        if (t.write) {
            return latency + (t.demand.cold > 0 ? chip_.cold_store_latency : 0);
        }
        t.counted = t.demand.miss > 0;
        double wait = latency;
        if (t.counted) {
            // A new request waits behind what the other cores have in flight.
            t.window = latency * (t.cold_rate > 0 ? t.cold_rate : t.rate);
            wait += chip_.miss_latency + (in_flight_ - flight(t)) / chip_.hbm_rate;
            change_flight(t, t.demand.bytes);
        }
        if (t.range) {
            // What is on its way into L2 for one core is not there yet for the others.
            const double flow = flow_cycles(t);
            wait = std::max(wait, t.range->fetched + 1 - flow - now);
            if (t.counted) t.range->fetched = std::max(t.range->fetched, now + wait + flow);
        }
        return wait;
    }
    struct Piece {
        double next, done;  // when the next piece may be asked for, and when this one has arrived
    };
    // The next piece of a transfer asks for service. A read may ask on while up to one latency of data waits at the core's port.
    Piece piece(Transfer& t, double now, double bytes) {
        const double share = t.demand.bytes > 0 ? bytes / t.demand.bytes : 1;
        double port = ports_[t.core].serve(now, share * flow_cycles(t), 1);
        if (!t.write) port = std::max(port, near_[t.page].server.serve(now, t.demand.lines * share, chip_.page_rate));
        double served = t.write ? l2_write_.serve(now, t.demand.l2 * share, chip_.l2_write_rate)
                                : l2_read_.serve(now, t.demand.l2 * share, chip_.l2_read_rate);
        if (t.line) served = std::max(served, t.line->server.serve(now, chip_.part_block_cycles, 1) - chip_.part_block_cycles);
        if (t.demand.miss > 0) served = std::max(served, hbm_.serve(now, t.demand.hbm * share, chip_.hbm_rate));
        if (t.demand.evicted > 0) {
            // Written back behind the transfer's back, unless so much is waiting that L2 has no room.
            const double back = hbm_.serve(now, t.demand.evicted * share * chip_.hbm_write_weight, chip_.hbm_rate);
            if (t.write) served = std::max(served, back - kWriteBuffer / chip_.hbm_rate);
        }
        t.remaining -= bytes;
        return {std::max(served, t.write ? port : port - t.latency), std::max(served, port)};
    }
    void end(Transfer& t) {
        if (t.counted) change_flight(t, -t.demand.bytes);
        if (t.range) --t.range->transfers;
        --near_[t.page].transfers;
        if (own_[t.core].page == t.page && own_[t.core].transfers > 0) --own_[t.core].transfers;
        traffic.hbm_read += t.demand.miss;
        traffic.hbm_write += t.demand.evicted;
        (t.write ? traffic.l2_write : traffic.l2_read) += t.demand.hit + t.demand.miss;
        traffic.l2_hit += t.demand.hit;
    }

    // The next launch begins at time zero, with what this one left in L2.
    void restart() {
        hbm_ = l2_read_ = l2_write_ = {};
        ports_.assign(ports_.size(), {});
        near_.assign(near_.size(), {});
        lines_.assign(lines_.size(), {});
        own_.assign(own_.size(), {});
    }

    Traffic traffic{};

private:
    // The line that the transfer reads a part of, if several cores do. Two lines may share a slot, which costs a little accuracy and no
    // time.
    Line* part_of_line(const Transfer& t) {
        Line& line = lines_[t.demand.first * 0x9e3779b97f4a7c15ull >> 54];
        line.several |= line.server.free_at > 0 && line.core != t.core;
        line.core = t.core;
        return line.several ? &line : (line.server.free_at = 1, nullptr);
    }
    static constexpr double kWriteBuffer = 1 << 20;

    // What the core's own port needs for all of it. A core has so many misses under way at most: lines come no faster than one in
    // miss_interval cycles however short the part that is wanted, whole ones at cold_rate.
    double flow_cycles(const Transfer& t) const {
        const double missing =
            t.cold_rate > 0 ? std::max(t.demand.miss / t.cold_rate, t.demand.fills * chip_.miss_interval) : t.demand.miss / t.rate;
        return std::max((t.demand.bytes - t.demand.miss) / t.rate + missing, t.row_cycles);
    }
    double flight(const Transfer& t) const { return std::min(asked_[t.core], t.window); }
    void change_flight(const Transfer& t, double bytes) {
        in_flight_ -= flight(t);
        asked_[t.core] += bytes;
        in_flight_ += flight(t);
    }

    void rows(Transfer& t, const Access* access, bool bypass) {
        const uint64_t outer = access->more() ? access[1].rows() : 1;
        const int64_t outer_stride = access->more() ? access[1].stride() : 0;
        if (t.demand.bytes == 0) t.demand.first = access->address() / kLineBytes;
        for (uint64_t o = 0; o < outer; ++o)
            for (uint64_t r = 0; r < access->rows(); ++r)
                row(t, access->address() + o * outer_stride + r * access->stride(), access->row_bytes(), access->stride(), bypass);
    }
    void row(Transfer& t, uint64_t address, uint64_t bytes, int64_t stride, bool bypass) {
        Demand one;
        l2_.access(address, bytes, t.write, bypass, one);
        const double weight = address % kSectorBytes ? chip_.unaligned_weight : 1;
        const uint64_t unit = t.l2_unit, units = (address + bytes - 1) / unit - address / unit + 1;
        t.demand.hit += one.hit;
        t.demand.miss += one.miss;
        t.demand.fills += one.fills;
        t.demand.hbm += (bypass && bytes < kLineBytes ? one.miss * chip_.part_line_weight : std::max(one.miss, one.fetched)) * weight;
        t.demand.evicted += one.evicted;
        t.demand.cold += one.cold;
        t.demand.l2 += static_cast<double>(units * unit) * weight;
        t.demand.bytes += static_cast<double>(bytes);
        t.demand.lines += static_cast<double>((address + bytes - 1) / kLineBytes - address / kLineBytes + 1);
        t.demand.rows += 1;
        if (stride % kBlockBytes != 0) t.demand.odd_bytes += static_cast<double>(bytes);
    }

    const Chip& chip_;
    L2 l2_;
    Server hbm_, l2_read_, l2_write_;
    std::vector<Server> ports_;  // one port a core for both directions
    std::vector<double> asked_;  // bytes of misses that each core has asked for and not all received
    double in_flight_ = 0;       // of all cores, each at most what one latency at its rate holds
    Ranges ranges_;
    std::vector<Near> near_ = std::vector<Near>(1 << 14);
    std::vector<Near::Own> own_;
    std::vector<Line> lines_ = std::vector<Line>(1 << 10);
};

}  // namespace timing
