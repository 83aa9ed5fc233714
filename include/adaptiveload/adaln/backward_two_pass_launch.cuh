#pragma once

#include <adaptiveload/adaln/backward_two_pass.cuh>
#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adaptiveload::detail {

/// How the two-pass backward cuts the tokens of a sample, and what its scratch holds: `rests`
/// [rows], then the tiles' partial sums.
struct two_pass_layout {
  /// Rounding errors of a tile's sums grow with its rows, the partial sums' bytes fall with them.
  static constexpr std::int64_t rows_per_tile = 256;

  std::int64_t n_tiles, rests;
  std::size_t bytes;

  explicit two_pass_layout(const activation_shape& shape)
      : n_tiles(ceil_divide(shape.tokens, rows_per_tile)),
        rests(ceil_divide(rows(shape), 4) * 4),  // keeps what follows aligned to 16 bytes
        bytes(sizeof(float) *
              static_cast<std::size_t>(rests + shape.batch * n_tiles * 2 * shape.features)) {}
};

template <class X, class M, class Y>
void launch_backward_two_pass(const layernorm_modulate_backward_args<X, M, Y>& args,
                              cudaStream_t stream) {
  constexpr int width = vector_width<X, Y>;
  const two_pass_layout layout(args.shape);
  float* const rests = static_cast<float*>(args.scratch);
  float* const partial = rests + layout.rests;
  const std::int64_t rows = detail::rows(args.shape), features = args.shape.features;
  if (args.shape.batch == 0) return;

  const bool vectors = packs_fit<width>(args.x, features) && packs_fit<width>(args.dy, features) &&
                       packs_fit<width>(args.dx, features) &&
                       packs_fit<width>(args.scale.data, features, args.scale.batch_stride);
  if (rows > 0) {
    constexpr const char* name = "layernorm_modulate_backward: dx";
    const auto in_registers = [&](auto team, auto vectors_per_thread, int threads) {
      constexpr bool block = team.value == block_team;
      const std::int64_t teams = block ? 1 : threads / std::max(team.value, 1);
      const std::size_t warps = static_cast<std::size_t>(threads) / 32;
      device::launch(
          name, backward_rows_in_registers<X, M, Y, team.value, width, vectors_per_thread.value>,
          ceil_divide(rows, teams), dim3(static_cast<unsigned>(threads)),
          block ? warps * sizeof(sums<3>) : 0, stream, args, rests);
    };
    const bool fits = vectors && ceil_divide(rows, 1) <= max_blocks;
    if (!(fits && with_team<width>(features, in_registers))) {
      with_width<width>(vectors, [&](auto chosen) {
        const int threads = streamed_threads(features, chosen.value);
        device::launch(name, backward_rows_streamed<X, M, Y, chosen.value>,
                       std::min(rows, max_blocks), dim3(static_cast<unsigned>(threads)),
                       static_cast<std::size_t>(threads) / 32 * sizeof(sums<3>), stream, args,
                       rests);
      });
    }
    with_width<width>(vectors, [&](auto chosen) {
      constexpr int columns = 32 * chosen.value, threads = 256;
      const std::int64_t d_tiles = ceil_divide(features, columns);
      const std::int64_t tiles = args.shape.batch * layout.n_tiles * d_tiles;
      device::launch("layernorm_modulate_backward: column tiles",
                     backward_column_tiles<X, M, Y, chosen.value>, std::min(tiles, max_blocks),
                     dim3(threads), threads / 32 * 2 * columns * sizeof(float), stream, args, rests,
                     partial, d_tiles, layout.n_tiles, two_pass_layout::rows_per_tile);
    });
  }
  device::launch("layernorm_modulate_backward: fold", backward_fold<X, M, Y>,
                 std::min(ceil_divide(args.shape.batch * features, 256), max_blocks), dim3(256), 0,
                 stream, args, partial, layout.n_tiles);
}

}  // namespace adaptiveload::detail
