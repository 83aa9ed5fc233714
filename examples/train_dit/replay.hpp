#pragma once

#include <adaptiveload/schedule.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "data.hpp"
#include "flow_matching.hpp"
#include "model.hpp"
#include "optimizer.hpp"

namespace train_dit {

/// How many milliseconds `work` takes.
template <class Work>
double milliseconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// A micro-batch that was run for a rank.
struct micro_batch_run {
  std::int64_t rank, batch_size, sequence_length;
  double ms;
};

/// A step of all ranks.
struct step_run {
  std::vector<micro_batch_run> micro_batches;
  std::vector<double> rank_ms;  ///< of each rank: its micro-batches and the optimizer
  double loss = 0;              ///< mean over the step's samples
  std::int64_t samples = 0, tokens = 0;

  [[nodiscard]] double ms() const { return *std::max_element(rank_ms.begin(), rank_ms.end()); }
};

/// Training under one plan, with data-parallel ranks replayed one after the other on this machine.
///
/// Every micro-batch is really run, and timed while nothing else of the program runs; a step takes
/// as long as its slowest rank. What a cluster would add for communication is left out. Gradients
/// of all ranks add up, each micro-batch weighted by its share of the step's samples, so that an
/// optimizer step follows the mean over the samples.
class replay {
 public:
  replay(adaptiveload::epoch_plan epoch, const dit<float>& model, std::uint64_t seed)
      : epoch_(std::move(epoch)),
        position_(epoch_.start()),
        model_(model),
        optimizer_(model_.parameters()),
        seed_(seed) {}
  replay(const replay&) = delete;  // the optimizer points into the model
  replay& operator=(const replay&) = delete;

  [[nodiscard]] bool finished() const { return epoch_.finished(position_); }
  [[nodiscard]] std::int64_t samples() const { return samples_; }
  [[nodiscard]] const adaptiveload::epoch_plan& epoch() const { return epoch_; }
  [[nodiscard]] dit<float>& model() { return model_; }

  /// Runs the next step.
  step_run step() {
    const adaptiveload::training_step plan = epoch_.step(position_);
    const std::int64_t ranks = epoch_.options().world_size;
    step_run run;
    run.rank_ms.resize(static_cast<std::size_t>(ranks));
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      for (const adaptiveload::micro_batch& m : plan.rank(rank)) {
        if (m.samples == 0) continue;
        const flow_batch<float> batch = samples_of(m);
        double loss = 0;
        const double ms = milliseconds([&] { loss = flow_gradient(model_, batch, m.weight); });
        run.micro_batches.push_back({rank, m.samples, batch.grid.tokens(), ms});
        run.rank_ms[static_cast<std::size_t>(rank)] += ms;
        run.loss += m.weight * loss;
      }
    }
    run.samples = plan.samples;
    run.tokens = plan.tokens;
    samples_ += plan.samples;
    const double optimizer_ms = milliseconds([&] { optimizer_.step(learning_rate()); });
    for (double& ms : run.rank_ms) ms += optimizer_ms;
    position_ = plan.next;
    return run;
  }

 private:
  [[nodiscard]] flow_batch<float> samples_of(const adaptiveload::micro_batch& m) const {
    std::vector<sample_id> ids;
    for (std::int64_t i = 0; i < m.samples; ++i) {
      ids.push_back({seed_, data_part::training, static_cast<std::size_t>(m.bucket),
                     epoch_.sample(m, i).index});
    }
    return make_batch<float>(ids);
  }

  /// Rises over the first twentieth of the samples, then falls by a cosine.
  [[nodiscard]] double learning_rate() const {
    constexpr double highest = 3e-3, lowest = 1e-4;
    const double done = static_cast<double>(samples_) / static_cast<double>(epoch_.samples());
    const double cosine = (1 + std::cos(std::numbers::pi * done)) / 2;
    return std::min(1.0, 20 * done) * (lowest + (highest - lowest) * cosine);
  }

  adaptiveload::epoch_plan epoch_;
  adaptiveload::epoch_position position_;
  dit<float> model_;
  adamw<float> optimizer_;
  std::uint64_t seed_;
  std::int64_t samples_ = 0;
};

}  // namespace train_dit
