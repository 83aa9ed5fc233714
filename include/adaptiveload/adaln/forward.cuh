#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/row.cuh>
#include <adaptiveload/adaln/row_groups.cuh>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// The forward of both operations: without a gate, x is `residual`, and there are no branch and r.
namespace adaptiveload::detail {

/// Mean and deviation of a row from the sums of x - pivot and of its square. With a pivot that is
/// the mean of k of the D numbers, the sum of squares exceeds that of deviations from the mean at
/// most D / k-fold (Cauchy-Schwarz), so nothing cancels; and a mean large against the deviation
/// keeps all its digits as pivot + rest, which one float does not. A root-mean-square norm has a
/// pivot of 0, and takes no mean away.
struct row_statistics {
  float pivot, rest, rstd, offset;

  /// `weight`: 1 / features.
  __device__ row_statistics(norm kind, float origin, float sum, float squares, float weight,
                            float epsilon)
      : pivot(origin), rest(kind == norm::layer ? sum * weight : 0) {
    rstd = rsqrtf(fmaxf(fmaf(squares, weight, -rest * rest), 0) + epsilon);
    offset = -rest * rstd;
  }

  __device__ float mean() const { return pivot + rest; }
  __device__ float normal(float x) const { return fmaf(x - pivot, rstd, offset); }
};

template <class X, class M, class Y>
using forward_arguments = gate_residual_layernorm_modulate_args<X, M, Y>;

template <class X, class M, class Y>
__device__ void save_statistics(const forward_arguments<X, M, Y>& args, std::int64_t row,
                                const row_statistics& statistics) {
  if (args.mean != nullptr) args.mean[row] = statistics.mean();
  if (args.rstd != nullptr) args.rstd[row] = statistics.rstd;
}

/// Starts to copy a block's `count` elements of residual and, where it isn't null, of branch behind
/// them, in one piece each or in pieces of 16 bytes. `arrived` need not be ready: thread 0 makes it
/// so, which `wait_for_copy` shows to the others.
template <class T>
__device__ void copy_to_shared(T* shared, const T* residual, const T* branch, int count, int room,
                               device::transfer_barrier* arrived, bool bulk) {
  const auto bytes = static_cast<std::uint32_t>(count) * static_cast<std::uint32_t>(sizeof(T));
  if (bulk) {
    if (threadIdx.x == 0) {
      device::init_barrier(arrived);
      device::expect_bytes(arrived, branch == nullptr ? bytes : 2 * bytes);
      device::copy_bulk(shared, residual, bytes, arrived);
      if (branch != nullptr) device::copy_bulk(shared + room, branch, bytes, arrived);
    }
  } else {
    const auto copy = [bytes](T* to, const T* from) {
      for (std::uint32_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
        device::copy_async(reinterpret_cast<std::byte*>(to) + at,
                           reinterpret_cast<const std::byte*>(from) + at);
      }
    };
    copy(shared, residual);
    if (branch != nullptr) copy(shared + room, branch);
    device::end_copy_group();
  }
}

/// Waits for what `copy_to_shared` copies.
__device__ inline void wait_for_copy(device::transfer_barrier* arrived, bool bulk) {
  if (bulk) {
    device::sync_block();  // `arrived` is ready
    device::wait_for_bytes(arrived, 0);
  } else {
    device::wait_for_copy_groups<0>();
    device::sync_block();
  }
}

/// Rows that a team takes at once: they share its barrier and its reads of the modulations.
template <int Team, int Vectors>
inline constexpr int forward_rows = Team != block_team ? 4
                                    : Vectors <= 5     ? 2
                                                       : 1;

/// The largest block of `forward_tiles`, and how many of them a multiprocessor is to hold: 60 KB
/// of rows under way keep an H200's memory busy, and more of them slow it down.
template <int Team>
inline constexpr int forward_threads = Team == block_team      ? 384
                                       : is_part_of_warp<Team> ? 128
                                                               : Team;
template <int Team, int Vectors>
inline constexpr int forward_blocks = Team == block_team
                                          ? 1
                                          : (Vectors <= 3 ? 512 : 384) / forward_threads<Team>;

/// Forward for rows that fit in registers: a block takes a tile of `forward_rows` rows a team,
/// copied to shared memory in one piece where `bulk`, and ends. Blocks that stay and go on to the
/// next tile were tried and lost 8 %: those of a grid that start in order read and write nearer to
/// each other. Row length: at most Width * Vectors * team size, a multiple of Width.
template <class X, class M, class Y, bool Gated, int Team, int Width, int Vectors>
__global__ void __launch_bounds__(forward_threads<Team>, forward_blocks<Team, Vectors>)
    forward_tiles(forward_arguments<X, M, Y> args, row_groups groups, bool bulk) {
  constexpr int Rows = forward_rows<Team, Vectors>;
  const team_position<is_part_of_warp<Team> ? Team : block_team> position;
  const int team_size = Team == block_team ? position.size : Team;
  const int features = static_cast<int>(args.shape.features);
  const int tile_rows = Rows * position.teams;
  const std::int64_t start = blockIdx.x * std::int64_t{tile_rows};
  const std::int64_t left = groups.rows - start;
  const int count = left < tile_rows ? static_cast<int>(left) : tile_rows;

  X* const tile = reinterpret_cast<X*>(device::shared_memory());
  Y* const r_tile = reinterpret_cast<Y*>(tile + (Gated ? 2 : 1) * tile_rows * features);
  float* const storage = reinterpret_cast<float*>(r_tile + (Gated ? tile_rows * features : 0));
  const int warps = position.teams * team_size / device::warp_size;
  auto* const arrived = reinterpret_cast<device::transfer_barrier*>(storage + 2 * Rows * warps);
  copy_to_shared(tile, args.residual + start * features,
                 Gated ? args.branch + start * features : nullptr, count * features,
                 tile_rows * features, arrived, bulk);

  // Teams beyond the last row read it again, and write nothing.
  const int unbounded = position.team * Rows;
  const int first = unbounded < count ? unbounded : count - 1;
  const int mine = count - unbounded < Rows ? count - unbounded : Rows;

  // Only the last pack of a thread may lie beyond the row. Then it is another one again, its sums
  // and outputs left out: branches around the work on a pack would keep the work on others from
  // starting.
  const int beyond = ((Vectors - 1) * team_size + position.thread) * Width;
  const bool last_in_row = beyond < features;
  const auto feature = [&](int v) {
    if (v + 1 == Vectors && !last_in_row) return Vectors > 1 ? position.thread * Width : 0;
    return (v * team_size + position.thread) * Width;
  };
  const auto in_row = [&](int v) { return v + 1 < Vectors || last_in_row; };

  const auto read_vector = [&](const modulation<M>& from, std::int64_t group,
                               float(&to)[Vectors][Width]) {
    const M* const vector = groups.vector<true>(from, group);
#pragma unroll
    for (int v = 0; v < Vectors; ++v) read_pack(vector + feature(v), to[v]);
    if (from.table == nullptr) return;
#pragma unroll
    for (int v = 0; v < Vectors; ++v) add_pack(from.table + feature(v), to[v]);
  };
  float scale[Vectors][Width], shift[Vectors][Width] = {};
  const auto read_scale_and_shift = [&](std::int64_t group) {
    read_vector(args.scale, group, scale);
    if (args.shift.data != nullptr) read_vector(args.shift, group, shift);
  };
  // The group of the tile's row `first`, and where it ends in rows of the tile.
  struct walk {
    std::int64_t group = 0;
    int end;
  };
  const auto end_of = [&](std::int64_t group) {
    const std::int64_t end = groups.begin(group + 1) - start;
    return end < tile_rows ? static_cast<int>(end) : tile_rows;
  };
  walk at_first{.end = tile_rows};
  if (groups.count > 1) {
    at_first.group = groups.of<!is_part_of_warp<Team>, true>(start + first);
    at_first.end = end_of(at_first.group);
  }
  // Calls `read(group)` where a row, behind the one before, is of another group.
  const auto read_where_it_changes = [&](int row, walk& at, auto read) {
    if (row < at.end) return;
    do at.end = end_of(++at.group);
    while (row >= at.end);
    read(at.group);
  };

  using normalized = pack<std::conditional_t<Gated, Y, X>, Width>;
  float pivot[Rows], sum[2 * Rows] = {};
  const auto sum_pack = [&](int r, int v, const normalized& x) {
    float of_pack = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      const float deviation = x[k] - pivot[r];
      of_pack += deviation;
      squares = fmaf(deviation, deviation, squares);
    }
    sum[2 * r] += in_row(v) ? of_pack : 0;
    sum[2 * r + 1] += in_row(v) ? squares : 0;
  };
  const float one = args.form == modulate::one_plus_scale ? 1 : 0;
  const auto x_row = [&](int r) { return tile + (r < mine ? first + r : first) * features; };
  const auto r_row = [&](int r) { return r_tile + (r < mine ? first + r : first) * features; };

  if constexpr (Gated) {
    float gate[Vectors][Width], gate_of_first[Width];
    const auto read_gate = [&](std::int64_t group) {
      read_vector(args.gate, group, gate);
      read_modulation(args.gate, groups.vector<true>(args.gate, group), 0, gate_of_first);
    };
    const auto gated = [&](const X* x, const float(&with)[Width]) {
      const auto residual = load_pack<Width>(x);
      const auto branch = load_pack<Width>(x + tile_rows * features);
      float r[Width];
#pragma unroll
      for (int k = 0; k < Width; ++k) r[k] = fmaf(with[k], branch[k], residual[k]);
      return round_pack<Y>(r);
    };
    constexpr bool registers_for_all = Vectors <= 4;
    read_gate(at_first.group);
    if constexpr (registers_for_all) read_scale_and_shift(at_first.group);
    walk at = at_first;
    wait_for_copy(arrived, bulk);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (r > 0 && r < mine) read_where_it_changes(first + r, at, read_gate);
      pivot[r] = args.kind == norm::layer ? mean_of(gated(x_row(r), gate_of_first)) : 0;
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        const normalized r_v = gated(x_row(r) + feature(v), gate[v]);
        if (r < mine && in_row(v)) {
          write_pack(r_row(r) + feature(v), r_v);
          write_pack<reuse::late>(args.r + (start + first + r) * features + feature(v), r_v);
        }
        sum_pack(r, v, r_v);
      }
    }
    if constexpr (!registers_for_all) read_scale_and_shift(at_first.group);
  } else {
    read_scale_and_shift(at_first.group);
    wait_for_copy(arrived, bulk);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      pivot[r] = args.kind == norm::layer ? mean_of(load_pack<Width>(x_row(r))) : 0;
#pragma unroll
      for (int v = 0; v < Vectors; ++v) sum_pack(r, v, load_pack<Width>(x_row(r) + feature(v)));
    }
  }
  if constexpr (!is_part_of_warp<Team>) {
    sum_over_warps<Team / device::warp_size>(sum, warps,
                                             static_cast<int>(threadIdx.x) / device::warp_size,
                                             storage, [] { device::sync_block(); });
  } else {
#pragma unroll
    for (float& value : sum) value = warp_reduce<Team>(value, plus{});
  }

  walk at = at_first;
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    if (r >= mine) break;
    const std::int64_t row = start + first + r;
    if (r > 0) read_where_it_changes(first + r, at, read_scale_and_shift);
    const row_statistics statistics(args.kind, pivot[r], sum[2 * r], sum[2 * r + 1],
                                    1 / static_cast<float>(features),
                                    static_cast<float>(args.epsilon));
    if (position.thread == 0) save_statistics(args, row, statistics);
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      if (Vectors == 1 && !in_row(v)) break;
      normalized x;
      if constexpr (Gated) {
        x = load_pack<Width>(r_row(r) + feature(v));
      } else {
        x = load_pack<Width>(x_row(r) + feature(v));
      }
      float y[Width];
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        y[k] = fmaf(statistics.normal(x[k]), one + scale[v][k], shift[v][k]);
      }
      if (in_row(v)) store_pack<reuse::late>(args.y + row * features + feature(v), y);
    }
  }
}

/// Forward for any row length and alignment: a block a row, which it reads twice, the second time
/// mostly from cache.
template <class X, class M, class Y, bool Gated, int Width>
__global__ void __launch_bounds__(512)
    forward_streamed(forward_arguments<X, M, Y> args, row_groups groups) {
  const std::int64_t features = args.shape.features;
  const std::int64_t start = std::int64_t{threadIdx.x} * Width;
  const std::int64_t step = std::int64_t{blockDim.x} * Width;
  sums<2>* storage = reinterpret_cast<sums<2>*>(device::shared_memory());

  for (std::int64_t row = blockIdx.x; row < groups.rows; row += gridDim.x) {
    const std::int64_t group = groups.of<true>(row), begin = row * features;
    [[maybe_unused]] const M* const gate_vector = groups.vector(args.gate, group);
    // W elements from the i-th of what is normalized.
    const auto before = [&](auto width, std::int64_t i) {
      constexpr int W = decltype(width)::value;
      if constexpr (Gated) {
        const auto residual = load_pack<W>(args.residual + begin + i);
        const auto branch = load_pack<W>(args.branch + begin + i);
        float gate[W], r[W];
        read_modulation(args.gate, gate_vector, i, gate);
#pragma unroll
        for (int k = 0; k < W; ++k) r[k] = fmaf(gate[k], branch[k], residual[k]);
        return round_pack<Y>(r);
      } else {
        return load_pack<W>(args.residual + begin + i);
      }
    };

    float pivot = 0;
    if (args.kind == norm::layer) {
      const int pivot_count = static_cast<int>(features < 16 ? features : 16);
      for (int i = 0; i < pivot_count; ++i) {
        pivot += before(std::integral_constant<int, 1>{}, i)[0];
      }
      pivot /= static_cast<float>(pivot_count);
      if constexpr (Gated) device::sync_block();  // before r is written, maybe over residual
    }

    sums<2> sum{};
    for (std::int64_t i = start; i < features; i += step) {
      const auto x = before(std::integral_constant<int, Width>{}, i);
      if constexpr (Gated) write_pack(args.r + begin + i, x);
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        const float deviation = x[k] - pivot;
        sum.value[0] += deviation;
        sum.value[1] = fmaf(deviation, deviation, sum.value[1]);
      }
    }
    sum = block_reduce(sum, plus{}, storage);
    const row_statistics statistics(args.kind, pivot, sum.value[0], sum.value[1],
                                    1 / static_cast<float>(features),
                                    static_cast<float>(args.epsilon));

    const M* const scale_vector = groups.vector(args.scale, group);
    const M* const shift_vector = groups.vector(args.shift, group);
    for (std::int64_t i = start; i < features; i += step) {
      float scale[Width], shift[Width] = {}, y[Width];
      read_modulation(args.scale, scale_vector, i, scale);
      if (args.shift.data != nullptr) read_modulation(args.shift, shift_vector, i, shift);
      const auto normalize = [&](const auto& x) {
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          const float by = args.form == modulate::one_plus_scale ? 1 + scale[k] : scale[k];
          y[k] = fmaf(statistics.normal(x[k]), by, shift[k]);
        }
      };
      if constexpr (Gated) {
        normalize(load_pack<Width>(args.r + begin + i));
      } else {
        normalize(load_pack<Width>(args.residual + begin + i));
      }
      store_pack(args.y + begin + i, y);
    }
    if (threadIdx.x == 0) save_statistics(args, row, statistics);
    device::sync_block();  // before `storage` is written again
  }
}

}  // namespace adaptiveload::detail
