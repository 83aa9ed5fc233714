#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/strategy.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace al = adaptiveload;

namespace {

const std::vector<std::int64_t> lengths{1024, 1560, 7800, 14040, 32760, 75600};
const std::vector<al::sample_source> corpus{{{2200, 800, 1400, 1400, 1200, 200}}};

double attention(std::int64_t batch, std::int64_t s) {
  const auto b = static_cast<double>(batch);
  const auto length = static_cast<double>(s);
  return std::max(190.0, 30 + b * (0.026 * length + 1.5e-6 * length * length));
}

double linear(std::int64_t batch, std::int64_t s) {
  return 30 + 0.026 * static_cast<double>(batch * s);
}

al::plan_options options(al::strategy by) {
  return {.strategy = by,
          .max_tokens = 151'200,
          .epoch = {.world_size = 4, .micro_batches = 2, .seed = 5}};
}

TEST(Strategy, EqualTimeIsFasterThanTheDualConstraintAndThatThanEqualTokens) {
  const auto plans = al::compare_strategies(lengths, corpus, attention, options({}));
  ASSERT_EQ(plans.size(), 4u);
  EXPECT_EQ(plans[0].epoch.dealing, al::dealing::as_drawn);
  EXPECT_EQ(plans[0].speedup, 1);
  EXPECT_GT(plans[1].speedup, 1.05);
  EXPECT_EQ(plans[2].strategy, al::strategy::dual_constraint);
  EXPECT_GT(plans[2].speedup, plans[1].speedup);
  EXPECT_EQ(plans[3].strategy, al::strategy::equal_time);
  EXPECT_GT(plans[3].speedup, plans[2].speedup);
  EXPECT_LT(plans[3].expected.compute_cv, plans[1].expected.compute_cv);
  for (const al::bucket_plan& plan : plans) {
    EXPECT_DOUBLE_EQ(plan.speedup, plans[0].expected.epoch_ms / plan.expected.epoch_ms);
    EXPECT_FALSE(plan.reason.empty());
  }
}

TEST(Strategy, PlanningOneStrategyGivesWhatComparingGives) {
  const auto plans = al::compare_strategies(lengths, corpus, attention, options({}));
  const auto again =
      al::plan_buckets(lengths, corpus, attention, options(al::strategy::equal_time));
  EXPECT_EQ(again.buckets, plans[3].buckets);
  EXPECT_EQ(again.expected.epoch_ms, plans[3].expected.epoch_ms);
}

TEST(Strategy, WhatIsExpectedIsAnAverageEpochOfTheWholeCorpus) {
  std::vector<al::sample_source> large = corpus;
  for (std::int64_t& count : large[0].counts) count *= 1000;
  const auto how = options(al::strategy::equal_time);
  const auto small_plan = al::plan_buckets(lengths, corpus, attention, how);
  const auto large_plan = al::plan_buckets(lengths, large, attention, how);
  EXPECT_EQ(small_plan.expected.samples, 7200);
  EXPECT_NEAR(static_cast<double>(large_plan.expected.samples), 7.2e6, 10);
  const double ratio = large_plan.expected.epoch_ms / small_plan.expected.epoch_ms;
  EXPECT_NEAR(ratio, 1000, 20);
}

TEST(Strategy, GivenLimitsAreKept) {
  auto how = options(al::strategy::equal_time);
  how.target_ms = attention(1, 75600) * 1.3;
  const auto timed = al::plan_buckets(lengths, corpus, attention, how);
  ASSERT_EQ(timed.strategy, al::strategy::equal_time);
  EXPECT_EQ(timed.target_ms, how.target_ms);
  EXPECT_EQ(timed.buckets,
            al::plan_buckets(lengths, al::equal_time_limits{151'200, how.target_ms}, attention));

  how = options(al::strategy::dual_constraint);
  how.max_compute = 75600.0 * 75600;
  const auto dual = al::plan_buckets(lengths, corpus, attention, how);
  ASSERT_EQ(dual.strategy, al::strategy::dual_constraint);
  EXPECT_EQ(dual.buckets,
            al::plan_buckets(lengths, al::batch_limits{151'200, how.max_compute, 2}, attention));
}

TEST(Strategy, KeepsEqualTokensAndSaysWhyWhereItWouldBeSlower) {
  auto how = options(al::strategy::dual_constraint);
  how.max_compute = 1;  // a sample at a time
  const auto plan = al::plan_buckets(lengths, corpus, attention, how);
  EXPECT_EQ(plan.strategy, al::strategy::equal_tokens);
  EXPECT_EQ(plan.buckets,
            al::plan_buckets(lengths, al::batch_limits{.max_tokens = 151'200}, attention));
  EXPECT_GE(plan.speedup, 1);
  EXPECT_NE(plan.reason.find("slower"), std::string::npos) << plan.reason;
}

TEST(Strategy, WithCostsInProportionToTokensThereIsNothingToGain) {
  const auto plans = al::compare_strategies(std::vector<std::int64_t>{1024, 2048, 4096},
                                            std::vector<al::sample_source>{{{3000, 3000, 3000}}},
                                            linear, options({}));
  EXPECT_NEAR(plans[3].speedup, plans[1].speedup, 0.01);
}

TEST(Strategy, AShapeWithoutSamplesDoesNotSetTheTarget) {
  std::vector<al::sample_source> short_ones = corpus;
  short_ones[0].counts[5] = 0;
  const auto plan =
      al::plan_buckets(lengths, short_ones, attention, options(al::strategy::equal_time));
  EXPECT_LT(plan.target_ms, attention(1, 75600));
  EXPECT_EQ(plan.buckets.size(), lengths.size());
}

RC_GTEST_PROP(Strategy, IsNeverSlowerThanEqualTokensAndKeepsItsLimits, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 5);
  std::vector<std::int64_t> some;
  std::vector<al::sample_source> sources{{}};
  std::int64_t samples = 0;
  for (std::size_t b = 0; b < count; ++b) {
    some.push_back(*rc::gen::inRange<std::int64_t>(64, 80'000));
    sources[0].counts.push_back(*rc::gen::inRange<std::int64_t>(0, 60));
    samples += sources[0].counts.back();
  }
  RC_PRE(samples > 0);
  const auto max_tokens = *rc::gen::inRange<std::int64_t>(20'000, 200'000);
  const al::plan_options how{
      .strategy = *rc::gen::element(al::strategy::equal_tokens, al::strategy::dual_constraint,
                                    al::strategy::equal_time),
      .max_tokens = max_tokens,
      .epoch = {.world_size = *rc::gen::inRange<std::int64_t>(1, 5),
                .micro_batches = *rc::gen::inRange<std::int64_t>(1, 4),
                .ranks_wait = *rc::gen::element(al::ranks_wait::every_step,
                                                al::ranks_wait::every_micro_batch)}};
  const auto plan = al::plan_buckets(some, sources, attention, how);
  RC_ASSERT(plan.speedup >= 1);
  RC_ASSERT(plan.buckets.size() == count);
  for (const al::bucket& b : plan.buckets) {
    RC_ASSERT(b.batch_size >= 1);
    RC_ASSERT(b.step_ms == attention(b.batch_size, b.sequence_length));
    if (b.batch_size == 1) continue;
    RC_ASSERT(b.tokens() <= max_tokens);
    RC_ASSERT(plan.target_ms == 0 || b.step_ms <= plan.target_ms);
  }
}

TEST(Strategy, BadArgumentsAreNamed) {
  auto how = options(al::strategy::equal_time);
  how.max_tokens = 0;
  EXPECT_THROW((void)al::plan_buckets(lengths, corpus, attention, how), std::invalid_argument);
  how = options(al::strategy::dual_constraint);
  how.exponent = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW((void)al::plan_buckets(lengths, corpus, attention, how), std::invalid_argument);
  how = options(al::strategy::equal_time);
  how.target_ms = -1;
  EXPECT_THROW((void)al::plan_buckets(lengths, corpus, attention, how), std::invalid_argument);
  how = options(al::strategy::equal_time);
  how.epoch.world_size = 0;
  EXPECT_THROW((void)al::plan_buckets(lengths, corpus, attention, how), std::invalid_argument);
  const std::vector<al::sample_source> fewer{{{1, 2}}};
  EXPECT_THROW((void)al::plan_buckets(lengths, fewer, attention, options({})),
               std::invalid_argument);
  const std::vector<al::sample_source> empty{{{0, 0, 0, 0, 0, 0}}};
  EXPECT_THROW((void)al::plan_buckets(lengths, empty, attention, options({})),
               std::invalid_argument);
}

}  // namespace
