#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/row.cuh>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace adaptiveload::detail {

/// Mean and deviation of a row from the sums of x - pivot and of its square. With a pivot that is
/// the mean of k of the D numbers, the sum of squares exceeds that of deviations from the mean at
/// most D / k-fold (Cauchy-Schwarz), so nothing cancels; and a mean large against the deviation
/// keeps all its digits as pivot + rest, which one float does not.
struct row_statistics {
  float pivot, rest, rstd, offset;

  /// `weight`: 1 / features.
  __device__ row_statistics(float origin, float sum, float squares, float weight, float epsilon)
      : pivot(origin), rest(sum * weight) {
    rstd = rsqrtf(fmaxf(fmaf(squares, weight, -rest * rest), 0) + epsilon);
    offset = -rest * rstd;
  }

  __device__ float mean() const { return pivot + rest; }
  __device__ float normal(float x) const { return fmaf(x - pivot, rstd, offset); }
};

template <class X, class M, class Y>
__device__ void save_statistics(const layernorm_modulate_args<X, M, Y>& args, std::int64_t row,
                                const row_statistics& statistics) {
  if (args.mean != nullptr) args.mean[row] = statistics.mean();
  if (args.rstd != nullptr) args.rstd[row] = statistics.rstd;
}

/// Starts to copy a block's `count` elements, in one piece or in pieces of 16 bytes. `arrived` need
/// not be ready: thread 0 makes it so.
template <class T>
__device__ void copy_to_shared(T* shared, const T* global, int count,
                               device::transfer_barrier* arrived, bool bulk) {
  const auto bytes = static_cast<std::uint32_t>(count) * static_cast<std::uint32_t>(sizeof(T));
  if (bulk) {
    if (threadIdx.x == 0) {
      device::init_barrier(arrived);
      device::expect_bytes(arrived, bytes);
      device::copy_bulk(shared, global, bytes, arrived);
    }
    device::sync_block();  // `arrived` is ready
  } else {
    for (std::uint32_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
      device::copy_async(reinterpret_cast<std::byte*>(shared) + at,
                         reinterpret_cast<const std::byte*>(global) + at);
    }
    device::end_copy_group();
  }
}

/// Waits for what `copy_to_shared` copies.
__device__ inline void wait_for_copy(device::transfer_barrier* arrived, bool bulk) {
  if (bulk) {
    device::wait_for_bytes(arrived, 0);
  } else {
    device::wait_for_copy_groups<0>();
    device::sync_block();
  }
}

/// Rows that a team takes at once: they share its barrier and its reads of scale and shift.
template <int Team, int Vectors>
inline constexpr int forward_rows = Team != block_team ? 4
                                    : Vectors <= 5     ? 2
                                                       : 1;

/// The largest block of `forward_tiles`, and how many of them a multiprocessor is to hold: 60 KB
/// of rows under way keep an H200's memory busy, and more of them slow it down.
template <int Vectors>
inline constexpr int forward_threads = Vectors <= 3 ? 128 : 384;
template <int Vectors>
inline constexpr int forward_blocks = Vectors <= 3 ? 5 : 1;

/// Forward for rows that fit in registers: a block takes a tile of `forward_rows` rows a team,
/// copied to shared memory in one piece where `bulk`, and ends. Blocks that stay and go on to the
/// next tile were tried and lost 8 %: those of a grid that start in order read and write nearer to
/// each other. Row length: at most Width * Vectors * team size, a multiple of Width.
template <class X, class M, class Y, int Team, int Width, int Vectors>
__global__ void __launch_bounds__(forward_threads<Vectors>, forward_blocks<Vectors>)
    forward_tiles(layernorm_modulate_args<X, M, Y> args, bool bulk) {
  constexpr int Rows = forward_rows<Team, Vectors>;
  const team_position<is_part_of_warp<Team> ? Team : block_team> position;
  const int team_size = Team == block_team ? position.size : Team;
  const int features = static_cast<int>(args.shape.features);
  const int tile_rows = Rows * position.teams;
  const std::int64_t start = blockIdx.x * std::int64_t{tile_rows};
  const std::int64_t left = args.shape.batch * args.shape.tokens - start;
  const int count = left < tile_rows ? static_cast<int>(left) : tile_rows;

  X* const tile = reinterpret_cast<X*>(device::shared_memory());
  float* const storage = reinterpret_cast<float*>(tile + tile_rows * features);
  const int warps = position.teams * team_size / device::warp_size;
  auto* const arrived = reinterpret_cast<device::transfer_barrier*>(storage + 2 * Rows * warps);
  copy_to_shared(tile, args.x + start * features, count * features, arrived, bulk);

  // Teams beyond the last row read it again, and write nothing.
  const int unbounded = position.team * Rows;
  const int first = unbounded < count ? unbounded : count - 1;
  const int mine = count - unbounded < Rows ? count - unbounded : Rows;
  row_position place(start + first, args.shape.tokens);

  // Only the last pack of a thread may lie beyond the row. Then it is the row's last one again, its
  // sums and outputs left out: branches around the work on a pack would keep the work on others
  // from starting.
  const int beyond = ((Vectors - 1) * team_size + position.thread) * Width;
  const bool last_in_row = beyond < features;
  const auto feature = [&](int v) {
    if (v + 1 == Vectors) return last_in_row ? beyond : features - Width;
    return (v * team_size + position.thread) * Width;
  };
  pack<M, Width> scale[Vectors], shift[Vectors];
  const auto read_modulation = [&] {
    const M* const scale_row = args.scale.data + place.sample * args.scale.batch_stride;
    const M* const shift_row = args.shift.data + place.sample * args.shift.batch_stride;
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      scale[v] = load_pack<Width>(scale_row + feature(v));
      shift[v] = load_pack<Width>(shift_row + feature(v));
    }
  };
  read_modulation();
  wait_for_copy(arrived, bulk);

  const auto x_row = [&](int r) { return tile + (r < mine ? first + r : first) * features; };
  float pivot[Rows], sum[2 * Rows] = {};
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const auto beginning = load_pack<Width>(x_row(r));
    pivot[r] = 0;
#pragma unroll
    for (int k = 0; k < Width; ++k) pivot[r] += beginning[k] * (1.f / Width);
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      const auto x = load_pack<Width>(x_row(r) + feature(v));
      float of_pack = 0, squares = 0;
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        const float deviation = x[k] - pivot[r];
        of_pack += deviation;
        squares = fmaf(deviation, deviation, squares);
      }
      const bool counts = v + 1 < Vectors || last_in_row;
      sum[2 * r] += counts ? of_pack : 0;
      sum[2 * r + 1] += counts ? squares : 0;
    }
  }
  if constexpr (!is_part_of_warp<Team>) {
    sum_over_warps(sum, warps, static_cast<int>(threadIdx.x) / device::warp_size, storage,
                   [] { device::sync_block(); });
  } else {
#pragma unroll
    for (float& value : sum) value = warp_reduce<Team>(value, plus{});
  }

#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    if (r >= mine) break;
    if (r > 0) {
      place.advance_one(args.shape.tokens);
      if (place.token == 0) read_modulation();
    }
    const row_statistics statistics(pivot[r], sum[2 * r], sum[2 * r + 1],
                                    1 / static_cast<float>(features),
                                    static_cast<float>(args.epsilon));
    const std::int64_t row = start + first + r;
    if (position.thread == 0) save_statistics(args, row, statistics);
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      const auto x = load_pack<Width>(x_row(r) + feature(v));
      float y[Width];
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        y[k] = fmaf(statistics.normal(x[k]), 1 + scale[v][k], shift[v][k]);
      }
      if (v + 1 < Vectors || last_in_row) {
        store_pack<reuse::late>(args.y + row * features + feature(v), y);
      }
    }
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
      for (int k = 0; k < Width; ++k) {
        const float deviation = x_i[k] - pivot;
        sum.value[0] += deviation;
        sum.value[1] = fmaf(deviation, deviation, sum.value[1]);
      }
    }
    sum = block_reduce(sum, plus{}, storage);
    const row_statistics statistics(pivot, sum.value[0], sum.value[1],
                                    1 / static_cast<float>(features),
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
    if (threadIdx.x == 0) save_statistics(args, row, statistics);
    device::sync_block();  // before `storage` is written again
  }
}

}  // namespace adaptiveload::detail
