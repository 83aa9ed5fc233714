#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/epoch_plan.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "random_epoch.hpp"

namespace al = adaptiveload;

namespace {

/// Every sample of every source once, as an epoch of one pass has them.
sample_counts each_sample_once(const random_epoch& drawn) {
  sample_counts once;
  for (std::size_t s = 0; s < drawn.sources.size(); ++s) {
    for (std::size_t b = 0; b < drawn.buckets.size(); ++b) {
      for (std::int64_t i = 0; i < drawn.sources[s].counts[b]; ++i) {
        once[{static_cast<std::int64_t>(s), static_cast<std::int64_t>(b), i, 0}] = 1;
      }
    }
  }
  return once;
}

std::vector<al::training_step> all_steps(const al::epoch_plan& plan) {
  std::vector<al::training_step> steps;
  plan.for_each_step(plan.start(), [&](const al::training_step& s) { steps.push_back(s); });
  return steps;
}

bool same_step(const al::training_step& a, const al::training_step& b) {
  return a.micro_batches == b.micro_batches && a.rank_begin == b.rank_begin &&
         a.samples == b.samples && a.tokens == b.tokens && a.next == b.next;
}

RC_GTEST_PROP(EpochPlan, HasEverySampleOnce, ()) {
  const random_epoch drawn = draw_epoch();
  const al::epoch_plan plan = drawn.plan();
  sample_counts seen;
  for (const al::training_step& step : all_steps(plan)) count_samples(plan, step, seen);
  RC_ASSERT(seen == each_sample_once(drawn));
}

RC_GTEST_PROP(EpochPlan, GoesThroughASourceWholeBeforeASampleComesAgain, ()) {
  const random_epoch drawn = draw_epoch({0.3, 0.5, 1, 1.7, 2});
  const std::int64_t epochs = draw(1, 4);
  sample_counts seen;
  for (std::int64_t e = 0; e < epochs; ++e) {
    RC_PRE(drawn.has_samples(e));
    const al::epoch_plan plan = drawn.plan(e);
    for (const al::training_step& step : all_steps(plan)) count_samples(plan, step, seen);
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::map<std::int64_t, std::int64_t>> passes;
  for (const auto& [sample, times] : seen) {
    RC_ASSERT(times == 1);  // in a pass
    ++passes[{sample.source, sample.bucket}][sample.pass];
  }
  for (std::size_t s = 0; s < drawn.sources.size(); ++s) {
    for (std::size_t b = 0; b < drawn.buckets.size(); ++b) {
      const std::int64_t size = drawn.sources[s].counts[b];
      const std::int64_t taken = drawn.taken_before(epochs, s, b);
      const auto& found = passes[{static_cast<std::int64_t>(s), static_cast<std::int64_t>(b)}];
      std::int64_t total = 0;
      for (const auto& [pass, samples] : found) {
        RC_ASSERT(samples == std::min(size, taken - pass * size));
        total += samples;
      }
      RC_ASSERT(total == taken);
    }
  }
}

RC_GTEST_PROP(EpochPlan, KeepsLimitsAndRanksInStep, ()) {
  const random_epoch drawn = draw_epoch({0.5, 1, 1.5});
  RC_PRE(drawn.has_samples());
  const al::epoch_plan plan = drawn.plan();
  const std::int64_t ranks = drawn.options.world_size;
  for (const al::training_step& step : all_steps(plan)) {
    RC_ASSERT(step.world_size() == ranks);
    double total_ms = 0;
    std::int64_t samples = 0, tokens = 0;
    for (const al::micro_batch& m : step.micro_batches) {
      const al::bucket& bucket = plan.buckets()[static_cast<std::size_t>(m.bucket)];
      RC_ASSERT(m.samples >= 0);
      RC_ASSERT(m.samples <= bucket.batch_size);
      // Only at the end, with fewer samples left than ranks, does a rank run none.
      const bool last = step.next.micro_batches + step.next.window == plan.micro_batches();
      RC_ASSERT(m.samples > 0 || last);
      if (m.samples > 0) total_ms += m.predicted_ms;
      samples += m.samples;
      tokens += m.samples * bucket.sequence_length;
    }
    RC_ASSERT(step.samples == samples);
    RC_ASSERT(step.tokens == tokens);
    const auto count = static_cast<std::int64_t>(step.micro_batches.size());
    for (std::int64_t r = 0; r < ranks; ++r) {
      RC_ASSERT(!step.rank(r).empty());
      if (drawn.options.ranks_wait == al::ranks_wait::every_micro_batch ||
          drawn.options.dealing == al::dealing::as_drawn) {
        RC_ASSERT(static_cast<std::int64_t>(step.rank(r).size()) * ranks == count);
      }
    }
    if (drawn.options.step_ms == 0) {
      RC_ASSERT(count <= ranks * drawn.options.micro_batches);
    } else if (drawn.options.lookahead == 1 || drawn.options.dealing == al::dealing::as_drawn) {
      const double limit = drawn.options.step_ms * static_cast<double>(ranks) * (1 + 1e-9);
      RC_ASSERT(count == ranks || total_ms <= limit);
    }
  }
}

RC_GTEST_PROP(EpochPlan, WeightsMakeTheGradientTheMean, ()) {
  random_epoch drawn = draw_epoch();
  const bool over_tokens = draw(0, 1) == 1;
  drawn.options.mean_over = over_tokens ? al::gradient_mean::tokens : al::gradient_mean::samples;
  const al::epoch_plan plan = drawn.plan();
  for (const al::training_step& step : all_steps(plan)) {
    // A micro-batch's mean, times its weight, is a sum over its samples (tokens) over the step's.
    for (const al::micro_batch& m : step.micro_batches) {
      const al::bucket& bucket = plan.buckets()[static_cast<std::size_t>(m.bucket)];
      const std::int64_t part = m.samples * (over_tokens ? bucket.sequence_length : 1);
      const std::int64_t whole = over_tokens ? step.tokens : step.samples;
      RC_ASSERT(std::abs(m.weight * static_cast<double>(whole) - static_cast<double>(part)) <
                1e-9 * static_cast<double>(whole));
    }
  }
}

RC_GTEST_PROP(EpochPlan, IsTheSameOnEveryRankAndAtAnyStep, ()) {
  const random_epoch drawn = draw_epoch({1, 1.5});
  const std::int64_t epoch = draw(0, 3);
  RC_PRE(drawn.has_samples(epoch));
  const al::epoch_plan plan = drawn.plan(epoch);
  const std::vector<al::training_step> steps = all_steps(plan);
  RC_ASSERT(static_cast<std::int64_t>(steps.size()) == plan.steps());
  const al::epoch_plan elsewhere = drawn.plan(epoch);
  for (std::size_t i = steps.size(); i-- > 0;) {
    RC_ASSERT(same_step(elsewhere.step(static_cast<std::int64_t>(i)), steps[i]));
  }
  RC_ASSERT_THROWS_AS((void)plan.step(plan.steps()), std::invalid_argument);
}

RC_GTEST_PROP(EpochPlan, ResumesAsIfItHadNotStopped, ()) {
  const random_epoch drawn = draw_epoch({1, 0.7});
  RC_PRE(drawn.has_samples());
  const al::epoch_plan plan = drawn.plan();
  const std::vector<al::training_step> steps = all_steps(plan);
  const auto stop = static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(steps.size()) - 1));
  const al::epoch_position saved = stop == 0 ? plan.start() : steps[stop - 1].next;
  const al::epoch_plan restarted = drawn.plan();
  std::size_t next = stop;
  restarted.for_each_step(saved, [&](const al::training_step& step) {
    RC_ASSERT(same_step(step, steps.at(next)));
    ++next;
  });
  RC_ASSERT(next == steps.size());
}

RC_GTEST_PROP(EpochPlan, LosesAndRepeatsNothingWhenTheRanksChange, ()) {
  random_epoch drawn = draw_epoch();
  al::epoch_position at = drawn.plan().start();
  sample_counts seen;
  for (std::int64_t steps_left = draw(1, 4);;) {
    const al::epoch_plan plan = drawn.plan();
    if (plan.finished(at)) break;
    const al::training_step step = plan.step(at);
    RC_ASSERT(step.world_size() == drawn.options.world_size);
    RC_ASSERT(step.samples > 0);
    for (std::int64_t r = 0; r < step.world_size(); ++r) {
      RC_ASSERT(!step.rank(r).empty());
      if (drawn.options.ranks_wait == al::ranks_wait::every_micro_batch) {
        RC_ASSERT(step.rank(r).size() == step.rank(0).size());
      }
    }
    count_samples(plan, step, seen);
    at = step.next;
    if (--steps_left == 0) {
      const std::int64_t same_ranks = drawn.options.world_size;
      drawn.options = draw_dealing(drawn.options);
      if (draw(0, 1) == 0) drawn.options.world_size = same_ranks;
      steps_left = draw(1, 4);
    }
  }
  RC_ASSERT(seen == each_sample_once(drawn));
}

RC_GTEST_PROP(EpochPlan, DropsOnlyWhatDoesNotFillABatchAndCountsIt, ()) {
  random_epoch drawn = draw_epoch();
  drawn.options.keep_partial = false;
  std::int64_t kept = 0, dropped = 0;
  for (std::size_t b = 0; b < drawn.buckets.size(); ++b) {
    std::int64_t samples = 0;
    for (const al::sample_source& s : drawn.sources) samples += s.counts[b];
    dropped += samples % drawn.buckets[b].batch_size;
    kept += samples - samples % drawn.buckets[b].batch_size;
  }
  RC_PRE(kept > 0);
  const al::epoch_plan plan = drawn.plan();
  RC_ASSERT(plan.samples() == kept);
  RC_ASSERT(plan.dropped_samples() == dropped);
  sample_counts seen;
  for (const al::training_step& step : all_steps(plan)) count_samples(plan, step, seen);
  RC_ASSERT(static_cast<std::int64_t>(seen.size()) == kept);
  for (const auto& [sample, times] : seen) RC_ASSERT(times == 1);
}

}  // namespace
