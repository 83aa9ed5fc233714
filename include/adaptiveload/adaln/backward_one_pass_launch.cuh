#pragma once

#include <adaptiveload/adaln/backward_one_pass.cuh>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace adaptiveload::detail {

/// The block for a row of `accesses` accesses, 2 a thread as long as they fit; then, without a
/// gate, 5, then 8 (there is one sum less to keep), with one 3. 0 units if it fits none.
template <bool Gated>
one_pass_block choose_one_pass_block(std::int64_t features, std::int64_t accesses, int row_bytes,
                                     bool bulk, std::size_t max_shared_bytes) {
  constexpr int bytes_under_way = 72 * 1024;
  constexpr int max_warps = one_pass_threads<2> / 32;
  constexpr int most_packs = Gated ? 3 : 8;
  std::int64_t warps = ceil_divide(accesses, 2 * 32);
  if (!Gated && warps > 6) warps = ceil_divide(accesses, 5 * 32);
  if (warps > max_warps) {
    warps = Gated ? ceil_divide(accesses, most_packs * 32) : one_pass_threads<8> / 32;
  }
  if (warps > max_warps || accesses > most_packs * 32 * warps) return {};
  one_pass_block block{.features = static_cast<int>(features),
                       .warps = static_cast<int>(warps),
                       .units = max_warps / static_cast<int>(warps),
                       .stages = 2,
                       .row_bytes = row_bytes,
                       .vectors = accesses <= 2 * 32 * warps ? 0
                                  : Gated                    ? 2
                                                             : 1};
  block.stages =
      std::clamp(bytes_under_way / (block.units * row_bytes), 2, bulk ? 8 : one_pass_copy_stages);
  while (block.units > 1 && block.shared_bytes() > max_shared_bytes) --block.units;
  if (block.shared_bytes() > max_shared_bytes) block.units = 0;
  return block;
}

/// Adds up the runs' partial sums; `overlaps`: see `device::launch_overlapping`.
template <bool Gated, class Normalized, class X, class M, class Y>
void launch_fold(const backward_arguments<Normalized, X, M, Y>& args, const row_groups& groups,
                 const row_deal& deal, const run_sums& partial, cudaStream_t stream,
                 bool overlaps) {
  bool totals = false;
  for (const auto& gradient : args.gradients) totals = totals || gradient.total != nullptr;
  if (deal.blocks == 1 && !totals) return;
  const bool by_group = groups.count < deal.blocks;
  const fold_plan plan{.deal = deal,
                       .by_group = by_group,
                       .spanning = by_group ? groups.count : deal.blocks - 1,
                       .tiles = ceil_divide(args.shape.features, 128)};
  device::launch_overlapping(overlaps,
                             Gated ? "gate_residual_layernorm_modulate_backward: fold"
                                   : "layernorm_modulate_backward: fold",
                             backward_fold<Normalized, X, M, Y>,
                             std::min(plan.pieces(partial.gradients), max_blocks), dim3(128),
                             128 * 4 * sizeof(float), stream, args, groups, plan, partial);
}

/// False, and nothing is launched, if the rows do not fit. `bulk`: by bulk copies, for compute
/// capability 9.0 and later.
template <bool Gated, class Normalized, class X, class M, class Y>
bool launch_backward_one_pass(const backward_arguments<Normalized, X, M, Y>& args,
                              const row_groups& groups, float* scratch, cudaStream_t stream,
                              const device::properties& properties, bool bulk) {
  constexpr int width = vector_width<Normalized, X, Y>;
  const std::int64_t features = args.shape.features;
  constexpr std::int64_t index_limit = std::numeric_limits<int>::max();
  if (groups.rows >= index_limit || groups.count >= index_limit ||
      !rows_fit<width>(features, args.r, args.branch, args.dy, args.dr, args.dresidual,
                       args.dbranch) ||
      !bulk_copies_fit(features, args.r, args.branch, args.dy, args.dr) ||
      !modulations_fit<width>(args.gate, args.scale)) {
    return false;
  }
  constexpr std::int64_t element_bytes =
      sizeof(Normalized) + sizeof(Y) + (Gated ? sizeof(Y) + sizeof(X) : 0);
  const std::int64_t accesses = features / width;
  if (features * element_bytes > static_cast<std::int64_t>(properties.max_shared_bytes)) {
    return false;
  }
  const one_pass_block block =
      choose_one_pass_block<Gated>(features, accesses, static_cast<int>(features * element_bytes),
                                   bulk, properties.max_shared_bytes);
  if (block.units == 0) return false;

  const row_deal deal{groups.rows, std::min({std::int64_t{properties.multiprocessors},
                                             ceil_divide(groups.rows, block.units), max_blocks})};
  const run_sums partial{scratch, deal.blocks, features, gradient_count<Gated>};
  const auto run = [&](auto packs, auto warps) {
    device::launch(
        Gated ? "gate_residual_layernorm_modulate_backward" : "layernorm_modulate_backward",
        backward_one_pass<Normalized, X, M, Y, Gated, width, packs.value, warps.value>, deal.blocks,
        dim3(static_cast<unsigned>(block.threads())), block.shared_bytes(), stream, args, groups,
        deal, block, partial, bulk);
  };
  const std::int64_t packs = ceil_divide(accesses, 32 * block.warps);
  if (accesses <= 32) {
    run(constant<1>{}, constant<1>{});
  } else if (packs <= 2 && block.warps <= 6) {
    with_constant<6>(block.warps, [&](auto warps) { run(constant<2>{}, warps); });
  } else if constexpr (Gated) {
    if (packs <= 2) run(constant<2>{}, constant<0>{});
    if (packs == 3) run(constant<3>{}, constant<0>{});
  } else {
    if (packs == 4) run(constant<4>{}, constant<0>{});
    if (packs == 5) run(constant<5>{}, constant<0>{});
    if (packs > 5) run(constant<8>{}, constant<8>{});
  }
  launch_fold<Gated>(args, groups, deal, partial, stream, bulk);
  return true;
}

}  // namespace adaptiveload::detail
