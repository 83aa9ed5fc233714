#pragma once

#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/forward.cuh>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>

namespace adaptiveload::detail {

/// Calls `f(team, vectors, threads)` with the team that takes a row of `features` elements in
/// `forward_tiles`, as constants, and the block's threads, unless none does.
///
/// Up to 3 accesses a thread and 4 warps. Wider rows take up to 5 accesses, with a gate 3 and more
/// warps, the widest 6: the registers of the modulations grow with the accesses, the waiting at
/// barriers with the warps.
template <bool Gated, int Width, class F>
void with_forward_team(std::int64_t features, F f) {
  constexpr int most_vectors = Gated ? 3 : 5;  // of 4 warps
  const std::int64_t accesses = features / Width;
  if (accesses <= 8) return f(constant<8>{}, constant<1>{}, 128);
  if (accesses <= 16) return f(constant<16>{}, constant<1>{}, 128);
  std::int64_t warps = std::min<std::int64_t>(4, ceil_divide(accesses, 3 * 32));
  if (accesses > most_vectors * 4 * 32) warps = ceil_divide(accesses, most_vectors * 32);
  if (warps > 12) warps = ceil_divide(accesses, 6 * 32);
  if (warps > 12) return;
  const int threads = 32 * static_cast<int>(warps);
  const auto vectors = ceil_divide(accesses, threads);
  with_constant<4>(warps, [&](auto w) {
    with_constant<6>(vectors, [&](auto v) {
      if (warps > 4) {  // at least 5, with as many accesses as they allow
        if constexpr (w.value == 4 && v.value >= most_vectors) {
          f(constant<block_team>{}, v, threads);
        }
      } else if constexpr (v.value <= most_vectors && (w.value == 4 || v.value <= 3) &&
                           w.value * v.value > 3 * (w.value - 1)) {
        f(constant<32 * w.value>{}, v, threads);
      }
    });
  });
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

/// `max_shared_bytes`: of a block; `bulk`: by bulk copies, for compute capability 9.0 and later.
template <bool Gated, class X, class M, class Y>
void launch_forward(forward_arguments<X, M, Y> args, cudaStream_t stream,
                    std::size_t max_shared_bytes, bool bulk) {
  constexpr const char* name =
      Gated ? "gate_residual_layernorm_modulate_forward" : "layernorm_modulate_forward";
  constexpr int width = vector_width<X, Y>;
  const std::int64_t features = args.shape.features;
  const row_groups groups = groups_of(args.shape, args.gate, args.scale, args.shift);
  const bool vectors = rows_fit<width>(features, args.residual, args.branch, args.r, args.y) &&
                       modulations_fit<width>(args.gate, args.scale, args.shift);

  bool launched = false;
  const auto in_tiles = [&](auto team, auto vectors_per_thread, int threads) {
    const int teams = is_part_of_warp<team.value> ? threads / std::max(team.value, 1) : 1;
    const int tile_rows = forward_rows<team.value, vectors_per_thread.value> * teams;
    const std::size_t shared =
        static_cast<std::size_t>(tile_rows * features) *
            (Gated ? 2 * sizeof(X) + sizeof(Y) : sizeof(X)) +
        static_cast<std::size_t>(2 * tile_rows / teams * (threads / 32)) * sizeof(float) +
        sizeof(device::transfer_barrier);
    if (shared > max_shared_bytes) return;
    launched = true;
    device::launch(name, forward_tiles<X, M, Y, Gated, team.value, width, vectors_per_thread.value>,
                   ceil_divide(groups.rows, tile_rows), dim3(static_cast<unsigned>(threads)),
                   shared, stream, args, groups, bulk);
  };
  if (vectors && is_narrow(groups) && groups.rows <= max_blocks &&
      bulk_copies_fit(features, args.residual, args.branch)) {
    with_forward_team<Gated, width>(features, in_tiles);
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
