#pragma once

#include <adaptiveload/schedule/correction.hpp>
#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/cost_model.hpp>
#include <adaptiveload/schedule/curve_fit.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/standard_errors.hpp>
#include <adaptiveload/schedule/statistics.hpp>
#include <adaptiveload/support/error.hpp>
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

namespace adaptiveload {

struct cost_fit_options {
  std::optional<cost_form> form = std::nullopt;  ///< the only one to try; by default all are
};

namespace detail {

/// One measurement a shape, the median of its times; by sequence length, then batch size.
inline std::vector<measurement> merge_shapes(std::span<const measurement> measurements) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> times;
  for (const measurement& m : measurements) {
    times[{m.sequence_length, m.batch_size}].push_back(m.step_ms);
  }
  std::vector<measurement> shapes;
  for (auto& [shape, t] : times) {
    shapes.push_back({shape.second, shape.first, median(std::move(t))});
  }
  return shapes;
}

inline measured_range range_of(std::span<const measurement> shapes) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  measured_range range{most, 0, most, 0, most, 0};
  for (const measurement& m : shapes) {
    range.least_batch_size = std::min(range.least_batch_size, m.batch_size);
    range.most_batch_size = std::max(range.most_batch_size, m.batch_size);
    range.least_sequence_length = std::min(range.least_sequence_length, m.sequence_length);
    range.most_sequence_length = std::max(range.most_sequence_length, m.sequence_length);
    range.least_tokens = std::min(range.least_tokens, m.tokens());
    range.most_tokens = std::max(range.most_tokens, m.tokens());
  }
  return range;
}

inline relative_error summarise(const std::vector<double>& errors) {
  relative_error summary;
  for (const double e : errors) {
    summary.mean += std::abs(e) / static_cast<double>(errors.size());
    summary.worst = std::max(summary.worst, std::abs(e));
  }
  return summary;
}

/// A part of the measurements, by sequence length, and the rest.
struct fold {
  std::vector<measurement> kept;
  std::vector<measurement> held_out;
};

/// Holds out each sequence length once; of more than twenty, every twentieth together.
inline std::vector<fold> folds_by_length(std::span<const measurement> shapes,
                                         const std::set<std::int64_t>& lengths) {
  std::vector<fold> folds(std::min<std::size_t>(lengths.size(), 20));
  for (const measurement& m : shapes) {
    const auto rank =
        static_cast<std::size_t>(std::distance(lengths.begin(), lengths.find(m.sequence_length)));
    for (std::size_t i = 0; i < folds.size(); ++i) {
      (rank % folds.size() == i ? folds[i].held_out : folds[i].kept).push_back(m);
    }
  }
  return folds;
}

/// The curve of a form fitted to what each fold keeps.
inline std::vector<cost_curve> fit_folds(const std::vector<fold>& folds, cost_form form,
                                         const cost_curve& near) {
  std::vector<cost_curve> curves;
  for (const fold& f : folds) curves.push_back(curve_fitter(f.kept, form).fit(&near));
  return curves;
}

/// Relative errors of those curves on what each fold holds out.
inline std::vector<double> held_out_errors(const std::vector<fold>& folds,
                                           const std::vector<cost_curve>& curves) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < folds.size(); ++i) {
    for (const double e : relative_errors(curves[i], folds[i].held_out)) errors.push_back(e);
  }
  return errors;
}

/// The same of those curves, each corrected by what its fold keeps.
inline std::vector<double> held_out_errors(const std::vector<fold>& folds,
                                           const std::vector<cost_curve>& curves,
                                           const correction_scales& scales) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < folds.size(); ++i) {
    const correction corrected(folds[i].kept, curves[i], &scales);
    for (const double e : corrected.relative_errors(folds[i].held_out)) errors.push_back(e);
  }
  return errors;
}

}  // namespace detail

/// Fits every form to measured steps and keeps the one that best predicts lengths it has not seen.
///
/// Errors are relative and robust: a stall in one measurement does not bend the curve.
/// Coefficients are never negative. Repeated measurements of a shape count as their median. The
/// forms are compared by their mean error on each sequence length when fitted without it (of more
/// than 20 lengths, without every twentieth). The interpolation corrects the best of the other
/// forms; it is kept unless that makes new lengths worse, by over 2 %, for it is right at the
/// measured shapes. It is tried with up to 256 shapes.
///
/// Throws `std::invalid_argument` on a measurement that is not finite and positive (naming it), on
/// fewer than five shapes or three sequence lengths, and on more than 256 shapes if `options` ask
/// for interpolation.
[[nodiscard]] inline cost_model fit_cost_model(std::span<const measurement> measurements,
                                               const cost_fit_options& options = {}) {
  detail::check_measurements(measurements);
  const std::vector<measurement> shapes = detail::merge_shapes(measurements);
  std::set<std::int64_t> lengths;
  for (const measurement& m : shapes) lengths.insert(m.sequence_length);
  detail::require(shapes.size() >= 5, "measurements: distinct shapes", shapes.size(), "5 or more");
  detail::require(lengths.size() >= 3, "measurements: distinct sequence lengths", lengths.size(),
                  "3 or more");
  const bool interpolate = shapes.size() <= 256;  // the work grows as the cube
  detail::require(interpolate || options.form != cost_form::interpolated,
                  "measurements: distinct shapes to interpolate", shapes.size(), "256 or fewer");

  std::vector<cost_form> forms{cost_form::power, cost_form::quadratic, cost_form::floored_power,
                               cost_form::floored_quadratic, cost_form::floored_polynomial};
  if (options.form && *options.form != cost_form::interpolated) forms = {*options.form};
  const std::vector<detail::fold> folds = detail::folds_by_length(shapes, lengths);
  std::vector<cost_candidate> candidates;
  std::vector<std::vector<cost_curve>> fold_curves;
  std::size_t best = 0;
  for (const cost_form form : forms) {
    const cost_curve curve = detail::curve_fitter(shapes, form).fit();
    fold_curves.push_back(detail::fit_folds(folds, form, curve));
    candidates.push_back({form, curve, detail::standard_errors(curve, form, shapes),
                          detail::summarise(detail::relative_errors(curve, shapes)),
                          detail::summarise(detail::held_out_errors(folds, fold_curves.back()))});
    // Errors of rounding do not speak against a simpler form.
    const double bar = candidates[best].held_out.mean;
    if (candidates.back().held_out.mean < 0.999 * bar - 1e-6) best = candidates.size() - 1;
  }

  const detail::correction correction =
      interpolate ? detail::correction(shapes, candidates[best].curve) : detail::correction();
  cost_form chosen = candidates[best].form;
  const cost_curve curve = candidates[best].curve;
  std::vector<cost_curve> resampled = fold_curves[best];
  if (interpolate) {
    cost_candidate corrected = candidates[best];
    corrected.form = cost_form::interpolated;
    corrected.in_sample = detail::summarise(correction.relative_errors(shapes));
    corrected.held_out =
        detail::summarise(detail::held_out_errors(folds, fold_curves[best], correction.scales()));
    const bool worse = corrected.held_out.mean > 1.02 * candidates[best].held_out.mean + 1e-6;
    if (options.form ? options.form == cost_form::interpolated : !worse) {
      chosen = cost_form::interpolated;
    }
    candidates.push_back(corrected);
  }
  return {curve,
          chosen,
          detail::range_of(shapes),
          correction,
          std::move(resampled),
          std::move(candidates)};
}

}  // namespace adaptiveload
