#pragma once

#include <adaptiveload/schedule/permutation.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload {

/// Where the ranks of a run wait for each other.
enum class ranks_wait {
  every_step,        ///< DDP, ZeRO-1 and 2: ranks may run different numbers of micro-batches
  every_micro_batch  ///< FSDP, ZeRO-3: each layer of each micro-batch is a collective
};

/// Who gets which of a step's micro-batches.
enum class dealing {
  balanced,  ///< so that ranks finish together, where they wait
  as_drawn   ///< in turn, after a uniform draw: what a sampler that knows no costs does
};

namespace detail {

/// The part of `items` that `begin` gives to rank `r`.
template <class Item>
std::span<const Item> part_of_rank(const std::vector<Item>& items,
                                   const std::vector<std::int32_t>& begin, std::int64_t r) {
  require(r >= 0 && r + 1 < static_cast<std::int64_t>(begin.size()), "rank", r,
          "0 to the world size - 1");
  const auto first = static_cast<std::size_t>(begin[static_cast<std::size_t>(r)]);
  const auto last = static_cast<std::size_t>(begin[static_cast<std::size_t>(r) + 1]);
  return std::span(items).subspan(first, last - first);
}

/// Which items each rank of a step runs, in order.
struct dealt_step {
  std::vector<std::int32_t> items;       // rank by rank
  std::vector<std::int32_t> rank_begin;  // where each rank's items begin; one more at the end
};

/// The indices of `costs`, the largest cost first, equal ones (to a millionth) in order.
///
/// A radix sort of the upper halves of the numbers, whose bits order as they do: costs repeat, one
/// for each bucket, and a comparison sort would be most of the time of dealing.
inline std::vector<std::int32_t> sorted_by_cost(const std::vector<double>& costs) {
  constexpr std::size_t digits = 256;
  std::array<std::array<std::int32_t, digits>, 4> begin{};
  std::vector<std::uint64_t> keys(costs.size());
  std::vector<std::uint64_t> sorted(costs.size());
  const auto digit = [](std::uint64_t key, std::size_t pass) {
    return static_cast<std::size_t>(key >> (32 + 8 * pass)) % digits;
  };
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const std::uint64_t descending = ~std::bit_cast<std::uint64_t>(costs[i]);
    keys[i] = (descending >> 32 << 32) | i;
    for (std::size_t pass = 0; pass < begin.size(); ++pass) ++begin[pass][digit(keys[i], pass)];
  }
  for (std::size_t pass = 0; pass < begin.size(); ++pass) {
    std::exclusive_scan(begin[pass].begin(), begin[pass].end(), begin[pass].begin(), 0);
    for (const std::uint64_t key : keys) {
      sorted[static_cast<std::size_t>(begin[pass][digit(key, pass)]++)] = key;
    }
    std::swap(keys, sorted);
  }
  std::vector<std::int32_t> order(costs.size());
  std::transform(keys.begin(), keys.end(), order.begin(),
                 [](std::uint64_t key) { return static_cast<std::int32_t>(key); });
  return order;
}

/// The ranks of a step in a heap of four children a node, the least loaded at its top.
class rank_heap {
 public:
  explicit rank_heap(std::int64_t ranks)
      : loads_(static_cast<std::size_t>(ranks)), ranks_(loads_.size()) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }

  /// Adds `cost` to the least loaded rank and returns that rank.
  std::int32_t add(double cost) {
    const double load = loads_.front() + cost;
    const std::int32_t rank = ranks_.front();
    std::size_t hole = 0;
    for (std::size_t first = 1; first < loads_.size(); first = 4 * hole + 1) {
      std::size_t least = first;
      const std::size_t end = std::min(first + 4, loads_.size());
      for (std::size_t i = first + 1; i < end; ++i) least = loads_[i] < loads_[least] ? i : least;
      if (loads_[least] >= load) break;
      loads_[hole] = loads_[least];
      ranks_[hole] = ranks_[least];
      hole = least;
    }
    loads_[hole] = load;
    ranks_[hole] = rank;
    return rank;
  }

 private:
  std::vector<double> loads_;
  std::vector<std::int32_t> ranks_;
};

struct deal_options {
  std::int64_t world_size;
  ranks_wait wait;
  adaptiveload::dealing dealing;
};

/// A window of items, sorted by cost and cut into rounds of `world_size` neighbours, which its
/// steps share out at random.
///
/// Where ranks wait at every micro-batch, a round is what they run at the same time. Where they
/// wait once a step, its items go, longest first, to the least loaded rank (Graham 1969).
class dealt_window {
 public:
  /// `costs`: one for each item, a multiple of the world size; 1 <= steps <= rounds.
  dealt_window(std::vector<double> costs, std::int64_t steps, std::uint64_t key, deal_options how)
      : costs_(std::move(costs)), steps_(steps), key_(key), how_(how) {
    if (how_.dealing == dealing::balanced) {
      sorted_ = sorted_by_cost(costs_);
    } else {
      sorted_.resize(costs_.size());
      std::iota(sorted_.begin(), sorted_.end(), 0);
    }
  }

  /// Who runs what in the window's `index`-th step.
  [[nodiscard]] dealt_step step(std::int64_t index) const {
    const std::int64_t ranks = how_.world_size;
    // Whoever is dealt first gets the longest: not the same rank at every step.
    const auto lead = static_cast<std::int64_t>(mix(key_, static_cast<std::uint64_t>(index)) %
                                                static_cast<std::uint64_t>(ranks));
    const bool to_least_loaded =
        how_.dealing == dealing::balanced && how_.wait == ranks_wait::every_step;
    rank_heap loads(to_least_loaded ? ranks : 0);
    std::vector<std::int32_t> items;
    std::vector<std::int32_t> owners;
    items.reserve(costs_.size() / static_cast<std::size_t>(steps_));
    owners.reserve(items.capacity());
    bool turned = false;  // every other round goes from the last rank to the first, for equal sums
    for (const std::int64_t round : rounds_of(index)) {
      for (std::int64_t i = 0; i < ranks; ++i) {
        const std::int32_t item = sorted_[static_cast<std::size_t>(round * ranks + i)];
        std::int64_t owner = turned ? ranks - 1 - i : i;
        if (to_least_loaded) owner = loads.add(costs_[static_cast<std::size_t>(item)]);
        items.push_back(item);
        owners.push_back(static_cast<std::int32_t>((owner + lead) % ranks));
      }
      turned = !turned;
    }
    return by_rank(items, owners);
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> rounds_of(std::int64_t step) const {
    const std::int64_t rounds = static_cast<std::int64_t>(costs_.size()) / how_.world_size;
    const keyed_permutation order(rounds, key_);
    std::vector<std::int64_t> mine;
    const std::int64_t end = rounds * (step + 1) / steps_;
    for (std::int64_t i = rounds * step / steps_; i < end; ++i) mine.push_back(order(i));
    std::sort(mine.begin(), mine.end());  // longest first
    return mine;
  }

  [[nodiscard]] dealt_step by_rank(const std::vector<std::int32_t>& items,
                                   const std::vector<std::int32_t>& owners) const {
    dealt_step step;
    step.rank_begin.assign(static_cast<std::size_t>(how_.world_size) + 1, 0);
    for (const std::int32_t r : owners) ++step.rank_begin[static_cast<std::size_t>(r) + 1];
    std::partial_sum(step.rank_begin.begin(), step.rank_begin.end(), step.rank_begin.begin());
    std::vector<std::int32_t> next(step.rank_begin.begin(), step.rank_begin.end() - 1);
    step.items.resize(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::int32_t& place = next[static_cast<std::size_t>(owners[i])];
      step.items[static_cast<std::size_t>(place++)] = items[i];
    }
    return step;
  }

  std::vector<double> costs_;
  std::vector<std::int32_t> sorted_;  // items, longest first
  std::int64_t steps_;
  std::uint64_t key_;
  deal_options how_;
};

}  // namespace detail
}  // namespace adaptiveload
