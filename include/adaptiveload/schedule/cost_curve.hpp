#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace adaptiveload {

/// The forms of the cost of a training step in batch size B and sequence length S.
enum class cost_form {
  power,              ///< a + b B S^p, the published form (Guo et al. 2026, arXiv 2605.17923)
  quadratic,          ///< a + B (b1 S + b2 S^2): what is linear in tokens, and attention
  floored_power,      ///< max(floor, a + b B S^p): small steps are bound by launches
  floored_quadratic,  ///< max(floor, a + B (b1 S + b2 S^2))
  /// max(floor, a + B (b0 + b1 S + b2 S^2)): every sample also has its text and its modulation
  floored_polynomial,
  interpolated,  ///< the best of these, times a smooth correction through the measurements
};

/// Step time as `max(floor_ms, fixed_ms + B (per_sample + slope S^exponent + quadratic S^2))`, in
/// milliseconds.
///
/// It writes every parametric form: what a form lacks is 0, and `exponent` 1.
struct cost_curve {
  double floor_ms = 0;
  double fixed_ms = 0;
  double per_sample = 0;  ///< ms per sample, whatever its length
  double slope = 0;       ///< ms per sample and S^exponent
  double exponent = 1;
  double quadratic = 0;  ///< ms per sample and squared token

  /// The time of one sample of this length beyond what every step costs, in milliseconds.
  [[nodiscard]] double sample_ms(std::int64_t sequence_length) const {
    const double s = static_cast<double>(sequence_length);
    return per_sample + slope * (exponent == 1.0 ? s : std::pow(s, exponent)) + quadratic * s * s;
  }

  [[nodiscard]] double step_ms(std::int64_t batch_size, std::int64_t sequence_length) const {
    return std::max(floor_ms,
                    fixed_ms + static_cast<double>(batch_size) * sample_ms(sequence_length));
  }

  friend bool operator==(const cost_curve&, const cost_curve&) = default;
};

}  // namespace adaptiveload
