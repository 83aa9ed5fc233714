#pragma once

#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload {

/// Peak memory of a step as an upper bound, affine in its tokens B x S.
struct memory_model {
  double fixed_bytes = 0;      ///< parameters, gradients, optimizer state
  double bytes_per_token = 0;  ///< activations
  /// Steps of so many tokens were seen to run out of memory, whatever the formula says.
  std::int64_t out_of_memory_tokens = std::numeric_limits<std::int64_t>::max();
  double mean_relative_excess = 0;  ///< predicted / measured - 1, over the measurements
  double worst_relative_excess = 0;
  std::int64_t most_tokens = 0;  ///< the largest step measured; beyond it is extrapolation

  [[nodiscard]] double peak_bytes(std::int64_t tokens) const {
    return fixed_bytes + bytes_per_token * static_cast<double>(tokens);
  }

  /// The most tokens a micro-batch may have (M_mem) so that a step stays within `budget_bytes`,
  /// less a safety margin, a share of the budget in [0, 1).
  ///
  /// Throws `std::invalid_argument` if the margin is outside [0, 1) or the budget does not hold a
  /// single token.
  [[nodiscard]] std::int64_t max_tokens(std::int64_t budget_bytes,
                                        double safety_margin = 0.05) const {
    detail::require(safety_margin >= 0 && safety_margin < 1, "safety_margin", safety_margin,
                    "0 or more, below 1");
    const double usable = static_cast<double>(budget_bytes) * (1 - safety_margin);
    detail::require(peak_bytes(1) <= usable, "budget_bytes", budget_bytes,
                    "at least, after the safety margin, the memory of a step of one token");
    const std::int64_t bound = out_of_memory_tokens - 1;
    if (bytes_per_token <= 0) return bound;
    const double tokens = std::floor((usable - fixed_bytes) / bytes_per_token);
    return tokens >= static_cast<double>(bound) ? bound : static_cast<std::int64_t>(tokens);
  }
};

namespace detail {

using memory_point = std::pair<double, double>;  ///< tokens, bytes

/// The upper convex hull of points ordered by tokens.
inline std::vector<memory_point> upper_hull(const std::vector<memory_point>& points) {
  std::vector<memory_point> hull;
  for (const memory_point& p : points) {
    const auto below = [&](const memory_point& a, const memory_point& b) {
      return (b.second - a.second) * (p.first - a.first) <=
             (p.second - a.second) * (b.first - a.first);
    };
    while (hull.size() >= 2 && below(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(p);
  }
  return hull;
}

/// The line above all points, of the hull's edge that spans `centre`; where that has a negative
/// coefficient, the nearest line that has none: flat at the top, or through the origin.
inline memory_model line_above(const std::vector<memory_point>& points, double centre) {
  const std::vector<memory_point> hull = upper_hull(points);
  std::size_t edge = 0;
  while (edge + 2 < hull.size() && hull[edge + 1].first < centre) ++edge;
  memory_model line;
  line.bytes_per_token =
      (hull[edge + 1].second - hull[edge].second) / (hull[edge + 1].first - hull[edge].first);
  line.fixed_bytes = hull[edge].second - line.bytes_per_token * hull[edge].first;
  if (line.bytes_per_token < 0) {
    line = {};
    for (const auto& [tokens, bytes] : hull) line.fixed_bytes = std::max(line.fixed_bytes, bytes);
  } else if (line.fixed_bytes < 0) {
    line = {};
    for (const auto& [tokens, bytes] : hull) {
      line.bytes_per_token = std::max(line.bytes_per_token, bytes / tokens);
    }
  }
  for (const auto& [tokens, bytes] : hull) {  // rounding must not put it below
    while (line.peak_bytes(static_cast<std::int64_t>(tokens)) < bytes) {
      line.fixed_bytes += std::numeric_limits<double>::epsilon() * bytes;
    }
  }
  return line;
}

}  // namespace detail

/// Fits peak memory as the tightest line above every measurement that has one.
///
/// Of all lines that are nowhere below a measurement, with both coefficients non-negative, it takes
/// the one of least mean relative excess: an edge of the upper convex hull of (tokens, bytes).
/// Measurements without a peak are passed over. A shape that ran out of memory limits `max_tokens`
/// to fewer tokens than it had. Throws `std::invalid_argument` on a measurement that is not finite
/// and positive (naming it), on fewer than two different token counts with a peak, and on a shape
/// that ran out of memory without samples or tokens.
[[nodiscard]] inline memory_model fit_memory_model(std::span<const measurement> measurements,
                                                   std::span<const step_shape> out_of_memory = {}) {
  detail::check_measurements(measurements);
  for (const auto& shape : out_of_memory) {
    detail::require(shape.batch_size > 0, "out_of_memory: batch_size", shape.batch_size,
                    "1 or more");
    detail::require(
        shape.sequence_length > 0 && shape.batch_size <= INT64_MAX / shape.sequence_length,
        "out_of_memory: sequence_length", shape.sequence_length,
        "1 or more, and fewer than 2^63 tokens");
  }
  std::map<std::int64_t, double> peaks;  // the largest of each token count
  double weight = 0;
  double weighted_tokens = 0;
  double count = 0;
  for (const measurement& m : measurements) {
    if (!m.peak_memory_bytes) continue;
    const double bytes = static_cast<double>(*m.peak_memory_bytes);
    double& peak = peaks[m.tokens()];
    peak = std::max(peak, bytes);
    weight += 1 / bytes;
    weighted_tokens += static_cast<double>(m.tokens()) / bytes;
    ++count;
  }
  detail::require(peaks.size() >= 2, "measurements: distinct token counts with peak_memory_bytes",
                  peaks.size(), "2 or more");

  // The total relative excess of a line is affine in its height at the weighted mean of the tokens,
  // so the best one is the hull's edge there.
  memory_model model = detail::line_above({peaks.begin(), peaks.end()}, weighted_tokens / weight);
  for (const auto& shape : out_of_memory) {
    model.out_of_memory_tokens = std::min(model.out_of_memory_tokens, shape.tokens());
  }
  model.most_tokens = peaks.rbegin()->first;
  for (const measurement& m : measurements) {
    if (!m.peak_memory_bytes) continue;
    const double excess =
        model.peak_bytes(m.tokens()) / static_cast<double>(*m.peak_memory_bytes) - 1;
    model.mean_relative_excess += excess / count;
    model.worst_relative_excess = std::max(model.worst_relative_excess, excess);
  }
  return model;
}

}  // namespace adaptiveload
