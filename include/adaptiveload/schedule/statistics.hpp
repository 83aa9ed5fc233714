#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace adaptiveload::detail {

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

}  // namespace adaptiveload::detail
