#pragma once

#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/curve_fit.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload {

/// A predicted step time, and whether its shape lies outside what was measured.
struct prediction {
  double step_ms = 0;
  bool extrapolated = false;
};

/// Relative errors |predicted / measured - 1| over some measurements.
struct relative_error {
  double mean = 0;
  double worst = 0;
};

/// One form that was tried: its curve, its errors on the measurements that it was fitted to, and on
/// those of each sequence length when fitted without them.
struct cost_candidate {
  cost_form form = cost_form::power;
  cost_curve curve;
  relative_error in_sample;
  relative_error held_out;
};

/// The measured range of a cost model. A shape is inside when its sequence length, its batch size
/// and its tokens each are.
struct measured_range {
  std::int64_t least_batch_size = 1;
  std::int64_t most_batch_size = std::numeric_limits<std::int64_t>::max();
  std::int64_t least_sequence_length = 1;
  std::int64_t most_sequence_length = std::numeric_limits<std::int64_t>::max();
  std::int64_t least_tokens = 1;
  std::int64_t most_tokens = std::numeric_limits<std::int64_t>::max();

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
  /// A model of a given curve, valid everywhere; `fit_cost_model` makes one from measurements.
  explicit cost_model(cost_curve curve, cost_form form = cost_form::power)
      : form_(form), curve_(curve) {}

  cost_model(cost_curve curve, cost_form form, measured_range range,
             std::vector<cost_candidate> candidates)
      : form_(form), curve_(curve), range_(range), candidates_(std::move(candidates)) {}

  /// Milliseconds of a step of `batch_size` samples of `sequence_length` tokens each.
  [[nodiscard]] double step_ms(std::int64_t batch_size, std::int64_t sequence_length) const {
    detail::require(batch_size > 0, "batch_size", batch_size, "1 or more");
    detail::require(sequence_length > 0, "sequence_length", sequence_length, "1 or more");
    return curve_.step_ms(batch_size, sequence_length);
  }

  /// As `step_ms`, saying whether the shape lies outside the measured range.
  [[nodiscard]] prediction predict(std::int64_t batch_size, std::int64_t sequence_length) const {
    return {step_ms(batch_size, sequence_length), !range_.contains(batch_size, sequence_length)};
  }

  [[nodiscard]] cost_form form() const { return form_; }
  [[nodiscard]] const cost_curve& curve() const { return curve_; }
  [[nodiscard]] const measured_range& range() const { return range_; }

  /// Every form that was tried, best first by held-out error; empty for a model made by hand.
  [[nodiscard]] const std::vector<cost_candidate>& candidates() const { return candidates_; }

 private:
  cost_form form_;
  cost_curve curve_;
  measured_range range_;
  std::vector<cost_candidate> candidates_;
};

namespace detail {

/// One measurement a shape: the median of its times, ordered by length, then batch size.
inline std::vector<measurement> merge_shapes(std::span<const measurement> measurements) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> times;
  for (const measurement& m : measurements) {
    times[{m.sequence_length, m.batch_size}].push_back(m.step_ms);
  }
  std::vector<measurement> shapes;
  for (const auto& [shape, t] : times) shapes.push_back({shape.second, shape.first, median(t)});
  return shapes;
}

inline relative_error summarise(const std::vector<double>& errors) {
  relative_error summary;
  for (const double e : errors) {
    summary.mean += std::abs(e) / static_cast<double>(errors.size());
    summary.worst = std::max(summary.worst, std::abs(e));
  }
  return summary;
}

/// Errors on each sequence length of a curve fitted to the other lengths.
inline std::vector<double> held_out_errors(const std::vector<measurement>& shapes, cost_form form,
                                           const cost_curve& near) {
  std::vector<double> errors;
  for (std::size_t begin = 0; begin < shapes.size();) {
    std::vector<measurement> kept;
    std::vector<measurement> held_out;
    for (const measurement& m : shapes) {
      (m.sequence_length == shapes[begin].sequence_length ? held_out : kept).push_back(m);
    }
    const cost_curve curve = curve_fitter(kept, form).fit(&near);
    for (const double e : relative_errors(curve, held_out)) errors.push_back(e);
    begin += held_out.size();
  }
  return errors;
}

}  // namespace detail

/// Fits every form to measured steps and keeps the one that best predicts lengths it has not seen.
///
/// Errors are relative and robust: a stall in one measurement does not bend the curve.
/// Coefficients are never negative. Repeated measurements of a shape count as their median. Throws
/// `std::invalid_argument` on a measurement that is not finite and positive (naming it), on fewer
/// than five shapes or three sequence lengths.
[[nodiscard]] inline cost_model fit_cost_model(std::span<const measurement> measurements) {
  detail::check_measurements(measurements);
  const std::vector<measurement> shapes = detail::merge_shapes(measurements);
  std::set<std::int64_t> lengths;
  measured_range range{.least_batch_size = std::numeric_limits<std::int64_t>::max(),
                       .most_batch_size = 0,
                       .least_sequence_length = std::numeric_limits<std::int64_t>::max(),
                       .most_sequence_length = 0,
                       .least_tokens = std::numeric_limits<std::int64_t>::max(),
                       .most_tokens = 0};
  for (const measurement& m : shapes) {
    lengths.insert(m.sequence_length);
    range.least_batch_size = std::min(range.least_batch_size, m.batch_size);
    range.most_batch_size = std::max(range.most_batch_size, m.batch_size);
    range.least_sequence_length = std::min(range.least_sequence_length, m.sequence_length);
    range.most_sequence_length = std::max(range.most_sequence_length, m.sequence_length);
    range.least_tokens = std::min(range.least_tokens, m.tokens());
    range.most_tokens = std::max(range.most_tokens, m.tokens());
  }
  detail::require(shapes.size() >= 5, "measurements: distinct shapes", shapes.size(), "5 or more");
  detail::require(lengths.size() >= 3, "measurements: distinct sequence lengths", lengths.size(),
                  "3 or more");

  std::vector<cost_candidate> candidates;
  for (const cost_form form : {cost_form::power, cost_form::quadratic, cost_form::floored_power,
                               cost_form::floored_quadratic}) {
    const cost_curve curve = detail::curve_fitter(shapes, form).fit();
    candidates.push_back(
        {.form = form,
         .curve = curve,
         .in_sample = detail::summarise(detail::relative_errors(curve, shapes)),
         .held_out = detail::summarise(detail::held_out_errors(shapes, form, curve))});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const cost_candidate& x, const cost_candidate& y) {
                     return x.held_out.mean < y.held_out.mean;
                   });
  const cost_candidate best = candidates.front();
  return {best.curve, best.form, range, std::move(candidates)};
}

}  // namespace adaptiveload
