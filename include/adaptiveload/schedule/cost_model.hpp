#pragma once

#include <adaptiveload/schedule/correction.hpp>
#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/support/error.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace adaptiveload {

/// A predicted step time.
struct prediction {
  double step_ms = 0;
  bool extrapolated = false;           ///< the shape lies outside what was measured
  double relative_standard_error = 0;  ///< of the curve: what other lengths would have made of it
  double relative_deviation = 0;       ///< of a measurement from the prediction: scatter included
};

/// Relative errors |predicted / measured - 1| over some measurements.
struct relative_error {
  double mean = 0;
  double worst = 0;
};

/// One form that was tried.
struct cost_candidate {
  cost_form form = cost_form::power;
  cost_curve curve;            ///< of `interpolated`, the curve that is corrected
  cost_curve standard_errors;  ///< of its coefficients; 0 for one that is absent or held at 0
  relative_error in_sample;    ///< on the measurements that it was fitted to
  relative_error held_out;     ///< on each sequence length, when fitted without it
};

/// The range of the shapes that were measured.
struct measured_range {
  std::int64_t least_batch_size = 1;
  std::int64_t most_batch_size = std::numeric_limits<std::int64_t>::max();
  std::int64_t least_sequence_length = 1;
  std::int64_t most_sequence_length = std::numeric_limits<std::int64_t>::max();
  std::int64_t least_tokens = 1;
  std::int64_t most_tokens = std::numeric_limits<std::int64_t>::max();

  /// Whether batch size, sequence length and tokens of a shape are each within the range.
  [[nodiscard]] bool contains(std::int64_t batch_size, std::int64_t sequence_length) const {
    return batch_size >= least_batch_size && batch_size <= most_batch_size &&
           sequence_length >= least_sequence_length && sequence_length <= most_sequence_length &&
           batch_size <= most_tokens / sequence_length &&
           batch_size * sequence_length >= least_tokens;
  }
};

/// Predicts the time of a training step from its shape.
class cost_model {
 public:
  /// A model that follows a given curve everywhere.
  explicit cost_model(const cost_curve& curve, cost_form form = cost_form::floored_quadratic)
      : curve_(curve), form_(form) {}

  /// What `fit_cost_model` makes; `resampled` are the curves without a part of the measurements.
  cost_model(const cost_curve& curve, cost_form form, const measured_range& range,
             detail::correction correction, std::vector<cost_curve> resampled,
             std::vector<cost_candidate> candidates)
      : curve_(curve),
        form_(form),
        range_(range),
        correction_(std::move(correction)),
        resampled_(std::move(resampled)),
        candidates_(std::move(candidates)) {}

  /// Milliseconds of a step of `batch_size` samples of `sequence_length` tokens each. Throws
  /// `std::invalid_argument` unless both are 1 or more.
  [[nodiscard]] double step_ms(std::int64_t batch_size, std::int64_t sequence_length) const {
    detail::require(batch_size > 0, "batch_size", batch_size, "1 or more");
    detail::require(sequence_length > 0, "sequence_length", sequence_length, "1 or more");
    const double ms = curve_.step_ms(batch_size, sequence_length);
    return form_ == cost_form::interpolated ? ms * correction_.factor(batch_size, sequence_length)
                                            : ms;
  }

  /// As `step_ms`, with how far it can be trusted.
  [[nodiscard]] prediction predict(std::int64_t batch_size, std::int64_t sequence_length) const {
    const double error = standard_error(batch_size, sequence_length);
    return {step_ms(batch_size, sequence_length), !range_.contains(batch_size, sequence_length),
            error, std::hypot(error, scatter(batch_size, sequence_length))};
  }

  [[nodiscard]] cost_form form() const { return form_; }
  [[nodiscard]] cost_curve curve() const { return curve_; }
  [[nodiscard]] measured_range range() const { return range_; }

  /// Every form that was tried; empty for a model made from a curve.
  [[nodiscard]] const std::vector<cost_candidate>& candidates() const& { return candidates_; }
  [[nodiscard]] std::vector<cost_candidate> candidates() && { return std::move(candidates_); }

 private:
  /// By the jackknife (Tukey 1958) over the parts of the measurements that were left out.
  [[nodiscard]] double standard_error(std::int64_t batch_size, std::int64_t sequence_length) const {
    const auto count = static_cast<double>(resampled_.size());
    const double centre = curve_.step_ms(batch_size, sequence_length);
    double variance = 0;
    for (const cost_curve& curve : resampled_) {
      const double difference = std::log(curve.step_ms(batch_size, sequence_length) / centre);
      variance += (count - 1) / count * difference * difference;
    }
    return std::sqrt(variance);
  }

  [[nodiscard]] double scatter(std::int64_t batch_size, std::int64_t sequence_length) const {
    const double deviation = correction_.deviation(batch_size, sequence_length);
    if (form_ == cost_form::interpolated) return deviation;
    return std::hypot(deviation, std::log(correction_.factor(batch_size, sequence_length)));
  }

  cost_curve curve_;
  cost_form form_;
  measured_range range_;
  detail::correction correction_;
  std::vector<cost_curve> resampled_;
  std::vector<cost_candidate> candidates_;
};

}  // namespace adaptiveload
