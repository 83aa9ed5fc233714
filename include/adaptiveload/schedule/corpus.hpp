#pragma once

#include <adaptiveload/schedule/permutation.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace adaptiveload {

/// A data set, as the number of its samples in each bucket.
struct sample_source {
  std::vector<std::int64_t> counts = {};  ///< one for each bucket; 0 where it has none
  double passes = 1;  ///< how often an epoch goes through the source; 0.25: a quarter each epoch

  [[nodiscard]] std::int64_t samples() const {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }
};

/// A sample of an epoch: the `index`-th of those that `source` has in `bucket`, in the caller's
/// order.
struct sample_ref {
  std::int64_t source = 0;
  std::int64_t bucket = 0;
  std::int64_t index = 0;
  std::int64_t pass = 0;  ///< how often the run went through the source's bucket before

  friend constexpr auto operator<=>(const sample_ref&, const sample_ref&) = default;
};

/// Sets the passes of each source so that an epoch, as long as all sources together, draws the
/// sources' samples in proportion to `weights`.
///
/// A source may so be repeated within an epoch, or spread over several; each is gone through whole
/// before any of its samples comes again. Throws `std::invalid_argument` unless there is one weight
/// a source, finite and at least 0, not all 0, and 0 where a source is empty.
inline std::vector<sample_source> mix_sources(std::vector<sample_source> sources,
                                              std::span<const double> weights) {
  detail::require(weights.size() == sources.size(), "weights", weights.size(),
                  "one for each source");
  double total_weight = 0;
  double total_samples = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    detail::require(weights[i] >= 0 && std::isfinite(weights[i]),
                    "weights[" + std::to_string(i) + "]", weights[i], "finite and at least 0");
    detail::require(weights[i] == 0 || sources[i].samples() > 0,
                    "weights[" + std::to_string(i) + "]", weights[i],
                    "0, because the source has no samples");
    total_weight += weights[i];
    total_samples += static_cast<double>(sources[i].samples());
  }
  detail::require(total_weight > 0, "weights", total_weight, "a sum above 0");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto samples = static_cast<double>(sources[i].samples());
    sources[i].passes = samples > 0 ? total_samples * weights[i] / (total_weight * samples) : 0;
  }
  return sources;
}

namespace detail {

/// The samples of one epoch, bucket by bucket, shuffled across sources.
///
/// Each source's part of a bucket is an endless stream of passes, each pass a permutation; an epoch
/// takes the next `passes * size` of it.
class epoch_samples {
 public:
  epoch_samples(std::span<const sample_source> sources, std::size_t buckets, std::uint64_t seed,
                std::int64_t epoch)
      : streams_(buckets) {
    require(!sources.empty(), "sources", "empty", "at least one source");
    require(epoch >= 0 && epoch < std::int64_t{1} << 31, "epoch", epoch, "0 to 2^31 - 1");
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const auto& [counts, passes] = sources[s];
      const auto name = [s](const std::string& rest) {
        return "sources[" + std::to_string(s) + "]." + rest;
      };
      require(counts.size() == buckets, name("counts"), counts.size(), "one for each bucket");
      require(passes >= 0 && passes <= 1e6, name("passes"), passes, "0 to 1e6");
      for (std::size_t b = 0; b < buckets; ++b) {
        require(counts[b] >= 0 && counts[b] <= std::int64_t{1} << 40,
                name("counts[" + std::to_string(b) + "]"), counts[b], "0 to 2^40");
        const std::int64_t first = taken_before(epoch, counts[b], passes);
        const std::int64_t count = taken_before(epoch + 1, counts[b], passes) - first;
        if (count == 0) continue;
        auto& streams = streams_[b];
        const std::int64_t begin =
            streams.empty() ? 0 : streams.back().begin + streams.back().count;
        streams.push_back({static_cast<std::int64_t>(s), counts[b], first, begin, count,
                           mix(mix(seed, ~std::uint64_t{s}), b)});
      }
    }
    orders_.reserve(buckets);
    for (std::size_t b = 0; b < buckets; ++b) {
      const auto& streams = streams_[b];
      orders_.emplace_back(streams.empty() ? 0 : streams.back().begin + streams.back().count,
                           mix(mix(seed, static_cast<std::uint64_t>(epoch)), b + 1));
    }
  }

  /// The samples that the epoch has in a bucket.
  [[nodiscard]] std::int64_t samples_in(std::size_t bucket) const { return orders_[bucket].size(); }

  /// The sample at `position` of the bucket's order.
  [[nodiscard]] sample_ref sample(std::size_t bucket, std::int64_t position) const {
    const std::int64_t item = orders_[bucket](position);
    const auto& streams = streams_[bucket];
    auto from = streams.begin();
    while (item >= from->begin + from->count) ++from;
    const std::int64_t taken = from->first + item - from->begin;
    const std::int64_t pass = taken / from->size;
    std::int64_t index = taken % from->size;
    // Whole passes hold every sample whatever their order, and the bucket's order shuffles them.
    const bool whole = from->first % from->size == 0 && from->count % from->size == 0;
    if (!whole) {
      index =
          keyed_permutation(from->size, mix(from->key, static_cast<std::uint64_t>(pass)))(index);
    }
    return {from->source, static_cast<std::int64_t>(bucket), index, pass};
  }

 private:
  struct stream {
    std::int64_t source;
    std::int64_t size;   // samples of the source in this bucket
    std::int64_t first;  // of the endless stream, where the epoch starts
    std::int64_t begin;  // of the bucket's items, where this source's start
    std::int64_t count;  // the source's items of the epoch
    std::uint64_t key;
  };

  static std::int64_t taken_before(std::int64_t epoch, std::int64_t count, double passes) {
    const double samples = static_cast<double>(count) * passes * static_cast<double>(epoch);
    require(samples < 0x1p53, "samples of all epochs", samples, "fewer than 2^53");
    return static_cast<std::int64_t>(samples);
  }

  std::vector<std::vector<stream>> streams_;
  std::vector<keyed_permutation> orders_;
};

}  // namespace detail
}  // namespace adaptiveload
