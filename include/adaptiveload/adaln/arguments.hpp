#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace adaptiveload {

/// Sizes of an activation [batch, tokens, features], row-major and contiguous: a row is one
/// token's features. Sizes may be 0, but for `features` and `groups`, which are at least 1.
///
/// A group is a run of tokens that share their modulations: a sample, one of its latent frames, or
/// a token.
struct activation_shape {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t features = 0;
  /// Of each sample, equally long: 1, its latent frames, or `tokens`. Divides `tokens`.
  std::int64_t groups = 1;
  /// Packed samples, as attention takes them, in the operations' own memory: [batch + 1] positions
  /// from 0 to `tokens`, which then counts those of all samples. The activation is
  /// [tokens, features], sample b its rows from cu_seqlens[b] up to cu_seqlens[b + 1], of which
  /// there may be none, and one group. null: every sample has `tokens` tokens.
  const std::int32_t* cu_seqlens = nullptr;
};

/// One vector of `features` per group (scale, shift or gate), read where it lies: that of sample
/// b's group g at `data + b * batch_stride + g * group_stride`, in elements. Stride 0 gives the
/// same vector to all; a batch stride of 6 * features takes one of the six chunks of a
/// [batch, 6, features] tensor.
template <class M>
struct modulation {
  const M* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t group_stride = 0;
  const float* table = nullptr;  ///< [features], added to each vector; null: nothing
};

/// Where the gradient of a modulation goes.
template <class G>
struct modulation_gradient {
  /// As `modulation`, but written: the strides must keep the vectors apart. null: not wanted.
  G* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t group_stride = 0;
  /// [features], the sum over all groups: the gradient of a table row, or of a vector that all
  /// groups share. null: not wanted.
  G* total = nullptr;
};

/// n(x) of a row, over its features.
enum class norm {
  layer,            ///< (x - mean) * rstd, rstd = 1 / sqrt(variance + epsilon) (Ba et al. 2016)
  root_mean_square  ///< x * rstd, rstd = 1 / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich 2019)
};

/// What `scale` and `shift` do to n(x).
enum class modulate {
  one_plus_scale,  ///< n(x) * (1 + scale) + shift (Peebles and Xie 2023)
  scale            ///< n(x) * scale + shift: an affine norm, with gamma as scale and beta as shift
};

/// The type of statistics and modulation gradients: float, whatever the storage type; double on
/// the host when the activation is double.
template <class X>
using statistic_t = std::conditional_t<std::is_same_v<X, double>, double, float>;

/// Arguments of `y = n(x) * (1 + scale) + shift`.
/// X, M and Y are the storage types of x, the modulations and y, each float, __nv_bfloat16 or
/// __half (on the host double too, or any type that converts to and from float).
template <class X, class M = float, class Y = X>
struct layernorm_modulate_args {
  activation_shape shape;
  const X* x = nullptr;  ///< [batch, tokens, features]
  modulation<M> scale = {};
  modulation<M> shift = {};        ///< no data: 0
  Y* y = nullptr;                  ///< [batch, tokens, features]; may be x if Y is X
  statistic_t<X>* mean = nullptr;  ///< [batch, tokens], for the backward; null: not saved
  statistic_t<X>* rstd = nullptr;  ///< [batch, tokens]; as mean
  double epsilon = 1e-6;           ///< > 0
  norm kind = norm::layer;         ///< of root_mean_square, all means are 0
  modulate form = modulate::one_plus_scale;
};

/// Arguments of the gradients of `layernorm_modulate`, given those arriving at y:
/// `dx = rstd * (g - mean(g) - n * mean(g * n))` with `g = dy * (1 + scale)` (without mean(g) of a
/// root-mean-square norm), and over the tokens of each group `dscale = sum(dy * n)`,
/// `dshift = sum(dy)`.
template <class X, class M = float, class Y = X>
struct layernorm_modulate_backward_args {
  activation_shape shape;
  const X* x = nullptr;                  ///< [batch, tokens, features], as in the forward
  const statistic_t<X>* mean = nullptr;  ///< [batch, tokens], saved by the forward; unless RMS
  const statistic_t<X>* rstd = nullptr;  ///< [batch, tokens], saved by the forward
  modulation<M> scale = {};
  const Y* dy = nullptr;  ///< [batch, tokens, features]
  X* dx = nullptr;        ///< [batch, tokens, features]; neither in x's place nor in dy's
  modulation_gradient<statistic_t<X>> dscale = {};
  modulation_gradient<statistic_t<X>> dshift = {};
  void* scratch = nullptr;        ///< 16-byte aligned; unused on the host
  std::size_t scratch_bytes = 0;  ///< at least `layernorm_modulate_backward_scratch_bytes(shape)`
  norm kind = norm::layer;
  modulate form = modulate::one_plus_scale;
};

/// Arguments of `r = residual + gate * branch`, `y = n(r) * (1 + scale) + shift`: what stands
/// between a block's attention or feed-forward layer and the next. r is rounded to its storage
/// type before it is normalized, as the backward will read it.
template <class X, class M = float, class Y = X>
struct gate_residual_layernorm_modulate_args {
  activation_shape shape;
  const X* residual = nullptr;  ///< [batch, tokens, features]
  const X* branch = nullptr;    ///< [batch, tokens, features]
  modulation<M> gate = {};
  modulation<M> scale = {};
  modulation<M> shift = {};        ///< no data: 0
  Y* r = nullptr;                  ///< [batch, tokens, features]; may be residual if Y is X
  Y* y = nullptr;                  ///< [batch, tokens, features]; may be branch if Y is X
  statistic_t<X>* mean = nullptr;  ///< [batch, tokens], of r, for the backward; null: not saved
  statistic_t<X>* rstd = nullptr;  ///< [batch, tokens]; as mean
  double epsilon = 1e-6;           ///< > 0
  norm kind = norm::layer;         ///< of root_mean_square, all means are 0
  modulate form = modulate::one_plus_scale;
};

/// Arguments of the gradients of `gate_residual_layernorm_modulate`, given those arriving at y and
/// at r: with `d = dr + dx`, dx as of `layernorm_modulate` for x = r, `dresidual = d`,
/// `dbranch = gate * d`, and over the tokens of each group `dgate = sum(branch * d)`; dscale and
/// dshift as there.
template <class X, class M = float, class Y = X>
struct gate_residual_layernorm_modulate_backward_args {
  activation_shape shape;
  const Y* r = nullptr;                  ///< [batch, tokens, features], of the forward
  const X* branch = nullptr;             ///< [batch, tokens, features], as in the forward
  const statistic_t<X>* mean = nullptr;  ///< [batch, tokens], saved by the forward; unless RMS
  const statistic_t<X>* rstd = nullptr;  ///< [batch, tokens], saved by the forward
  modulation<M> gate = {};
  modulation<M> scale = {};
  const Y* dy = nullptr;   ///< [batch, tokens, features]
  const Y* dr = nullptr;   ///< [batch, tokens, features]
  X* dresidual = nullptr;  ///< [batch, tokens, features]; in the place of no input
  X* dbranch = nullptr;    ///< [batch, tokens, features]; in the place of no input
  modulation_gradient<statistic_t<X>> dgate = {};
  modulation_gradient<statistic_t<X>> dscale = {};
  modulation_gradient<statistic_t<X>> dshift = {};
  void* scratch = nullptr;  ///< 16-byte aligned; unused on the host
  /// At least `gate_residual_layernorm_modulate_backward_scratch_bytes(shape)`.
  std::size_t scratch_bytes = 0;
  norm kind = norm::layer;
  modulate form = modulate::one_plus_scale;
};

}  // namespace adaptiveload
