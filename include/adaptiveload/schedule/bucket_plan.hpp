#pragma once

#include <adaptiveload/schedule/batch_size.hpp>
#include <adaptiveload/schedule/step_cost.hpp>
#include <adaptiveload/support/error.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace adaptiveload {

/// The samples of one shape, and how many of them make a micro-batch.
struct bucket {
  std::int64_t sequence_length = 0;  ///< S, tokens per sample
  std::int64_t batch_size = 0;       ///< B, samples in a full micro-batch
  double step_ms = 0;                ///< predicted time of a step on a full micro-batch
  double single_ms = 0;              ///< predicted time of a step on one sample
  batch_bound bound = batch_bound::memory;

  /// Tokens of a full micro-batch.
  [[nodiscard]] constexpr std::int64_t tokens() const { return batch_size * sequence_length; }

  friend constexpr bool operator==(const bucket&, const bucket&) = default;
};

/// Micro-batches of at most `max_tokens` tokens that a step takes at most `target_ms` for.
struct equal_time_limits {
  std::int64_t max_tokens = 0;
  double target_ms = 0;
};

namespace detail {

/// The largest batch in [0, most] whose step takes at most `target_ms`.
template <step_cost Cost>
constexpr std::int64_t time_quotient(std::int64_t sequence_length, std::int64_t most,
                                     double target_ms, const Cost& cost) {
  std::int64_t fits = 0;
  while (fits < most) {
    const std::int64_t middle = most - (most - fits) / 2;
    if (step_ms(cost, middle, sequence_length) <= target_ms) {
      fits = middle;
    } else {
      most = middle - 1;
    }
  }
  return fits;
}

template <step_cost Cost>
constexpr bucket make_bucket(std::int64_t sequence_length, bounded_batch batch, const Cost& cost) {
  return {sequence_length, batch.batch_size, step_ms(cost, batch.batch_size, sequence_length),
          step_ms(cost, 1, sequence_length), batch.bound};
}

}  // namespace detail

/// The bucket of `sequence_length` under the dual constraint. Equal tokens, the usual baseline, is
/// the same without a compute limit: `{.max_tokens = ...}`.
///
/// Throws what `batch_size` throws, and where the cost isn't finite and above 0.
template <step_cost Cost>
constexpr bucket plan_bucket(std::int64_t sequence_length, const batch_limits& limits,
                             const Cost& cost) {
  return detail::make_bucket(sequence_length, detail::bound_batch(sequence_length, limits), cost);
}

/// The bucket of `sequence_length` with the largest batch that fits both memory and target time.
///
/// `batch_bound::compute` says that the target time binds. Throws unless max_tokens >= 1 and
/// target_ms > 0.
template <step_cost Cost>
constexpr bucket plan_bucket(std::int64_t sequence_length, const equal_time_limits& limits,
                             const Cost& cost) {
  detail::require_sequence_length(sequence_length);
  detail::require(limits.max_tokens >= 1, "max_tokens", limits.max_tokens, "at least 1");
  detail::require(limits.target_ms > 0, "target_ms", limits.target_ms, "above 0");
  const std::int64_t memory = limits.max_tokens / sequence_length;
  const std::int64_t time = detail::time_quotient(sequence_length, memory, limits.target_ms, cost);
  return detail::make_bucket(sequence_length, detail::bound_batch(memory, time), cost);
}

/// One bucket for each sequence length, in their order, under `batch_limits` or
/// `equal_time_limits`.
template <class Limits, step_cost Cost>
std::vector<bucket> plan_buckets(std::span<const std::int64_t> sequence_lengths,
                                 const Limits& limits, const Cost& cost) {
  detail::require(!sequence_lengths.empty(), "sequence_lengths", "empty", "at least one length");
  std::vector<bucket> buckets;
  buckets.reserve(sequence_lengths.size());
  for (const std::int64_t s : sequence_lengths) buckets.push_back(plan_bucket(s, limits, cost));
  return buckets;
}

/// The same for a table known at compile time.
template <std::size_t Count, class Limits, step_cost Cost>
constexpr std::array<bucket, Count> plan_buckets(
    const std::array<std::int64_t, Count>& sequence_lengths, const Limits& limits,
    const Cost& cost) {
  std::array<bucket, Count> buckets{};
  for (std::size_t i = 0; i < Count; ++i) {
    buckets[i] = plan_bucket(sequence_lengths[i], limits, cost);
  }
  return buckets;
}

}  // namespace adaptiveload
