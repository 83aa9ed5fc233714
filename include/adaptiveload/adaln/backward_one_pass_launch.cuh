#pragma once

#include <adaptiveload/adaln/backward_one_pass.cuh>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adaptiveload::detail {

/// The packs of a row of `accesses` accesses that a thread takes; 0 if the row is too long. As few
/// as leave a block two units: their sums are what registers are for.
template <bool Gated>
int one_pass_packs(std::int64_t accesses) {
  if (accesses <= 32) return 1;
  if (accesses <= 32 * 2 * (Gated ? 12 : 6)) return 2;
  if (accesses <= 32 * 3 * (Gated ? 12 : 16)) return 3;
  return !Gated && accesses <= 32 * 8 * 8 ? 8 : 0;
}

/// The block for such a row. On an H200, rings of 96 to 120 KB are best: two of three stages or
/// more of them are under way.
template <bool Gated>
one_pass_block choose_one_pass_block(std::int64_t features, std::int64_t accesses, int packs,
                                     int row_bytes, std::int64_t rows_per_block, bool bulk,
                                     std::size_t max_shared_bytes) {
  constexpr int ring_bytes = 120 * 1024;
  const auto warps = static_cast<int>(ceil_divide(accesses, 32 * packs));
  one_pass_block block{.features = static_cast<int>(features),
                       .warps = warps,
                       .units = 1,
                       .stages = 2,
                       .row_bytes = row_bytes,
                       .vectors = Gated ? 2 : 1};
  with_constant<8>(packs, [&](auto p) { block.units = one_pass_warps<Gated, p.value> / warps; });
  // Of few rows, adding up the units' sums takes longer than a unit more saves.
  block.units = static_cast<int>(
      std::min<std::int64_t>(block.units, std::max<std::int64_t>(2, rows_per_block / 4)));
  block.stages =
      std::clamp(ring_bytes / (block.units * row_bytes), 2, bulk ? 8 : one_pass_copy_stages);
  while (block.units > 1 && block.shared_bytes() > max_shared_bytes) --block.units;
  while (block.stages > 2 && block.shared_bytes() > max_shared_bytes) --block.stages;
  if (block.shared_bytes() > max_shared_bytes) block.units = 0;
  return block;
}

/// Adds up the blocks' partial sums; `overlaps`: see `device::launch_overlapping`.
template <bool Gated, class Normalized, class X, class M, class Y>
void launch_fold(const backward_arguments<Normalized, X, M, Y>& args, const row_groups& groups,
                 const row_deal& deal, const block_sums& partial, cudaStream_t stream,
                 bool overlaps) {
  bool totals = false;
  for (const auto& gradient : args.gradients) totals = totals || gradient.total != nullptr;
  if (deal.blocks() == 1 && !totals) return;
  const bool by_group = deal.members > 1 || groups.count < deal.teams;
  const fold_plan plan{.deal = deal,
                       .by_group = by_group,
                       .candidates = by_group ? groups.count : deal.teams - 1,
                       .tiles = ceil_divide(args.shape.features, fold_columns)};
  const std::int64_t pieces = (plan.candidates + 1) * partial.gradients * plan.tiles;
  device::launch_overlapping(overlaps,
                             Gated ? "gate_residual_layernorm_modulate_backward: fold"
                                   : "layernorm_modulate_backward: fold",
                             backward_fold<Normalized, X, M, Y>, std::min(pieces, max_blocks),
                             dim3(32 * fold_warps), fold_warps * fold_columns * sizeof(float),
                             stream, args, groups, plan, partial);
}

/// False, and nothing is launched, if the rows do not fit. `bulk`: by bulk copies, for compute
/// capability 9.0 and later.
template <bool Gated, class Normalized, class X, class M, class Y>
bool launch_backward_one_pass(const backward_arguments<Normalized, X, M, Y>& args,
                              const row_groups& groups, float* scratch, cudaStream_t stream,
                              const device::properties& properties, bool bulk) {
  constexpr int width = vector_width<Normalized, X, Y>;
  const std::int64_t features = args.shape.features;
  if (!is_narrow(groups) ||
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
  const int packs = one_pass_packs<Gated>(accesses);
  if (packs == 0) return false;
  const one_pass_block block = choose_one_pass_block<Gated>(
      features, accesses, packs, static_cast<int>(features * element_bytes),
      groups.rows / properties.multiprocessors, bulk, properties.max_shared_bytes);
  if (block.units == 0) return false;

  const row_deal deal =
      deal_rows(groups, std::min({std::int64_t{properties.multiprocessors},
                                  ceil_divide(groups.rows, block.units), max_blocks}));
  const block_sums partial{scratch, deal.blocks(), features, gradient_count<Gated>};
  const auto run = [&](auto vectors, auto warps) {
    device::launch(
        Gated ? "gate_residual_layernorm_modulate_backward" : "layernorm_modulate_backward",
        backward_one_pass<Normalized, X, M, Y, Gated, width, vectors.value, warps.value>,
        deal.blocks(), dim3(static_cast<unsigned>(block.threads())), block.shared_bytes(), stream,
        args, groups, deal, block, partial, bulk);
  };
  if (packs == 1) {
    run(constant<1>{}, constant<1>{});
  } else if (packs == 2 && block.warps <= 6) {
    with_constant<6>(block.warps, [&](auto warps) { run(constant<2>{}, warps); });
  } else if (packs == 3) {
    run(constant<3>{}, constant<0>{});
  } else if constexpr (Gated) {
    run(constant<2>{}, constant<0>{});
  } else {
    run(constant<8>{}, constant<8>{});
  }
  launch_fold<Gated>(args, groups, deal, partial, stream, bulk);
  return true;
}

}  // namespace adaptiveload::detail
