#pragma once

#include <adaptiveload/adaln/backward_one_pass.cuh>
#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/launch_choice.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adaptiveload::detail {

/// Scratch of the one-pass backward: a vector of each gradient for every block.
inline std::size_t one_pass_scratch_bytes(const activation_shape& shape, int multiprocessors) {
  return sizeof(float) * 2 * static_cast<std::size_t>(shape.features) *
         static_cast<std::size_t>(multiprocessors);
}

/// The block for a row of `accesses` accesses, 2 a thread and, from 6 warps on, 5, then 8; 0 units
/// if it fits none.
inline one_pass_block choose_one_pass_block(std::int64_t features, std::int64_t accesses,
                                            int row_bytes, bool bulk,
                                            std::size_t max_shared_bytes) {
  constexpr int bytes_under_way = 72 * 1024;
  constexpr int max_warps = one_pass_threads<5> / 32;
  if (accesses > 8 * one_pass_threads<8>) return {};
  std::int64_t warps = ceil_divide(accesses, 2 * 32);
  if (warps > 6) warps = ceil_divide(accesses, 5 * 32);
  if (warps > max_warps) warps = one_pass_threads<8> / 32;
  one_pass_block block{.features = static_cast<int>(features),
                       .warps = static_cast<int>(warps),
                       .units = 0,
                       .stages = 2,
                       .row_bytes = row_bytes};
  block.units = max_warps / block.warps;
  block.stages =
      std::clamp(bytes_under_way / (block.units * row_bytes), 2, bulk ? 8 : one_pass_copy_stages);
  while (block.units > 1 && block.shared_bytes() > max_shared_bytes) --block.units;
  if (block.shared_bytes() > max_shared_bytes) block.units = 0;
  return block;
}

/// False, and nothing is launched, if the rows do not fit. `bulk`: by bulk copies, for compute
/// capability 9.0 and later.
template <class X, class M, class Y>
bool launch_backward_one_pass(const layernorm_modulate_backward_args<X, M, Y>& args,
                              cudaStream_t stream, const device::properties& properties,
                              bool bulk) {
  constexpr int width = vector_width<X, Y>;
  const std::int64_t rows = detail::rows(args.shape), features = args.shape.features;
  const bool vectors = packs_fit<width>(args.x, features) && packs_fit<width>(args.dy, features) &&
                       packs_fit<width>(args.dx, features) && bulk_copies_fit(args.x, features) &&
                       bulk_copies_fit(args.dy, features);
  if (rows == 0 || rows >= std::int64_t{1} << 31 || !vectors) return false;
  const one_pass_block block = choose_one_pass_block(
      features, features / width, static_cast<int>(features * (sizeof(X) + sizeof(Y))), bulk,
      properties.max_shared_bytes);
  if (block.units == 0) return false;

  const row_deal deal{rows, std::min({std::int64_t{properties.multiprocessors},
                                      ceil_divide(rows, block.units), max_blocks})};
  float* const partial = static_cast<float*>(args.scratch);
  const auto run = [&](auto packs, auto warps) {
    device::launch("layernorm_modulate_backward",
                   backward_one_pass<X, M, Y, width, packs.value, warps.value>, deal.blocks,
                   dim3(static_cast<unsigned>(block.threads())), block.shared_bytes(), stream, args,
                   deal, block, partial, bulk);
  };
  if (features / width <= 32) {
    run(constant<1>{}, constant<1>{});
  } else if (features / width <= 6 * 64) {
    with_constant<6>(block.warps, [&](auto warps) { run(constant<2>{}, warps); });
  } else {
    const auto packs = ceil_divide(features / width, 32 * block.warps);
    if (packs == 4) run(constant<4>{}, constant<0>{});
    if (packs == 5) run(constant<5>{}, constant<0>{});
    if (packs > 5) run(constant<8>{}, constant<8>{});
  }

  const bool by_sample = args.shape.batch < deal.blocks;
  const std::int64_t spanning = by_sample ? args.shape.batch : deal.blocks - 1;
  const std::int64_t pieces = spanning * 2 * ceil_divide(features, 128);
  if (deal.blocks > 1) {
    device::launch_overlapping(bulk, "layernorm_modulate_backward: fold",
                               backward_fold_blocks<X, M, Y>, std::min(pieces, max_blocks),
                               dim3(128), 128 * 4 * sizeof(float), stream, args, deal, partial,
                               by_sample, pieces);
  }
  return true;
}

}  // namespace adaptiveload::detail
