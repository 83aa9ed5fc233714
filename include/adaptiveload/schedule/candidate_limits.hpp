#pragma once

#include <adaptiveload/schedule/bucket_plan.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace adaptiveload::detail {

/// Limits to try, the largest first: those that just admit n samples of some bucket, n = 1, 2, ...,
/// from the cost of the longest sample up. All of the longest bucket's, and a spread of the
/// others'.
template <class CostOf>
std::vector<double> candidate_limits(std::span<const bucket> full, const CostOf& cost_of) {
  constexpr std::size_t most = 48;
  const auto single = [&](const bucket& b) { return cost_of(1, b.sequence_length); };
  const bucket& longest =
      *std::max_element(full.begin(), full.end(),
                        [&](const bucket& a, const bucket& b) { return single(a) < single(b); });
  const double least = single(longest);
  const auto multiples = [&](const bucket& b) {
    std::vector<double> limits;
    const std::int64_t stride = (b.batch_size - 1) / static_cast<std::int64_t>(most) + 1;
    for (std::int64_t n = b.batch_size; n >= 1; n -= stride) {
      const double limit = cost_of(n, b.sequence_length);
      if (limit >= least) limits.push_back(limit);
    }
    return limits;
  };
  const auto in_order = [](std::vector<double> limits) {
    std::sort(limits.begin(), limits.end(), std::greater<>());
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    return limits;
  };
  std::vector<double> others;
  for (const bucket& b : full) {
    const std::vector<double> each = multiples(b);
    others.insert(others.end(), each.begin(), each.end());
  }
  others = in_order(others);
  std::vector<double> limits = multiples(longest);
  limits.push_back(least);
  const std::size_t stride = others.size() / most + 1;
  for (std::size_t i = 0; i < others.size(); i += stride) limits.push_back(others[i]);
  return in_order(limits);
}

}  // namespace adaptiveload::detail
