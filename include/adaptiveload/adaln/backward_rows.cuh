#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/row.cuh>
#include <adaptiveload/adaln/row_groups.cuh>
#include <cstdint>
#include <type_traits>

/// The backward of both operations, as far as its kernels share it: without a gate, x is `r` and dx
/// `dresidual`, and there are no branch, dr and dbranch.
namespace adaptiveload::detail {

/// The arguments that the kernels take: `Normalized` is the type of r, or of x.
template <class Normalized, class X, class M, class Y>
struct backward_arguments {
  activation_shape shape;
  const Normalized* r;
  const X* branch;
  const float* mean;
  const float* rstd;
  modulation<M> gate, scale;
  const Y* dy;
  const Y* dr;
  X* dresidual;
  X* dbranch;
  modulation_gradient<float> gradients[3];  ///< of scale, shift and gate
  norm kind;
  modulate form;
};

/// How many of `gradients` there are.
template <bool Gated>
inline constexpr int gradient_count = Gated ? 3 : 2;

template <class X, class M, class Y>
backward_arguments<X, X, M, Y> kernel_arguments(
    const layernorm_modulate_backward_args<X, M, Y>& args) {
  return {.shape = args.shape,
          .r = args.x,
          .branch = nullptr,
          .mean = args.mean,
          .rstd = args.rstd,
          .gate = {},
          .scale = args.scale,
          .dy = args.dy,
          .dr = nullptr,
          .dresidual = args.dx,
          .dbranch = nullptr,
          .gradients = {args.dscale, args.dshift, {}},
          .kind = args.kind,
          .form = args.form};
}

template <class X, class M, class Y>
backward_arguments<Y, X, M, Y> kernel_arguments(
    const gate_residual_layernorm_modulate_backward_args<X, M, Y>& args) {
  return {.shape = args.shape,
          .r = args.r,
          .branch = args.branch,
          .mean = args.mean,
          .rstd = args.rstd,
          .gate = args.gate,
          .scale = args.scale,
          .dy = args.dy,
          .dr = args.dr,
          .dresidual = args.dresidual,
          .dbranch = args.dbranch,
          .gradients = {args.dscale, args.dshift, args.dgate},
          .kind = args.kind,
          .form = args.form};
}

/// The blocks' partial sums, in scratch. For each block and gradient: those of the group that began
/// before the team's rows; those of the group that begins in them, where a team has several blocks
/// (else they go where they belong at once); and those of all its rows.
struct block_sums {
  float* data;
  std::int64_t blocks, features;
  int gradients;

  static std::size_t bytes(std::int64_t blocks, std::int64_t features, int gradients) {
    return static_cast<std::size_t>(3 * blocks * features * gradients) * sizeof(float);
  }
  __device__ float* going_on(std::int64_t block, int gradient) const {
    return data + (block * gradients + gradient) * features;
  }
  __device__ float* total(std::int64_t block, int gradient) const {
    return going_on(blocks + block, gradient);
  }
  __device__ float* beginning(std::int64_t block, int gradient) const {
    return going_on(2 * blocks + block, gradient);
  }

  /// Where the calling block writes its sum of a group, which began in its team's rows or before
  /// them; null if `to` is not wanted.
  __device__ float* of_group(const row_groups& groups, const row_deal& deal, std::int64_t group,
                             bool began_here, const modulation_gradient<float>& to,
                             int gradient) const {
    if (to.data == nullptr) return nullptr;
    if (!began_here) return going_on(blockIdx.x, gradient);
    return deal.members > 1 ? beginning(blockIdx.x, gradient) : groups.vector<true>(to, group);
  }
};

/// Sets the calling block's sums of all its rows to 0, which its threads may add to after a
/// barrier.
template <bool Gated, class Normalized, class X, class M, class Y>
__device__ void clear_totals(const backward_arguments<Normalized, X, M, Y>& args,
                             const block_sums& partial, int threads) {
  const int features = static_cast<int>(args.shape.features);
  for (int gradient = 0; gradient < gradient_count<Gated>; ++gradient) {
    if (args.gradients[gradient].total == nullptr) continue;
    for (int i = static_cast<int>(threadIdx.x); i < features; i += threads) {
      partial.total(blockIdx.x, gradient)[i] = 0;
    }
  }
}

/// What the gradient of a row's x takes from the row's sums of x - mean, g and g * (x - mean), with
/// g = dy * (1 + scale). The first sum is 0 but for the rounding of the saved mean, which it gives
/// back: without it, a mean of 100 deviations costs float32 a digit. A root-mean-square norm has
/// no use for the first two.
struct row_gradient {
  float mean, rstd, offset, constant, projection, rest;

  /// `weight`: 1 / features.
  __device__ row_gradient(norm kind, float saved_mean, float saved_rstd, const sums<3>& sum,
                          float weight)
      : mean(saved_mean), rstd(saved_rstd) {
    const bool layer = kind == norm::layer;
    rest = layer ? sum.value[0] * weight : 0;
    offset = -rest * rstd;
    constant = layer ? -rstd * weight * sum.value[1] : 0;
    projection = -rstd * rstd * weight * (sum.value[2] - rest * sum.value[1]);
  }

  /// From what `save` wrote.
  __device__ row_gradient(float saved_mean, float saved_rstd, const float* saved, bool all)
      : mean(saved_mean), rstd(saved_rstd), rest(saved[0]) {
    offset = -rest * rstd;
    constant = all ? saved[1] : 0;
    projection = all ? saved[2] : 0;
  }

  /// What `normal` needs or, with `all`, `dx` too.
  __device__ void save(float* to, bool all) const {
    to[0] = rest;
    if (!all) return;
    to[1] = constant;
    to[2] = projection;
  }

  __device__ float normal(float x) const { return normal_of(x - mean); }
  __device__ float normal_of(float difference) const { return fmaf(difference, rstd, offset); }

  __device__ float dx(float normal, float gradient) const {
    return fmaf(normal, projection, fmaf(gradient, rstd, constant));
  }
};

/// Adds up the blocks' partial sums. Piece (i, gradient, tile) is of 128 columns: `by_group` of
/// group i, else of the group that team i + 1 goes on with, if it began in team i; the last i of
/// the totals. Each of the warps adds every 16th block's part.
struct fold_plan {
  row_deal deal;
  bool by_group;
  std::int64_t candidates, tiles;  ///< of i but the last; of 128 columns
};

inline constexpr int fold_columns = 128, fold_warps = 16;

template <class Normalized, class X, class M, class Y>
__global__ void __launch_bounds__(32 * fold_warps)
    backward_fold(backward_arguments<Normalized, X, M, Y> args, row_groups groups, fold_plan plan,
                  block_sums partial) {
  constexpr int columns = fold_columns, warps = fold_warps;
  device::wait_for_previous_kernel();
  const std::int64_t features = args.shape.features;
  const row_deal& deal = plan.deal;
  const int warp = static_cast<int>(threadIdx.x) / device::warp_size;
  float* const storage = reinterpret_cast<float*>(device::shared_memory());  // [warps, columns]
  const std::int64_t pieces = (plan.candidates + 1) * partial.gradients * plan.tiles;

  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const std::int64_t tile = piece % plan.tiles, rest = piece / plan.tiles;
    const int gradient = static_cast<int>(rest % partial.gradients);
    const std::int64_t i = rest / partial.gradients;
    const auto& to = args.gradients[gradient];
    const bool is_total = i == plan.candidates;
    // Blocks [first, last) have parts, those before `begun` where the group begins.
    std::int64_t group = i, first = 0, begun = 0, last = deal.blocks();
    if (is_total) {
      if (to.total == nullptr) continue;
    } else {
      if (to.data == nullptr) continue;
      if (!plan.by_group) group = groups.of<true>(deal.first(i + 1));
      const std::int64_t begin = groups.begin(group), end = groups.begin(group + 1);
      if (begin == end) continue;
      const std::int64_t begins_in = deal.owner(begin);
      if (!plan.by_group && begins_in != i) continue;
      begun = (begins_in + 1) * deal.members;
      first = deal.members > 1 ? begins_in * deal.members : begun;
      last = (deal.owner(end - 1) + 1) * deal.members;
      if (first == last) continue;
    }

    const std::int64_t column = tile * columns + device::lane() * 4;
    float sum[4] = {};
#pragma unroll 8
    for (std::int64_t block = first + warp; block < last; block += warps) {
      const float* const part = is_total        ? partial.total(block, gradient)
                                : block < begun ? partial.beginning(block, gradient)
                                                : partial.going_on(block, gradient);
      if (features % 4 == 0) {
        if (column >= features) break;
        const auto four = load_pack<4>(part + column);
#pragma unroll
        for (int k = 0; k < 4; ++k) sum[k] += four[k];
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) sum[k] += column + k < features ? part[column + k] : 0;
      }
    }
    store_pack(storage + threadIdx.x * 4, sum);
    device::sync_block();
    const std::int64_t own = tile * columns + threadIdx.x;
    if (threadIdx.x < columns && own < features) {
      float* const out = (is_total ? to.total : groups.vector(to, group)) + own;
      float value = is_total || deal.members > 1 ? 0 : *out;
#pragma unroll
      for (int w = 0; w < warps; ++w) value += storage[w * columns + static_cast<int>(threadIdx.x)];
      *out = value;
    }
    device::sync_block();  // before `storage` is written again
  }
}

}  // namespace adaptiveload::detail
