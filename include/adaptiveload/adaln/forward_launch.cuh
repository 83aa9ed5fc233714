#pragma once

#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/forward.cuh>
#include <adaptiveload/adaln/forward_tiles.cuh>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>

namespace adaptiveload::detail {

/// Calls `f(team, vectors)` with the team that holds a row of `features` elements in registers, as
/// constants, unless none does.
///
/// Up to 3 accesses a thread and 4 warps; wider rows take up to 5 accesses, or 8 if they have no
/// gate; and 8 warps up to 8: more threads wait for each other longer, and more accesses take
/// registers that other rows could have.
template <bool Gated, int Width, class F>
void with_forward_team(std::int64_t features, F f) {
  const std::int64_t accesses = features / Width;
  if (accesses <= 8) return f(constant<8>{}, constant<1>{});
  if (accesses <= 16) return f(constant<16>{}, constant<1>{});
  if (accesses > 256 * 8) return;
  const auto of_team = [&](auto team, auto least, auto most) {
    with_constant<most.value>(ceil_divide(accesses, team.value), [&](auto vectors) {
      if constexpr (vectors.value >= least.value) f(team, vectors);
    });
  };
  if (accesses <= 32 * 3) return of_team(constant<32>{}, constant<1>{}, constant<3>{});
  if (accesses <= 64 * 3) return of_team(constant<64>{}, constant<2>{}, constant<3>{});
  constexpr int wide = Gated ? 5 : 8;
  if (accesses <= 128 * wide) return of_team(constant<128>{}, constant<2>{}, constant<wide>{});
  return of_team(constant<256>{}, constant<(wide + 1) / 2>{}, constant<8>{});
}

/// The arguments without a gate as `forward_tiles` takes them.
template <class X, class M, class Y>
forward_arguments<X, M, Y> without_gate(const layernorm_modulate_args<X, M, Y>& args) {
  return {.shape = args.shape,
          .residual = args.x,
          .branch = nullptr,
          .gate = {},
          .scale = args.scale,
          .shift = args.shift,
          .r = nullptr,
          .y = args.y,
          .mean = args.mean,
          .rstd = args.rstd,
          .epsilon = args.epsilon,
          .kind = args.kind,
          .form = args.form};
}

/// Whether tiles are the faster way: they share the modulations that they read, but have longer to
/// wait at their barriers, and are few if rows are. On an H200, at 1,536 to 5,120 features, forms
/// of `forward_rows` that were tried without a gate took 6 % longer or more; with a gate it takes 1
/// to 4 % less if all rows are one group's, and at 3,072 features took 22 % more if groups had
/// 2,048.
template <bool Gated>
bool prefers_tiles(const row_groups& groups, int multiprocessors) {
  const std::int64_t rows_each = groups.rows / multiprocessors;
  if (rows_each < 16 || groups.count == groups.rows) return false;
  return !Gated || rows_each / groups.count < 128;
}

/// `bulk`: by bulk copies, for compute capability 9.0 and later.
template <bool Gated, class X, class M, class Y>
void launch_forward(forward_arguments<X, M, Y> args, cudaStream_t stream,
                    const device::properties& properties, bool bulk) {
  constexpr const char* name =
      Gated ? "gate_residual_layernorm_modulate_forward" : "layernorm_modulate_forward";
  constexpr int width = vector_width<X, Y>;
  const std::int64_t features = args.shape.features;
  const row_groups groups = groups_of(args.shape, args.gate, args.scale, args.shift);
  const bool vectors = rows_fit<width>(features, args.residual, args.branch, args.r, args.y) &&
                       modulations_fit<width>(args.gate, args.scale, args.shift);
  const bool overlaps = properties.compute_capability >= 90;

  bool launched = false;
  const auto in_tiles = [&](auto team, auto packs) {
    if constexpr (team.value <= 128 && packs.value <= 5) {
      constexpr int threads = tile_threads<team.value>, warps = team.value / 32;
      constexpr int team_rows = tile_rows_of_team<Gated, packs.value>;
      constexpr int tile_rows = team_rows * threads / team.value;
      const std::size_t shared = static_cast<std::size_t>(tile_rows * features) *
                                     (Gated ? 2 * sizeof(X) + sizeof(Y) : sizeof(X)) +
                                 static_cast<std::size_t>(2 * team_rows * warps) * sizeof(float) +
                                 sizeof(device::transfer_barrier);
      if (shared > properties.max_shared_bytes) return;
      launched = true;
      device::launch_overlapping(
          overlaps, name, forward_tiles<X, M, Y, Gated, team.value, width, packs.value>,
          ceil_divide(groups.rows, tile_rows), dim3(static_cast<unsigned>(threads)), shared, stream,
          args, groups, bulk);
    }
  };
  const auto in_rows = [&](auto team, auto packs) {
    constexpr int threads = forward_threads<team.value>, warps = team.value / 32;
    constexpr int rows = packs.value == 1 ? 2 : 1;
    const std::size_t shared = warps > 1 ? rows * (2 * warps + 1) * sizeof(float) : 0;
    launched = true;
    device::launch_overlapping(overlaps, name,
                               forward_rows<X, M, Y, Gated, team.value, width, packs.value, rows>,
                               ceil_divide(groups.rows, rows * threads / team.value), dim3(threads),
                               shared, stream, args, groups);
  };
  if (vectors && is_narrow(groups) && groups.rows <= max_blocks) {
    if (prefers_tiles<Gated>(groups, properties.multiprocessors) &&
        bulk_copies_fit(features, args.residual, args.branch)) {
      with_forward_team<Gated, width>(features, in_tiles);
    }
    if (!launched) with_forward_team<Gated, width>(features, in_rows);
  }
  if (launched) return;

  with_width<width>(vectors, [&](auto chosen) {
    const int threads = streamed_threads(features, chosen.value);
    device::launch(name, forward_streamed<X, M, Y, Gated, chosen.value>,
                   std::min(groups.rows, max_blocks), dim3(static_cast<unsigned>(threads)),
                   static_cast<std::size_t>(threads) / 32 * sizeof(sums<2>), stream, args, groups);
  });
}

}  // namespace adaptiveload::detail
