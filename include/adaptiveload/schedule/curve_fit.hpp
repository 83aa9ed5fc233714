#pragma once

#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/least_squares.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace adaptiveload::detail {

constexpr bool has_floor(cost_form form) {
  return form == cost_form::floored_power || form == cost_form::floored_quadratic;
}

constexpr bool has_exponent(cost_form form) {
  return form == cost_form::power || form == cost_form::floored_power;
}

constexpr std::size_t parameter_count(cost_form form) {
  return has_floor(form) ? 4 : 3;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

/// Signed relative errors of a curve, predicted / measured - 1.
inline std::vector<double> relative_errors(const cost_curve& curve,
                                           std::span<const measurement> shapes) {
  std::vector<double> errors;
  errors.reserve(shapes.size());
  for (const measurement& m : shapes) {
    errors.push_back(curve.step_ms(m.batch_size, m.sequence_length) / m.step_ms - 1);
  }
  return errors;
}

/// Huber's weights of residuals at 1.345 deviations, the deviation taken from the median so that a
/// stalled step does not count in it.
inline std::vector<double> huber_weights(const std::vector<double>& residuals) {
  std::vector<double> weights;
  weights.reserve(residuals.size());
  for (const double r : residuals) weights.push_back(std::abs(r));
  const double bound = 1.345 * std::max(1.4826 * median(weights), 1e-9);
  for (double& w : weights) w = w > bound ? bound / w : 1.0;
  return weights;
}

/// Fits one parametric form to relative errors, robustly.
class curve_fitter {
 public:
  curve_fitter(std::span<const measurement> shapes, cost_form form) : shapes_(shapes), form_(form) {
    for (const measurement& m : shapes) {
      longest_ = std::max(longest_, static_cast<double>(m.sequence_length));
    }
  }

  /// The best of several starts; with `near`, only the one that it gives.
  cost_curve fit(const cost_curve* near = nullptr) const {
    if (!has_floor(form_)) return refine(std::vector<bool>(shapes_.size(), false), near);
    if (near != nullptr) return refine(below(*near), near);
    // The floor holds the steps of the fewest milliseconds; how many is what the starts try.
    std::vector<double> times;
    for (const measurement& m : shapes_) times.push_back(m.step_ms);
    std::sort(times.begin(), times.end());
    cost_curve best;
    double least = std::numeric_limits<double>::infinity();
    const std::size_t most = times.size() - (parameter_count(form_) - 1);
    constexpr std::size_t starts = 8;
    for (std::size_t k = 0; k <= starts; ++k) {
      const double threshold = times[most * k / starts];
      std::vector<bool> flat;
      for (const measurement& m : shapes_) flat.push_back(m.step_ms < threshold);
      const cost_curve curve = refine(flat, nullptr);
      if (const double l = loss(curve); l < least) {
        least = l;
        best = curve;
      }
    }
    return best;
  }

 private:
  using row = std::array<double, 3>;

  double loss(const cost_curve& curve) const {
    double sum = 0;
    for (const double e : relative_errors(curve, shapes_)) sum += std::abs(e);
    return sum;
  }

  std::vector<bool> below(const cost_curve& curve) const {
    std::vector<bool> flat;
    for (const measurement& m : shapes_) {
      flat.push_back(curve.step_ms(m.batch_size, m.sequence_length) <= curve.floor_ms);
    }
    return flat;
  }

  /// Alternates between the curve of the steps above the floor, the floor of the others, which is
  /// which, and the weights, until none changes.
  cost_curve refine(std::vector<bool> flat, const cost_curve* near) const {
    std::vector<double> weights(shapes_.size(), 1.0);
    cost_curve best;
    double least = std::numeric_limits<double>::infinity();
    double previous = least;
    double exponent = near != nullptr ? near->exponent : -1;
    for (int iteration = 0; iteration < 30; ++iteration) {
      const cost_curve curve = solve(flat, weights, exponent);
      exponent = curve.exponent;
      const double l = loss(curve);
      if (l < least) {
        least = l;
        best = curve;
      }
      if (std::abs(l - previous) <= 1e-9 * l) break;
      previous = l;
      weights = huber_weights(relative_errors(curve, shapes_));
      if (has_floor(form_)) flat = below(curve);
    }
    return best;
  }

  cost_curve solve(const std::vector<bool>& flat, const std::vector<double>& weights,
                   double exponent) const {
    double floor_weight = 0;
    double floor_squares = 0;
    std::vector<const measurement*> points;
    std::vector<double> point_weights;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const double t = shapes_[i].step_ms;
      if (flat[i]) {
        floor_weight += weights[i] / t;
        floor_squares += weights[i] / (t * t);
      } else {
        points.push_back(&shapes_[i]);
        point_weights.push_back(weights[i]);
      }
    }
    std::vector<row> rows(points.size());
    const std::vector<double> targets(points.size(), 1.0);
    const auto at_exponent = [&](double p) {
      for (std::size_t i = 0; i < points.size(); ++i) {
        const measurement& m = *points[i];
        const double b = static_cast<double>(m.batch_size) / m.step_ms;
        const double s = static_cast<double>(m.sequence_length) / longest_;
        rows[i] = {1 / m.step_ms, b * (p == 1.0 ? s : std::pow(s, p)),
                   has_exponent(form_) ? 0.0 : b * s * s};
      }
      return nonnegative_least_squares<3>(rows, targets, point_weights);
    };
    double p = 1;
    if (has_exponent(form_)) {
      const auto value = [&](double q) { return at_exponent(q).sum_of_squares; };
      p = exponent < 0 ? minimise(value, 0.0, 4.0, 40, 1e-6)
                       : minimise(value, std::max(0.0, exponent - 0.2),
                                  std::min(4.0, exponent + 0.2), 4, 1e-7);
    }
    const auto x = at_exponent(p).coefficients;
    return {.floor_ms = floor_squares > 0 ? floor_weight / floor_squares : 0,
            .fixed_ms = x[0],
            .slope = x[1] / std::pow(longest_, p),
            .exponent = p,
            .quadratic = x[2] / (longest_ * longest_)};
  }

  std::span<const measurement> shapes_;
  cost_form form_;
  double longest_ = 1;
};

}  // namespace adaptiveload::detail
