#pragma once

#include <adaptiveload/schedule/epoch_plan.hpp>
#include <adaptiveload/schedule/load_report.hpp>
#include <adaptiveload/schedule/recorded_run.hpp>
#include <adaptiveload/schedule/step_cost.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace adaptiveload {

/// A rank that takes `factor` times as long as predicted.
struct slow_rank {
  std::int64_t rank = 0;
  double factor = 1;
};

/// How a simulated cluster differs from the predicted times.
struct rank_conditions {
  double noise = 0;  ///< deviation / mean of a log-normal factor on each micro-batch's time
  std::uint64_t noise_seed = 0;
  std::vector<slow_rank> slow_ranks = {};
};

namespace detail {

/// Turns the times of a step's micro-batches into its duration.
class step_clock {
 public:
  step_clock(std::int64_t world_size, ranks_wait wait, const rank_conditions& conditions)
      : rank_ms_(static_cast<std::size_t>(world_size)),
        factors_(rank_ms_.size(), 1.0),
        wait_(wait),
        noise_(conditions.noise),
        random_(conditions.noise_seed) {
    require(noise_ >= 0 && noise_ <= 10, "noise", noise_, "0 to 10");
    const double variance = std::log1p(noise_ * noise_);  // of the logarithm, for a mean of 1
    factor_ = std::lognormal_distribution<double>(-variance / 2, std::sqrt(variance));
    for (const slow_rank& slow : conditions.slow_ranks) {
      require(slow.rank >= 0 && slow.rank < world_size, "slow_ranks: rank", slow.rank,
              "0 to the world size - 1");
      require(slow.factor > 0 && slow.factor <= 1e6, "slow_ranks: factor", slow.factor,
              "above 0, at most 1e6");
      factors_[static_cast<std::size_t>(slow.rank)] *= slow.factor;
    }
  }

  /// The duration of a step with these micro-batches, rank by rank as in `training_step`.
  double run(std::span<const double> micro_batch_ms, std::span<const std::int32_t> rank_begin) {
    round_ms_.clear();
    for (std::size_t r = 0; r < rank_ms_.size(); ++r) {
      rank_ms_[r] = 0;
      const auto begin = static_cast<std::size_t>(rank_begin[r]);
      const auto end = static_cast<std::size_t>(rank_begin[r + 1]);
      if (round_ms_.size() < end - begin) round_ms_.resize(end - begin, 0.0);
      for (std::size_t i = begin; i < end; ++i) {
        double ms = micro_batch_ms[i] * factors_[r];
        if (noise_ > 0) ms *= factor_(random_);
        rank_ms_[r] += ms;
        round_ms_[i - begin] = std::max(round_ms_[i - begin], ms);
      }
    }
    if (wait_ == ranks_wait::every_step) return *std::max_element(rank_ms_.begin(), rank_ms_.end());
    return std::accumulate(round_ms_.begin(), round_ms_.end(), 0.0);
  }

  /// What each rank computed in the last step.
  [[nodiscard]] std::span<const double> rank_ms() const { return rank_ms_; }

 private:
  std::vector<double> rank_ms_;
  std::vector<double> round_ms_;
  std::vector<double> factors_;
  ranks_wait wait_;
  double noise_;
  std::mt19937_64 random_;
  std::lognormal_distribution<double> factor_;
};

template <step_cost Cost>
void simulate_into(load_recorder& recorder, const epoch_plan& epoch, const Cost& cost,
                   const rank_conditions& conditions) {
  std::vector<double> full_ms;
  for (const bucket& b : epoch.buckets()) {
    full_ms.push_back(step_ms(cost, b.batch_size, b.sequence_length));
  }
  step_clock clock(epoch.options().world_size, epoch.options().ranks_wait, conditions);
  std::vector<double> micro_batch_ms;
  epoch.for_each_step(epoch.start(), [&](const training_step& step) {
    micro_batch_ms.clear();
    for (const micro_batch& m : step.micro_batches) {
      const auto at = static_cast<std::size_t>(m.bucket);
      const bucket& b = epoch.buckets()[at];
      const std::int64_t run = std::max<std::int64_t>(m.samples, 1);  // an empty one runs a sample
      micro_batch_ms.push_back(run == b.batch_size ? full_ms[at]
                                                   : step_ms(cost, run, b.sequence_length));
      recorder.add_micro_batch(run * b.sequence_length);
    }
    const double ms = clock.run(micro_batch_ms, step.rank_begin);
    recorder.add_step(clock.rank_ms(), ms, step.samples, step.tokens);
  });
}

}  // namespace detail

/// Runs an epoch on predicted times: a step lasts as long as its slowest rank, or, where ranks wait
/// at every micro-batch, as the slowest of each round added up.
///
/// A step of several micro-batches costs as much as each alone: launches and the optimizer count
/// with each. Throws `std::invalid_argument` where the cost is not finite and above 0, and on
/// conditions out of range.
template <step_cost Cost>
[[nodiscard]] load_report simulate(const epoch_plan& epoch, const Cost& cost,
                                   const rank_conditions& conditions = {}) {
  load_recorder recorder(epoch.options().world_size);
  detail::simulate_into(recorder, epoch, cost, conditions);
  return recorder.report();
}

/// Runs recorded micro-batches, in any order, on predicted times as `simulate` does.
///
/// Throws `std::invalid_argument` where positions of a rank are missing or repeated, and where
/// ranks wait at every micro-batch but have different numbers of them.
template <step_cost Cost>
[[nodiscard]] load_report replay(std::span<const recorded_micro_batch> run, ranks_wait wait,
                                 const Cost& cost, const rank_conditions& conditions = {}) {
  detail::require(!run.empty(), "run", "empty", "at least one micro-batch");
  std::vector<recorded_micro_batch> sorted(run.begin(), run.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.rank, a.position) < std::tie(b.step, b.rank, b.position);
  });
  std::int64_t world_size = 0;
  for (const recorded_micro_batch& m : sorted) {
    detail::require(m.rank >= 0 && m.rank < 1 << 20, "rank", m.rank, "0 to 2^20 - 1");
    world_size = std::max(world_size, m.rank + 1);
  }

  detail::step_clock clock(world_size, wait, conditions);
  load_recorder recorder(world_size);
  for (auto at = sorted.begin(); at != sorted.end();) {
    const std::int64_t step = at->step;
    const std::string name = "step " + std::to_string(step);
    std::vector<double> ms;
    std::vector<std::int32_t> rank_begin;
    std::int64_t samples = 0;
    std::int64_t tokens = 0;
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      rank_begin.push_back(static_cast<std::int32_t>(ms.size()));
      for (std::int64_t next = 0; at != sorted.end() && at->step == step && at->rank == rank;
           ++next, ++at) {
        detail::require(at->position == next, name + ": position of rank " + std::to_string(rank),
                        at->position, "each from 0 up, once");
        ms.push_back(detail::step_ms(cost, at->batch_size, at->sequence_length));
        recorder.add_micro_batch(at->batch_size * at->sequence_length);
        samples += at->batch_size;
        tokens += at->batch_size * at->sequence_length;
      }
      const auto count = static_cast<std::int32_t>(ms.size()) - rank_begin.back();
      detail::require(wait == ranks_wait::every_step ||
                          count * (rank + 1) == static_cast<std::int32_t>(ms.size()),
                      name + ": micro-batches of rank " + std::to_string(rank), count,
                      "as many as rank 0 has, because ranks wait at every micro-batch");
    }
    rank_begin.push_back(static_cast<std::int32_t>(ms.size()));
    const double step_ms = clock.run(ms, rank_begin);
    recorder.add_step(clock.rank_ms(), step_ms, samples, tokens);
  }
  return recorder.report();
}

}  // namespace adaptiveload
