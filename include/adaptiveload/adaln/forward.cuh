#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/row.cuh>
#include <cmath>
#include <cstdint>

namespace adaptiveload::detail {

/// Mean and deviation of a row; the mean in two parts, see `pivoted_sums`.
struct row_statistics {
  float pivot, rest, rstd;

  __device__ row_statistics(const pivoted_sums& total, float epsilon)
      : pivot(total.pivot), rest(total.sum / total.count) {
    const float variance = total.squares / total.count - rest * rest;
    rstd = rsqrtf(fmaxf(variance, 0) + epsilon);
  }

  __device__ float normal(float x) const { return ((x - pivot) - rest) * rstd; }
};

__device__ inline void add_deviation(sums<2>& sum, float deviation) {
  sum.value[0] += deviation;
  sum.value[1] = fmaf(deviation, deviation, sum.value[1]);
}

/// Forward with rows in registers: each team takes `rows_per_team` consecutive rows, reading the
/// next while it works on one. Row length: at most Width * Vectors * team size, a multiple of
/// Width.
template <class X, class M, class Y, int Team, int Width, int Vectors>
__global__ void __launch_bounds__(512)
    forward_in_registers(layernorm_modulate_args<X, M, Y> args, std::int64_t rows_per_team) {
  const team_position<Team> position;
  const int features = static_cast<int>(args.shape.features);
  const std::int64_t rows = args.shape.batch * args.shape.tokens;
  const std::int64_t first =
      (blockIdx.x * std::int64_t{position.teams} + position.team) * rows_per_team;
  pivoted_sums* storage = reinterpret_cast<pivoted_sums*>(device::shared_memory());

  const auto feature = [&](int v) { return (v * position.size + position.thread) * Width; };
  const auto read = [&](std::int64_t row, pack<X, Width>(&x)[Vectors]) {
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      if (feature(v) < features) {
        x[v] = load_pack_streaming<Width>(args.x + row * features + feature(v));
      }
    }
  };

  pack<X, Width> x[Vectors], next[Vectors];
  if (first < rows) read(first, x);
  row_position place(first, args.shape.tokens);

  for (std::int64_t i = 0; i < rows_per_team; ++i) {
    const std::int64_t row = first + i;
    const bool active = row < rows;
    if (Team == block_team && !active) break;
    if (i + 1 < rows_per_team && row + 1 < rows) read(row + 1, next);

    float pivot = 0;
#pragma unroll
    for (int k = 0; k < Width; ++k) pivot += x[0][k];
    pivot =
        warp_broadcast<(Team == block_team ? device::warp_size : Team)>(pivot * (1.f / Width), 0);

    sums<2> sum{};
    int count = 0;
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      if (feature(v) < features) {
        count += Width;
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          add_deviation(sum, x[v][k] - pivot);
        }
      }
    }
    pivoted_sums total;
    if constexpr (Team == block_team) {
      sum = warp_reduce(sum, plus{});
      count = warp_reduce(count, plus{});
      total = fold_warps({pivot, static_cast<float>(count), sum.value[0], sum.value[1]},
                         merge_pivoted_sums{}, storage + (i % 2) * (position.size / 32));
    } else {
      sum = warp_reduce<Team>(sum, plus{});
      total = {pivot, static_cast<float>(features), sum.value[0], sum.value[1]};
    }
    const row_statistics statistics(total, static_cast<float>(args.epsilon));

    if (active) {
      const M* scale = args.scale.data + place.sample * args.scale.batch_stride;
      const M* shift = args.shift.data + place.sample * args.shift.batch_stride;
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        if (feature(v) < features) {
          const auto scale_v = load_pack<Width>(scale + feature(v));
          const auto shift_v = load_pack<Width>(shift + feature(v));
          float y[Width];
#pragma unroll
          for (int k = 0; k < Width; ++k) {
            y[k] = fmaf(statistics.normal(x[v][k]), 1 + scale_v[k], shift_v[k]);
          }
          store_pack(args.y + row * features + feature(v), y);
        }
      }
      if (position.thread == 0) {
        if (args.mean != nullptr) args.mean[row] = statistics.pivot + statistics.rest;
        if (args.rstd != nullptr) args.rstd[row] = statistics.rstd;
      }
    }
    place.advance(1, args.shape.tokens);
#pragma unroll
    for (int v = 0; v < Vectors; ++v) x[v] = next[v];
  }
}

/// Forward for any row length and alignment: a block a row, which it reads twice, the second time
/// mostly from cache.
template <class X, class M, class Y, int Width>
__global__ void __launch_bounds__(512) forward_streamed(layernorm_modulate_args<X, M, Y> args) {
  const std::int64_t features = args.shape.features;
  const std::int64_t start = std::int64_t{threadIdx.x} * Width;
  const std::int64_t step = std::int64_t{blockDim.x} * Width;
  sums<2>* storage = reinterpret_cast<sums<2>*>(device::shared_memory());

  for (std::int64_t row = blockIdx.x; row < args.shape.batch * args.shape.tokens;
       row += gridDim.x) {
    const std::int64_t sample = row / args.shape.tokens;
    const M* scale = args.scale.data + sample * args.scale.batch_stride;
    const M* shift = args.shift.data + sample * args.shift.batch_stride;
    const X* x = args.x + row * features;
    Y* y = args.y + row * features;

    const int pivot_count = static_cast<int>(features < 16 ? features : 16);
    float pivot = 0;
    for (int i = 0; i < pivot_count; ++i) pivot += to_float(x[i]);
    pivot /= static_cast<float>(pivot_count);

    sums<2> sum{};
    for (std::int64_t i = start; i < features; i += step) {
      const auto x_i = load_pack<Width>(x + i);
#pragma unroll
      for (int k = 0; k < Width; ++k) add_deviation(sum, x_i[k] - pivot);
    }
    sum = block_reduce(sum, plus{}, storage);
    const row_statistics statistics(
        {pivot, static_cast<float>(features), sum.value[0], sum.value[1]},
        static_cast<float>(args.epsilon));

    for (std::int64_t i = start; i < features; i += step) {
      const auto x_i = load_pack<Width>(x + i);
      const auto scale_i = load_pack<Width>(scale + i);
      const auto shift_i = load_pack<Width>(shift + i);
      float y_i[Width];
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        y_i[k] = fmaf(statistics.normal(x_i[k]), 1 + scale_i[k], shift_i[k]);
      }
      store_pack(y + i, y_i);
    }
    if (threadIdx.x == 0) {
      if (args.mean != nullptr) args.mean[row] = statistics.pivot + statistics.rest;
      if (args.rstd != nullptr) args.rstd[row] = statistics.rstd;
    }
    device::sync_block();  // before `storage` is written again
  }
}

}  // namespace adaptiveload::detail
