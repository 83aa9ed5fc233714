#pragma once

#include <adaptiveload/support/error.hpp>
#include <concepts>
#include <cstdint>

namespace adaptiveload {

/// What predicts the milliseconds of a training step on `batch` samples of `sequence_length`
/// tokens: a cost model (`step_ms`), or anything called as double(std::int64_t, std::int64_t).
template <class Cost>
concept step_cost = requires(const Cost& cost, std::int64_t n) {
  { cost.step_ms(n, n) } -> std::convertible_to<double>;
}
|| requires(const Cost& cost, std::int64_t n) {
  { cost(n, n) } -> std::convertible_to<double>;
};

namespace detail {

template <step_cost Cost>
constexpr double step_ms(const Cost& cost, std::int64_t batch, std::int64_t sequence_length) {
  double ms = 0;
  if constexpr (requires { cost.step_ms(batch, sequence_length); }) {
    ms = cost.step_ms(batch, sequence_length);
  } else {
    ms = cost(batch, sequence_length);
  }
  require(ms > 0 && ms <= 1e300, "cost", ms, "a finite number of milliseconds above 0");
  return ms;
}

}  // namespace detail
}  // namespace adaptiveload
