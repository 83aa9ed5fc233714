#pragma once

#include <adaptiveload/schedule/bucket_plan.hpp>
#include <adaptiveload/schedule/candidate_limits.hpp>
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
  epoch_options epoch = {};
};

/// Batch sizes, how to deal them, and what is expected of both.
struct bucket_plan {
  adaptiveload::strategy strategy = adaptiveload::strategy::equal_tokens;
  batch_limits limits = {};  ///< `max_compute` is infinite but for the dual constraint
  double target_ms = 0;      ///< no bucket of several samples takes longer; 0: no such limit
  std::vector<bucket> buckets = {};  ///< in the order of the sequence lengths
  epoch_options epoch = {};          ///< as asked for, but for the dealing where it did not help
  load_report expected = {};         ///< of an average epoch, by simulation
  double speedup = 1;                ///< over equal tokens dealt as drawn
  std::string reason = {};           ///< why these, in words
};

namespace detail {

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
        search_(full_, sources, options.epoch, 20'000),
        judge_(full_, sources, options.epoch, 100'000) {
    require(options.max_compute >= 0, "max_compute", options.max_compute, "at least 0");
    require(options.target_ms >= 0, "target_ms", options.target_ms, "at least 0");
    for (std::size_t b = 0; b < full_.size(); ++b) {
      double samples = 0;
      for (const sample_source& s : sources) {
        samples += s.passes * static_cast<double>(s.counts[b]);
      }
      samples_.push_back(samples);
      if (samples > 0) in_use_.push_back(full_[b]);
    }
    baseline_ = {.limits = {.max_tokens = options.max_tokens},
                 .buckets = full_,
                 .epoch = options.epoch,
                 .reason = "as many tokens as memory holds, dealt as drawn: the baseline"};
    baseline_.epoch.dealing = dealing::as_drawn;
    judge(baseline_);
    dealt_ = baseline_;
    dealt_.epoch = options.epoch;
    judge(dealt_);
    dealt_.reason = "as many tokens as memory holds";
    if (dealt_.speedup < 1) {
      dealt_ = baseline_;
      dealt_.reason = "dealt as drawn: dealing by cost would not be faster";
    }
  }

  /// Equal tokens, dealt as drawn.
  [[nodiscard]] const bucket_plan& baseline() const { return baseline_; }

  /// What an average epoch is expected to be like under any plan of the same corpus.
  [[nodiscard]] load_report expected_of(const bucket_plan& plan) const {
    return judge_.run(plan.buckets, cost_, plan.epoch);
  }

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
  void judge(bucket_plan& plan) const {
    plan.expected = expected_of(plan);
    const double baseline_ms = baseline_.expected.epoch_ms;
    plan.speedup = baseline_ms > 0 ? baseline_ms / plan.expected.epoch_ms : 1;
  }

  /// What the search makes small: the epoch's time, raised by how much the ranks of a step differ,
  /// for what is gained by ranks further apart is lost where real steps take other times.
  [[nodiscard]] double score(const std::vector<bucket>& buckets) const {
    const load_report report = search_.run(buckets, cost_, options_.epoch);
    return report.epoch_ms * (1 + report.compute_cv);
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
    if (options_.target_ms <= 0) move_buckets(plan);
    return plan;
  }

  /// The best plan over the limits to try, or over the one `given`.
  template <class CostOf, class MakePlan>
  [[nodiscard]] bucket_plan fastest(double given, const CostOf& cost_of,
                                    const MakePlan& make_plan) const {
    if (given > 0) {
      bucket_plan plan = make_plan(given);
      plan.reason = "the limit given";
      return plan;
    }
    const std::vector<double> limits = candidate_limits(in_use_, cost_of);
    bucket_plan best;
    double best_score = std::numeric_limits<double>::infinity();
    std::vector<bucket> last;
    for (const double limit : limits) {
      bucket_plan plan = make_plan(limit);
      if (same_batches(plan.buckets, last)) continue;
      last = plan.buckets;
      // Small batches make many steps, which would take long to simulate.
      if (0.99 * least_epoch_ms(plan.buckets) > best_score) continue;
      const double its_score = score(plan.buckets);
      if (its_score >= best_score) continue;
      best_score = its_score;
      best = std::move(plan);
    }
    best.reason = "the best of " + std::to_string(limits.size()) + " limits tried";
    return best;
  }

  /// Moves single buckets to another batch size, one after the other, where that is better: whole
  /// samples miss the target by different shares, and ranks that meet in a round wait least when
  /// many buckets share a time.
  void move_buckets(bucket_plan& plan) const {
    constexpr int most_trials = 400;
    std::vector<std::size_t> longest_first(plan.buckets.size());
    std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
    std::stable_sort(longest_first.begin(), longest_first.end(), [&](std::size_t a, std::size_t b) {
      return full_[a].single_ms > full_[b].single_ms;
    });
    double best_score = score(plan.buckets);
    int trials = 0;
    int moved = 0;
    for (bool better = true; better;) {
      better = false;
      for (const std::size_t b : longest_first) {
        for (const std::int64_t batch_size : other_batch_sizes(plan.buckets, b)) {
          if (trials == most_trials) break;
          ++trials;
          std::vector<bucket> trial = plan.buckets;
          trial[b].batch_size = batch_size;
          trial[b].step_ms = step_ms(cost_, batch_size, lengths_[b]);
          const double its_score = score(trial);
          if (its_score >= best_score) continue;
          best_score = its_score;
          plan.buckets = std::move(trial);
          better = true;
          ++moved;
        }
      }
    }
    if (moved == 0) return;
    plan.reason += ", then moves of single buckets: " + std::to_string(moved);
    plan.target_ms = 0;
    for (const bucket& b : plan.buckets) {
      if (b.batch_size > 1) plan.target_ms = std::max(plan.target_ms, b.step_ms);
    }
    plan.target_ms = std::max(plan.target_ms, longest_single_ms());
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      plan.buckets[b].bound = bound_of(plan.buckets[b], full_[b]);
    }
  }

  /// Batch sizes to try for a bucket: a sample less or more, and those at the other buckets' times.
  [[nodiscard]] std::set<std::int64_t> other_batch_sizes(const std::vector<bucket>& buckets,
                                                         std::size_t b) const {
    const std::int64_t now = buckets[b].batch_size;
    std::set<std::int64_t> sizes{std::max<std::int64_t>(now - 1, 1),
                                 std::min(now + 1, full_[b].batch_size)};
    for (const bucket& other : buckets) {
      const equal_time_limits limits{options_.max_tokens, other.step_ms};
      sizes.insert(plan_bucket(lengths_[b], limits, cost_).batch_size);
    }
    sizes.erase(now);
    return sizes;
  }

  /// The epoch's time if no rank ever waited, but for the samples that do not fill a batch.
  [[nodiscard]] double least_epoch_ms(const std::vector<bucket>& buckets) const {
    double work_ms = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      work_ms += samples_[b] / static_cast<double>(buckets[b].batch_size) * buckets[b].step_ms;
    }
    return work_ms / static_cast<double>(options_.epoch.world_size);
  }

  [[nodiscard]] double longest_single_ms() const {
    double longest = 0;
    for (const bucket& b : in_use_) longest = std::max(longest, b.single_ms);
    return longest;
  }

  static batch_bound bound_of(const bucket& b, const bucket& full) {
    if (full.bound == batch_bound::single_sample) return full.bound;
    return b.batch_size == full.batch_size ? batch_bound::memory : batch_bound::compute;
  }

  /// The plan, or equal tokens where it is not faster.
  [[nodiscard]] bucket_plan or_equal_tokens(bucket_plan plan) const {
    judge(plan);
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
  std::vector<bucket> full_;     // as many tokens as memory holds
  std::vector<bucket> in_use_;   // those of them that have samples
  std::vector<double> samples_;  // of each bucket in an epoch
  rehearsal search_;             // to compare batch sizes
  rehearsal judge_;              // for what is reported: longer, and alike for every plan
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
