#pragma once

#include <adaptiveload/schedule/bucket_plan.hpp>
#include <adaptiveload/schedule/corpus.hpp>
#include <adaptiveload/schedule/epoch_plan.hpp>
#include <adaptiveload/schedule/load_report.hpp>
#include <adaptiveload/schedule/simulate.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload::detail {

/// Simulates plans on one corpus, so that they can be compared: several epochs of a small corpus,
/// to average its chances out, and a scaled-down copy of a large one.
class rehearsal {
 public:
  /// `full_buckets` is the plan with the fewest micro-batches; about `micro_batches` of it, or of
  /// 100 epochs if that is less, are simulated.
  rehearsal(std::span<const bucket> full_buckets, std::span<const sample_source> sources,
            const epoch_options& options, double micro_batches)
      : sources_(sources.begin(), sources.end()) {
    const epoch_plan epoch = plan_epoch(full_buckets, sources, options);
    const auto size = static_cast<double>(epoch.micro_batches());
    const auto window =
        static_cast<double>(options.world_size * options.micro_batches * options.lookahead);
    const double wanted =
        std::max({micro_batches, 8 * window, 64 * static_cast<double>(full_buckets.size())});
    epochs_ = static_cast<std::int64_t>(std::ceil(std::min(wanted / size, 100.0)));
    samples_ = static_cast<double>(epoch.samples() + epoch.dropped_samples());
    if (size <= 2 * wanted) return;
    for (sample_source& source : sources_) {
      for (std::int64_t& count : source.counts) {
        count = static_cast<std::int64_t>(std::ceil(static_cast<double>(count) * wanted / size));
      }
    }
  }

  /// What an average epoch of the whole corpus is expected to be like.
  template <step_cost Cost>
  [[nodiscard]] load_report run(std::span<const bucket> buckets, const Cost& cost,
                                const epoch_options& options) const {
    load_recorder recorder(options.world_size);
    double simulated = 0;
    for (std::int64_t e = 0; e < epochs_; ++e) {
      const epoch_plan epoch = plan_epoch(buckets, sources_, options, e);
      simulated += static_cast<double>(epoch.samples() + epoch.dropped_samples());
      simulate_into(recorder, epoch, cost, {});
    }
    load_report report = recorder.report();
    const double scale = samples_ / simulated;
    for (std::int64_t* total : {&report.steps, &report.samples, &report.tokens}) {
      *total = std::llround(static_cast<double>(*total) * scale);
    }
    report.epoch_ms *= scale;
    return report;
  }

 private:
  std::vector<sample_source> sources_;
  std::int64_t epochs_ = 1;
  double samples_ = 0;  // of a whole epoch of the corpus
};

}  // namespace adaptiveload::detail
