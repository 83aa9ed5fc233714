#pragma once

#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/least_squares.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/statistics.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace adaptiveload::detail {

constexpr bool has_floor(cost_form form) {
  return form != cost_form::power && form != cost_form::quadratic;
}

constexpr bool has_exponent(cost_form form) {
  return form == cost_form::power || form == cost_form::floored_power;
}

constexpr bool has_per_sample(cost_form form) {
  return form == cost_form::floored_polynomial;
}

/// Parameters of the part above the floor.
constexpr std::size_t parameter_count(cost_form form) {
  return has_per_sample(form) ? 4 : 3;
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

/// Huber's weights: full up to 1.345 robust deviations, falling as the inverse beyond.
inline std::vector<double> huber_weights(const std::vector<double>& residuals) {
  const double bound = 1.345 * std::max(robust_deviation(residuals), 1e-9);
  std::vector<double> weights;
  weights.reserve(residuals.size());
  for (const double r : residuals) weights.push_back(std::min(1.0, bound / std::abs(r)));
  return weights;
}

/// Fits one parametric form: the relative errors' Huber M-estimate, coefficients not negative.
class curve_fitter {
 public:
  curve_fitter(std::span<const measurement> shapes, cost_form form) : shapes_(shapes), form_(form) {
    for (const measurement& m : shapes) {
      longest_ = std::max(longest_, static_cast<double>(m.sequence_length));
    }
  }

  /// The best of several starts, one of them `near` if given.
  cost_curve fit(const cost_curve* near = nullptr) const {
    if (!has_floor(form_)) return refine(std::vector<bool>(shapes_.size(), false), near);
    cost_curve best;
    double least = std::numeric_limits<double>::infinity();
    const auto try_start = [&](const std::vector<bool>& at_floor, const cost_curve* start) {
      const cost_curve curve = refine(at_floor, start);
      if (const double l = loss(curve); l < least) {
        least = l;
        best = curve;
      }
    };
    // At the floor are the fastest steps; how many of them is what the starts try.
    std::vector<double> times;
    for (const measurement& m : shapes_) times.push_back(m.step_ms);
    std::sort(times.begin(), times.end());
    const std::size_t most = times.size() - std::min(times.size() - 1, parameter_count(form_));
    const std::size_t starts = near != nullptr ? 4 : 8;
    for (std::size_t k = 0; k < starts; ++k) {
      const double threshold = times[most * k / starts];
      std::vector<bool> at_floor;
      for (const measurement& m : shapes_) at_floor.push_back(m.step_ms < threshold);
      try_start(at_floor, near);
    }
    if (near != nullptr) try_start(below(*near), near);
    return best;
  }

 private:
  using row = std::array<double, 4>;

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
      if (std::abs(l - previous) <= 1e-7 * l) break;
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
                   has_exponent(form_) ? 0.0 : b * s * s, has_per_sample(form_) ? b : 0.0};
      }
      return nonnegative_least_squares<4>(rows, targets, point_weights);
    };
    double p = 1;
    if (has_exponent(form_)) {
      const auto value = [&](double q) { return at_exponent(q).sum_of_squares; };
      p = exponent < 0 ? minimise(value, 0.0, 4.0, 20, 1e-4)
                       : minimise(value, std::max(0.0, exponent - 0.1),
                                  std::min(4.0, exponent + 0.1), 2, 1e-5);
    }
    const auto x = at_exponent(p).coefficients;
    return {.floor_ms = floor_squares > 0 ? floor_weight / floor_squares : 0,
            .fixed_ms = x[0],
            .per_sample = x[3],
            .slope = x[1] / std::pow(longest_, p),
            .exponent = p,
            .quadratic = x[2] / (longest_ * longest_)};
  }

  std::span<const measurement> shapes_;
  cost_form form_;
  double longest_ = 1;
};

}  // namespace adaptiveload::detail
