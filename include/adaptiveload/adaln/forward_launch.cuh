#pragma once

#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/forward.cuh>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>

namespace adaptiveload::detail {

/// Calls `f(team, vectors, threads)` with the team that takes a row of `features` elements in
/// `forward_tiles`, as constants, and the block's threads; false if none does.
///
/// Up to 3 accesses a thread and 4 warps; wider rows 5 accesses, then 6, and more warps: the
/// registers of scale and shift grow with the accesses, the waiting at barriers with the warps.
template <int Width, class F>
bool with_forward_team(std::int64_t features, F f) {
  const std::int64_t accesses = features / Width;
  if (accesses <= 8) return f(constant<8>{}, constant<1>{}, 128), true;
  if (accesses <= 16) return f(constant<16>{}, constant<1>{}, 128), true;
  std::int64_t warps = ceil_divide(accesses, 3 * 32);
  if (warps > 4) warps = std::max<std::int64_t>(4, ceil_divide(accesses, 5 * 32));
  if (warps > 12) warps = ceil_divide(accesses, 6 * 32);
  if (warps > 12) return false;
  const int threads = 32 * static_cast<int>(warps);
  const auto run = [&](auto team) {
    with_constant<6>(ceil_divide(accesses, threads), [&](auto vectors) {
      if constexpr ((team.value == block_team) == (vectors.value > 3) &&
                    (team.value <= 32 || vectors.value * team.value > 3 * (team.value - 32))) {
        f(team, vectors, threads);
      }
    });
  };
  if (accesses <= 4 * 3 * 32) {
    with_constant<4>(warps, [&](auto w) { run(constant<32 * w.value>{}); });
  } else {
    run(constant<block_team>{});
  }
  return true;
}

/// `bulk`: by bulk copies, for compute capability 9.0 and later.
template <class X, class M, class Y>
void launch_forward(const layernorm_modulate_args<X, M, Y>& args, cudaStream_t stream, bool bulk) {
  constexpr const char* name = "layernorm_modulate_forward";
  constexpr int width = vector_width<X, Y>;
  const std::int64_t rows = detail::rows(args.shape), features = args.shape.features;
  const bool vectors = packs_fit<width>(args.x, features) && packs_fit<width>(args.y, features) &&
                       packs_fit<width>(args.scale.data, features, args.scale.batch_stride) &&
                       packs_fit<width>(args.shift.data, features, args.shift.batch_stride) &&
                       bulk_copies_fit(args.x, features) && rows <= max_blocks;

  const auto in_tiles = [&](auto team, auto vectors_per_thread, int threads) {
    const int teams = is_part_of_warp<team.value> ? threads / std::max(team.value, 1) : 1;
    const int tile_rows = forward_rows<team.value, vectors_per_thread.value> * teams;
    const std::size_t shared =
        static_cast<std::size_t>(tile_rows * features) * sizeof(X) +
        static_cast<std::size_t>(2 * tile_rows / teams * (threads / 32)) * sizeof(float) +
        sizeof(device::transfer_barrier);
    device::launch(name, forward_tiles<X, M, Y, team.value, width, vectors_per_thread.value>,
                   ceil_divide(rows, tile_rows), dim3(static_cast<unsigned>(threads)), shared,
                   stream, args, bulk);
  };
  if (vectors && with_forward_team<width>(features, in_tiles)) return;

  with_width<width>(vectors, [&](auto chosen) {
    const int threads = streamed_threads(features, chosen.value);
    device::launch(name, forward_streamed<X, M, Y, chosen.value>, std::min(rows, max_blocks),
                   dim3(static_cast<unsigned>(threads)),
                   static_cast<std::size_t>(threads) / 32 * sizeof(sums<2>), stream, args);
  });
}

}  // namespace adaptiveload::detail
