#pragma once

#include <adaptiveload/schedule/cost_fit.hpp>
#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/strategy.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

/// 60,000 samples of the mix in data/, and the cost that was fitted to measured steps.
struct measured_corpus {
  adaptiveload::cost_model cost = adaptiveload::fit_cost_model(adaptiveload::read_measurements(
      std::string(ADAPTIVELOAD_DATA "/wan2.1_1.3b_h200_steps.csv")));
  std::vector<std::int64_t> lengths;
  std::vector<adaptiveload::sample_source> sources{{}};

  measured_corpus() {
    const std::string mix = ADAPTIVELOAD_DATA "/wan_mix.csv";
    for (const auto& [shape, weight] : adaptiveload::read_shapes(mix)) {
      lengths.push_back(adaptiveload::wan21.tokens(shape));
      sources[0].counts.push_back(std::llround(60'000 * weight));
    }
  }

  /// Equal tokens as drawn, equal tokens, dual constraint, equal time.
  [[nodiscard]] std::vector<adaptiveload::bucket_plan> compare(
      std::int64_t max_tokens, const adaptiveload::epoch_options& epoch) const {
    return adaptiveload::compare_strategies(lengths, sources, cost,
                                            {.max_tokens = max_tokens, .epoch = epoch});
  }
};
