#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/checks.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

/// The AdaLN operations on the CPU, on the argument structs of the CUDA ones. Computed in float,
/// or in double where the activation is double, on the calling thread: to use several, give each
/// some samples. Independent of CUDA.
namespace adaptiveload::host {
namespace detail {

using adaptiveload::detail::check_arguments;
using adaptiveload::detail::rows;

/// Sum of term(0) ... term(count - 1), in eight interleaved partial sums: vectorised by the
/// compiler, and rounding errors grow eight times slower.
template <class Compute, class Term>
Compute sum(std::int64_t count, Term term) {
  std::array<Compute, 8> partial{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::int64_t k = 0; k < 8; ++k) partial[static_cast<std::size_t>(k)] += term(i + k);
  }
  for (; i < count; ++i) partial[0] += term(i);
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

}  // namespace detail

/// `y = n(x) * (1 + scale) + shift`; see `layernorm_modulate_args`. Throws
/// `std::invalid_argument` on a bad argument, before anything is written.
template <class X, class M, class Y>
void layernorm_modulate_forward(const layernorm_modulate_args<X, M, Y>& args) {
  using compute = statistic_t<X>;
  detail::check_arguments(args);
  const std::int64_t features = args.shape.features;
  const auto count = static_cast<compute>(features);
  const auto epsilon = static_cast<compute>(args.epsilon);

  for (std::int64_t row = 0; row < detail::rows(args.shape); ++row) {
    const std::int64_t sample = row / args.shape.tokens;
    const M* scale = args.scale.data + sample * args.scale.batch_stride;
    const M* shift = args.shift.data + sample * args.shift.batch_stride;
    const X* x = args.x + row * features;
    Y* y = args.y + row * features;

    const auto value = [x](std::int64_t i) { return static_cast<compute>(x[i]); };
    // The mean rounds to its own size; what rounding took from it matters where it is large
    // against the deviation, so it comes back as `rest`.
    const compute mean = detail::sum<compute>(features, value) / count;
    const compute rest =
        detail::sum<compute>(features, [&](std::int64_t i) { return value(i) - mean; }) / count;
    const auto centred = [&](std::int64_t i) { return (value(i) - mean) - rest; };
    const compute variance =
        detail::sum<compute>(features, [&](std::int64_t i) { return centred(i) * centred(i); }) /
        count;
    const compute rstd = 1 / std::sqrt(variance + epsilon);

    for (std::int64_t i = 0; i < features; ++i) {
      y[i] = static_cast<Y>(centred(i) * rstd * (1 + static_cast<compute>(scale[i])) +
                            static_cast<compute>(shift[i]));
    }
    if (args.mean != nullptr) args.mean[row] = mean + rest;
    if (args.rstd != nullptr) args.rstd[row] = rstd;
  }
}

/// The gradients of `layernorm_modulate`; see `layernorm_modulate_backward_args`. Throws
/// `std::invalid_argument` on a bad argument, before anything is written.
template <class X, class M, class Y>
void layernorm_modulate_backward(const layernorm_modulate_backward_args<X, M, Y>& args) {
  using compute = statistic_t<X>;
  detail::check_arguments(args);
  const std::int64_t features = args.shape.features;
  const auto count = static_cast<compute>(features);

  for (std::int64_t sample = 0; sample < args.shape.batch; ++sample) {
    const M* scale = args.scale.data + sample * args.scale.batch_stride;
    compute* dscale = args.dscale.data + sample * args.dscale.batch_stride;
    compute* dshift = args.dshift.data + sample * args.dshift.batch_stride;
    std::fill_n(dscale, features, compute{0});
    std::fill_n(dshift, features, compute{0});

    for (std::int64_t token = 0; token < args.shape.tokens; ++token) {
      const std::int64_t row = sample * args.shape.tokens + token;
      const X* x = args.x + row * features;
      const Y* dy = args.dy + row * features;
      X* dx = args.dx + row * features;
      const compute mean = args.mean[row];
      const compute rstd = args.rstd[row];
      const auto difference = [&](std::int64_t i) { return static_cast<compute>(x[i]) - mean; };
      const compute rest = detail::sum<compute>(features, difference) / count;  // as forward

      const auto normal = [&](std::int64_t i) { return (difference(i) - rest) * rstd; };
      const auto gradient = [&](std::int64_t i) {
        return static_cast<compute>(dy[i]) * (1 + static_cast<compute>(scale[i]));
      };
      const compute mean_gradient = detail::sum<compute>(features, gradient) / count;
      const compute mean_projection =
          detail::sum<compute>(features, [&](std::int64_t i) { return gradient(i) * normal(i); }) /
          count;

      for (std::int64_t i = 0; i < features; ++i) {
        const auto dy_i = static_cast<compute>(dy[i]);
        const compute normal_i = normal(i);
        dscale[i] += dy_i * normal_i;
        dshift[i] += dy_i;
        dx[i] = static_cast<X>(rstd * (gradient(i) - mean_gradient - normal_i * mean_projection));
      }
    }
  }
}

}  // namespace adaptiveload::host
