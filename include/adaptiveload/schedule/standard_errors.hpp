#pragma once

#include <adaptiveload/schedule/cholesky.hpp>
#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/curve_fit.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload::detail {

/// The coefficients of a curve that a fit could move: those of the form that are not held at 0.
inline std::vector<double cost_curve::*> free_coefficients(const cost_curve& curve,
                                                           cost_form form) {
  std::vector<double cost_curve::*> free;
  for (const auto coefficient :
       {&cost_curve::floor_ms, &cost_curve::fixed_ms, &cost_curve::per_sample, &cost_curve::slope,
        &cost_curve::quadratic}) {
    if (curve.*coefficient > 0) free.push_back(coefficient);
  }
  if (has_exponent(form) && curve.slope > 0) free.push_back(&cost_curve::exponent);
  return free;
}

/// How a step's time changes with each coefficient.
inline cost_curve gradient(const cost_curve& curve, const step_shape& shape) {
  if (curve.step_ms(shape.batch_size, shape.sequence_length) <= curve.floor_ms) {
    return {.floor_ms = 1, .exponent = 0};
  }
  const double b = static_cast<double>(shape.batch_size);
  const double s = static_cast<double>(shape.sequence_length);
  const double s_to_p = std::pow(s, curve.exponent);
  return {.fixed_ms = 1,
          .per_sample = b,
          .slope = b * s_to_p,
          .exponent = b * curve.slope * s_to_p * std::log(s),
          .quadratic = b * s * s};
}

/// The standard errors of a fitted curve's coefficients, of the linearised M-estimate: 0 for those
/// that are 0 or not of the form, infinite for one that no measurement bears on.
inline cost_curve standard_errors(const cost_curve& curve, cost_form form,
                                  std::span<const measurement> shapes) {
  const std::vector<double> residuals = relative_errors(curve, shapes);
  const std::vector<double> weights = huber_weights(residuals);
  const auto free = free_coefficients(curve, form);
  const std::size_t n = free.size();
  std::vector<double> information(n * n);
  double squares = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const cost_curve g = gradient(curve, shapes[i].shape());
    const double weight = weights[i] / (shapes[i].step_ms * shapes[i].step_ms);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k) {
        information[j * n + k] += weight * (g.*free[j]) * (g.*free[k]);
      }
    }
    squares += weights[i] * residuals[i] * residuals[i];
  }
  const double freedom = std::max(1.0, static_cast<double>(shapes.size()) - static_cast<double>(n));

  // Scaled to a unit diagonal: S^2 and 1 differ by ten decades.
  std::vector<double> scale(n);
  for (std::size_t j = 0; j < n; ++j) scale[j] = std::sqrt(information[j * n + j]);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < n; ++k) {
      const double product = scale[j] * scale[k];
      information[j * n + k] = product > 0 ? information[j * n + k] / product : j == k ? 1.0 : 0.0;
    }
  }
  const std::vector<double> inverse = cholesky(std::move(information), n).inverse();
  cost_curve errors{.exponent = 0};
  for (std::size_t j = 0; j < n; ++j) {
    errors.*free[j] = scale[j] > 0 ? std::sqrt(squares / freedom * inverse[j * n + j]) / scale[j]
                                   : std::numeric_limits<double>::infinity();
  }
  return errors;
}

}  // namespace adaptiveload::detail
