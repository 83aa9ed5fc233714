#include <gtest/gtest.h>

#include <adaptiveload/schedule/replanning.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

const std::vector<std::int64_t> lengths{1560, 7800, 14040, 20280, 32760, 75600};
const std::vector<al::sample_source> sources{{.counts = {9000, 3000, 2000, 1500, 1200, 300}}};

auto cost(double slope, double quadratic) {
  return [=](std::int64_t b, std::int64_t s) {
    const double length = static_cast<double>(s);
    return 20 + static_cast<double>(b) * (slope * length + quadratic * length * length);
  };
}

/// The longest sample's time as the target, given rather than searched for: the test is fast.
template <class Cost>
al::plan_options options_for(const Cost& now) {
  return {.max_tokens = 302400,
          .target_ms = now(1, lengths.back()),
          .epoch = {.world_size = 8, .micro_batches = 1, .seed = 3}};
}

const auto planned = cost(0.027, 1.5e-6);
const al::bucket_plan& plan_in_use() {
  static const auto plan = al::plan_buckets(lengths, sources, planned, options_for(planned));
  return plan;
}

TEST(Replanning, AnUnchangedCostGainsNothing) {
  const auto again = al::replan(plan_in_use(), sources, planned, options_for(planned));
  EXPECT_EQ(again.plan.buckets, plan_in_use().buckets);
  EXPECT_EQ(again.gain, 0);
  EXPECT_EQ(again.in_use.epoch_ms, plan_in_use().expected.epoch_ms);
}

TEST(Replanning, AllSlowerAlikeGainsNothing) {
  const auto slower = [](std::int64_t b, std::int64_t s) { return 1.3 * planned(b, s); };
  const auto again = al::replan(plan_in_use(), sources, slower, options_for(slower));
  EXPECT_NEAR(again.in_use.epoch_ms / plan_in_use().expected.epoch_ms, 1.3, 1e-9);
  EXPECT_NEAR(again.gain, 0, 1e-9);
}

TEST(Replanning, TheGainIsWhatTheNewPlanSavesOnAnEpoch) {
  const auto now = cost(0.027, 0.2e-6);  // attention became faster
  const auto again = al::replan(plan_in_use(), sources, now, options_for(now));
  EXPECT_GT(again.gain, 0.1);
  EXPECT_NE(again.plan.buckets, plan_in_use().buckets);
  const auto epochs_ms = [&](const al::bucket_plan& p) {
    double ms = 0;
    for (std::int64_t e = 100; e < 200; ++e) {  // others than those it was planned with
      ms += al::simulate(al::plan_epoch(p.buckets, sources, p.epoch, e), now).epoch_ms;
    }
    return ms;
  };
  EXPECT_NEAR(epochs_ms(plan_in_use()) / epochs_ms(again.plan) - 1, again.gain, 0.01);
}

TEST(CompareRanks, AChangedModelSlowsEveryRank) {
  const std::vector<double> slowdowns{1.29, 1.30, 1.31, 1.32, 1.30, 1.28};
  const auto ranks = al::compare_ranks(slowdowns);
  EXPECT_NEAR(ranks.common_slowdown, 1.3, 0.011);
  EXPECT_TRUE(ranks.slow_ranks.empty());
}

TEST(CompareRanks, ASlowNodeIsNamedWithItsFactor) {
  const std::vector<double> slowdowns{1.01, 0.99, 1.0, 1.2, 1.25, 1.02, 0.98, 1.0};
  const auto ranks = al::compare_ranks(slowdowns);
  EXPECT_EQ(ranks.common_slowdown, 1.0);
  ASSERT_EQ(ranks.slow_ranks.size(), 2u);
  EXPECT_EQ(ranks.slow_ranks[0].rank, 3);
  EXPECT_DOUBLE_EQ(ranks.slow_ranks[0].factor, 1.2);
  EXPECT_EQ(ranks.slow_ranks[1].rank, 4);
}

TEST(CompareRanks, BothAtOnceAreToldApart) {
  const std::vector<double> slowdowns{1.3, 1.3, 1.3, 1.56};
  const auto ranks = al::compare_ranks(slowdowns);
  EXPECT_EQ(ranks.common_slowdown, 1.3);
  ASSERT_EQ(ranks.slow_ranks.size(), 1u);
  EXPECT_NEAR(ranks.slow_ranks[0].factor, 1.2, 1e-12);
}

TEST(CompareRanks, OfTwoTheFasterOneIsTheMeasure) {
  const std::vector<double> slowdowns{1.3, 1.0};
  const auto ranks = al::compare_ranks(slowdowns);
  ASSERT_EQ(ranks.slow_ranks.size(), 1u);
  EXPECT_EQ(ranks.slow_ranks[0].rank, 0);
  EXPECT_EQ(ranks.slow_ranks[0].factor, 1.3);
}

TEST(CompareRanks, BadInputIsNamed) {
  const auto error_of = [](const std::vector<double>& slowdowns) -> std::string {
    try {
      (void)al::compare_ranks(slowdowns);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({}), "slowdowns is empty; allowed: one for each rank");
  EXPECT_EQ(error_of({1, 0}), "slowdowns[1] is 0; allowed: finite and above 0");
  EXPECT_EQ(error_of({std::numeric_limits<double>::infinity()}),
            "slowdowns[0] is inf; allowed: finite and above 0");
}

}  // namespace
