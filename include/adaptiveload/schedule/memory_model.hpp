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

/// Fits peak memory as the tightest line above every measurement that has one.
///
/// Of all lines that are nowhere below a measurement, with both coefficients non-negative, it takes
/// the one of least mean relative excess: an edge of the upper convex hull of (tokens, bytes).
/// Measurements without a peak are passed over. A shape that ran out of memory limits `max_tokens`
/// to fewer tokens than it had. Throws `std::invalid_argument` on a measurement that is not finite
/// and positive (naming it), on fewer than two different token counts with a peak, and on a shape
/// that ran out of memory with no more tokens than none.
[[nodiscard]] inline memory_model fit_memory_model(
    std::span<const measurement> measurements,
    std::span<const out_of_memory_shape> out_of_memory = {}) {
  detail::check_measurements(measurements);
  std::map<std::int64_t, double> peaks;  // the largest of each token count
  double weight = 0;
  double weighted_tokens = 0;
  for (const measurement& m : measurements) {
    if (!m.peak_memory_bytes) continue;
    const double bytes = static_cast<double>(*m.peak_memory_bytes);
    double& peak = peaks[m.tokens()];
    peak = std::max(peak, bytes);
    weight += 1 / bytes;
    weighted_tokens += static_cast<double>(m.tokens()) / bytes;
  }
  detail::require(peaks.size() >= 2, "measurements: distinct token counts with peak_memory_bytes",
                  peaks.size(), "2 or more");

  using point = std::pair<double, double>;
  std::vector<point> hull;
  // Beyond the largest step the line is as flat as it may be, before the smallest as steep.
  for (const auto& [tokens, bytes] : peaks) {
    const point p{static_cast<double>(tokens), bytes};
    const auto below = [&](const point& a, const point& b) {
      return (b.second - a.second) * (p.first - a.first) <=
             (p.second - a.second) * (b.first - a.first);
    };
    while (hull.size() >= 2 && below(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(p);
  }

  // The total relative excess of a line is affine in its height at the weighted mean of the tokens,
  // so the best one is the hull's edge there.
  const double centre = weighted_tokens / weight;
  std::size_t edge = 0;
  while (edge + 2 < hull.size() && hull[edge + 1].first < centre) ++edge;
  const auto slope = [&](std::size_t i) {
    return (hull[i + 1].second - hull[i].second) / (hull[i + 1].first - hull[i].first);
  };
  memory_model model;
  model.bytes_per_token = slope(edge);
  model.fixed_bytes = hull[edge].second - model.bytes_per_token * hull[edge].first;
  if (model.bytes_per_token < 0 || model.fixed_bytes < 0) {
    // The non-negative line nearest to it: flat at the largest peak, or through the origin.
    const bool flat = model.bytes_per_token < 0;
    model = {};
    for (const auto& [tokens, bytes] : hull) {
      if (flat)
        model.fixed_bytes = std::max(model.fixed_bytes, bytes);
      else
        model.bytes_per_token = std::max(model.bytes_per_token, bytes / tokens);
    }
  }
  for (const auto& shape : out_of_memory) {
    detail::require(shape.batch_size > 0, "out_of_memory: batch_size", shape.batch_size,
                    "1 or more");
    detail::require(
        shape.sequence_length > 0 && shape.batch_size <= INT64_MAX / shape.sequence_length,
        "out_of_memory: sequence_length", shape.sequence_length,
        "1 or more, and fewer than 2^63 tokens");
    model.out_of_memory_tokens =
        std::min(model.out_of_memory_tokens, shape.batch_size * shape.sequence_length);
  }
  model.most_tokens = peaks.rbegin()->first;
  std::size_t count = 0;
  for (const measurement& m : measurements) {
    if (!m.peak_memory_bytes) continue;
    ++count;
    const double excess =
        model.peak_bytes(m.tokens()) / static_cast<double>(*m.peak_memory_bytes) - 1;
    model.mean_relative_excess += excess;
    model.worst_relative_excess = std::max(model.worst_relative_excess, excess);
  }
  model.mean_relative_excess /= static_cast<double>(count);
  return model;
}

}  // namespace adaptiveload
