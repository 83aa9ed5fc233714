#pragma once

#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/rank_agreement.hpp>
#include <adaptiveload/schedule/shape_choice.hpp>
#include <adaptiveload/schedule/shape_record.hpp>
#include <adaptiveload/schedule/statistics.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
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

/// In a distributed run the same on every rank, but for `record`.
struct shape_benchmark_options {
  std::vector<std::int64_t> sequence_lengths{};  ///< of the corpus, in tokens; any order
  double budget_seconds = 300;
  /// The most tokens of a micro-batch to try; by default memory is the limit, and it is searched.
  std::int64_t max_tokens = std::numeric_limits<std::int64_t>::max();
  int warm_up = 1;            ///< untimed steps of each shape
  int least_repetitions = 2;  ///< timed steps of each shape, at least
  int most_repetitions = 15;  ///< and at most
  double steady = 0.02;       ///< relative standard error of the median at which a shape is done
  std::filesystem::path record{};  ///< results are appended here and resumed from; on one rank only
  /// The maximum over all ranks of a number that each passes; infinity says that a rank failed. It
  /// is a collective: every rank calls it equally often, in the same order.
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
  shape_benchmark(Step& step, const shape_benchmark_options& options, rank_agreement& ranks)
      : step_(step),
        options_(options),
        ranks_(ranks),
        lengths_(checked_lengths(options)),
        choice_(lengths_),
        record_(options.record),
        start_ms_(options.now_ms()) {
    resume();
  }

  measured_steps run() {
    // The ends of the range first: without them everything else is extrapolation.
    measure_end(lengths_.rbegin(), lengths_.rend());
    measure_end(lengths_.begin(), lengths_.end());
    for (;;) {
      // A shape that would take most of what is left waits until nothing else does.
      const double step_ms = 1000 * seconds_left() / steps_a_shape();
      auto shape = next(step_ms / 4);
      if (!shape) shape = next(step_ms);
      if (!shape || seconds_left() <= 0) break;
      measure(*shape);
    }
    return std::move(steps_);
  }

 private:
  static std::vector<std::int64_t> checked_lengths(const shape_benchmark_options& options) {
    std::vector<std::int64_t> lengths = options.sequence_lengths;
    require(!lengths.empty(), "sequence_lengths", "empty", "one or more lengths");
    std::sort(lengths.begin(), lengths.end());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    require(lengths.front() > 0, "sequence_lengths", lengths.front(), "1 or more each");
    require(options.max_tokens >= lengths.back(), "max_tokens", options.max_tokens,
            "at least the longest sequence length");
    require(options.budget_seconds > 0, "budget_seconds", options.budget_seconds, "above 0");
    require(options.warm_up >= 0, "warm_up", options.warm_up, "0 or more");
    require(options.least_repetitions >= 1, "least_repetitions", options.least_repetitions,
            "1 or more");
    require(options.most_repetitions >= options.least_repetitions, "most_repetitions",
            options.most_repetitions, "at least least_repetitions");
    require(options.steady > 0, "steady", options.steady, "above 0");
    return lengths;
  }

  [[nodiscard]] int steps_a_shape() const { return options_.warm_up + options_.least_repetitions; }

  /// Gives every rank the record that one of them read. Steps that ran out of memory go as 0 ms.
  void resume() {
    std::vector<std::array<double, 4>> rows;
    for (const measurement& m : record_.steps().measurements) {
      const double peak = m.peak_memory_bytes ? static_cast<double>(*m.peak_memory_bytes) : 0;
      rows.push_back({static_cast<double>(m.batch_size), static_cast<double>(m.sequence_length),
                      m.step_ms, peak});
    }
    for (const step_shape& s : record_.steps().out_of_memory) {
      rows.push_back({static_cast<double>(s.batch_size), static_cast<double>(s.sequence_length)});
    }
    rows.resize(static_cast<std::size_t>(ranks_.maximum(static_cast<double>(rows.size()))));
    for (auto& row : rows) {
      for (double& value : row) value = ranks_.maximum(value);
      const step_shape shape{static_cast<std::int64_t>(row[0]), static_cast<std::int64_t>(row[1])};
      if (row[2] > 0) {
        steps_.measurements.push_back(measurement_of(shape, row[2], row[3]));
      } else {
        steps_.out_of_memory.push_back(shape);
      }
    }
    choice_.note(steps_.measurements);
  }

  static measurement measurement_of(const step_shape& shape, double ms, double peak_bytes) {
    measurement m{shape.batch_size, shape.sequence_length, ms};
    if (peak_bytes > 0) m.peak_memory_bytes = static_cast<std::int64_t>(peak_bytes);
    return m;
  }

  [[nodiscard]] double seconds_left() const {
    return options_.budget_seconds - ranks_.maximum(options_.now_ms() - start_ms_) / 1000;
  }

  // Ranks on different processors may differ in the last bit of a logarithm, and so in what they
  // would choose; every decision that rests on an estimate is made in common.

  [[nodiscard]] double estimate_ms(const step_shape& shape) const {
    return ranks_.maximum(choice_.estimate_ms(shape));
  }

  [[nodiscard]] std::optional<step_shape> next(double most_ms) const {
    const step_shape mine = choice_.next(most_tokens(), most_ms).value_or(step_shape{});
    const double length = ranks_.maximum(static_cast<double>(mine.sequence_length));
    const bool is_mine = static_cast<double>(mine.sequence_length) == length;
    const double batch = ranks_.maximum(is_mine ? static_cast<double>(mine.batch_size) : 0.0);
    if (length == 0) return std::nullopt;
    return step_shape{static_cast<std::int64_t>(batch), static_cast<std::int64_t>(length)};
  }

  /// The most tokens that have not been seen to run out of memory, of any length: memory grows with
  /// the tokens of a step.
  [[nodiscard]] std::int64_t most_tokens() const {
    std::int64_t tokens = options_.max_tokens;
    for (const auto& s : steps_.out_of_memory) tokens = std::min(tokens, s.tokens() - 1);
    return tokens;
  }

  /// One step on every rank: the slowest rank's milliseconds, infinite if any ran out of memory.
  double one_step(const step_shape& shape, double& peak_bytes) {
    constexpr double ran_out = 1e30;  // for the ranks to agree on; a float holds it, too
    ranks_.doing(std::to_string(shape.batch_size) + " samples of " +
                 std::to_string(shape.sequence_length) + " tokens");
    double ms = ran_out;
    const double begin = options_.now_ms();
    try {
      using result = std::invoke_result_t<Step&, std::int64_t, std::int64_t>;
      if constexpr (std::is_void_v<result>) {
        step_(shape.batch_size, shape.sequence_length);
      } else {
        peak_bytes = std::max(peak_bytes,
                              static_cast<double>(step_(shape.batch_size, shape.sequence_length)));
      }
      ms = options_.now_ms() - begin;
    } catch (const out_of_memory&) {
    }
    ms = ranks_.maximum(ms);
    if (ms > ran_out / 2) {
      ms = std::numeric_limits<double>::infinity();
      steps_.out_of_memory.push_back(shape);
      record_.append(steps_.out_of_memory.back());
    } else {
      choice_.note(shape, ms);
    }
    return ms;
  }

  /// Measures a shape, unless it was, or it is known not to fit, or the time is up.
  void measure(const step_shape& shape) {
    if (shape.batch_size < 1 || shape.batch_size > most_tokens() / shape.sequence_length) return;
    if (choice_.measured(shape)) return;
    const double left = seconds_left();
    if (left <= 0) return;
    const double remaining = steps_a_shape() * choice_.remaining_ms(most_tokens()) / 1000;
    options_.on_progress({shape.batch_size, shape.sequence_length, steps_.measurements.size(),
                          options_.budget_seconds - left,
                          remaining > 0 ? std::min(left, remaining) : left});
    double peak = 0;
    for (int i = 0; i < options_.warm_up; ++i) {
      if (std::isinf(one_step(shape, peak))) return;
    }
    std::vector<double> times;
    do {
      times.push_back(one_step(shape, peak));
      if (std::isinf(times.back())) return;
    } while (!steady(times) && seconds_left() > 0);
    const measurement m = measurement_of(shape, median(times), ranks_.maximum(peak));
    record_.append(m, times.size());
    steps_.measurements.push_back(m);
    choice_.note({&m, 1});
  }

  [[nodiscard]] bool steady(const std::vector<double>& times) const {
    const auto count = static_cast<int>(times.size());
    if (count < options_.least_repetitions) return false;
    if (count >= options_.most_repetitions) return true;
    return median_error(times) <= options_.steady * median(times);
  }

  /// Measures the first of the lengths that fits, with one sample and with as many as fit.
  template <class Iterator>
  void measure_end(Iterator length, Iterator end) {
    while (length != end && !choice_.measured({1, *length})) {
      measure({1, *length});
      if (!choice_.measured({1, *length})) ++length;
    }
    if (length == end) return;
    const step_shape largest{search_largest(*length), *length};
    if (steps_a_shape() * estimate_ms(largest) <= 250 * seconds_left()) measure(largest);
  }

  /// The largest batch of a length, one step a trial. A trial that would take more than a tenth of
  /// the budget is not made.
  std::int64_t search_largest(std::int64_t length) {
    std::int64_t known = 1;
    for (const measurement& m : steps_.measurements) {
      if (m.sequence_length == length) known = std::max(known, m.batch_size);
    }
    return largest_batch_size(most_tokens() / length, [&](std::int64_t batch_size) {
      const step_shape shape{batch_size, length};
      if (batch_size <= known || choice_.ran(shape)) return true;
      if (batch_size > most_tokens() / length || seconds_left() <= 0) return false;
      if (estimate_ms(shape) > 100 * options_.budget_seconds) return false;
      double peak = 0;
      return !std::isinf(one_step(shape, peak));
    });
  }

  Step& step_;
  const shape_benchmark_options& options_;
  rank_agreement& ranks_;
  std::vector<std::int64_t> lengths_;
  shape_choice choice_;
  shape_record record_;
  double start_ms_;
  measured_steps steps_;
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
/// is out of range, `csv_error` on a record that isn't one, and what the step throws; and on every
/// other rank of a distributed run `std::runtime_error`, which names the shape.
template <class Step>
requires std::invocable<Step&, std::int64_t, std::int64_t>
[[nodiscard]] measured_steps benchmark_shapes(Step&& step, const shape_benchmark_options& options) {
  detail::rank_agreement ranks(options.slowest_rank);
  return ranks.all_or_none([&] {
    return detail::shape_benchmark<std::remove_reference_t<Step>>(step, options, ranks).run();
  });
}

}  // namespace adaptiveload
