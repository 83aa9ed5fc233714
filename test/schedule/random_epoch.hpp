#pragma once

#include <rapidcheck.h>

#include <adaptiveload/schedule/epoch_plan.hpp>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

/// Cases of each property: with eight of them, 100,000 in all. RC_PARAMS says otherwise.
inline const bool cases_are_set =
#if defined(__SANITIZE_ADDRESS__)
    setenv("RC_PARAMS", "max_success=1000", 0) == 0;
#else
    setenv("RC_PARAMS", "max_success=12500", 0) == 0;
#endif

/// A small corpus, its buckets, and how its epochs are dealt.
struct random_epoch {
  std::vector<adaptiveload::bucket> buckets;
  std::vector<adaptiveload::sample_source> sources;
  adaptiveload::epoch_options options;

  [[nodiscard]] adaptiveload::epoch_plan plan(std::int64_t epoch = 0) const {
    return adaptiveload::plan_epoch(buckets, sources, options, epoch);
  }
  /// Samples of a source's part of a bucket that are taken before an epoch.
  [[nodiscard]] std::int64_t taken_before(std::int64_t epoch, std::size_t source,
                                          std::size_t bucket) const {
    return static_cast<std::int64_t>(static_cast<double>(sources[source].counts[bucket]) *
                                     sources[source].passes * static_cast<double>(epoch));
  }
  /// Whether an epoch, of fractions of sources, has any; `plan` throws otherwise.
  [[nodiscard]] bool has_samples(std::int64_t epoch = 0) const {
    for (std::size_t s = 0; s < sources.size(); ++s) {
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        if (taken_before(epoch + 1, s, b) > taken_before(epoch, s, b)) return true;
      }
    }
    return false;
  }
};

inline std::int64_t draw(std::int64_t least, std::int64_t most) {
  return *rc::gen::inRange<std::int64_t>(least, most + 1);
}

/// Ways to deal that differ in all that may change while an epoch is under way.
inline adaptiveload::epoch_options draw_dealing(adaptiveload::epoch_options options) {
  using adaptiveload::ranks_wait;
  options.world_size = draw(1, 6);
  options.micro_batches = draw(1, 3);
  options.lookahead = draw(0, 1) == 0 ? 1 : draw(2, 4);
  options.ranks_wait = draw(0, 1) == 0 ? ranks_wait::every_step : ranks_wait::every_micro_batch;
  options.step_ms = draw(0, 3) == 0 ? static_cast<double>(draw(1, 300)) : 0;
  return options;
}

/// `passes`: how often an epoch may go through a source.
inline random_epoch draw_epoch(const std::vector<double>& passes = {1}) {
  random_epoch drawn;
  const std::int64_t buckets = draw(1, 4);
  const std::int64_t sources = draw(1, 2);
  for (std::int64_t b = 0; b < buckets; ++b) {
    const double single_ms = static_cast<double>(draw(1, 40));
    const std::int64_t batch_size = draw(1, 6);
    drawn.buckets.push_back({.sequence_length = draw(1, 100),
                             .batch_size = batch_size,
                             .step_ms = single_ms * static_cast<double>(batch_size),
                             .single_ms = single_ms});
  }
  std::int64_t samples = 0;
  for (std::int64_t s = 0; s < sources; ++s) {
    adaptiveload::sample_source source;
    source.passes =
        passes[static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(passes.size()) - 1))];
    for (std::int64_t b = 0; b < buckets; ++b) {
      source.counts.push_back(draw(0, 25));
      samples += source.counts.back();
    }
    drawn.sources.push_back(source);
  }
  if (samples == 0) drawn.sources[0].counts[0] = 1;
  using adaptiveload::dealing;
  drawn.options =
      draw_dealing({.seed = static_cast<std::uint64_t>(draw(0, 1000)),
                    .dealing = draw(0, 3) == 0 ? dealing::as_drawn : dealing::balanced});
  return drawn;
}

using sample_counts = std::map<adaptiveload::sample_ref, int>;

/// Counts the samples of a step.
inline void count_samples(const adaptiveload::epoch_plan& plan,
                          const adaptiveload::training_step& step, sample_counts& seen) {
  for (const adaptiveload::micro_batch& m : step.micro_batches) {
    for (std::int64_t i = 0; i < m.samples; ++i) ++seen[plan.sample(m, i)];
  }
}
