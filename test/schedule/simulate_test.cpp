#include <gtest/gtest.h>

#include <adaptiveload/schedule/simulate.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace al = adaptiveload;

namespace {

double cost(std::int64_t batch, std::int64_t sequence_length) {
  return 1 + static_cast<double>(batch * sequence_length);
}

const std::vector<al::bucket> buckets{
    al::plan_bucket(10, al::batch_limits{.max_tokens = 40}, cost),
    al::plan_bucket(30, al::batch_limits{.max_tokens = 40}, cost)};

TEST(Simulate, OneRankRunsTheSumOfItsMicroBatches) {
  const auto epoch = al::plan_epoch(buckets, std::vector<std::int64_t>{8, 3}, {.micro_batches = 5});
  const al::load_report report = al::simulate(epoch, cost);
  EXPECT_EQ(report.steps, 1);
  EXPECT_EQ(report.samples, 11);
  EXPECT_EQ(report.tokens, 170);
  EXPECT_EQ(report.peak_tokens, 40);
  EXPECT_DOUBLE_EQ(report.epoch_ms, 2 * 41 + 3 * 31);
  EXPECT_EQ(report.bubble, 0);
}

TEST(Simulate, AStepLastsAsLongAsItsSlowestRank) {
  const auto epoch = al::plan_epoch(buckets, std::vector<std::int64_t>{4, 1}, {.world_size = 2});
  const al::load_report report = al::simulate(epoch, cost);
  EXPECT_DOUBLE_EQ(report.epoch_ms, 41);
  EXPECT_DOUBLE_EQ(report.bubble, 1 - (41.0 + 31) / (2 * 41));
}

TEST(Simulate, WaitingAtEveryMicroBatchTakesAsLongAsTheSlowestOfEach) {
  al::epoch_options options{.world_size = 2,
                            .micro_batches = 2,
                            .ranks_wait = al::ranks_wait::every_step,
                            .dealing = al::dealing::as_drawn};
  const std::vector<std::int64_t> counts{8, 2};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    options.seed = seed;
    options.ranks_wait = al::ranks_wait::every_step;
    const double once = al::simulate(al::plan_epoch(buckets, counts, options), cost).epoch_ms;
    options.ranks_wait = al::ranks_wait::every_micro_batch;
    const double each = al::simulate(al::plan_epoch(buckets, counts, options), cost).epoch_ms;
    EXPECT_GE(each, once);
    EXPECT_TRUE(each == 41 + 31 || each == 41 + 41);
    EXPECT_TRUE(once == 41 + 31 || once == 41 + 41);
  }
}

TEST(Simulate, ARankThatRunsNoSampleStillRunsAStep) {
  const auto epoch = al::plan_epoch(buckets, std::vector<std::int64_t>{1, 0}, {.world_size = 2});
  const al::load_report report = al::simulate(epoch, cost);
  EXPECT_EQ(report.samples, 1);
  EXPECT_EQ(report.bubble, 0);
}

TEST(Simulate, ASlowRankHoldsTheOthersUp) {
  const auto epoch = al::plan_epoch(buckets, std::vector<std::int64_t>{400, 0}, {.world_size = 2});
  const double alike = al::simulate(epoch, cost).epoch_ms;
  const auto report = al::simulate(epoch, cost, {.slow_ranks = {{.rank = 1, .factor = 1.5}}});
  EXPECT_DOUBLE_EQ(report.epoch_ms, 1.5 * alike);
  EXPECT_NEAR(report.bubble, 0.5 / 3, 1e-12);
}

TEST(Simulate, NoiseKeepsTheMeanWorkAndCostsBubble) {
  const auto epoch =
      al::plan_epoch(buckets, std::vector<std::int64_t>{40'000, 0}, {.world_size = 4});
  const auto calm = al::simulate(epoch, cost);
  const auto noisy = al::simulate(epoch, cost, {.noise = 0.1, .noise_seed = 3});
  EXPECT_EQ(calm.bubble, 0);
  EXPECT_NEAR(noisy.compute_cv, 0.1 * 0.8, 0.02);  // of four values
  EXPECT_NEAR(noisy.epoch_ms * (1 - noisy.bubble), calm.epoch_ms, 0.01 * calm.epoch_ms);
  EXPECT_EQ(noisy.epoch_ms, al::simulate(epoch, cost, {.noise = 0.1, .noise_seed = 3}).epoch_ms);
}

TEST(Simulate, BadConditionsAreNamed) {
  const auto epoch = al::plan_epoch(buckets, std::vector<std::int64_t>{8, 3}, {.world_size = 2});
  const auto refuses = [&](const al::rank_conditions& conditions) {
    EXPECT_THROW((void)al::simulate(epoch, cost, conditions), std::invalid_argument);
  };
  refuses({.noise = -1});
  refuses({.noise = std::numeric_limits<double>::quiet_NaN()});
  refuses({.slow_ranks = {{.rank = 2, .factor = 2}}});
  refuses({.slow_ranks = {{.rank = 0, .factor = 0}}});
  const auto broken = [](std::int64_t, std::int64_t) { return std::nan(""); };
  EXPECT_THROW((void)al::simulate(epoch, broken), std::invalid_argument);
}

using run = std::vector<al::recorded_micro_batch>;

TEST(Replay, RunsWhatWasRunInAnyOrder) {
  const run recorded{{0, 1, 0, 1, 30}, {0, 0, 1, 2, 10}, {1, 0, 0, 1, 10},
                     {0, 1, 1, 1, 10}, {1, 1, 0, 1, 30}, {0, 0, 0, 4, 10}};
  const auto once = al::replay(recorded, al::ranks_wait::every_step, cost);
  EXPECT_EQ(once.steps, 2);
  EXPECT_EQ(once.samples, 10);
  EXPECT_EQ(once.tokens, 140);
  EXPECT_DOUBLE_EQ(once.epoch_ms, (41 + 21) + 31);
  const auto each = al::replay(recorded, al::ranks_wait::every_micro_batch, cost);
  EXPECT_DOUBLE_EQ(each.epoch_ms, 41 + 21 + 31);
}

TEST(Replay, WhatCannotHaveBeenRunIsNamed) {
  const auto refuses = [](const run& recorded, al::ranks_wait wait) {
    EXPECT_THROW((void)al::replay(recorded, wait, cost), std::invalid_argument);
  };
  using enum al::ranks_wait;
  refuses({}, every_step);
  refuses({{0, 0, 0, 1, 10}, {0, 0, 0, 1, 10}}, every_step);  // a position twice
  refuses({{0, 0, 0, 1, 10}, {0, 0, 2, 1, 10}}, every_step);  // a position missing
  refuses({{0, -1, 0, 1, 10}}, every_step);
  const run uneven{{0, 0, 0, 1, 10}, {0, 0, 1, 1, 10}, {0, 1, 0, 1, 10}};
  refuses(uneven, every_micro_batch);
  EXPECT_EQ(al::replay(uneven, every_step, cost).epoch_ms, 22);
}

}  // namespace
