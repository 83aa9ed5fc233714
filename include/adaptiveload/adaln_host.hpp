#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/host_row.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// The AdaLN operations on the CPU, on the argument structs of the CUDA ones. Computed in float,
/// or in double where the activation is double, on the calling thread: to use several, give each
/// some samples. Each throws `std::invalid_argument` on a bad argument, a bad position in
/// `shape.cu_seqlens` included, before anything is written. Independent of CUDA.
namespace adaptiveload::host {

/// `y = n(x) * (1 + scale) + shift`; see `layernorm_modulate_args`.
template <class X, class M, class Y>
void layernorm_modulate_forward(const layernorm_modulate_args<X, M, Y>& args) {
  using compute = statistic_t<X>;
  adaptiveload::detail::check_arguments(args);
  detail::check_positions(args.shape);
  const std::int64_t features = args.shape.features;

  detail::for_each_group(args.shape, [&](const detail::token_group& group) {
    if (group.begin == group.end) return;
    const auto factors = detail::factors_of<compute>(args.scale, args.form, group, features);
    const auto shift = detail::vector_of<compute>(args.shift, group, features);
    for (std::int64_t row = group.begin; row < group.end; ++row) {
      const detail::normal_row n(args.x + row * features, features, args.kind,
                                 static_cast<compute>(args.epsilon));
      detail::write_forward(args, row, n, factors, shift, args.y + row * features);
    }
  });
}

/// The gradients of `layernorm_modulate`; see `layernorm_modulate_backward_args`.
template <class X, class M, class Y>
void layernorm_modulate_backward(const layernorm_modulate_backward_args<X, M, Y>& args) {
  using compute = statistic_t<X>;
  adaptiveload::detail::check_arguments(args);
  detail::check_positions(args.shape);
  const std::int64_t features = args.shape.features;
  detail::gradient_sum dscale(args.dscale, features), dshift(args.dshift, features);
  std::vector<compute> dx(static_cast<std::size_t>(features));  // of a row, before it is rounded

  detail::for_each_group(args.shape, [&](const detail::token_group& group) {
    if (group.begin < group.end) {
      const auto factors = detail::factors_of<compute>(args.scale, args.form, group, features);
      for (std::int64_t row = group.begin; row < group.end; ++row) {
        const std::int64_t at = row * features;
        const detail::normal_row n(args.x + at, features, args.kind, args.mean, args.rstd, row);
        detail::backward_row(n, args.kind, factors, args.dy + at, dx.data(), dscale.data(),
                             dshift.data());
        std::transform(dx.begin(), dx.end(), args.dx + at,
                       [](compute value) { return static_cast<X>(value); });
      }
    }
    dscale.finish(group);
    dshift.finish(group);
  });
  dscale.write_total();
  dshift.write_total();
}

/// `r = residual + gate * branch`, `y = n(r) * (1 + scale) + shift`; see
/// `gate_residual_layernorm_modulate_args`.
template <class X, class M, class Y>
void gate_residual_layernorm_modulate_forward(
    const gate_residual_layernorm_modulate_args<X, M, Y>& args) {
  using compute = statistic_t<X>;
  adaptiveload::detail::check_arguments(args);
  detail::check_positions(args.shape);
  const std::int64_t features = args.shape.features;

  detail::for_each_group(args.shape, [&](const detail::token_group& group) {
    if (group.begin == group.end) return;
    const auto gate = detail::vector_of<compute>(args.gate, group, features);
    const auto factors = detail::factors_of<compute>(args.scale, args.form, group, features);
    const auto shift = detail::vector_of<compute>(args.shift, group, features);
    for (std::int64_t row = group.begin; row < group.end; ++row) {
      const X* residual = args.residual + row * features;
      const X* branch = args.branch + row * features;
      Y* r = args.r + row * features;
      for (std::size_t i = 0; i < gate.size(); ++i) {
        r[i] = static_cast<Y>(static_cast<compute>(residual[i]) +
                              gate[i] * static_cast<compute>(branch[i]));
      }
      const detail::normal_row n(static_cast<const Y*>(r), features, args.kind,
                                 static_cast<compute>(args.epsilon));
      detail::write_forward(args, row, n, factors, shift, args.y + row * features);
    }
  });
}

/// The gradients of `gate_residual_layernorm_modulate`; see
/// `gate_residual_layernorm_modulate_backward_args`.
template <class X, class M, class Y>
void gate_residual_layernorm_modulate_backward(
    const gate_residual_layernorm_modulate_backward_args<X, M, Y>& args) {
  using compute = statistic_t<X>;
  adaptiveload::detail::check_arguments(args);
  detail::check_positions(args.shape);
  const std::int64_t features = args.shape.features;
  detail::gradient_sum dgate(args.dgate, features), dscale(args.dscale, features),
      dshift(args.dshift, features);
  std::vector<compute> dx(static_cast<std::size_t>(features));  // of a row, before it is rounded

  detail::for_each_group(args.shape, [&](const detail::token_group& group) {
    if (group.begin < group.end) {
      const auto gate = detail::vector_of<compute>(args.gate, group, features);
      const auto factors = detail::factors_of<compute>(args.scale, args.form, group, features);
      for (std::int64_t row = group.begin; row < group.end; ++row) {
        const std::int64_t at = row * features;
        const detail::normal_row n(args.r + at, features, args.kind, args.mean, args.rstd, row);
        detail::backward_row(n, args.kind, factors, args.dy + at, dx.data(), dscale.data(),
                             dshift.data());
        const X* branch = args.branch + at;
        const Y* dr = args.dr + at;
        X* dresidual = args.dresidual + at;
        X* dbranch = args.dbranch + at;
        for (std::size_t i = 0; i < dx.size(); ++i) {
          const compute d = static_cast<compute>(dr[i]) + dx[i];
          dgate.data()[i] += static_cast<compute>(branch[i]) * d;
          dresidual[i] = static_cast<X>(d);
          dbranch[i] = static_cast<X>(gate[i] * d);
        }
      }
    }
    dgate.finish(group);
    dscale.finish(group);
    dshift.finish(group);
  });
  dgate.write_total();
  dscale.write_total();
  dshift.write_total();
}

}  // namespace adaptiveload::host
