#pragma once

#include <adaptiveload/schedule/bucket_plan.hpp>
#include <adaptiveload/schedule/corpus.hpp>
#include <adaptiveload/schedule/deal.hpp>
#include <adaptiveload/schedule/epoch_options.hpp>
#include <adaptiveload/schedule/epoch_order.hpp>
#include <adaptiveload/schedule/training_step.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload {

/// An epoch as a function: any step of any rank, computed from the plan, the seed and the step's
/// position, the same on every rank. Holds a few words a bucket and nothing a sample.
///
/// The epoch's micro-batches come in a random order that does not depend on the world size; steps
/// take the next of that order and deal them. Where they are dealt by cost, quick and slow ones are
/// evenly spread in it: any sample may come at any place, but a step of a hundred micro-batches has
/// of every bucket about its share, and ranks wait less than after a uniform draw. At the epoch's
/// end, where a step has too few for all ranks, its longest are halved until each rank has one.
class epoch_plan {
 public:
  /// Use `plan_epoch`.
  epoch_plan(std::span<const bucket> buckets, std::span<const sample_source> sources,
             const epoch_options& options, std::int64_t epoch)
      : options_(detail::checked(options)),
        order_(buckets, sources, options.seed, epoch, options.keep_partial,
               options.dealing == dealing::balanced ? detail::drawing::evenly_spread
                                                    : detail::drawing::uniform),
        start_{.fingerprint = order_.fingerprint(), .epoch = epoch} {}

  [[nodiscard]] const std::vector<bucket>& buckets() const { return order_.buckets(); }
  [[nodiscard]] const epoch_options& options() const { return options_; }
  [[nodiscard]] std::int64_t samples() const { return order_.samples_kept(); }
  [[nodiscard]] std::int64_t dropped_samples() const { return order_.samples_dropped(); }
  [[nodiscard]] std::int64_t micro_batches() const { return order_.size(); }

  /// The epoch's beginning.
  [[nodiscard]] const epoch_position& start() const { return start_; }
  [[nodiscard]] bool finished(const epoch_position& at) const {
    return at.micro_batches >= micro_batches();
  }

  /// Steps of the whole epoch. With `step_ms` it is counted window by window.
  [[nodiscard]] std::int64_t steps() const {
    std::int64_t steps = 0;
    std::int64_t first = 0;
    if (options_.step_ms <= 0) {
      steps = micro_batches() / fixed_window() * lookahead();
      first = micro_batches() / fixed_window() * fixed_window();
    }
    while (first < micro_batches()) {
      const extent window = window_at(first);
      first += window.micro_batches;
      steps += window.steps;
    }
    return steps;
  }

  /// Where the `index`-th step begins. With `step_ms` it is found window by window.
  [[nodiscard]] epoch_position position(std::int64_t index) const {
    detail::require(index >= 0, "index", index, "0 to the epoch's steps - 1");
    epoch_position at = start_;
    std::int64_t left = index;
    if (options_.step_ms <= 0) {
      detail::require(index < steps(), "index", index, "0 to the epoch's steps - 1");
      at.micro_batches = index / lookahead() * fixed_window();
      left = index % lookahead();
    }
    for (;;) {
      detail::require(!finished(at), "index", index, "0 to the epoch's steps - 1");
      const extent window = window_at(at.micro_batches);
      if (left < window.steps) return left == 0 ? at : inside(at, window, left);
      left -= window.steps;
      at.micro_batches += window.micro_batches;
    }
  }

  /// The `index`-th step.
  [[nodiscard]] training_step step(std::int64_t index) const { return step(position(index)); }

  /// The step at a position, which a run with other ranks may have reached.
  ///
  /// Where that run was within a look-ahead window, what is left of it is dealt anew first. Throws
  /// `std::invalid_argument` if the position is of another epoch, plan, corpus or seed.
  [[nodiscard]] training_step step(const epoch_position& at) const {
    check(at);
    if (at.window > 0 && !dealt_here(at)) return redeal(at);
    const window_deal window = deal_window(at);
    return make_step(window, at.steps_done, after(at, window.size));
  }

  /// Calls `visit(const training_step&)` for each step from a position to the epoch's end: as
  /// `step` does, but a look-ahead window is dealt once.
  template <class Visit>
  void for_each_step(epoch_position at, Visit visit) const {
    while (!finished(at)) {
      check(at);
      if (at.window > 0 && !dealt_here(at)) {
        const training_step step = redeal(at);
        visit(step);
        at = step.next;
        continue;
      }
      const window_deal window = deal_window(at);
      for (std::int64_t left = window.size.steps - at.steps_done; left > 0; --left) {
        const training_step step = make_step(window, at.steps_done, after(at, window.size));
        visit(step);
        at = step.next;
      }
    }
  }

  /// The bucket that a micro-batch of this epoch is of.
  [[nodiscard]] const bucket& bucket_of(const micro_batch& batch) const {
    return order_.bucket_of(batch);
  }

  /// The `i`-th sample of a micro-batch.
  [[nodiscard]] sample_ref sample(const micro_batch& batch, std::int64_t i) const {
    detail::require(i >= 0 && i < batch.samples, "i", i, "0 to the micro-batch's samples - 1");
    return order_.sample(batch, i);
  }

 private:
  struct extent {
    std::int64_t micro_batches, steps;
  };
  struct window_deal {
    extent size;
    std::vector<micro_batch> items;
    detail::dealt_window dealt;
  };

  static constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

  [[nodiscard]] std::int64_t lookahead() const {
    return options_.dealing == dealing::balanced ? options_.lookahead : 1;
  }
  [[nodiscard]] std::int64_t fixed_window() const {
    return options_.world_size * options_.micro_batches * lookahead();
  }

  void check(const epoch_position& at) const {
    detail::require(at.fingerprint == start_.fingerprint && at.epoch == start_.epoch,
                    "position's fingerprint", at.fingerprint,
                    "the one of this epoch's plan, samples, dealing and seed");
    const bool begun = at.micro_batches >= 0 && !finished(at);
    const bool between = at.window == 0 && at.steps_done == 0 && at.redealt == 0;
    const bool within = begun && at.window >= 1 &&
                        at.window <= micro_batches() - at.micro_batches && at.world_size >= 1 &&
                        at.world_size <= at.window && at.steps_done >= 1 &&
                        at.steps_done < at.window_steps && at.redealt >= 0 &&
                        at.window_steps <= ceiling(at.window, at.world_size);
    detail::require(begun && (between || within), "position", at.micro_batches,
                    "one that this epoch gave, before its end");
  }

  /// How many of `available` micro-batches fill `steps`, round by round of the ranks.
  template <class PredictedMs>
  [[nodiscard]] std::int64_t filling(std::int64_t available, std::int64_t steps,
                                     const PredictedMs& ms_of) const {
    const std::int64_t ranks = options_.world_size;
    if (options_.step_ms <= 0) return std::min(available, steps * options_.micro_batches * ranks);
    double left_ms = options_.step_ms * static_cast<double>(steps * ranks);
    std::int64_t taken = 0;
    while (taken < available) {
      const std::int64_t round = std::min(ranks, available - taken);
      for (std::int64_t i = taken; i < taken + round; ++i) left_ms -= ms_of(i);
      if (left_ms < 0 && taken >= steps * ranks) break;
      taken += round;
    }
    return taken;
  }

  /// The window that begins at `first`.
  [[nodiscard]] extent window_at(std::int64_t first) const {
    const std::int64_t count = filling(micro_batches() - first, lookahead(), [&](std::int64_t i) {
      return order_[first + i].predicted_ms;
    });
    const std::int64_t rounds = ceiling(count, options_.world_size);
    if (options_.step_ms > 0) return {count, std::min(rounds, lookahead())};
    return {count, ceiling(rounds, options_.micro_batches)};
  }

  [[nodiscard]] epoch_position inside(epoch_position at, extent window, std::int64_t steps) const {
    at.window = window.micro_batches;
    at.window_steps = window.steps;
    at.steps_done = steps;
    at.world_size = options_.world_size;
    at.waited = options_.ranks_wait;
    return at;
  }

  [[nodiscard]] epoch_position after(const epoch_position& at, extent window) const {
    if (at.steps_done + 1 < window.steps) return inside(at, window, at.steps_done + 1);
    epoch_position next = start_;
    next.micro_batches = at.micro_batches + window.micro_batches;
    return next;
  }

  [[nodiscard]] bool dealt_here(const epoch_position& at) const {
    return at.world_size == options_.world_size && at.waited == options_.ranks_wait &&
           options_.dealing == dealing::balanced && at.redealt == 0;
  }

  [[nodiscard]] std::uint64_t window_key(std::int64_t first) const {
    return detail::mix(order_.key(), static_cast<std::uint64_t>(first) + 1);
  }

  [[nodiscard]] window_deal deal_items(std::vector<micro_batch> items, extent size,
                                       std::uint64_t key, detail::deal_options how) const {
    order_.fill_rounds(items, how.world_size, how.dealing == dealing::balanced);
    std::vector<double> costs(items.size());
    std::transform(items.begin(), items.end(), costs.begin(),
                   [](const micro_batch& m) { return m.predicted_ms; });
    return {size, std::move(items), {std::move(costs), size.steps, key, how}};
  }

  /// The window that a position is in, as these options or, within a window, its own deal it.
  [[nodiscard]] window_deal deal_window(const epoch_position& at) const {
    detail::deal_options how{options_.world_size, options_.ranks_wait, options_.dealing};
    extent size{at.window, at.window_steps};
    if (at.window == 0) {
      size = window_at(at.micro_batches);
    } else {
      how = {at.world_size, at.waited, dealing::balanced};
    }
    return deal_items(order_.slice(at.micro_batches, size.micro_batches), size,
                      window_key(at.micro_batches), how);
  }

  [[nodiscard]] training_step make_step(const window_deal& window, std::int64_t index,
                                        const epoch_position& next) const {
    detail::dealt_step dealt = window.dealt.step(index);
    training_step step{{}, std::move(dealt.rank_begin), 0, 0, next};
    step.micro_batches.reserve(dealt.items.size());
    for (const std::int32_t i : dealt.items) {
      const micro_batch& m = window.items[static_cast<std::size_t>(i)];
      step.micro_batches.push_back(m);
      step.samples += m.samples;
      step.tokens += m.samples * order_.bucket_of(m).sequence_length;
    }
    const bool tokens = options_.mean_over == gradient_mean::tokens;
    const auto whole = static_cast<double>(tokens ? step.tokens : step.samples);
    for (micro_batch& m : step.micro_batches) {
      const std::int64_t each = tokens ? order_.bucket_of(m).sequence_length : 1;
      m.weight = static_cast<double>(m.samples * each) / whole;
    }
    return step;
  }

  /// A step from what is left of a window that was dealt to other ranks, or in another way.
  [[nodiscard]] training_step redeal(const epoch_position& at) const {
    const window_deal window = deal_window(at);
    std::vector<micro_batch> left;
    for (std::int64_t s = at.steps_done; s < at.window_steps; ++s) {
      for (const std::int32_t i : window.dealt.step(s).items) {
        const micro_batch& m = window.items[static_cast<std::size_t>(i)];
        if (m.samples > 0) left.push_back(m);
      }
    }
    const auto total = static_cast<std::int64_t>(left.size());
    detail::require(at.redealt < total, "position", at.redealt, "one that this epoch gave");
    left.erase(left.begin(), left.begin() + at.redealt);
    const std::int64_t count = filling(total - at.redealt, 1, [&left](std::int64_t i) {
      return left[static_cast<std::size_t>(i)].predicted_ms;
    });
    left.resize(static_cast<std::size_t>(count));

    epoch_position next = at;
    next.redealt += count;
    if (next.redealt == total) {
      next = start_;
      next.micro_batches = at.micro_batches + at.window;
    }
    const window_deal step =
        deal_items(std::move(left), {count, 1}, window_key(at.micro_batches + at.redealt),
                   {options_.world_size, options_.ranks_wait, options_.dealing});
    return make_step(step, 0, next);
  }

  epoch_options options_;
  detail::epoch_order order_;
  epoch_position start_;
};

/// One epoch over several sources of samples.
///
/// Throws `std::invalid_argument` on options out of range, on counts that do not match the buckets,
/// and where the epoch has no sample at all.
[[nodiscard]] inline epoch_plan plan_epoch(std::span<const bucket> buckets,
                                           std::span<const sample_source> sources,
                                           const epoch_options& options, std::int64_t epoch = 0) {
  return {buckets, sources, options, epoch};
}

/// One epoch over one source: `counts` samples in each bucket.
[[nodiscard]] inline epoch_plan plan_epoch(std::span<const bucket> buckets,
                                           std::span<const std::int64_t> counts,
                                           const epoch_options& options, std::int64_t epoch = 0) {
  const sample_source source{{counts.begin(), counts.end()}};
  return {buckets, std::span(&source, 1), options, epoch};
}

}  // namespace adaptiveload
