#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace adaptiveload::detail {

/// How far two sizes are apart, in e-folds.
inline double log_distance(std::int64_t a, std::int64_t b) {
  return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
}

/// The median of one or more values; of an even number the mean of the two in the middle.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

/// The standard deviation of normal values about zero, from the median of their sizes: up to half
/// of them may be anything.
inline double robust_deviation(std::vector<double> residuals) {
  for (double& r : residuals) r = std::abs(r);
  return 1.4826 * median(std::move(residuals));
}

/// The standard error of the median of normal values, 1.2533 deviations over the root of the count.
inline double median_error(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> residuals;
  for (const double v : values) residuals.push_back(v - middle);
  return 1.2533 * robust_deviation(std::move(residuals)) /
         std::sqrt(static_cast<double>(values.size()));
}

}  // namespace adaptiveload::detail
