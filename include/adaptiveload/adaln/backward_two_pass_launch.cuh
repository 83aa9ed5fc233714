#pragma once

#include <adaptiveload/adaln/backward_one_pass_launch.cuh>
#include <adaptiveload/adaln/backward_two_pass.cuh>
#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adaptiveload::detail {

/// Whether each row has a group of its own.
inline bool is_per_token(const row_groups& groups) {
  return groups.cu_seqlens == nullptr && groups.tokens == 1;
}

/// Bytes of its `block_sums`, of teams of one block.
inline std::size_t two_pass_sums_bytes(std::int64_t blocks, std::int64_t features, int gradients) {
  return block_sums::bytes(blocks, features, gradients) / 3 * 2;
}

/// `scratch`: of `backward_scratch_bytes`.
template <bool Gated, class Normalized, class X, class M, class Y>
void launch_backward_two_pass(const backward_arguments<Normalized, X, M, Y>& args,
                              const row_groups& groups, float* scratch, cudaStream_t stream,
                              int multiprocessors) {
  constexpr int width = vector_width<Normalized, X, Y>, gradients = gradient_count<Gated>;
  constexpr const char* name =
      Gated ? "gate_residual_layernorm_modulate_backward" : "layernorm_modulate_backward";
  const std::int64_t rows = groups.rows, features = args.shape.features;
  const row_deal deal{rows, std::min<std::int64_t>(multiprocessors, rows), 1};
  const block_sums partial{scratch, deal.blocks(), features, gradients};
  float* const saved =
      scratch + two_pass_sums_bytes(deal.blocks(), features, gradients) / sizeof(float);
  const bool per_token = is_per_token(groups);
  bool vectors = rows_fit<width>(features, args.r, args.branch, args.dy, args.dr, args.dresidual,
                                 args.dbranch) &&
                 modulations_fit<width>(args.gate, args.scale);
  for (const auto& gradient : args.gradients) {
    vectors = vectors && (!per_token || packs_fit<width>(gradient.data, gradient.batch_stride,
                                                         gradient.group_stride));
  }

  const auto in_registers = [&](auto team, auto packs, int threads) {
    constexpr bool block = team.value == block_team;
    const std::int64_t teams = block ? 1 : threads / std::max(team.value, 1);
    const std::size_t warps = static_cast<std::size_t>(threads) / 32;
    device::launch(
        name,
        backward_rows_in_registers<Normalized, X, M, Y, Gated, team.value, width, packs.value>,
        ceil_divide(rows, teams), dim3(static_cast<unsigned>(threads)),
        block ? warps * sizeof(sums<3>) : 0, stream, args, groups, per_token, saved);
  };
  if (!(vectors && rows <= max_blocks && with_team<width>(features, in_registers))) {
    with_width<width>(vectors, [&](auto chosen) {
      const int threads = streamed_threads(features, chosen.value);
      device::launch(name, backward_rows_streamed<Normalized, X, M, Y, Gated, chosen.value>,
                     std::min(rows, max_blocks), dim3(static_cast<unsigned>(threads)),
                     static_cast<std::size_t>(threads) / 32 * sizeof(sums<3>), stream, args, groups,
                     per_token, saved);
    });
  }

  auto to_sum = args;
  row_groups sum_groups = groups;
  if (per_token) {
    for (auto& gradient : to_sum.gradients) gradient.data = nullptr;
    sum_groups = {.rows = rows, .count = 1, .tokens = rows, .per_sample = 1, .cu_seqlens = nullptr};
  }
  const auto wanted = [](const auto& gradient) {
    return gradient.data != nullptr || gradient.total != nullptr;
  };
  if (std::none_of(std::begin(to_sum.gradients), std::end(to_sum.gradients), wanted)) return;
  with_width<width>(vectors, [&](auto chosen) {
    constexpr int columns = 32 * chosen.value, threads = 256;
    const std::int64_t d_tiles = ceil_divide(features, columns);
    device::launch(Gated ? "gate_residual_layernorm_modulate_backward: column tiles"
                         : "layernorm_modulate_backward: column tiles",
                   backward_column_tiles<Normalized, X, M, Y, Gated, chosen.value>,
                   std::min(deal.teams * d_tiles, max_blocks), dim3(threads),
                   threads / 32 * gradients * columns * sizeof(float), stream, to_sum, groups,
                   sum_groups, saved, deal, d_tiles, partial);
  });
  launch_fold<Gated>(to_sum, sum_groups, deal, partial, stream, false);
}

/// Scratch of either form of the backward.
template <bool Gated>
std::size_t backward_scratch_bytes(const activation_shape& shape, int multiprocessors) {
  constexpr int gradients = gradient_count<Gated>;
  const std::int64_t rows = detail::rows(shape);
  const std::int64_t blocks = std::min<std::int64_t>(multiprocessors, rows);
  return std::max(block_sums::bytes(blocks, shape.features, gradients),
                  two_pass_sums_bytes(blocks, shape.features, gradients) +
                      static_cast<std::size_t>(rows * row_gradient_floats<Gated>) * sizeof(float));
}

/// The backward of checked arguments: in one pass where rows fit on chip and are not each a group
/// of their own, else in two.
template <bool Gated, class Normalized, class X, class M, class Y>
void launch_backward(backward_arguments<Normalized, X, M, Y> args, void* scratch,
                     cudaStream_t stream) {
  auto& [scale, shift, gate] = args.gradients;
  const row_groups groups = groups_of(args.shape, args.gate, args.scale, scale, shift, gate);
  if (groups.rows == 0) {
    device::launch(
        Gated ? "gate_residual_layernorm_modulate_backward" : "layernorm_modulate_backward",
        backward_of_nothing<backward_arguments<Normalized, X, M, Y>>,
        std::min(ceil_divide((groups.count + 1) * args.shape.features, 256), max_blocks), dim3(256),
        0, stream, args, groups, gradient_count<Gated>);
    return;
  }
  const device::properties properties = device::current_properties();
  const bool bulk = properties.compute_capability >= 90;
  float* const floats = static_cast<float*>(scratch);
  if (!is_per_token(groups) &&
      launch_backward_one_pass<Gated>(args, groups, floats, stream, properties, bulk)) {
    return;
  }
  launch_backward_two_pass<Gated>(args, groups, floats, stream, properties.multiprocessors);
}

}  // namespace adaptiveload::detail
