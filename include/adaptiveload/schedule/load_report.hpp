#pragma once

#include <adaptiveload/schedule/memory_model.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace adaptiveload {

/// How well a run's steps used its ranks.
struct load_report {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  std::int64_t peak_tokens = 0;  ///< of the largest micro-batch; `peak_bytes` of its memory
  double epoch_ms = 0;           ///< all steps, each as long as its slowest rank
  double bubble = 0;             ///< share of the ranks' time spent waiting, 0 to 1
  double compute_cv = 0;  ///< deviation / mean of the ranks' work in a step, the mean over steps
  double step_cv = 0;     ///< deviation / mean of the steps' durations
  double tokens_per_second_per_rank = 0;
  double samples_per_second_per_rank = 0;

  /// Peak memory of a rank in bytes, an upper bound as `memory` is.
  [[nodiscard]] double peak_bytes(const memory_model& memory) const {
    return memory.peak_bytes(peak_tokens);
  }
};

namespace detail {

/// Mean and deviation of values that arrive one by one (Welford 1962).
struct running_moments {
  double count = 0, mean = 0, squares = 0;

  constexpr void add(double value) {
    count += 1;
    const double delta = value - mean;
    mean += delta / count;
    squares += delta * (value - mean);
  }
  [[nodiscard]] double variation() const {  // of the population; 0 where there is no mean
    return mean > 0 ? std::sqrt(squares / count) / mean : 0.0;
  }
};

}  // namespace detail

/// Gathers a `load_report` step by step.
class load_recorder {
 public:
  /// Throws `std::invalid_argument` unless world_size >= 1.
  explicit load_recorder(std::int64_t world_size) : world_size_(world_size) {
    detail::require(world_size >= 1, "world_size", world_size, "at least 1");
  }

  /// One step: what each rank computed (milliseconds, one entry a rank), how long the step lasted,
  /// and what was trained in it. Throws unless there is a time for each rank, finite and at least
  /// 0.
  void add_step(std::span<const double> rank_ms, double step_ms, std::int64_t samples,
                std::int64_t tokens) {
    detail::require(static_cast<std::int64_t>(rank_ms.size()) == world_size_, "rank_ms",
                    rank_ms.size(), "one time for each rank");
    detail::running_moments work;
    for (const double ms : rank_ms) {
      detail::require(ms >= 0 && std::isfinite(ms), "rank_ms", ms, "finite and at least 0");
      work.add(ms);
      busy_ms_ += ms;
    }
    compute_cv_.add(work.variation());
    durations_.add(step_ms);
    totals_.steps += 1;
    totals_.samples += samples;
    totals_.tokens += tokens;
    totals_.epoch_ms += step_ms;
  }

  /// The tokens of a micro-batch, for the largest of them.
  void add_micro_batch(std::int64_t tokens) {
    totals_.peak_tokens = std::max(totals_.peak_tokens, tokens);
  }

  [[nodiscard]] load_report report() const {
    load_report r = totals_;
    const double rank_ms = r.epoch_ms * static_cast<double>(world_size_);
    if (rank_ms > 0) {
      r.bubble = std::max(0.0, 1 - busy_ms_ / rank_ms);
      r.tokens_per_second_per_rank = 1e3 * static_cast<double>(r.tokens) / rank_ms;
      r.samples_per_second_per_rank = 1e3 * static_cast<double>(r.samples) / rank_ms;
    }
    r.compute_cv = compute_cv_.mean;
    r.step_cv = durations_.variation();
    return r;
  }

 private:
  std::int64_t world_size_;
  load_report totals_;
  double busy_ms_ = 0;
  detail::running_moments compute_cv_, durations_;
};

/// The report of `rank_ms` [steps, world_size], where ranks wait for each other once a step.
///
/// `samples` and `tokens` are the whole run's. Throws unless whole steps are given.
inline load_report report_load(std::span<const double> rank_ms, std::int64_t world_size,
                               std::int64_t samples, std::int64_t tokens) {
  load_recorder recorder(world_size);
  const auto ranks = static_cast<std::size_t>(world_size);
  detail::require(!rank_ms.empty() && rank_ms.size() % ranks == 0, "rank_ms", rank_ms.size(),
                  "one time for each rank of each step");
  for (std::size_t first = 0; first < rank_ms.size(); first += ranks) {
    const auto step = rank_ms.subspan(first, ranks);
    const bool last = first + ranks == rank_ms.size();
    recorder.add_step(step, *std::max_element(step.begin(), step.end()), last ? samples : 0,
                      last ? tokens : 0);
  }
  return recorder.report();
}

}  // namespace adaptiveload
