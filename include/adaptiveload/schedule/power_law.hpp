#pragma once

#include <adaptiveload/schedule/least_squares.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload {

/// Step time as a + b B S^p (Guo et al. 2026, arXiv 2605.17923), and how well it fits.
struct power_law {
  double a = 0;  ///< ms of every step
  double b = 0;  ///< ms per sample and token^p
  double p = 0;
  double r_squared = 0;            ///< of the step times in ms
  double mean_relative_error = 0;  ///< |predicted / measured - 1|, over the measurements
  double worst_relative_error = 0;

  [[nodiscard]] double step_ms(std::int64_t batch_size, std::int64_t sequence_length) const {
    return a +
           b * static_cast<double>(batch_size) * std::pow(static_cast<double>(sequence_length), p);
  }
};

/// Fits a + b B S^p by least squares of the step times in milliseconds, with a, b >= 0 and p in
/// [0, 4].
///
/// Variable projection (Golub and Pereyra 1973): a and b are the linear least squares for a given
/// p, so only p is searched. Throws `std::invalid_argument` on a measurement that is not finite and
/// positive (naming it), on fewer than three shapes, on a single sequence length (p would be
/// arbitrary), and on times that do not grow with the shape.
[[nodiscard]] inline power_law fit_power_law(std::span<const measurement> measurements) {
  detail::check_measurements(measurements);
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  std::set<std::int64_t> lengths;
  for (const measurement& m : measurements) {
    shapes.emplace(m.batch_size, m.sequence_length);
    lengths.insert(m.sequence_length);
  }
  detail::require(shapes.size() >= 3, "measurements: distinct shapes", shapes.size(), "3 or more");
  detail::require(lengths.size() >= 2, "measurements: distinct sequence lengths", lengths.size(),
                  "2 or more");

  // S relative to the longest length keeps S^p in (0, 1] for every p.
  const double longest = static_cast<double>(*lengths.rbegin());
  std::vector<std::array<double, 2>> rows(measurements.size(), {1.0, 0.0});
  std::vector<double> times;
  for (const measurement& m : measurements) times.push_back(m.step_ms);
  const std::vector<double> ones(measurements.size(), 1.0);
  const auto solve = [&](double p) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const measurement& m = measurements[i];
      rows[i][1] = static_cast<double>(m.batch_size) *
                   std::pow(static_cast<double>(m.sequence_length) / longest, p);
    }
    return detail::nonnegative_least_squares<2>(rows, times, ones);
  };
  const double p =
      detail::minimise([&](double q) { return solve(q).sum_of_squares; }, 0.0, 4.0, 80, 1e-10);
  const auto best = solve(p);
  detail::require(best.coefficients[1] > 0, "measurements: growth of step_ms with the shape",
                  best.coefficients[1], "above 0");

  power_law law{
      .a = best.coefficients[0], .b = best.coefficients[1] / std::pow(longest, p), .p = p};
  double mean = 0;
  for (const double t : times) mean += t / static_cast<double>(times.size());
  double variation = 0;
  for (const measurement& m : measurements) {
    variation += (m.step_ms - mean) * (m.step_ms - mean);
    const double error = std::abs(law.step_ms(m.batch_size, m.sequence_length) / m.step_ms - 1);
    law.mean_relative_error += error / static_cast<double>(times.size());
    law.worst_relative_error = std::max(law.worst_relative_error, error);
  }
  law.r_squared = 1 - best.sum_of_squares / variation;
  return law;
}

}  // namespace adaptiveload
