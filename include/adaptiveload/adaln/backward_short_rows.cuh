#pragma once

#include <adaptiveload/adaln/backward_rows.cuh>
#include <adaptiveload/adaln/row.cuh>
#include <adaptiveload/adaln/row_groups.cuh>
#include <cstddef>
#include <cstdint>

/// The backward in one pass over its inputs for rows that are one access of a warp or of a part of
/// one: QK norms, and small models. No warp waits for another until a group ends.
namespace adaptiveload::detail {

/// Threads of a block, of which a multiprocessor holds one: as many as registers allow.
template <bool Gated>
inline constexpr int short_row_threads = Gated ? 512 : 768;

/// Rows in a thread's ring: one at hand, the others under way. 48 or 32 KB of a block's keep an
/// H200's memory busy.
template <bool Gated>
inline constexpr int short_row_stages = Gated ? 2 : 3;

/// Inputs of a row.
template <bool Gated>
inline constexpr int short_row_inputs = Gated ? 4 : 2;

/// The threads' rings of inputs; in their place, when a group has ended, the warps' sums.
template <bool Gated>
constexpr std::size_t short_row_shared_bytes() {
  constexpr int threads = short_row_threads<Gated>, most_features = device::warp_size * 8;
  constexpr std::size_t ring = 16 * threads * short_row_stages<Gated> * short_row_inputs<Gated>;
  static_assert(
      threads / device::warp_size * gradient_count<Gated> * most_features * sizeof(float) <= ring);
  return ring;
}

/// A team takes a row at a time; the teams of a block neighbouring ones. Row length: at most
/// Width * Team, a multiple of Width.
template <class Normalized, class X, class M, class Y, bool Gated, int Team, int Width>
__global__ void __launch_bounds__(short_row_threads<Gated>, 1)
    backward_short_rows(backward_arguments<Normalized, X, M, Y> args, row_groups groups,
                        row_deal deal, block_sums partial) {
  constexpr int threads = short_row_threads<Gated>, warps = threads / device::warp_size;
  constexpr int warp_rows = device::warp_size / Team, stages = short_row_stages<Gated>;
  const int features = static_cast<int>(args.shape.features);
  const int rank = static_cast<int>(threadIdx.x), warp = rank / device::warp_size;
  const int team_of_warp = device::lane() / Team;
  const int row_team = static_cast<int>(blockIdx.x) / deal.members;
  const int member = static_cast<int>(blockIdx.x) - row_team * deal.members;
  const int first = static_cast<int>(deal.first(row_team));
  const int team_rows = static_cast<int>(deal.first(row_team + 1)) - first;
  const int step = deal.members * warps * warp_rows;

  // Threads beyond the row work on its first pack, and add and write nothing.
  const bool in_row = rank % Team * Width < features;
  const int feature = in_row ? rank % Team * Width : 0;

  const auto ring = [&](int stage, int input) {
    return device::shared_memory() +
           ((stage * short_row_inputs<Gated> + input) * threads + rank) * 16;
  };
  const auto r_of = [&](int stage) { return reinterpret_cast<Normalized*>(ring(stage, 0)); };
  const auto dy_of = [&](int stage) { return reinterpret_cast<Y*>(ring(stage, 1)); };
  const auto dr_of = [&](int stage) { return reinterpret_cast<Y*>(ring(stage, 2)); };
  const auto branch_of = [&](int stage) { return reinterpret_cast<X*>(ring(stage, 3)); };
  float* const warp_sums = reinterpret_cast<float*>(device::shared_memory());

  clear_totals<Gated>(args, partial, threads);
  int group = static_cast<int>(groups.first_from<true>(first));
  // The last team goes on to groups that begin behind all rows, and have none.
  const int least_end = row_team + 1 == deal.teams ? static_cast<int>(groups.count) : 0;
  for (int start = 0; start < team_rows || group < least_end; ++group) {
    const int group_end = static_cast<int>(groups.begin(group + 1)) - first;
    const int end = group_end < team_rows ? group_end : team_rows;
    // Rows beyond the last one are the last one again: no branch keeps reads from starting.
    const auto clamped = [&](int row) { return std::int64_t{first + (row < end ? row : end - 1)}; };
    const auto fill = [&](int row, int stage) {
      const std::int64_t at = clamped(row) * features + feature;
      copy_pack<Width>(r_of(stage), args.r + at);
      copy_pack<Width>(dy_of(stage), args.dy + at);
      if constexpr (Gated) {
        copy_pack<Width>(dr_of(stage), args.dr + at);
        copy_pack<Width>(branch_of(stage), args.branch + at);
      }
      device::end_copy_group();
    };
    float next_mean = 0, next_rstd = 0;
    const auto read_statistics = [&](int row) {
      if (args.kind == norm::layer) next_mean = args.mean[clamped(row)];
      next_rstd = args.rstd[clamped(row)];
    };

    const int first_of_warp = start + (member * warps + warp) * warp_rows;
    int row = first_of_warp + team_of_warp;
    if (first_of_warp < end) {
      read_statistics(row);
#pragma unroll
      for (int stage = 0; stage + 1 < stages; ++stage) fill(row + stage * step, stage);
    }
    float m[Width];
    [[maybe_unused]] float g[Width];
    read_modulation(args.scale, groups.vector<true>(args.scale, group), feature, m);
    if constexpr (Gated) {
      read_modulation(args.gate, groups.vector<true>(args.gate, group), feature, g);
    }
#pragma unroll
    for (float& value : m) value += args.form == modulate::one_plus_scale ? 1 : 0;

    float dscale[Width] = {}, dshift[Width] = {};
    [[maybe_unused]] float dgate[Width] = {};
    int stage = 0;
    for (; row - team_of_warp < end; row += step) {
      const float mean = next_mean, rstd = next_rstd;
      read_statistics(row + step);
      device::wait_for_copy_groups<stages - 2>();
      fill(row + (stages - 1) * step, stage == 0 ? stages - 1 : stage - 1);
      const bool counts = in_row && row < end;

      sums<3> sum{};
      {
        const auto r = load_pack<Width>(r_of(stage));
        const auto dy = load_pack<Width>(dy_of(stage));
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          const float difference = r[k] - mean, gradient = dy[k] * m[k];
          sum.value[0] += difference;
          sum.value[1] += gradient;
          sum.value[2] = fmaf(gradient, difference, sum.value[2]);
        }
      }
#pragma unroll
      for (float& value : sum.value) value = warp_reduce<Team>(in_row ? value : 0, plus{});
      const row_gradient result(args.kind, mean, rstd, sum, 1 / static_cast<float>(features));

      const auto r = load_pack<Width>(r_of(stage));
      const auto dy = load_pack<Width>(dy_of(stage));
      const std::int64_t at = std::int64_t{first + row} * features + feature;
      float dx[Width];
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        const float normal = result.normal(r[k]), counted = counts ? dy[k] : 0;
        dscale[k] = fmaf(counted, normal, dscale[k]);
        dshift[k] += counted;
        dx[k] = result.dx(normal, dy[k] * m[k]);
      }
      if constexpr (Gated) {
        const auto dr = load_pack<Width>(dr_of(stage));
        const auto branch = load_pack<Width>(branch_of(stage));
        float dbranch[Width];
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          dx[k] += dr[k];
          dgate[k] = fmaf(counts ? branch[k] : 0, dx[k], dgate[k]);
          dbranch[k] = g[k] * dx[k];
        }
        if (counts) store_pack(args.dbranch + at, dbranch);
      }
      if (counts) store_pack(args.dresidual + at, dx);
      if (++stage == stages) stage = 0;
    }
    device::wait_for_copy_groups<0>();

    const auto add_teams = [&](int gradient, float(&sums)[Width]) {
#pragma unroll
      for (float& value : sums) {
#pragma unroll
        for (int distance = Team; distance < device::warp_size; distance *= 2) {
          value += __uint_as_float(
              device::shuffle_xor(device::full_mask, __float_as_uint(value), distance));
        }
      }
      if (team_of_warp > 0 || !in_row) return;
      store_pack(warp_sums + (warp * gradient_count<Gated> + gradient) * features + feature, sums);
    };
    device::sync_block();  // the rings are free
    add_teams(0, dscale);
    add_teams(1, dshift);
    if constexpr (Gated) add_teams(2, dgate);
    device::sync_block();
#pragma unroll 1
    for (int i = rank; i < gradient_count<Gated> * features; i += threads) {
      const int gradient = i / features, column = i - gradient * features;
      float value = 0;
#pragma unroll 8
      for (int w = 0; w < warps; ++w) {
        value += warp_sums[w * gradient_count<Gated> * features + i];
      }
      const auto& to = args.gradients[gradient];
      float* const of_group =
          partial.of_group(groups, deal, group, groups.begin(group) >= first, to, gradient);
      if (of_group != nullptr) of_group[column] = value;
      if (to.total != nullptr) partial.total(blockIdx.x, gradient)[column] += value;
    }
    device::sync_block();  // before the rings are filled again
    start = end;
  }
}

}  // namespace adaptiveload::detail
