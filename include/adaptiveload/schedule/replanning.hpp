#pragma once

#include <adaptiveload/schedule/bucket_plan.hpp>
#include <adaptiveload/schedule/corpus.hpp>
#include <adaptiveload/schedule/load_report.hpp>
#include <adaptiveload/schedule/simulate.hpp>
#include <adaptiveload/schedule/step_cost.hpp>
#include <adaptiveload/schedule/strategy.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace adaptiveload {

/// Whether all ranks have become slower, or some.
struct rank_comparison {
  double common_slowdown = 1;              ///< the median rank's; of two, the faster one's
  std::vector<slow_rank> slow_ranks = {};  ///< and their factors over the common one
};

/// Tells a changed model, which slows every rank, from a slow node: `slowdowns` has each rank's
/// `plan_drift::slowdown`, gathered by the caller.
///
/// A rank is slow if it takes over `tolerance` longer than the median one. Times must be of the
/// rank's own work: where ranks wait for each other inside what is timed, all have the slowest's.
/// Throws `std::invalid_argument` on none, and on one that is not finite and above 0.
[[nodiscard]] inline rank_comparison compare_ranks(std::span<const double> slowdowns,
                                                   double tolerance = 0.05) {
  detail::require(!slowdowns.empty(), "slowdowns", "empty", "one for each rank");
  for (std::size_t i = 0; i < slowdowns.size(); ++i) {
    detail::require(std::isfinite(slowdowns[i]) && slowdowns[i] > 0,
                    "slowdowns[" + std::to_string(i) + "]", slowdowns[i], "finite and above 0");
  }
  std::vector<double> sorted(slowdowns.begin(), slowdowns.end());
  std::sort(sorted.begin(), sorted.end());
  rank_comparison ranks{.common_slowdown = sorted[(sorted.size() - 1) / 2]};
  for (std::size_t i = 0; i < slowdowns.size(); ++i) {
    const double factor = slowdowns[i] / ranks.common_slowdown;
    if (factor > 1 + tolerance) ranks.slow_ranks.push_back({static_cast<std::int64_t>(i), factor});
  }
  return ranks;
}

/// A new plan beside the one in use, both on what steps cost now.
struct replanning {
  bucket_plan plan;    ///< made anew
  load_report in_use;  ///< of an average epoch by the old plan
  double gain = 0;     ///< how much faster an epoch would be; 0 or less: keep the plan in use
};

/// Plans the corpus anew, and says what that would gain over the plan in use.
///
/// `now` is what steps cost now, as `calibration::updated` gives it; it differs a little from rank
/// to rank, so one rank makes the plan and sends it to the others. Throws as `plan_buckets` does.
template <step_cost Cost>
[[nodiscard]] replanning replan(const bucket_plan& in_use, std::span<const sample_source> sources,
                                const Cost& now, const plan_options& options) {
  std::vector<std::int64_t> lengths;
  for (const bucket& b : in_use.buckets) lengths.push_back(b.sequence_length);
  const detail::planner planner(lengths, sources, now, options);
  replanning result{.plan = planner.plan(options.strategy), .in_use = planner.expected_of(in_use)};
  result.gain = result.in_use.epoch_ms / result.plan.expected.epoch_ms - 1;
  return result;
}

}  // namespace adaptiveload
