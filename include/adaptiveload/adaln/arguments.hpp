#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace adaptiveload {

/// Sizes of an activation [batch, tokens, features], row-major and contiguous: a row is one
/// token's features. Every size may be 0 but `features`, which is at least 1.
struct activation_shape {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t features = 0;
};

/// One vector of `features` per sample (scale, shift or gate), read where it lies: sample b's is
/// at `data + b * batch_stride`, in elements. Stride 0 gives every sample the same vector;
/// 6 * features takes one of the six chunks of a [batch, 6, features] tensor.
template <class M>
struct modulation {
  const M* data = nullptr;
  std::int64_t batch_stride = 0;
};

/// Where the gradient of a modulation goes: as `modulation`, but written. The stride must keep
/// the samples' vectors apart.
template <class G>
struct modulation_gradient {
  G* data = nullptr;
  std::int64_t batch_stride = 0;
};

/// The type of statistics and modulation gradients: float, whatever the storage type; double on
/// the host when the activation is double.
template <class X>
using statistic_t = std::conditional_t<std::is_same_v<X, double>, double, float>;

/// Arguments of `y = n(x) * (1 + scale) + shift`, where `n(x) = (x - mean) * rstd` over the
/// features of a row (Ba et al. 2016; Peebles and Xie 2023).
/// X, M and Y are the storage types of x, the modulations and y, each float, __nv_bfloat16 or
/// __half (on the host double too, or any type that converts to and from float).
template <class X, class M = float, class Y = X>
struct layernorm_modulate_args {
  activation_shape shape;
  const X* x = nullptr;  ///< [batch, tokens, features]
  modulation<M> scale;
  modulation<M> shift;
  Y* y = nullptr;                  ///< [batch, tokens, features]; may be x if Y is X
  statistic_t<X>* mean = nullptr;  ///< [batch, tokens], for the backward; null: not saved
  statistic_t<X>* rstd = nullptr;  ///< [batch, tokens], 1 / sqrt(variance + epsilon); as mean
  double epsilon = 1e-6;           ///< > 0
};

/// Arguments of the gradients of `layernorm_modulate`, given those arriving at y:
/// `dx = rstd * (g - mean(g) - n * mean(g * n))` with `g = dy * (1 + scale)`, and over the tokens
/// of each sample `dscale = sum(dy * n)`, `dshift = sum(dy)`.
template <class X, class M = float, class Y = X>
struct layernorm_modulate_backward_args {
  activation_shape shape;
  const X* x = nullptr;                  ///< [batch, tokens, features], as in the forward
  const statistic_t<X>* mean = nullptr;  ///< [batch, tokens], saved by the forward
  const statistic_t<X>* rstd = nullptr;  ///< [batch, tokens], saved by the forward
  modulation<M> scale;
  const Y* dy = nullptr;  ///< [batch, tokens, features]
  X* dx = nullptr;        ///< [batch, tokens, features]; neither in x's place nor in dy's
  modulation_gradient<statistic_t<X>> dscale;
  modulation_gradient<statistic_t<X>> dshift;
  void* scratch = nullptr;        ///< 16-byte aligned; unused on the host
  std::size_t scratch_bytes = 0;  ///< at least `layernorm_modulate_backward_scratch_bytes(shape)`
};

}  // namespace adaptiveload
