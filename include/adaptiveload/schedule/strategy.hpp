#pragma once

#include <adaptiveload/schedule/bucket_plan.hpp>
#include <adaptiveload/schedule/corpus.hpp>
#include <adaptiveload/schedule/epoch_options.hpp>
#include <adaptiveload/schedule/load_report.hpp>
#include <adaptiveload/schedule/rehearsal.hpp>
#include <adaptiveload/schedule/step_cost.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace adaptiveload {

/// How batch sizes are chosen.
enum class strategy {
  equal_tokens,     ///< as many tokens as memory holds: the usual baseline
  dual_constraint,  ///< and at most max_compute of B * S^p (Guo et al. 2026, arXiv 2605.17923)
  equal_time        ///< and at most target_ms of predicted time
};

/// What a plan is made for.
struct plan_options {
  adaptiveload::strategy strategy = adaptiveload::strategy::equal_time;
  std::int64_t max_tokens = 0;  ///< M_mem, tokens of a micro-batch
  double max_compute = 0;       ///< M_comp of the dual constraint; 0: chosen by simulation
  double exponent = 2;          ///< p of the dual constraint
  double target_ms = 0;         ///< of equal time; 0: chosen by simulation
  epoch_options epoch;
};

/// Batch sizes, how to deal them, and what is expected of both.
struct bucket_plan {
  adaptiveload::strategy strategy = adaptiveload::strategy::equal_tokens;
  batch_limits limits = {};          ///< `max_compute` is infinite but for the dual constraint
  double target_ms = 0;              ///< above 0 for equal time alone
  std::vector<bucket> buckets = {};  ///< in the order of the sequence lengths
  epoch_options epoch = {};          ///< as asked for, but for the dealing where it did not help
  load_report expected = {};         ///< of an average epoch, by simulation
  double speedup = 1;                ///< over equal tokens dealt as drawn
  std::string reason = {};           ///< why these, in words
};

namespace detail {

/// Limits to try: those that just admit n samples of some bucket, n = 1, 2, ..., from the cost of
/// the longest sample up. All of the longest bucket's, and a spread of the others'.
template <class CostOf>
std::vector<double> candidate_limits(std::span<const bucket> full, const CostOf& cost_of) {
  constexpr std::size_t most = 48;
  double least = 0;
  std::size_t longest = 0;
  for (std::size_t b = 0; b < full.size(); ++b) {
    const double single = cost_of(1, full[b].sequence_length);
    if (single > least) longest = b;
    least = std::max(least, single);
  }
  const auto multiples = [&](const bucket& b) {
    std::vector<double> limits;
    const std::int64_t stride = (b.batch_size - 1) / static_cast<std::int64_t>(most) + 1;
    for (std::int64_t n = b.batch_size; n >= 1; n -= stride) {
      const double limit = cost_of(n, b.sequence_length);
      if (limit >= least) limits.push_back(limit);
    }
    return limits;
  };
  std::vector<double> limits = multiples(full[longest]);
  limits.push_back(least);
  std::vector<double> others;
  for (const bucket& b : full) {
    const std::vector<double> each = multiples(b);
    others.insert(others.end(), each.begin(), each.end());
  }
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  const std::size_t stride = others.size() / most + 1;
  for (std::size_t i = 0; i < others.size(); i += stride) limits.push_back(others[i]);
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

inline bool same_batches(const std::vector<bucket>& a, const std::vector<bucket>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const bucket& x, const bucket& y) { return x.batch_size == y.batch_size; });
}

inline std::string percent(double ratio) {
  std::ostringstream text;
  text.precision(1);
  text << std::fixed << 100 * ratio << " %";
  return text.str();
}

/// Plans one corpus by several strategies, each measured against equal tokens.
template <step_cost Cost>
class planner {
 public:
  planner(std::span<const std::int64_t> sequence_lengths, std::span<const sample_source> sources,
          const Cost& cost, const plan_options& options)
      : lengths_(sequence_lengths),
        cost_(cost),
        options_(options),
        full_(plan_buckets(lengths_, batch_limits{.max_tokens = options.max_tokens}, cost)),
        rehearsal_(full_, sources, options.epoch) {
    baseline_ = {.limits = {.max_tokens = options.max_tokens},
                 .buckets = full_,
                 .epoch = options.epoch,
                 .reason = "as many tokens as memory holds, dealt as drawn: the baseline"};
    baseline_.epoch.dealing = dealing::as_drawn;
    measure(baseline_);
    dealt_ = baseline_;
    dealt_.epoch = options.epoch;
    measure(dealt_);
    dealt_.reason = "as many tokens as memory holds";
    if (dealt_.speedup < 1) {
      dealt_ = baseline_;
      dealt_.reason = "dealt as drawn: dealing by cost would not be faster";
    }
  }

  /// Equal tokens, dealt as drawn.
  [[nodiscard]] const bucket_plan& baseline() const { return baseline_; }

  [[nodiscard]] bucket_plan plan(strategy by) const {
    switch (by) {
      case strategy::equal_tokens:
        return dealt_;
      case strategy::dual_constraint:
        return or_equal_tokens(dual_constraint());
      case strategy::equal_time:
        return or_equal_tokens(equal_time());
    }
    throw_invalid("strategy", static_cast<int>(by), "one of the enumerators");
  }

 private:
  void measure(bucket_plan& plan) const {
    plan.expected = rehearsal_.run(plan.buckets, cost_, plan.epoch);
    const double baseline_ms = baseline_.expected.epoch_ms;
    plan.speedup = baseline_ms > 0 ? baseline_ms / plan.expected.epoch_ms : 1;
  }

  [[nodiscard]] bucket_plan dual_constraint() const {
    const auto compute = [this](std::int64_t batch, std::int64_t s) {
      return static_cast<double>(batch) * std::pow(static_cast<double>(s), options_.exponent);
    };
    return fastest(options_.max_compute, compute, [this](double limit) {
      bucket_plan plan{.strategy = strategy::dual_constraint,
                       .limits = {options_.max_tokens, limit, options_.exponent},
                       .epoch = options_.epoch};
      plan.buckets = plan_buckets(lengths_, plan.limits, cost_);
      return plan;
    });
  }

  [[nodiscard]] bucket_plan equal_time() const {
    const auto time = [this](std::int64_t batch, std::int64_t s) {
      return step_ms(cost_, batch, s);
    };
    bucket_plan plan = fastest(options_.target_ms, time, [this](double limit) {
      const equal_time_limits limits{options_.max_tokens, limit};
      return bucket_plan{.strategy = strategy::equal_time,
                         .limits = {.max_tokens = options_.max_tokens},
                         .target_ms = limit,
                         .buckets = plan_buckets(lengths_, limits, cost_),
                         .epoch = options_.epoch};
    });
    if (options_.target_ms <= 0) join_times(plan);
    return plan;
  }

  /// The best plan over the limits to try, or over the one `given`: of those within a small margin
  /// of the fastest, which simulation can't tell apart, the one whose ranks differ least.
  template <class CostOf, class MakePlan>
  [[nodiscard]] bucket_plan fastest(double given, const CostOf& cost_of,
                                    const MakePlan& make_plan) const {
    constexpr double margin = 0.002;
    std::vector<double> limits{given};
    if (given <= 0) limits = candidate_limits(full_, cost_of);
    std::vector<bucket_plan> plans;
    double fastest_ms = std::numeric_limits<double>::infinity();
    for (const double limit : limits) {
      bucket_plan plan = make_plan(limit);
      if (!plans.empty() && same_batches(plan.buckets, plans.back().buckets)) continue;
      measure(plan);
      fastest_ms = std::min(fastest_ms, plan.expected.epoch_ms);
      plan.reason = given > 0 ? "the limit given"
                              : "the best of " + std::to_string(limits.size()) + " limits tried";
      plans.push_back(std::move(plan));
    }
    std::erase_if(plans, [&](const bucket_plan& plan) {
      return plan.expected.epoch_ms > fastest_ms * (1 + margin);
    });
    return *std::min_element(plans.begin(), plans.end(),
                             [](const bucket_plan& a, const bucket_plan& b) {
                               return a.expected.compute_cv < b.expected.compute_cv;
                             });
  }

  /// Lets buckets take another's time, one after the other, where that makes the epoch faster:
  /// whole samples miss the target by different shares, and ranks that meet in a round wait least
  /// when many buckets share a time.
  void join_times(bucket_plan& plan) const {
    constexpr int most_trials = 200;
    constexpr double least_gain = 0.0002;
    std::vector<std::size_t> longest_first(plan.buckets.size());
    std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
    std::stable_sort(longest_first.begin(), longest_first.end(), [&](std::size_t a, std::size_t b) {
      return full_[a].single_ms > full_[b].single_ms;
    });
    int trials = 0;
    int moved = 0;
    for (bool better = true; better;) {
      better = false;
      for (const std::size_t b : longest_first) {
        std::set<std::int64_t> tried{plan.buckets[b].batch_size};
        for (const bucket& other : std::vector<bucket>(plan.buckets)) {
          const bucket joined = plan_bucket(
              lengths_[b], equal_time_limits{options_.max_tokens, other.step_ms}, cost_);
          if (!tried.insert(joined.batch_size).second || trials == most_trials) continue;
          bucket_plan trial = plan;
          trial.buckets[b] = joined;
          measure(trial);
          ++trials;
          if (trial.expected.epoch_ms > plan.expected.epoch_ms * (1 - least_gain)) continue;
          plan = std::move(trial);
          better = true;
          ++moved;
        }
      }
    }
    if (moved > 0) plan.reason += ", then " + std::to_string(moved) + " moves of single buckets";
  }

  /// The plan, or equal tokens where it is not faster.
  [[nodiscard]] bucket_plan or_equal_tokens(bucket_plan plan) const {
    const double gain = plan.speedup / dealt_.speedup - 1;
    const std::string tried = plan.reason;
    if (gain > 0 && !same_batches(plan.buckets, full_)) {
      plan.reason = percent(gain) + " faster than equal tokens dealt alike, with " + tried;
      return plan;
    }
    plan = dealt_;
    plan.reason = "keeps equal tokens: with " + tried +
                  (gain < 0 ? " it would be " + percent(-gain) + " slower"
                            : ", it has the same batch sizes or the same speed");
    return plan;
  }

  std::span<const std::int64_t> lengths_;
  const Cost& cost_;
  plan_options options_;
  std::vector<bucket> full_;  // as many tokens as memory holds
  rehearsal rehearsal_;
  bucket_plan baseline_;
  bucket_plan dealt_;
};

}  // namespace detail

/// Batch sizes for a corpus by a strategy, as fast as simulation finds them under M_mem.
///
/// `sources` say how many samples each of the `sequence_lengths` has. Where the strategy would be
/// slower than equal tokens in simulation, the plan is equal tokens, and `reason` says so. Throws
/// `std::invalid_argument` as `plan_bucket` and `plan_epoch` do.
template <step_cost Cost>
[[nodiscard]] bucket_plan plan_buckets(std::span<const std::int64_t> sequence_lengths,
                                       std::span<const sample_source> sources, const Cost& cost,
                                       const plan_options& options) {
  return detail::planner(sequence_lengths, sources, cost, options).plan(options.strategy);
}

/// All strategies on one corpus: equal tokens dealt as drawn, equal tokens dealt by cost, dual
/// constraint, equal time. `plan_options::strategy` has no effect.
template <step_cost Cost>
[[nodiscard]] std::vector<bucket_plan> compare_strategies(
    std::span<const std::int64_t> sequence_lengths, std::span<const sample_source> sources,
    const Cost& cost, const plan_options& options) {
  const detail::planner planner(sequence_lengths, sources, cost, options);
  return {planner.baseline(), planner.plan(strategy::equal_tokens),
          planner.plan(strategy::dual_constraint), planner.plan(strategy::equal_time)};
}

}  // namespace adaptiveload
