#pragma once

#include <adaptiveload/adaln/forward.cuh>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// The forward of many rows whose modulations many of them share.
namespace adaptiveload::detail {

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
template <bool Gated, int Vectors>
inline constexpr int tile_rows_of_team = Gated&& Vectors > 3 ? 2 : 4;

/// The largest block of `forward_tiles`, and how many of them a multiprocessor is to hold: 60 KB
/// of rows under way keep an H200's memory busy, and more of them slow it down.
template <int Team>
inline constexpr int tile_threads = is_part_of_warp<Team> ? 128 : Team;
template <bool Gated, int Team, int Vectors>
inline constexpr int tile_blocks = (!Gated && Vectors <= 3 ? 512 : 384) / tile_threads<Team>;

/// Forward for teams of a part of a warp, or blocks of whole warps: a block takes a tile of
/// `tile_rows_of_team` rows a team, copied to shared memory in one piece where `bulk`, and ends.
/// Blocks that stay and go on to the next tile were tried and lost 8 %: those of a grid that start
/// in order read and write nearer to each other. Row length: at most Width * Vectors * Team, a
/// multiple of Width.
template <class X, class M, class Y, bool Gated, int Team, int Width, int Vectors>
__global__ void __launch_bounds__(tile_threads<Team>, tile_blocks<Gated, Team, Vectors>)
    forward_tiles(forward_arguments<X, M, Y> args, row_groups groups, bool bulk) {
  constexpr int Rows = tile_rows_of_team<Gated, Vectors>;
  const int teams = static_cast<int>(blockDim.x) / Team;
  const int team = static_cast<int>(threadIdx.x) / Team;
  const int thread = static_cast<int>(threadIdx.x) % Team;
  const int features = static_cast<int>(args.shape.features);
  const int tile_rows = Rows * teams;
  const std::int64_t start = blockIdx.x * std::int64_t{tile_rows};
  const std::int64_t left = groups.rows - start;
  const int count = left < tile_rows ? static_cast<int>(left) : tile_rows;

  X* const tile = reinterpret_cast<X*>(device::shared_memory());
  Y* const r_tile = reinterpret_cast<Y*>(tile + (Gated ? 2 : 1) * tile_rows * features);
  float* const storage = reinterpret_cast<float*>(r_tile + (Gated ? tile_rows * features : 0));
  constexpr int warps = Team / device::warp_size;  // of a block that is one team
  auto* const arrived = reinterpret_cast<device::transfer_barrier*>(storage + 2 * Rows * warps);
  device::let_next_kernel_start();
  device::wait_for_previous_kernel();
  copy_to_shared(tile, args.residual + start * features,
                 Gated ? args.branch + start * features : nullptr, count * features,
                 tile_rows * features, arrived, bulk);

  // Teams beyond the last row read it again, and write nothing.
  const int unbounded = team * Rows;
  const int first = unbounded < count ? unbounded : count - 1;
  const int mine = count - unbounded < Rows ? count - unbounded : Rows;

  // Only the last pack of a thread may lie beyond the row. Then it is another one again, its sums
  // and outputs left out: branches around the work on a pack would keep the work on others from
  // starting.
  const int beyond = ((Vectors - 1) * Team + thread) * Width;
  const bool last_in_row = beyond < features;
  const auto feature = [&](int v) {
    if (v + 1 == Vectors && !last_in_row) return Vectors > 1 ? thread * Width : 0;
    return (v * Team + thread) * Width;
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
    sum_over_warps<warps>(sum, warps, static_cast<int>(threadIdx.x) / device::warp_size, storage,
                          [] { device::sync_block(); });
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
    if (thread == 0) save_statistics(args, row, statistics);
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

}  // namespace adaptiveload::detail
