#pragma once

#include <adaptiveload/schedule.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "plan_json.hpp"

namespace adaptiveload::cli {

/// The first steps of an epoch on predicted times, until `span_ms` are over or the epoch is: when
/// each step ends, and the micro-batches of the first 16 ranks. For pictures.
inline nlohmann::ordered_json first_steps(const epoch_plan& epoch, double span_ms) {
  constexpr std::int64_t most_ranks = 16;
  const std::int64_t ranks = epoch.options().world_size;
  const bool every_round = epoch.options().ranks_wait == ranks_wait::every_micro_batch;
  auto steps = nlohmann::ordered_json::array();
  double now = 0;
  for (epoch_position at = epoch.start(); now < span_ms && !epoch.finished(at);) {
    const training_step step = epoch.step(at);
    std::vector<double> ready(static_cast<std::size_t>(ranks), now);
    auto drawn = nlohmann::ordered_json::array();
    for (std::size_t round = 0, running = 1; running > 0; ++round) {
      running = 0;
      for (std::int64_t r = 0; r < ranks; ++r) {
        if (round >= step.rank(r).size()) continue;
        ++running;
        const micro_batch& m = step.rank(r)[round];
        double& begin = ready[static_cast<std::size_t>(r)];
        if (r < most_ranks) {
          drawn.push_back({{"rank", r},
                           {"bucket", m.bucket},
                           {"samples", m.samples},
                           {"begin_ms", begin},
                           {"ms", m.predicted_ms}});
        }
        begin += m.predicted_ms;
      }
      now = *std::max_element(ready.begin(), ready.end());
      if (every_round) std::fill(ready.begin(), ready.end(), now);
    }
    steps.push_back({{"end_ms", now}, {"samples", step.samples}, {"micro_batches", drawn}});
    at = step.next;
  }
  return steps;
}

}  // namespace adaptiveload::cli
