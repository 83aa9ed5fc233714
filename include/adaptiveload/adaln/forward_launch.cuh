#pragma once

#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/forward.cuh>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>

namespace adaptiveload::detail {

/// Rows that a team takes one after the other: enough to read ahead, few enough that blocks end
/// at different times and the last wave stays short.
inline constexpr std::int64_t forward_rows_per_team = 4;

template <class X, class M, class Y>
void launch_forward(const layernorm_modulate_args<X, M, Y>& args, cudaStream_t stream) {
  constexpr const char* name = "layernorm_modulate_forward";
  constexpr int width = vector_width<X, Y>;
  const std::int64_t rows = detail::rows(args.shape), features = args.shape.features;
  const bool vectors = packs_fit<width>(args.x, features) && packs_fit<width>(args.y, features) &&
                       packs_fit<width>(args.scale.data, features, args.scale.batch_stride) &&
                       packs_fit<width>(args.shift.data, features, args.shift.batch_stride);

  const auto in_registers = [&](auto team, auto vectors_per_thread, int threads) {
    constexpr bool block = team.value == block_team;
    const int teams = block ? 1 : threads / std::max(team.value, 1);
    const std::int64_t rows_per_team =
        std::max(forward_rows_per_team, ceil_divide(rows, max_blocks * teams));
    const std::size_t warps = static_cast<std::size_t>(threads) / 32;
    device::launch(name, forward_in_registers<X, M, Y, team.value, width, vectors_per_thread.value>,
                   ceil_divide(rows, teams * rows_per_team), dim3(static_cast<unsigned>(threads)),
                   block ? 2 * warps * sizeof(pivoted_sums) : 0, stream, args, rows_per_team);
  };
  if (vectors && with_team<width>(features, in_registers)) return;

  with_width<width>(vectors, [&](auto chosen) {
    const int threads = streamed_threads(features, chosen.value);
    device::launch(name, forward_streamed<X, M, Y, chosen.value>, std::min(rows, max_blocks),
                   dim3(static_cast<unsigned>(threads)),
                   static_cast<std::size_t>(threads) / 32 * sizeof(sums<2>), stream, args);
  });
}

}  // namespace adaptiveload::detail
