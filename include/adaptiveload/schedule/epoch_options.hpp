#pragma once

#include <adaptiveload/schedule/deal.hpp>
#include <adaptiveload/support/error.hpp>
#include <cmath>
#include <cstdint>

namespace adaptiveload {

/// What a step's gradient is the mean over.
enum class gradient_mean { samples, tokens };

/// How an epoch is cut into steps and dealt to ranks.
struct epoch_options {
  std::int64_t world_size = 1;     ///< ranks that see different samples
  std::int64_t micro_batches = 1;  ///< of each rank in a step, on average under `every_step`
  std::uint64_t seed = 0;
  adaptiveload::ranks_wait ranks_wait = adaptiveload::ranks_wait::every_step;
  /// Steps that are drawn together, grouped by cost and run in random order; 1: each step is drawn
  /// by itself.
  std::int64_t lookahead = 1;
  /// Above 0, it replaces `micro_batches`: each step has as many as take the ranks at most so
  /// long on average, and at least one each.
  double step_ms = 0;
  gradient_mean mean_over = gradient_mean::samples;
  /// Whether an epoch has the micro-batches that its samples do not fill. False drops their
  /// samples, other ones in each epoch: `epoch_plan::dropped_samples` counts them.
  bool keep_partial = true;
  adaptiveload::dealing dealing = adaptiveload::dealing::balanced;
};

namespace detail {

/// Throws `std::invalid_argument` naming the first option that is out of range.
inline const epoch_options& checked(const epoch_options& o) {
  constexpr std::int64_t most = 1 << 20;
  const auto check = [](const char* name, std::int64_t value) {
    require(value >= 1 && value <= most, name, value, "1 to 2^20");
  };
  check("world_size", o.world_size);
  check("micro_batches", o.micro_batches);
  check("lookahead", o.lookahead);
  require(o.world_size * o.micro_batches <= (1 << 30) / o.lookahead,
          "world_size * micro_batches * lookahead", o.world_size * o.micro_batches * o.lookahead,
          "at most 2^30");
  require(o.step_ms >= 0 && std::isfinite(o.step_ms), "step_ms", o.step_ms,
          "finite and at least 0");
  return o;
}

}  // namespace detail
}  // namespace adaptiveload
