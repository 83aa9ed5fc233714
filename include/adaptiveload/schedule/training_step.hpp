#pragma once

#include <adaptiveload/schedule/deal.hpp>
#include <cstdint>
#include <span>
#include <vector>

namespace adaptiveload {

/// Samples of one bucket that a rank runs at once.
struct micro_batch {
  std::int64_t bucket = 0;
  std::int64_t first = 0;  ///< in the order of the bucket's samples in this epoch
  /// At most the bucket's batch size. 0 only at an epoch's end with fewer samples left than ranks:
  /// the rank takes part in the collectives with any sample of the bucket, at weight 0.
  std::int64_t samples = 0;
  double predicted_ms = 0;
  /// What to multiply the micro-batch's mean loss (over samples or tokens) with, so that gradients
  /// summed over micro-batches and ranks are the mean over the step. Where gradients are averaged
  /// over ranks, multiply by the world size as well.
  double weight = 0;

  friend constexpr bool operator==(const micro_batch&, const micro_batch&) = default;
};

/// Where a run stands in an epoch: all that a resume needs.
///
/// Plain integers, to be stored as they are. It holds for any world size, numbers of micro-batches,
/// look-ahead and place to wait; anything else that decides the order of samples is in the
/// fingerprint, and `epoch_plan::step` throws where that differs.
struct epoch_position {
  std::uint64_t fingerprint = 0;
  std::int64_t epoch = 0;
  std::int64_t micro_batches = 0;  ///< of the epoch's order, done before the current window
  // Of a look-ahead window under way; all 0 between windows.
  std::int64_t window = 0;        ///< its micro-batches
  std::int64_t window_steps = 0;  ///< its steps
  std::int64_t steps_done = 0;
  std::int64_t world_size = 0;                               ///< that dealt it
  ranks_wait waited = adaptiveload::ranks_wait::every_step;  ///< as it was dealt
  std::int64_t redealt = 0;  ///< micro-batches done since by runs that continue it otherwise

  friend constexpr bool operator==(const epoch_position&, const epoch_position&) = default;
};

/// One optimizer step of all ranks.
struct training_step {
  std::vector<micro_batch> micro_batches;  ///< rank by rank, in the order that each runs them
  std::vector<std::int32_t> rank_begin;    ///< where each rank's begin; one more at the end
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  epoch_position next;  ///< where the run stands after the step

  [[nodiscard]] std::int64_t world_size() const {
    return static_cast<std::int64_t>(rank_begin.size()) - 1;
  }
  [[nodiscard]] std::span<const micro_batch> rank(std::int64_t r) const {
    return detail::part_of_rank(micro_batches, rank_begin, r);
  }
};

}  // namespace adaptiveload
