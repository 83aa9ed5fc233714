#pragma once

#include <adaptiveload/schedule/bucket_plan.hpp>
#include <adaptiveload/schedule/corpus.hpp>
#include <adaptiveload/schedule/permutation.hpp>
#include <adaptiveload/schedule/spread_order.hpp>
#include <adaptiveload/schedule/training_step.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload {

namespace detail {

/// How an epoch's micro-batches are ordered.
enum class drawing {
  uniform,        // any order is as likely as another
  evenly_spread,  // by their buckets' times
};

/// The micro-batches of an epoch in their order, which knows nothing of ranks.
class epoch_order {
 public:
  epoch_order(std::span<const bucket> buckets, std::span<const sample_source> sources,
              std::uint64_t seed, std::int64_t epoch, bool keep_partial, drawing drawing)
      : buckets_(buckets.begin(), buckets.end()),
        samples_(sources, buckets.size(), seed, epoch),
        key_(mix(mix(seed, static_cast<std::uint64_t>(epoch)), 0)),
        drawing_(drawing) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const bucket& each = buckets_[b];
      require_sequence_length(each.sequence_length);
      require(each.batch_size >= 1 && each.batch_size <= std::int64_t{1} << 31, "batch_size",
              each.batch_size, "1 to 2^31");
      for (const double ms : {each.step_ms, each.single_ms}) {
        require(ms > 0 && ms <= 1e300, "step_ms", ms, "finite and above 0");
      }
      const std::int64_t count = samples_.samples_in(b);
      const std::int64_t partial = count % each.batch_size;
      kept_.push_back(keep_partial ? count : count - partial);
      samples_kept_ += kept_.back();
      samples_dropped_ += count - kept_.back();
      micro_batches_.push_back(count / each.batch_size + (keep_partial && partial > 0 ? 1 : 0));
    }
    require(samples_kept_ > 0, "samples of the epoch", samples_kept_, "at least one");
    number_micro_batches();
    if (drawing_ == drawing::evenly_spread) {
      spread_ = spread_order(size(), key_);
    } else {
      uniform_ = keyed_permutation(size(), key_);
    }
    fingerprint_ = fingerprint_of(sources, keep_partial);
  }

  [[nodiscard]] const std::vector<bucket>& buckets() const { return buckets_; }
  [[nodiscard]] const bucket& bucket_of(const micro_batch& m) const {
    return buckets_[static_cast<std::size_t>(m.bucket)];
  }

  [[nodiscard]] std::int64_t size() const { return first_.back(); }
  [[nodiscard]] std::int64_t samples_kept() const { return samples_kept_; }
  [[nodiscard]] std::int64_t samples_dropped() const { return samples_dropped_; }

  /// Differs between epochs, seeds, plans and corpora.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }
  [[nodiscard]] std::uint64_t key() const { return key_; }

  [[nodiscard]] micro_batch operator[](std::int64_t index) const {
    return numbered(drawing_ == drawing::evenly_spread ? spread_(index) : uniform_(index));
  }

  [[nodiscard]] std::vector<micro_batch> slice(std::int64_t first, std::int64_t count) const {
    std::vector<micro_batch> items;
    items.reserve(static_cast<std::size_t>(count));
    if (drawing_ == drawing::evenly_spread) {
      spread_.for_each(first, count, [&](std::int64_t i) { items.push_back(numbered(i)); });
    } else {
      for (std::int64_t i = first; i < first + count; ++i) items.push_back(numbered(uniform_(i)));
    }
    return items;
  }

  [[nodiscard]] sample_ref sample(const micro_batch& m, std::int64_t i) const {
    return samples_.sample(static_cast<std::size_t>(m.bucket), m.first + i);
  }

  /// Adds micro-batches until their number is a multiple of `world_size`: halves of the longest if
  /// they may be split, and empty ones.
  void fill_rounds(std::vector<micro_batch>& items, std::int64_t world_size, bool may_split) const {
    const auto ranks = static_cast<std::size_t>(world_size);
    if (items.size() % ranks == 0) return;
    const auto before = [](const micro_batch& a, const micro_batch& b) {
      if ((a.samples > 1) != (b.samples > 1)) return b.samples > 1;
      return a.predicted_ms < b.predicted_ms;
    };
    std::make_heap(items.begin(), items.end(), before);
    while (may_split && items.size() % ranks != 0 && items.front().samples > 1) {
      std::pop_heap(items.begin(), items.end(), before);
      const micro_batch half = split(items.back());
      std::push_heap(items.begin(), items.end(), before);
      items.push_back(half);
      std::push_heap(items.begin(), items.end(), before);
    }
    micro_batch empty = *std::min_element(items.begin(), items.end(), before);
    empty.samples = 0;
    while (items.size() % ranks != 0) items.push_back(empty);
  }

 private:
  /// Numbers the micro-batches bucket by bucket, the quickest bucket's first if they are spread.
  void number_micro_batches() {
    by_number_.resize(buckets_.size());
    std::iota(by_number_.begin(), by_number_.end(), std::size_t{0});
    if (drawing_ == drawing::evenly_spread) {
      std::stable_sort(by_number_.begin(), by_number_.end(), [this](std::size_t a, std::size_t b) {
        return buckets_[a].step_ms < buckets_[b].step_ms;
      });
    }
    first_.push_back(0);
    for (const std::size_t b : by_number_) first_.push_back(first_.back() + micro_batches_[b]);
  }

  [[nodiscard]] micro_batch numbered(std::int64_t i) const {
    std::size_t n =
        0;  // the last bucket that begins at or before i, without a branch to mispredict
    for (std::size_t jump = std::bit_floor(buckets_.size()); jump > 0; jump /= 2) {
      const std::size_t next = std::min(n + jump, buckets_.size() - 1);
      n = first_[next] <= i ? next : n;
    }
    const std::size_t b = by_number_[n];
    const bucket& from = buckets_[b];
    const std::int64_t at = i - first_[n];
    const std::int64_t all = micro_batches_[b];
    // Samples that do not fill a micro-batch shorten several by one: none is much smaller.
    const std::int64_t kept = kept_[b];
    const std::int64_t samples = kept / all + (at < kept % all ? 1 : 0);
    const std::int64_t first = at * (kept / all) + std::min(at, kept % all);
    return {static_cast<std::int64_t>(b), first, samples, predicted_ms(from, samples), 0};
  }

  /// Times between one sample and a full batch are interpolated: only an epoch's few partial
  /// micro-batches have them, and so no cost model is needed here.
  [[nodiscard]] static double predicted_ms(const bucket& b, std::int64_t samples) {
    if (samples >= b.batch_size) return b.step_ms;
    if (samples <= 1) return b.single_ms;
    return b.single_ms + (b.step_ms - b.single_ms) * static_cast<double>(samples - 1) /
                             static_cast<double>(b.batch_size - 1);
  }

  /// Takes half of a micro-batch's samples away and returns them.
  [[nodiscard]] micro_batch split(micro_batch& whole) const {
    micro_batch half = whole;
    half.samples = whole.samples / 2;
    whole.samples -= half.samples;
    half.first += whole.samples;
    for (micro_batch* m : {&whole, &half})
      m->predicted_ms = predicted_ms(bucket_of(*m), m->samples);
    return half;
  }

  [[nodiscard]] std::uint64_t fingerprint_of(std::span<const sample_source> sources,
                                             bool keep_partial) const {
    std::uint64_t hash = mix(key_, keep_partial ? 1 : 0);
    hash = mix(hash, static_cast<std::uint64_t>(drawing_));
    const auto add = [&hash](std::uint64_t value) { hash = mix(hash, value); };
    for (const bucket& b : buckets_) {
      add(static_cast<std::uint64_t>(b.sequence_length));
      add(static_cast<std::uint64_t>(b.batch_size));
      add(std::bit_cast<std::uint64_t>(b.step_ms));
      add(std::bit_cast<std::uint64_t>(b.single_ms));
    }
    for (const sample_source& s : sources) {
      for (const std::int64_t n : s.counts) add(static_cast<std::uint64_t>(n));
      add(std::bit_cast<std::uint64_t>(s.passes));
    }
    return hash;
  }

  std::vector<bucket> buckets_;
  epoch_samples samples_;
  std::uint64_t key_;
  drawing drawing_;
  std::vector<std::int64_t> kept_;           // samples of each bucket that the epoch has
  std::vector<std::int64_t> micro_batches_;  // of each bucket
  std::vector<std::size_t> by_number_;       // buckets as their micro-batches are numbered
  std::vector<std::int64_t> first_;          // number of each one's first; one more at the end
  std::int64_t samples_kept_ = 0;
  std::int64_t samples_dropped_ = 0;
  std::uint64_t fingerprint_ = 0;
  keyed_permutation uniform_;
  spread_order spread_;
};

}  // namespace detail
}  // namespace adaptiveload
