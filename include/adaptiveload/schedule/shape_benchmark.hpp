#pragma once

#include <adaptiveload/schedule/cost_model.hpp>
#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/shape_record.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace adaptiveload {

/// What a step throws to say that its shape does not fit in memory. It must leave the process able
/// to run a smaller step; in a distributed run every rank must return from the step or throw.
struct out_of_memory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Where a shape benchmark stands: told before each shape is measured.
struct benchmark_progress {
  std::int64_t batch_size = 0;  ///< the shape to be measured now
  std::int64_t sequence_length = 0;
  std::size_t measured = 0;  ///< shapes so far, those resumed from the record included
  double elapsed_seconds = 0;
  double seconds_left = 0;  ///< until the budget is spent, at most
};

struct shape_benchmark_options {
  std::vector<std::int64_t> sequence_lengths{};  ///< of the corpus, in tokens; any order
  double budget_seconds = 300;
  /// The most tokens of a micro-batch to try; by default memory is the limit, and it is searched.
  std::int64_t max_tokens = std::numeric_limits<std::int64_t>::max();
  int warm_up = 1;            ///< untimed steps of each shape
  int least_repetitions = 3;  ///< timed steps of each shape, at least
  int most_repetitions = 15;  ///< and at most
  double steady = 0.02;       ///< relative standard error of the median at which a shape is done
  std::filesystem::path record{};  ///< results are appended here and resumed from; on one rank only
  /// The maximum over all ranks of a number that each passes. It is a collective: every rank calls
  /// it equally often, in the same order.
  std::function<double(double)> slowest_rank = [](double value) { return value; };
  /// Milliseconds of a clock that does not jump; a step must have ended when it returns.
  std::function<double()> now_ms = [] {
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  std::function<void(const benchmark_progress&)> on_progress = [](const benchmark_progress&) {};
};

/// The largest batch size in [0, most] that fits, by doubling from 1 and bisection, for `fits` true
/// up to some size and false beyond it.
template <std::predicate<std::int64_t> Fits>
[[nodiscard]] std::int64_t largest_batch_size(std::int64_t most, Fits&& fits) {
  detail::require(most >= 0, "most", most, "0 or more");
  std::int64_t good = 0;
  std::int64_t bad = most + (most < std::numeric_limits<std::int64_t>::max() ? 1 : 0);
  while (good < bad - 1) {
    const std::int64_t next = good == 0 ? 1 : good < bad / 2 ? 2 * good : good + (bad - good) / 2;
    (fits(next) ? good : bad) = next;
  }
  return good;
}

namespace detail {

template <class Step>
class shape_benchmark {
 public:
  shape_benchmark(Step& step, const shape_benchmark_options& options)
      : step_(step),
        options_(options),
        record_(options.record),
        lengths_(options.sequence_lengths) {
    require(!lengths_.empty(), "sequence_lengths", "empty", "one or more lengths");
    std::sort(lengths_.begin(), lengths_.end());
    lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
    require(lengths_.front() > 0, "sequence_lengths", lengths_.front(), "1 or more each");
    require(options.max_tokens >= lengths_.back(), "max_tokens", options.max_tokens,
            "at least the longest sequence length");
    require(options.budget_seconds > 0, "budget_seconds", options.budget_seconds, "above 0");
    require(options.warm_up >= 0, "warm_up", options.warm_up, "0 or more");
    require(options.least_repetitions >= 1, "least_repetitions", options.least_repetitions,
            "1 or more");
    require(options.most_repetitions >= options.least_repetitions, "most_repetitions",
            options.most_repetitions, "at least least_repetitions");
    require(options.steady > 0, "steady", options.steady, "above 0");
    start_ms_ = options_.now_ms();
    resume();
  }

  measured_steps run() {
    // The ends of the range first: without them everything else is extrapolation.
    for (const std::int64_t length : {lengths_.back(), lengths_.front()}) {
      measure(1, length);
      measure(search_largest(length), length);
    }
    while (const auto next = choose()) measure(next->first, next->second);
    return std::move(steps_);
  }

 private:
  using shape = std::pair<std::int64_t, std::int64_t>;  // batch size, sequence length

  /// Gives every rank the record that one of them read.
  void resume() {
    const auto share = [&](std::size_t i, std::size_t count, auto&& value) {
      return options_.slowest_rank(i < count ? static_cast<double>(value()) : -1.0);
    };
    const measured_steps& own = record_.steps();
    const std::size_t measured = own.measurements.size();
    const auto shared =
        static_cast<std::size_t>(options_.slowest_rank(static_cast<double>(measured)));
    for (std::size_t i = 0; i < shared; ++i) {
      measurement m;
      m.batch_size = static_cast<std::int64_t>(
          share(i, measured, [&] { return own.measurements[i].batch_size; }));
      m.sequence_length = static_cast<std::int64_t>(
          share(i, measured, [&] { return own.measurements[i].sequence_length; }));
      m.step_ms = share(i, measured, [&] { return own.measurements[i].step_ms; });
      const double peak =
          share(i, measured, [&] { return own.measurements[i].peak_memory_bytes.value_or(-1); });
      if (peak > 0) m.peak_memory_bytes = static_cast<std::int64_t>(peak);
      steps_.measurements.push_back(m);
    }
    for (const measurement& m : steps_.measurements) {
      last_steps_[{m.batch_size, m.sequence_length}] = m.step_ms;
    }
    const std::size_t failed = own.out_of_memory.size();
    const auto shared_failed =
        static_cast<std::size_t>(options_.slowest_rank(static_cast<double>(failed)));
    for (std::size_t i = 0; i < shared_failed; ++i) {
      out_of_memory_shape s;
      s.batch_size = static_cast<std::int64_t>(
          share(i, failed, [&] { return own.out_of_memory[i].batch_size; }));
      s.sequence_length = static_cast<std::int64_t>(
          share(i, failed, [&] { return own.out_of_memory[i].sequence_length; }));
      steps_.out_of_memory.push_back(s);
    }
  }

  double seconds_left() const {
    return options_.budget_seconds - options_.slowest_rank(options_.now_ms() - start_ms_) / 1000;
  }

  /// The most samples of a length that have not been seen to run out of memory. Memory grows with
  /// the tokens of a step, so a failure bounds every length.
  std::int64_t most_samples(std::int64_t length) const {
    std::int64_t tokens = options_.max_tokens;
    for (const auto& s : steps_.out_of_memory) tokens = std::min(tokens, s.tokens() - 1);
    return tokens / length;
  }

  bool measured(shape s) const {
    return std::any_of(steps_.measurements.begin(), steps_.measurements.end(),
                       [&](const measurement& m) {
                         return m.batch_size == s.first && m.sequence_length == s.second;
                       });
  }

  /// One step on every rank: the slowest rank's milliseconds, infinite if any ran out of memory.
  double one_step(shape s, double& peak_bytes) {
    double ms = 0;
    const double begin = options_.now_ms();
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Step&, std::int64_t, std::int64_t>>) {
        step_(s.first, s.second);
      } else {
        peak_bytes = std::max(peak_bytes, static_cast<double>(step_(s.first, s.second)));
      }
      ms = options_.now_ms() - begin;
    } catch (const out_of_memory&) {
      ms = std::numeric_limits<double>::infinity();
    }
    ms = options_.slowest_rank(ms);
    if (std::isinf(ms)) {
      steps_.out_of_memory.push_back({s.first, s.second});
      record_.append(steps_.out_of_memory.back());
    } else {
      last_steps_[s] = ms;
    }
    return ms;
  }

  /// Measures a shape, unless it was, or it is known not to fit, or the time is up.
  void measure(std::int64_t batch_size, std::int64_t length) {
    const shape s{batch_size, length};
    if (batch_size < 1 || batch_size > most_samples(length) || measured(s)) return;
    const double left = seconds_left();
    if (left <= 0) return;
    options_.on_progress(
        {batch_size, length, steps_.measurements.size(), options_.budget_seconds - left, left});
    double peak = 0;
    for (int i = 0; i < options_.warm_up; ++i) {
      if (std::isinf(one_step(s, peak))) return;
    }
    std::vector<double> times;
    do {
      times.push_back(one_step(s, peak));
      if (std::isinf(times.back())) return;
    } while (!steady(times) && seconds_left() > 0);
    measurement m{batch_size, length, median(times)};
    peak = options_.slowest_rank(peak);
    if (peak > 0) m.peak_memory_bytes = static_cast<std::int64_t>(peak);
    steps_.measurements.push_back(m);
    record_.append(m, times.size());
  }

  bool steady(const std::vector<double>& times) const {
    const auto count = static_cast<int>(times.size());
    if (count < options_.least_repetitions) return false;
    if (count >= options_.most_repetitions) return true;
    const double middle = median(times);
    std::vector<double> deviations;
    for (const double t : times) deviations.push_back(std::abs(t - middle));
    // Of normal times the median's standard error is 1.2533 deviations over the root of the count.
    return 1.2533 * 1.4826 * median(deviations) / std::sqrt(count) <= options_.steady * middle;
  }

  /// The largest batch of a length, one step a trial. A trial that would take more than a tenth of
  /// the budget is not made.
  std::int64_t search_largest(std::int64_t length) {
    return largest_batch_size(most_samples(length), [&](std::int64_t batch_size) {
      for (const measurement& m : steps_.measurements) {
        if (m.sequence_length == length && m.batch_size >= batch_size) return true;
      }
      if (batch_size > most_samples(length)) return false;
      const double left = seconds_left();
      if (left <= 0 || estimate_ms({batch_size, length}) > 100 * options_.budget_seconds) {
        return false;
      }
      double peak = 0;
      return !std::isinf(one_step({batch_size, length}, peak));
    });
  }

  /// The time of a step by its nearest neighbour, as if all of it grew as B S^2: rather too long.
  double estimate_ms(shape s) const {
    double nearest = std::numeric_limits<double>::infinity();
    double ms = 0;
    for (const auto& [known, known_ms] : last_steps_) {
      const double d = distance(s, known);
      if (d >= nearest) continue;
      nearest = d;
      const double samples = static_cast<double>(s.first) / static_cast<double>(known.first);
      const double tokens = static_cast<double>(s.second) / static_cast<double>(known.second);
      ms = known_ms * std::max(1.0, samples) * std::max(1.0, tokens * tokens);
    }
    return ms;
  }

  static double distance(shape x, shape y) {
    const auto log_ratio = [](std::int64_t a, std::int64_t b) {
      return std::log(static_cast<double>(a) / static_cast<double>(b));
    };
    return std::hypot(log_ratio(x.first, y.first), log_ratio(x.second, y.second));
  }

  /// The affordable shape that is farthest, in log B and log S, from every measured one.
  std::optional<shape> choose() const {
    const double left_ms = 1000 * seconds_left();
    std::optional<shape> best;
    double farthest = 0.3;  // closer than a third in B or S tells nothing new
    for (const std::int64_t length : lengths_) {
      const std::int64_t most = most_samples(length);
      for (std::int64_t b = 1; b <= most; b = b < most && b > most / 2 ? most : 2 * b) {
        const shape s{b, length};
        double nearest = std::numeric_limits<double>::infinity();
        for (const measurement& m : steps_.measurements) {
          nearest = std::min(nearest, distance(s, {m.batch_size, m.sequence_length}));
        }
        const double cost = estimate_ms(s) * (options_.warm_up + options_.least_repetitions);
        if (nearest > farthest && cost <= left_ms) {
          farthest = nearest;
          best = s;
        }
        if (b == most) break;
      }
    }
    return best;
  }

  Step& step_;
  const shape_benchmark_options& options_;
  shape_record record_;
  std::vector<std::int64_t> lengths_;
  double start_ms_ = 0;
  measured_steps steps_;
  std::map<shape, double> last_steps_;  ///< ms of the last step of each shape, trials included
};

}  // namespace detail

/// Measures the steps of a training job over shapes, spending a time budget where it tells most.
///
/// `step(batch_size, sequence_length)` runs one whole step and returns when it has ended: nothing,
/// or its peak memory in bytes. It throws `out_of_memory` where the shape does not fit.
/// The ends of the range come first (the largest batches of the longest and the shortest length,
/// found by doubling and bisection), then the shapes farthest from any measured one, as long as the
/// budget lasts. A shape's time is the median of its repetitions, which end when it is steady; in a
/// distributed run, of the slowest rank's times. Throws `std::invalid_argument` on an option that
/// is out of range, `csv_error` on a record that isn't one, and what the step throws.
template <class Step>
requires std::invocable<Step&, std::int64_t, std::int64_t>
[[nodiscard]] measured_steps benchmark_shapes(Step&& step, const shape_benchmark_options& options) {
  return detail::shape_benchmark<std::remove_reference_t<Step>>(step, options).run();
}

}  // namespace adaptiveload
