#pragma once

#include <adaptiveload/adaln/backward_short_rows.cuh>
#include <adaptiveload/adaln/backward_tiles.cuh>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adaptiveload::detail {

/// Calls `f(vectors, slices)` with the template arguments of `backward_tiles` for rows of `packs`
/// packs, unless they are too long: as few packs a thread as blocks have threads for, and slices of
/// at most 3 packs a lane, or 4.
template <bool Gated, class F>
void with_tile_kernel(std::int64_t packs, F f) {
  if (packs <= tile_block_threads<Gated, 1>) {
    with_constant<5>(ceil_divide(packs, packs <= 3 * 128 ? 3 * 32 : 4 * 32),
                     [&](auto slices) { f(constant<1>{}, slices); });
  } else if (packs <= 2 * tile_block_threads<Gated, 2>) {
    f(constant<2>{}, constant<0>{});
  } else if constexpr (Gated) {
    if (packs <= 3 * tile_block_threads<Gated, 3>) f(constant<3>{}, constant<0>{});
  } else {
    if (packs <= 4 * tile_block_threads<Gated, 4>) f(constant<4>{}, constant<0>{});
  }
}

/// The block for rows of `packs` packs; its rows are 0 if it has no room. `slices` is 0 for any.
///
/// On an H200, 72 to 80 KB under way are best, in two tiles, or in one where two would have fewer
/// than 3 rows each; and 384 threads or some more.
inline tile_block choose_tile_block(std::int64_t features, std::int64_t packs, int vectors,
                                    int max_threads, int slices, int row_bytes, bool has_gate,
                                    std::int64_t rows_per_block, std::size_t max_shared_bytes) {
  constexpr int threads = 384, under_way = 80 * 1024, least_rows = 3;
  tile_block block{.features = static_cast<int>(features),
                   .packs = static_cast<int>(packs),
                   .row_bytes = row_bytes,
                   .has_gate = has_gate};
  const int in_two = under_way / 2 / row_bytes, in_one = std::max(1, under_way / row_bytes);
  block.slots = in_two >= least_rows ? 3 : 2;
  block.rows =
      std::min(in_two >= least_rows ? in_two : in_one, max_threads / 32 / std::max(slices, 1));
  const auto fits = [&] { return block.shared_bytes() <= max_shared_bytes; };
  block.row_groups = 1;
  if (vectors == 1) {
    const int wanted = (threads - 1) / block.packs + 1, most = max_threads / block.packs;
    block.row_groups = std::min(wanted, most);
  }
  auto warps = static_cast<int>(ceil_divide(packs * block.row_groups, 32 * std::int64_t{vectors}));
  block.slices = slices > 0 ? slices : std::max(1, warps / block.rows);
  if (!fits()) block.slots = 2;
  while (block.rows > 1 && !fits()) --block.rows;
  if (!fits()) block.rows = 0;
  warps = std::max(warps, block.rows * block.slices);
  block.threads = 32 * warps;
  block.rows = static_cast<int>(std::min<std::int64_t>(rows_per_block, block.rows));
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
  constexpr const char* name =
      Gated ? "gate_residual_layernorm_modulate_backward" : "layernorm_modulate_backward";
  const auto deal_to = [&](std::int64_t rows_at_once) {
    return deal_rows(groups, std::min({std::int64_t{properties.multiprocessors},
                                       ceil_divide(groups.rows, rows_at_once), max_blocks}));
  };
  const auto sums_of = [&](const row_deal& deal) {
    return block_sums{scratch, deal.blocks(), features, gradient_count<Gated>};
  };
  const auto fold = [&](const row_deal& deal) {
    launch_fold<Gated>(args, groups, deal, sums_of(deal), stream, bulk);
    return true;
  };

  if (accesses <= 32) {
    const auto run = [&](auto team) {
      constexpr int threads = short_row_threads<Gated>;
      const row_deal deal = deal_to(threads / team.value);
      device::launch(name, backward_short_rows<Normalized, X, M, Y, Gated, team.value, width>,
                     deal.blocks(), dim3(threads), short_row_shared_bytes<Gated>(), stream, args,
                     groups, deal, sums_of(deal));
      return fold(deal);
    };
    if (accesses <= 8) return run(constant<8>{});
    return accesses <= 16 ? run(constant<16>{}) : run(constant<32>{});
  }

  bool launched = false;
  with_tile_kernel<Gated>(accesses, [&](auto vectors, auto slices) {
    const tile_block block = choose_tile_block(
        features, accesses, vectors.value, tile_block_threads<Gated, vectors.value>, slices.value,
        static_cast<int>(features * element_bytes), Gated && vectors.value > 1,
        ceil_divide(groups.rows, properties.multiprocessors), properties.max_shared_bytes);
    if (block.rows == 0) return;
    const row_deal deal = deal_to(block.rows);
    device::launch(name,
                   backward_tiles<Normalized, X, M, Y, Gated, width, vectors.value, slices.value>,
                   deal.blocks(), dim3(static_cast<unsigned>(block.threads)), block.shared_bytes(),
                   stream, args, groups, deal, block, sums_of(deal), bulk);
    launched = fold(deal);
  });
  return launched;
}

}  // namespace adaptiveload::detail
