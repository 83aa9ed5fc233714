#pragma once

#include <adaptiveload/adaln/backward_rows.cuh>
#include <adaptiveload/adaln/row.cuh>
#include <adaptiveload/adaln/row_groups.cuh>
#include <adaptiveload/reduce/column_tile.cuh>
#include <cstdint>

/// The backward in two passes over its inputs, as published (Guo et al. 2026): dx by rows, then the
/// gradients of the modulations by a grid of column tiles. Gradients per token are made by rows
/// too.
namespace adaptiveload::detail {

__device__ inline void add_row_sums(sums<3>& sum, float difference, float gradient) {
  sum.value[0] += difference;
  sum.value[1] += gradient;
  sum.value[2] = fmaf(gradient, difference, sum.value[2]);
}

/// The multiplier of n(x), of `Width` features from the i-th.
template <int Width, class Arguments>
__device__ void read_multiplier(const Arguments& args, const row_groups& groups, std::int64_t group,
                                std::int64_t i, float (&multiplier)[Width]) {
  read_modulation(args.scale, groups.vector(args.scale, group), i, multiplier);
#pragma unroll
  for (int k = 0; k < Width; ++k) multiplier[k] += args.form == modulate::one_plus_scale ? 1 : 0;
}

/// Floats a row that the first pass leaves to the second.
template <bool Gated>
inline constexpr int row_gradient_floats = Gated ? 3 : 1;

/// What a row's sums lead to, for `Width` of its features from the i-th.
template <bool Gated, int Width, class Normalized, class X, class M, class Y>
__device__ void write_row_gradients(const backward_arguments<Normalized, X, M, Y>& args,
                                    const row_groups& groups, bool per_token, std::int64_t row,
                                    std::int64_t group, std::int64_t i, const row_gradient& result,
                                    const pack<Normalized, Width>& r, const pack<Y, Width>& dy,
                                    const float (&multiplier)[Width]) {
  const std::int64_t at = row * args.shape.features + i;
  float d[Width], normal[Width];
#pragma unroll
  for (int k = 0; k < Width; ++k) {
    normal[k] = result.normal(r[k]);
    d[k] = result.dx(normal[k], dy[k] * multiplier[k]);
  }
  const auto write_gradient = [&](int gradient, auto value) {
    const auto& to = args.gradients[gradient];
    if (!per_token || to.data == nullptr) return;
    float values[Width];
#pragma unroll
    for (int k = 0; k < Width; ++k) values[k] = value(k);
    store_pack<reuse::late>(groups.vector(to, group) + i, values);
  };
  if constexpr (Gated) {
    const auto dr = load_pack<Width>(args.dr + at);
    const auto branch = load_pack<Width>(args.branch + at);
    float gate[Width], dbranch[Width];
    read_modulation(args.gate, groups.vector(args.gate, group), i, gate);
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      d[k] += dr[k];
      dbranch[k] = gate[k] * d[k];
    }
    store_pack<reuse::late>(args.dbranch + at, dbranch);
    write_gradient(2, [&](int k) { return branch[k] * d[k]; });
  }
  store_pack<reuse::late>(args.dresidual + at, d);
  write_gradient(0, [&](int k) { return dy[k] * normal[k]; });
  write_gradient(1, [&](int k) { return dy[k]; });
}

/// dx with rows in registers, a row a team; `saved` [rows, `row_gradient_floats`] is what the
/// second pass needs of each row. One block a multiprocessor is asked for: without that number,
/// nvcc 13.0 spills in the gated kernel of floats.
template <class Normalized, class X, class M, class Y, bool Gated, int Team, int Width, int Vectors>
__global__ void __launch_bounds__(512, 1)
    backward_rows_in_registers(backward_arguments<Normalized, X, M, Y> args, row_groups groups,
                               bool per_token, float* saved) {
  const team_position<Team> position;
  const int features = static_cast<int>(args.shape.features);
  const std::int64_t row = blockIdx.x * std::int64_t{position.teams} + position.team;
  const bool active = row < groups.rows;
  const auto feature = [&](int v) { return (v * position.size + position.thread) * Width; };

  pack<Normalized, Width> r[Vectors];
  pack<Y, Width> dy[Vectors];
  float multiplier[Vectors][Width];
  sums<3> sum{};
  float mean = 0;
  std::int64_t group = 0;
  if (active) {
    group = groups.of < Team == block_team || Team == device::warp_size > (row);
    if (args.kind == norm::layer) mean = args.mean[row];
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      if (feature(v) < features) {
        r[v] = load_pack<Width>(args.r + row * features + feature(v));
        dy[v] = load_pack<Width>(args.dy + row * features + feature(v));
      }
    }
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      if (feature(v) < features) {
        read_multiplier(args, groups, group, feature(v), multiplier[v]);
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          add_row_sums(sum, r[v][k] - mean, dy[v][k] * multiplier[v][k]);
        }
      }
    }
  }
  sum = team_reduce<Team>(sum, plus{}, reinterpret_cast<sums<3>*>(device::shared_memory()));
  if (!active) return;
  const row_gradient result(args.kind, mean, args.rstd[row], sum, 1 / static_cast<float>(features));
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    if (feature(v) < features) {
      write_row_gradients<Gated>(args, groups, per_token, row, group, feature(v), result, r[v],
                                 dy[v], multiplier[v]);
    }
  }
  if (position.thread == 0) result.save(saved + row * row_gradient_floats<Gated>, Gated);
}

/// dx for any row length and alignment: a block a row, which it reads twice.
template <class Normalized, class X, class M, class Y, bool Gated, int Width>
__global__ void __launch_bounds__(512)
    backward_rows_streamed(backward_arguments<Normalized, X, M, Y> args, row_groups groups,
                           bool per_token, float* saved) {
  const std::int64_t features = args.shape.features;
  const std::int64_t start = std::int64_t{threadIdx.x} * Width;
  const std::int64_t step = std::int64_t{blockDim.x} * Width;
  sums<3>* storage = reinterpret_cast<sums<3>*>(device::shared_memory());

  for (std::int64_t row = blockIdx.x; row < groups.rows; row += gridDim.x) {
    const std::int64_t group = groups.of<true>(row);
    const Normalized* r = args.r + row * features;
    const Y* dy = args.dy + row * features;
    const float mean = args.kind == norm::layer ? args.mean[row] : 0;

    sums<3> sum{};
    for (std::int64_t i = start; i < features; i += step) {
      const auto r_i = load_pack<Width>(r + i);
      const auto dy_i = load_pack<Width>(dy + i);
      float multiplier[Width];
      read_multiplier(args, groups, group, i, multiplier);
#pragma unroll
      for (int k = 0; k < Width; ++k) add_row_sums(sum, r_i[k] - mean, dy_i[k] * multiplier[k]);
    }
    const row_gradient result(args.kind, mean, args.rstd[row], block_reduce(sum, plus{}, storage),
                              1 / static_cast<float>(features));
    for (std::int64_t i = start; i < features; i += step) {
      float multiplier[Width];
      read_multiplier(args, groups, group, i, multiplier);
      write_row_gradients<Gated>(args, groups, per_token, row, group, i, result,
                                 load_pack<Width>(r + i), load_pack<Width>(dy + i), multiplier);
    }
    if (threadIdx.x == 0) result.save(saved + row * row_gradient_floats<Gated>, Gated);
    device::sync_block();  // before `storage` is written again
  }
}

/// The gradients of the modulations: tile (d_tile, run) is of 32 * Width columns of a run of rows.
/// The sums are those of `sum_groups`: of `groups`, or of all rows where gradients per token are
/// there already.
template <class Normalized, class X, class M, class Y, bool Gated, int Width>
__global__ void __launch_bounds__(256)
    backward_column_tiles(backward_arguments<Normalized, X, M, Y> args, row_groups groups,
                          row_groups sum_groups, const float* saved, row_deal deal,
                          std::int64_t d_tiles, block_sums partial) {
  constexpr int tile_columns = device::warp_size * Width, gradients = gradient_count<Gated>;
  const std::int64_t features = args.shape.features;
  for (std::int64_t tile = blockIdx.x; tile < deal.teams * d_tiles; tile += gridDim.x) {
    const std::int64_t first_feature = tile % d_tiles * tile_columns;
    const std::int64_t run = tile / d_tiles;
    const std::int64_t first = deal.first(run), last = deal.first(run + 1);

    const std::int64_t first_group = sum_groups.first_from(first);
    std::int64_t begin = first;
    for (std::int64_t group = first_group;
         begin < last || (last == groups.rows && group < sum_groups.count); ++group) {
      const std::int64_t group_end = sum_groups.begin(group + 1);
      const std::int64_t end = group_end < last ? group_end : last;
      const bool began_here = sum_groups.begin(group) >= first;
      column_tile_sum<Width, gradients>(
          begin, end, reinterpret_cast<float*>(device::shared_memory()),
          [&](float(&sum)[gradients][Width], int column, std::int64_t row) {
            const std::int64_t i = first_feature + column, at = row * features + i;
            if (i >= features) return;
            const auto r = load_pack<Width>(args.r + at);
            const auto dy = load_pack<Width>(args.dy + at);
            const row_gradient result(args.kind == norm::layer ? args.mean[row] : 0, args.rstd[row],
                                      saved + row * row_gradient_floats<Gated>, Gated);
#pragma unroll
            for (int k = 0; k < Width; ++k) {
              sum[0][k] = fmaf(dy[k], result.normal(r[k]), sum[0][k]);
              sum[1][k] += dy[k];
            }
            if constexpr (Gated) {
              const auto dr = load_pack<Width>(args.dr + at);
              const auto branch = load_pack<Width>(args.branch + at);
              float multiplier[Width];
              read_multiplier(args, groups, groups.of<false>(row), i, multiplier);
#pragma unroll
              for (int k = 0; k < Width; ++k) {
                const float d = dr[k] + result.dx(result.normal(r[k]), dy[k] * multiplier[k]);
                sum[2][k] = fmaf(branch[k], d, sum[2][k]);
              }
            }
          },
          [&](int gradient, int column, float value) {
            const std::int64_t i = first_feature + column;
            if (i >= features) return;
            const auto& to = args.gradients[gradient];
            if (to.data != nullptr) {
              float* const out =
                  began_here ? sum_groups.vector(to, group) : partial.going_on(run, gradient);
              out[i] = value;
            }
            if (to.total != nullptr) {
              float* const total = partial.total(run, gradient) + i;
              *total = group == first_group ? value : *total + value;
            }
          });
      device::sync_block();  // before the tile's shared memory is written again
      begin = end;
    }
  }
}

/// The gradients where there are no rows.
template <class Arguments>
__global__ void __launch_bounds__(256)
    backward_of_nothing(Arguments args, row_groups groups, int gradients) {
  const std::int64_t features = args.shape.features;
  const std::int64_t first = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = first; i < (groups.count + 1) * features; i += step) {
    const std::int64_t group = i / features, feature = i - group * features;
    for (int gradient = 0; gradient < gradients; ++gradient) {
      const auto& to = args.gradients[gradient];
      if (group < groups.count) {
        if (to.data != nullptr) groups.vector(to, group)[feature] = 0;
      } else {
        if (to.total != nullptr) to.total[feature] = 0;
      }
    }
  }
}

}  // namespace adaptiveload::detail
