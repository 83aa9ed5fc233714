#pragma once

#include <adaptiveload/schedule/cost_fit.hpp>
#include <adaptiveload/schedule/cost_model.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/statistics.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload {

/// What a run says of one shape.
struct observed_shape {
  step_shape shape;
  double observed_ms = 0;      ///< median of the recent times
  double predicted_ms = 0;     ///< by the cost model in use
  double relative_error = 0;   ///< standard error of the median
  std::int64_t run_count = 0;  ///< since the shape was first seen

  [[nodiscard]] double ratio() const { return observed_ms / predicted_ms; }
};

/// How far observed step times are from those that the plan in use was made with.
///
/// Shapes count by the time that the run spends on them. Only what is uneven unbalances a plan:
/// where every shape is slower alike, a new plan gains nothing.
struct plan_drift {
  double slowdown = 1;    ///< observed over predicted time: the median over shapes
  double unevenness = 0;  ///< how far shapes are from that, beyond chance: the mean, relative
  bool drifted = false;   ///< whether one of the two is beyond the tolerance
};

struct calibration_options {
  std::size_t recent = 32;           ///< times kept of each shape
  std::size_t most_shapes = 128;     ///< shapes kept; the one not seen for longest goes first
  std::int64_t least_run_count = 5;  ///< runs of a shape before it is listened to
  double tolerance = 0.05;           ///< of slowdown and unevenness
};

/// Compares the step times of a training run with the cost model that its plan was made with, and
/// updates the model. Keeps at most `most_shapes` times `recent` numbers, however long the run.
///
/// One object a rank, fed with that rank's times; `compare_ranks` tells a slow node from a changed
/// model.
class calibration {
 public:
  /// `measured` are the steps that the model in use was fitted to. Throws `std::invalid_argument`
  /// on a measurement that is not finite and positive, and on an option that is out of range.
  calibration(cost_model in_use, std::vector<measurement> measured,
              const calibration_options& options = {})
      : in_use_(std::move(in_use)), measured_(std::move(measured)), options_(options) {
    detail::check_measurements(measured_);
    detail::require(options.recent >= 1, "recent", options.recent, "1 or more");
    detail::require(options.most_shapes >= 1, "most_shapes", options.most_shapes, "1 or more");
    detail::require(options.least_run_count >= 1, "least_run_count", options.least_run_count,
                    "1 or more");
    detail::require(options.tolerance > 0, "tolerance", options.tolerance, "above 0");
  }

  /// Takes note of a step, timed as the measurements were: without waiting for other ranks, where
  /// ranks are to be told apart. Throws `std::invalid_argument` unless all three are above 0 and
  /// the time is finite.
  void observe(std::int64_t batch_size, std::int64_t sequence_length, double step_ms) {
    detail::require(batch_size > 0, "batch_size", batch_size, "1 or more");
    detail::require(sequence_length > 0, "sequence_length", sequence_length, "1 or more");
    detail::require(std::isfinite(step_ms) && step_ms > 0, "step_ms", step_ms,
                    "finite and above 0");
    history& h = shapes_[{batch_size, sequence_length}];
    if (h.times.size() < options_.recent) {
      h.times.push_back(step_ms);
    } else {
      h.times[static_cast<std::size_t>(h.run_count) % options_.recent] = step_ms;
    }
    ++h.run_count;
    h.last_seen = ++observations_;
    if (shapes_.size() > options_.most_shapes) {
      shapes_.erase(std::min_element(shapes_.begin(), shapes_.end(), [](auto& a, auto& b) {
        return a.second.last_seen < b.second.last_seen;
      }));
    }
  }

  /// The shapes that have run often enough to be listened to.
  [[nodiscard]] std::vector<observed_shape> observed() const {
    std::vector<observed_shape> all;
    for (const auto& [shape, h] : shapes_) {
      if (h.run_count < options_.least_run_count) continue;
      const double middle = detail::median(h.times);
      all.push_back({shape, middle, in_use_.step_ms(shape.batch_size, shape.sequence_length),
                     detail::median_error(h.times) / middle, h.run_count});
    }
    return all;
  }

  /// By how much the run has drifted from the model in use; nothing while no shape has run often.
  [[nodiscard]] plan_drift drift() const {
    const std::vector<observed_shape> shapes = observed();
    if (shapes.empty()) return {};
    std::vector<std::pair<double, double>> ratios;  // and time spent
    double total_ms = 0;
    for (const observed_shape& s : shapes) {
      ratios.emplace_back(s.ratio(), static_cast<double>(s.run_count) * s.observed_ms);
      total_ms += ratios.back().second;
    }
    std::sort(ratios.begin(), ratios.end());
    plan_drift d;
    double below_ms = 0;
    for (const auto& [ratio, ms] : ratios) {
      d.slowdown = ratio;
      below_ms += ms;
      if (below_ms >= total_ms / 2) break;
    }
    for (const observed_shape& s : shapes) {
      const double off = std::abs(s.ratio() / d.slowdown - 1) - 2 * s.relative_error;
      const double share = static_cast<double>(s.run_count) * s.observed_ms / total_ms;
      d.unevenness += share * std::max(off, 0.0);
    }
    d.drifted = std::abs(d.slowdown - 1) > options_.tolerance || d.unevenness > options_.tolerance;
    return d;
  }

  /// The model fitted anew: to what was observed and, for the shapes that the run does not have, to
  /// the old measurements, each changed as much as the observed shape of the nearest length.
  ///
  /// Throws as `fit_cost_model` does where all that is too little.
  [[nodiscard]] cost_model updated() const {
    const std::vector<observed_shape> shapes = observed();
    std::vector<measurement> steps;
    for (measurement m : measured_) {
      // Time is nearly proportional to the batch size: what changed depends on the length first.
      const auto distance = [&m](const observed_shape& s) {
        return std::pair(detail::log_distance(s.shape.sequence_length, m.sequence_length),
                         detail::log_distance(s.shape.batch_size, m.batch_size));
      };
      const auto nearest =
          std::min_element(shapes.begin(), shapes.end(),
                           [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
      if (nearest != shapes.end()) {
        if (nearest->shape == m.shape()) continue;
        m.step_ms *= nearest->ratio();
      }
      steps.push_back(m);
    }
    for (const observed_shape& s : shapes) {
      steps.push_back({s.shape.batch_size, s.shape.sequence_length, s.observed_ms});
    }
    return fit_cost_model(steps);
  }

 private:
  struct history {
    std::vector<double> times;  ///< a ring
    std::int64_t run_count = 0;
    std::int64_t last_seen = 0;
  };

  cost_model in_use_;
  std::vector<measurement> measured_;
  calibration_options options_;
  std::map<step_shape, history> shapes_;
  std::int64_t observations_ = 0;
};

}  // namespace adaptiveload
