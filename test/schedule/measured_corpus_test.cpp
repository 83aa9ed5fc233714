// What the scheduler reaches on measured steps and recorded runs.
#include "measured_corpus.hpp"

#include <gtest/gtest.h>

#include <adaptiveload/schedule.hpp>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace al = adaptiveload;
using enum al::ranks_wait;

namespace {

constexpr double no_bound = 1;

const measured_corpus& corpus() {
  static const measured_corpus once;
  return once;
}

struct goal {
  std::int64_t max_tokens, micro_batches, lookahead;
  al::ranks_wait wait;
  double bubble, compute_cv;
  double speedup_of_8, speedup_of_16;
};

void reaches(const goal& g) {
  for (const auto& [ranks, speedup] : {std::pair{8, g.speedup_of_8}, {16, g.speedup_of_16}}) {
    const auto plans = corpus().compare(g.max_tokens, {.world_size = ranks,
                                                       .micro_batches = g.micro_batches,
                                                       .seed = 1,
                                                       .ranks_wait = g.wait,
                                                       .lookahead = g.lookahead});
    const al::bucket_plan& equal_time = plans.back();
    EXPECT_GE(equal_time.speedup, speedup) << ranks << " ranks";
    EXPECT_LE(equal_time.expected.bubble, g.bubble) << ranks << " ranks";
    EXPECT_LE(equal_time.expected.compute_cv, g.compute_cv) << ranks << " ranks";
    EXPECT_GE(equal_time.speedup, plans[2].speedup) << "the published rule, its best M_comp";
    for (const al::bucket_plan& plan : plans) EXPECT_EQ(plan.expected.samples, 60'000);
  }
}

TEST(MeasuredCorpus, OneMicroBatchAStep) {
  reaches({302'400, 1, 1, every_step, no_bound, 0.05, 1.55, 1.75});
}

TEST(MeasuredCorpus, FourMicroBatchesWaitingAtEveryStep) {
  reaches({302'400, 4, 1, every_step, 0.015, 0.01, 1.29, 1.38});
}

TEST(MeasuredCorpus, FourMicroBatchesWaitingAtEach) {
  reaches({302'400, 4, 1, every_micro_batch, 0.022, no_bound, 1.63, 1.84});
}

TEST(MeasuredCorpus, FourMicroBatchesWaitingAtEachWhateverTheSeed) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (const auto& [ranks, speedup] : {std::pair{8, 1.63}, {16, 1.84}}) {
      const auto plan = al::plan_buckets(corpus().lengths, corpus().sources, corpus().cost,
                                         {.max_tokens = 302'400,
                                          .epoch = {.world_size = ranks,
                                                    .micro_batches = 4,
                                                    .seed = seed,
                                                    .ranks_wait = every_micro_batch}});
      EXPECT_GE(plan.speedup, speedup) << ranks << " ranks, seed " << seed;
      EXPECT_LE(plan.expected.bubble, 0.022) << ranks << " ranks, seed " << seed;
    }
  }
}

TEST(MeasuredCorpus, TightMemoryWaitingAtEveryStep) {
  reaches({75'600, 4, 1, every_step, no_bound, no_bound, 1.22, 1.28});
}

TEST(MeasuredCorpus, TightMemoryLookingAheadEightSteps) {
  reaches({75'600, 1, 8, every_micro_batch, no_bound, no_bound, 1.5, 1.75});
}

TEST(MeasuredCorpus, TightMemoryWaitingAtEachOfEightMicroBatches) {
  reaches({75'600, 8, 1, every_micro_batch, no_bound, no_bound, 1.5, 1.75});
}

TEST(RecordedRuns, AreReplayedWithinThreePercent) {
  const std::string run = ADAPTIVELOAD_DATA "/fsdp2_2xh200_";
  const auto cost = al::fit_cost_model(al::read_measurements(run + "shapes.csv"));
  const auto plans = al::read_recorded_plans(run + "plans.csv");
  const auto runs = al::read_recorded_runs(run + "runs.csv");
  ASSERT_EQ(runs.size(), 6u);
  for (const al::recorded_run& recorded : runs) {
    const auto report = al::replay(plans.at(recorded.name), recorded.ranks_wait, cost);
    EXPECT_NEAR(report.epoch_ms / recorded.epoch_ms, 1, 0.03) << recorded.name;
  }
}

TEST(MeasuredCorpus, ItsPlanIsKnownAtCompileTime) {
  constexpr std::array lengths{al::wan21.tokens({.frames = 1, .height = 512, .width = 512}),
                               al::wan21.tokens({.frames = 81, .height = 480, .width = 832}),
                               al::wan21.tokens({.frames = 81, .height = 720, .width = 1280})};
  constexpr auto cost = [](std::int64_t batch, std::int64_t s) -> double {
    const auto b = static_cast<double>(batch);
    const auto length = static_cast<double>(s);
    const double ms = 26 + b * (0.7 + length * (0.0262 + 1.49e-6 * length));
    return ms < 196 ? 196 : ms;
  };
  constexpr auto plan =
      al::plan_buckets(lengths, al::equal_time_limits{302'400, cost(1, lengths[2])}, cost);
  static_assert(plan[0].batch_size == 295 && plan[0].bound == al::batch_bound::memory);
  static_assert(plan[1].batch_size == 4 && plan[1].bound == al::batch_bound::compute);
  static_assert(plan[2].batch_size == 1 && plan[2].step_ms == cost(1, 75'600));
  EXPECT_EQ(plan[1].step_ms, cost(4, 32'760));
}

}  // namespace
