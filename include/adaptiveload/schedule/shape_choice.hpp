#pragma once

#include <adaptiveload/schedule/cost_fit.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/statistics.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload::detail {

/// How far shapes are apart, in e-folds of B and of S.
inline double distance(const step_shape& x, const step_shape& y) {
  return std::hypot(log_distance(x.batch_size, y.batch_size),
                    log_distance(x.sequence_length, y.sequence_length));
}

/// What a shape benchmark knows so far, and what it had best measure next.
class shape_choice {
 public:
  explicit shape_choice(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {}

  /// Takes note of a step that was run, measured properly or not.
  void note(const step_shape& shape, double ms) {
    steps_[shape] = ms;
    most_tokens_ = std::max(most_tokens_, shape.tokens());
  }

  void note(std::span<const measurement> measured) {
    for (const measurement& m : measured) {
      note(m.shape(), m.step_ms);
      measured_.push_back(m);
    }
    std::set<std::int64_t> lengths;
    for (const measurement& n : measured_) lengths.insert(n.sequence_length);
    if (measured_.size() >= 5 && lengths.size() >= 3) {
      model_ = fit_cost_model(measured_, {.form = cost_form::floored_polynomial});
    }
  }

  [[nodiscard]] bool ran(const step_shape& shape) const { return steps_.contains(shape); }

  [[nodiscard]] bool measured(const step_shape& shape) const {
    return std::any_of(measured_.begin(), measured_.end(),
                       [&](const measurement& m) { return m.shape() == shape; });
  }

  /// The expected time of a step: of the fit, or before there is one the nearest step's, as if all
  /// of it grew as B S^2, which is rather too long.
  [[nodiscard]] double estimate_ms(const step_shape& shape) const {
    if (model_) return model_->step_ms(shape.batch_size, shape.sequence_length);
    double nearest = std::numeric_limits<double>::infinity();
    double ms = 0;
    for (const auto& [known, known_ms] : steps_) {
      const double d = distance(shape, known);
      if (d >= nearest) continue;
      nearest = d;
      const double samples = ratio(shape.batch_size, known.batch_size);
      const double length = ratio(shape.sequence_length, known.sequence_length);
      ms = known_ms * std::max(1.0, samples) * std::max(1.0, length * length);
    }
    return ms;
  }

  /// The shape to measure next, of no more tokens than a step that ran and than `most_tokens`, and
  /// with an expected step of at most `most_ms`; none if all that remain are close to measured
  /// ones.
  ///
  /// It is the one of which the least is known: the fit's standard error there, times how far it is
  /// from what was measured. Without a fit, just the farthest.
  [[nodiscard]] std::optional<step_shape> next(std::int64_t most_tokens, double most_ms) const {
    std::optional<step_shape> best;
    double most = 0;
    for (const step_shape& shape : open(most_tokens)) {
      if (estimate_ms(shape) > most_ms) continue;
      // The one percent stands for what no resampling shows: that the form itself is wrong.
      const double error =
          model_ ? model_->predict(shape.batch_size, shape.sequence_length).relative_standard_error
                 : 0;
      const double value = (error + 0.01) * distance_to_measured(shape);
      if (value > most) {
        most = value;
        best = shape;
      }
    }
    return best;
  }

  /// The expected time of a step of each shape that may still be measured, added up.
  [[nodiscard]] double remaining_ms(std::int64_t most_tokens) const {
    double sum = 0;
    for (const step_shape& shape : open(most_tokens)) sum += estimate_ms(shape);
    return sum;
  }

 private:
  static double ratio(std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  }

  [[nodiscard]] double distance_to_measured(const step_shape& shape) const {
    double nearest = std::numeric_limits<double>::infinity();
    for (const measurement& m : measured_) {
      nearest = std::min(nearest, distance(shape, m.shape()));
    }
    return nearest;
  }

  /// Every length at powers of two and at the most samples, less what is close to a measurement.
  [[nodiscard]] std::vector<step_shape> open(std::int64_t most_tokens) const {
    constexpr double close = 0.3;
    std::vector<step_shape> shapes;
    for (const std::int64_t length : lengths_) {
      const std::int64_t most = std::min(most_tokens, most_tokens_) / length;
      for (std::int64_t b = 1; b <= most; b = b < most && b > most / 2 ? most : 2 * b) {
        const step_shape shape{b, length};
        if (distance_to_measured(shape) > close) shapes.push_back(shape);
        if (b == most) break;
      }
    }
    return shapes;
  }

  std::vector<std::int64_t> lengths_;
  std::map<step_shape, double> steps_;
  std::vector<measurement> measured_;
  std::int64_t most_tokens_ = 0;  ///< of a step that ran
  std::optional<cost_model> model_;
};

}  // namespace adaptiveload::detail
