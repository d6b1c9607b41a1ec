// The next token of each row of logits. A row's answer depends on that row, its parameters and its random number only.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "vectors.h"

using namespace toprope;

extern "C" {
struct SampleParams {  // of one row; top_k 0, top_p 1 and min_p 0 switch a cut off
    float temperature, top_p, min_p;
    std::int32_t top_k;
    std::uint64_t seed, counter;
};
}

namespace {

constexpr std::int64_t kBlock = 256;  // logits whose weights are summed in float
constexpr float kLeast = -80.0f;      // a token whose logit lies further below the highest one has no weight
constexpr int kBins = 2048;           // of distances from the highest logit
constexpr float kBinsPerUnit = kBins / -kLeast;

// The first number in [0, 1) of numpy.random.Generator(numpy.random.Philox(key=seed, counter=counter)): Philox 4x64 in ten rounds.
double uniform(std::uint64_t seed, std::uint64_t counter) {
    std::uint64_t c[4] = {counter + 1, counter + 1 == 0, 0, 0}, key[2] = {seed, 0};
    for (int round = 0; round < 10; ++round) {
        const auto a = static_cast<unsigned __int128>(0xD2E7470EE14C6C93u) * c[0],
                   b = static_cast<unsigned __int128>(0xCA5A826395121157u) * c[2];
        const std::uint64_t next[4] = {static_cast<std::uint64_t>(b >> 64) ^ c[1] ^ key[0], static_cast<std::uint64_t>(b),
                                       static_cast<std::uint64_t>(a >> 64) ^ c[3] ^ key[1], static_cast<std::uint64_t>(a)};
        std::copy(next, next + 4, c);
        key[0] += 0x9E3779B97F4A7C15u;
        key[1] += 0xBB67AE8584CAA73Bu;
    }
    return static_cast<double>(c[0] >> 11) * 0x1p-53;
}

float peak_of(const float* x, std::int64_t n) {
    std::int64_t i = 0;
    float peak = x[0];
    if (n >= 4 * kLanes) {
        Floats a = load(x), b = load(x + kLanes), c = load(x + 2 * kLanes), d = load(x + 3 * kLanes);
        for (i = 4 * kLanes; i + 4 * kLanes <= n; i += 4 * kLanes) {
            a = larger(load(x + i), a);
            b = larger(load(x + i + kLanes), b);
            c = larger(load(x + i + 2 * kLanes), c);
            d = larger(load(x + i + 3 * kLanes), d);
        }
        peak = highest(larger(larger(a, b), larger(c, d)));
    }
    for (; i < n; ++i) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

// e to the power of `scaled`, 0 below kLeast.
TOPROPE_INLINE Register weight_of(Register scaled) { return choose(scaled > kLeast, exponential(scaled), Register{}); }
template <class V>
TOPROPE_INLINE Pair<V> weight_of(const Pair<V>& scaled) {
    return {weight_of(scaled.low), weight_of(scaled.high)};
}
float weight_of(float scaled) { return scaled > kLeast ? exponential(scaled) : 0.0f; }

struct Row {
    const float* x;
    std::int64_t n;
    float peak, inverse;  // 1 / temperature
    float scaled(std::int64_t i) const { return (x[i] - peak) * inverse; }
};

struct BlockWeight {
    float sum, largest;
};

// The weights of a block; they go to `to` unless it is null.
BlockWeight block_weight(const Row& row, std::int64_t first, float* to) {
    const std::int64_t end = std::min(first + kBlock, row.n);
    Floats sum = {}, most = {};
    std::int64_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
        const Floats w = weight_of((load(row.x + i) - row.peak) * row.inverse);
        if (to != nullptr) store(to + (i - first), w);
        sum += w;
        most = larger(w, most);
    }
    BlockWeight found = {total(sum), highest(most)};
    for (; i < end; ++i) {
        const float w = weight_of(row.scaled(i));
        if (to != nullptr) to[i - first] = w;
        found.sum += w;
        found.largest = std::max(w, found.largest);
    }
    return found;
}

std::int64_t first_peak(const Row& row) {
    for (std::int64_t i = 0; i < row.n; ++i)
        if (row.x[i] == row.peak) return i;
    return 0;
}

// Inverse of the cumulative distribution over all tokens, in the order of their numbers.
std::int64_t draw_any(const Row& row, double u) {
    static thread_local std::vector<float> sums;
    sums.clear();
    double all = 0;
    for (std::int64_t first = 0; first < row.n; first += kBlock) {
        sums.push_back(block_weight(row, first, nullptr).sum);
        all += sums.back();
    }
    if (!(all > 0 && all < HUGE_VAL)) return first_peak(row);
    const double wanted = u * all;
    double before = 0;
    std::size_t block = 0;
    while (block + 1 < sums.size() && before + sums[block] <= wanted) before += sums[block++];
    float weights[kBlock];
    block_weight(row, static_cast<std::int64_t>(block) * kBlock, weights);
    const std::int64_t first = static_cast<std::int64_t>(block) * kBlock, end = std::min(first + kBlock, row.n);
    std::int64_t last = first_peak(row);
    for (std::int64_t i = first; i < end; ++i) {
        if (!(weights[i - first] > 0)) continue;
        last = i;
        before += weights[i - first];
        if (before > wanted) break;
    }
    return last;
}

// Tokens in bins of falling weight, so that a cut or a draw has to sort one bin only.
class Likeliest {
public:
    explicit Likeliest(const Row& row) : row_(row), bin_(bins()), weight_(weights()) {
        bin_.resize(row.n);
        weight_.resize((row.n + kBlock - 1) / kBlock * kBlock);
        for (std::int64_t first = 0; first < row.n; first += kBlock) all_ += block_weight(row, first, weight_.data() + first).sum;
        for (std::int64_t i = 0; i < row.n; ++i) {
            const float below = -row.scaled(i) * kBinsPerUnit;
            bin_[i] = static_cast<std::uint16_t>(below < kBins - 1 ? static_cast<int>(below) : kBins - 1);
        }
        for (std::int64_t i = 0; i < row.n; ++i) {
            mass_[bin_[i]] += weight_[i];
            ++count_[bin_[i]];
        }
    }
    // The tokens of bin b, likeliest first, equal ones by number.
    const std::vector<std::int32_t>& sorted(int b) {
        if (sorted_ == b) return order_;
        order_.clear();
        for (std::int64_t i = 0; i < row_.n; ++i)
            if (bin_[i] == b) order_.push_back(static_cast<std::int32_t>(i));
        std::sort(order_.begin(), order_.end(),
                  [this](std::int32_t a, std::int32_t b) { return row_.x[a] != row_.x[b] ? row_.x[a] > row_.x[b] : a < b; });
        sorted_ = b;
        return order_;
    }

    // Tokens from the likeliest on: all of the bins before `bin`, and so many of that one.
    struct Prefix {
        int bin = kBins - 1;
        std::int64_t inside = 0;
        double mass = 0;
    };
    Prefix everything() const { return {kBins - 1, count_[kBins - 1], all_}; }

    // The tokens of `within` before the first, from the second on, for which `ends(number before it, weight before it, its weight)` holds.
    // Once it holds it holds for all that follow, so a bin at whose end it does not is inside.
    template <class Ends>
    Prefix cut(const Prefix& within, Ends ends) {
        double before = 0;
        std::int64_t number = 0;
        for (int b = 0; b <= within.bin; ++b) {
            const double least = b == kBins - 1 ? 0.0 : 0.999 * std::exp(-(b + 1) / static_cast<double>(kBinsPerUnit));
            if (count_[b] == 0) continue;
            if (b < within.bin && !ends(number + count_[b], before + mass_[b], least)) {
                before += mass_[b];
                number += count_[b];
                continue;
            }
            const std::int64_t limit = b == within.bin ? within.inside : count_[b];
            const std::vector<std::int32_t>& tokens = sorted(b);
            for (std::int64_t at = 0; at < limit; ++at) {
                if (number > 0 && ends(number, before, weight_[tokens[at]])) return {b, at, before};
                before += weight_[tokens[at]];
                ++number;
            }
        }
        return {within.bin, within.inside, before};
    }

    std::int64_t draw(const Prefix& kept, double u) {
        const double wanted = u * kept.mass;
        double before = 0;
        std::int64_t last = 0;
        for (int b = 0; b <= kept.bin; ++b) {
            if (b < kept.bin && (count_[b] == 0 || before + mass_[b] <= wanted)) {
                before += mass_[b];
                continue;
            }
            const std::vector<std::int32_t>& tokens = sorted(b);
            const std::int64_t limit = b == kept.bin ? kept.inside : count_[b];
            for (std::int64_t at = 0; at < limit && weight_[tokens[at]] > 0; ++at) {
                last = tokens[at];
                before += weight_[last];
                if (before > wanted) return last;
            }
        }
        // Sums that were rounded in another order end short of `wanted`: the last token that was seen, or the likeliest.
        return before > 0 && weight_[last] > 0 ? last : first_peak(row_);
    }

private:
    static std::vector<std::uint16_t>& bins() {
        static thread_local std::vector<std::uint16_t> kept;
        return kept;
    }
    static std::vector<float>& weights() {
        static thread_local std::vector<float> kept;
        return kept;
    }
    const Row& row_;
    std::vector<std::uint16_t>& bin_;
    std::vector<float>& weight_;
    std::vector<std::int32_t> order_;
    int sorted_ = -1;
    double all_ = 0;
    double mass_[kBins] = {};
    std::int64_t count_[kBins] = {};
};

// The few tokens that a cut keeps, found without a look at most blocks: those whose heaviest token is too light hold none of them.
class Shortlist {
public:
    Shortlist(const Row& row, const SampleParams& p)
        : row_(row), p_(p), counted_(p.top_k > 0 && p.top_k < row.n), kept_(kept()), sums_(sums()) {
        sums_.clear();
        for (std::int64_t first = 0; first < row.n; first += kBlock) {
            sums_.push_back(block_weight(row, first, nullptr));
            all_ += sums_.back().sum;
        }
    }
    double all() const { return all_; }

    // Collects the kept tokens, likeliest first, equal ones by number; false where they are too many for a list.
    bool collect() {
        const auto blocks = static_cast<std::int64_t>(sums_.size());
        if (counted_) {
            if (p_.top_k > blocks / 2 || !gather(std::max(nth_largest(p_.top_k), p_.min_p))) return false;
        } else if (p_.min_p > 0) {
            if (!gather(p_.min_p)) return false;
        } else {
            std::int64_t deep = 16;
            do {
                deep *= 2;
                if (deep > blocks / 2 || !gather(nth_largest(deep))) return false;
            } while (mass_ < p_.top_p * all_);
        }
        std::sort(kept_.begin(), kept_.end(), [](const Token& a, const Token& b) { return a.x != b.x ? a.x > b.x : a.number < b.number; });
        cut();
        return true;
    }

    std::int64_t draw(double u) const {
        const double wanted = u * mass_;
        double before = 0;
        for (const Token& token : kept_) {
            before += token.weight;
            if (before > wanted) return token.number;
        }
        return kept_.back().number;
    }

private:
    struct Token {
        float x, weight;
        std::int32_t number;
    };

    // The heaviest tokens of at least `count` blocks weigh this or more, so at least so many tokens do.
    float nth_largest(std::int64_t count) const {
        static thread_local std::vector<float> largest;
        largest.clear();
        for (const BlockWeight& block : sums_) largest.push_back(block.largest);
        std::nth_element(largest.begin(), largest.begin() + (count - 1), largest.end(), std::greater<float>());
        return largest[count - 1];
    }

    bool gather(float least) {
        least *= 0.9999f;  // a weight is rounded: one that is lighter by that may belong to a higher logit
        if (!(least > 0)) return false;
        kept_.clear();
        mass_ = 0;
        float weights[kBlock];
        for (std::size_t b = 0; b < sums_.size(); ++b) {
            if (sums_[b].largest < least) continue;
            const std::int64_t first = static_cast<std::int64_t>(b) * kBlock, end = std::min(first + kBlock, row_.n);
            block_weight(row_, first, weights);
            for (std::int64_t i = first; i < end; ++i)
                if (weights[i - first] >= least) {
                    kept_.push_back({row_.x[i], weights[i - first], static_cast<std::int32_t>(i)});
                    mass_ += weights[i - first];
                }
            if (static_cast<std::int64_t>(kept_.size()) > row_.n / 8) return false;
        }
        return true;
    }

    void cut() {
        std::size_t number = kept_.size();
        if (counted_) number = std::min<std::size_t>(number, p_.top_k);
        while (number > 1 && kept_[number - 1].weight < p_.min_p) --number;
        const bool shorter = counted_ || p_.min_p > 0;
        kept_.resize(number);
        mass_ = 0;
        for (const Token& token : kept_) mass_ += token.weight;
        if (p_.top_p >= 1) return;
        const double most = p_.top_p * (shorter ? mass_ : all_);
        mass_ = kept_[0].weight;
        for (number = 1; number < kept_.size() && mass_ < most; ++number) mass_ += kept_[number].weight;
        kept_.resize(number);
    }

    static std::vector<Token>& kept() {
        static thread_local std::vector<Token> it;
        return it;
    }
    static std::vector<BlockWeight>& sums() {
        static thread_local std::vector<BlockWeight> it;
        return it;
    }
    const Row& row_;
    const SampleParams& p_;
    const bool counted_;
    std::vector<Token>& kept_;
    std::vector<BlockWeight>& sums_;
    double all_ = 0, mass_ = 0;
};

std::int64_t sample(const Row& row, const SampleParams& p) {
    const double u = uniform(p.seed, p.counter);
    const bool counted = p.top_k > 0 && p.top_k < row.n;
    if (!counted && p.top_p >= 1 && p.min_p <= 0) return draw_any(row, u);
    Shortlist few(row, p);
    if (!(few.all() > 0 && few.all() < HUGE_VAL)) return first_peak(row);
    if (few.collect()) return few.draw(u);
    Likeliest likeliest(row);
    Likeliest::Prefix kept = likeliest.everything();
    if (counted || p.min_p > 0)
        kept = likeliest.cut(kept, [&](std::int64_t number, double, double weight) {
            return (counted && number >= p.top_k) || weight < static_cast<double>(p.min_p);
        });
    if (p.top_p < 1) {
        const double most = p.top_p * kept.mass;
        kept = likeliest.cut(kept, [&](std::int64_t, double before, double) { return before >= most; });
    }
    return likeliest.draw(kept, u);
}

}  // namespace

extern "C" {
// tokens[rows] from logits[rows][vocabulary]: the highest logit where the temperature is 0, otherwise drawn.
void sample_tokens(const float* logits, const SampleParams* params, std::int64_t* tokens, std::int64_t rows, std::int64_t vocabulary) {
#pragma omp parallel for schedule(dynamic, 1) if (rows > 1)
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* x = logits + r * vocabulary;
        Row row{x, vocabulary, peak_of(x, vocabulary), 0};
        if (params[r].temperature > 0) {
            row.inverse = 1.0f / params[r].temperature;
            tokens[r] = sample(row, params[r]);
        } else {
            tokens[r] = first_peak(row);
        }
    }
}
double first_uniform(std::uint64_t seed, std::uint64_t counter) { return uniform(seed, counter); }
}
