#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/backward_rows.cuh>
#include <adaptiveload/adaln/row.cuh>
#include <adaptiveload/reduce/column_tile.cuh>
#include <cstdint>

/// The backward in two passes over x and dy, as published (Guo et al. 2026): dx by rows, then
/// dscale and dshift by a grid of column tiles.
namespace adaptiveload::detail {

__device__ inline void add_row_sums(sums<3>& sum, float difference, float gradient) {
  sum.value[0] += difference;
  sum.value[1] += gradient;
  sum.value[2] = fmaf(gradient, difference, sum.value[2]);
}

/// dx with rows in registers, a row a team; `rests` [rows] gets each row's mean(x) - mean.
template <class X, class M, class Y, int Team, int Width, int Vectors>
__global__ void __launch_bounds__(512)
    backward_rows_in_registers(layernorm_modulate_backward_args<X, M, Y> args, float* rests) {
  const team_position<Team> position;
  const int features = static_cast<int>(args.shape.features);
  const std::int64_t rows = args.shape.batch * args.shape.tokens;
  const std::int64_t row = blockIdx.x * std::int64_t{position.teams} + position.team;
  const bool active = row < rows;
  const auto feature = [&](int v) { return (v * position.size + position.thread) * Width; };

  pack<X, Width> x[Vectors];
  float gradient[Vectors][Width];
  sums<3> sum{};
  float mean = 0, rstd = 0;
  if (active) {
    const std::int64_t sample = row / args.shape.tokens;
    const M* scale = args.scale.data + sample * args.scale.batch_stride;
    mean = args.mean[row];
    rstd = args.rstd[row];
    pack<Y, Width> dy[Vectors];
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      if (feature(v) < features) {
        x[v] = load_pack_streaming<Width>(args.x + row * features + feature(v));
        dy[v] = load_pack_streaming<Width>(args.dy + row * features + feature(v));
      }
    }
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      if (feature(v) < features) {
        const auto scale_v = load_pack<Width>(scale + feature(v));
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          gradient[v][k] = dy[v][k] * (1 + scale_v[k]);
          add_row_sums(sum, x[v][k] - mean, gradient[v][k]);
        }
      }
    }
  }
  sum = team_reduce<Team>(sum, plus{}, reinterpret_cast<sums<3>*>(device::shared_memory()));
  if (!active) return;
  const row_gradient result(mean, rstd, sum, 1 / static_cast<float>(features));
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    if (feature(v) < features) {
      float dx[Width];
#pragma unroll
      for (int k = 0; k < Width; ++k) dx[k] = result.dx(result.normal(x[v][k]), gradient[v][k]);
      store_pack(args.dx + row * features + feature(v), dx);
    }
  }
  if (position.thread == 0) rests[row] = result.rest;
}

/// dx for any row length and alignment: a block a row, which it reads twice.
template <class X, class M, class Y, int Width>
__global__ void __launch_bounds__(512)
    backward_rows_streamed(layernorm_modulate_backward_args<X, M, Y> args, float* rests) {
  const std::int64_t features = args.shape.features;
  const std::int64_t start = std::int64_t{threadIdx.x} * Width;
  const std::int64_t step = std::int64_t{blockDim.x} * Width;
  sums<3>* storage = reinterpret_cast<sums<3>*>(device::shared_memory());

  for (std::int64_t row = blockIdx.x; row < args.shape.batch * args.shape.tokens;
       row += gridDim.x) {
    const M* scale = args.scale.data + row / args.shape.tokens * args.scale.batch_stride;
    const X* x = args.x + row * features;
    const Y* dy = args.dy + row * features;
    const float mean = args.mean[row];

    sums<3> sum{};
    for (std::int64_t i = start; i < features; i += step) {
      const auto x_i = load_pack<Width>(x + i);
      const auto dy_i = load_pack<Width>(dy + i);
      const auto scale_i = load_pack<Width>(scale + i);
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        add_row_sums(sum, x_i[k] - mean, dy_i[k] * (1 + scale_i[k]));
      }
    }
    const row_gradient result(mean, args.rstd[row], block_reduce(sum, plus{}, storage),
                              1 / static_cast<float>(features));
    for (std::int64_t i = start; i < features; i += step) {
      const auto x_i = load_pack<Width>(x + i);
      const auto dy_i = load_pack<Width>(dy + i);
      const auto scale_i = load_pack<Width>(scale + i);
      float dx[Width];
#pragma unroll
      for (int k = 0; k < Width; ++k)
        dx[k] = result.dx(result.normal(x_i[k]), dy_i[k] * (1 + scale_i[k]));
      store_pack(args.dx + row * features + i, dx);
    }
    if (threadIdx.x == 0) rests[row] = result.rest;
    device::sync_block();  // before `storage` is written again
  }
}

/// A (d_tile, n_tile) of the modulation gradients: sums over `rows_per_tile` tokens of one sample,
/// into `partial` [batch, n_tiles, 2, features].
template <class X, class M, class Y, int Width>
__global__ void __launch_bounds__(256)
    backward_column_tiles(layernorm_modulate_backward_args<X, M, Y> args, const float* rests,
                          float* partial, std::int64_t d_tiles, std::int64_t n_tiles,
                          std::int64_t rows_per_tile) {
  constexpr int tile_columns = device::warp_size * Width;
  const std::int64_t features = args.shape.features, tokens = args.shape.tokens;

  for (std::int64_t tile = blockIdx.x; tile < args.shape.batch * n_tiles * d_tiles;
       tile += gridDim.x) {
    const std::int64_t first_feature = tile % d_tiles * tile_columns;
    const std::int64_t run = tile / d_tiles;  // of rows: sample * n_tiles + n_tile
    const std::int64_t sample = run / n_tiles, first = run % n_tiles * rows_per_tile;
    const std::int64_t last = first + rows_per_tile < tokens ? first + rows_per_tile : tokens;

    column_tile_sum<Width, 2>(
        sample * tokens + first, sample * tokens + last,
        reinterpret_cast<float*>(device::shared_memory()),
        [&](float(&sum)[2][Width], int column, std::int64_t row) {
          if (first_feature + column >= features) return;
          const std::int64_t at = row * features + first_feature + column;
          const auto x = load_pack_streaming<Width>(args.x + at);
          const auto dy = load_pack_streaming<Width>(args.dy + at);
          const float mean = args.mean[row], rest = rests[row], rstd = args.rstd[row];
#pragma unroll
          for (int k = 0; k < Width; ++k) {
            sum[0][k] = fmaf(dy[k], ((x[k] - mean) - rest) * rstd, sum[0][k]);
            sum[1][k] += dy[k];
          }
        },
        [&](int sum, int column, float value) {
          if (first_feature + column >= features) return;
          partial[(run * 2 + sum) * features + first_feature + column] = value;
        });
    device::sync_block();  // before the tile's shared memory is written again
  }
}

/// Adds the n_tiles' partial sums, in order, into dscale and dshift.
template <class X, class M, class Y>
__global__ void __launch_bounds__(256) backward_fold(layernorm_modulate_backward_args<X, M, Y> args,
                                                     const float* partial, std::int64_t n_tiles) {
  const std::int64_t features = args.shape.features;
  const std::int64_t count = args.shape.batch * features;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t sample = i / features, feature = i % features;
    float dscale = 0, dshift = 0;
    for (std::int64_t tile = 0; tile < n_tiles; ++tile) {
      const float* sums_of_tile = partial + (sample * n_tiles + tile) * 2 * features + feature;
      dscale += sums_of_tile[0];
      dshift += sums_of_tile[features];
    }
    args.dscale.data[sample * args.dscale.batch_stride + feature] = dscale;
    args.dshift.data[sample * args.dshift.batch_stride + feature] = dshift;
  }
}

}  // namespace adaptiveload::detail
