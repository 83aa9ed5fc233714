#include <gtest/gtest.h>

#include <adaptiveload/schedule/epoch_plan.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace al = adaptiveload;

namespace {

const std::vector<al::bucket> buckets{
    {.sequence_length = 100, .batch_size = 8, .step_ms = 80, .single_ms = 10},
    {.sequence_length = 900, .batch_size = 2, .step_ms = 180, .single_ms = 90}};
const std::vector<std::int64_t> counts{1000, 300};

TEST(EpochPlan, APartialMicroBatchIsKeptAndNoneIsMuchSmaller) {
  const auto plan = al::plan_epoch(buckets, std::vector<std::int64_t>{33, 0}, {});
  EXPECT_EQ(plan.micro_batches(), 5);
  std::vector<std::int64_t> sizes;
  plan.for_each_step(plan.start(),
                     [&](const auto& step) { sizes.push_back(step.micro_batches[0].samples); });
  std::sort(sizes.begin(), sizes.end());
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{6, 6, 7, 7, 7}));
}

TEST(EpochPlan, FewerSamplesThanABatchMakeOne) {
  const auto plan = al::plan_epoch(buckets, std::vector<std::int64_t>{3, 1}, {});
  EXPECT_EQ(plan.samples(), 4);
  EXPECT_EQ(plan.micro_batches(), 2);
}

TEST(EpochPlan, ItsEndIsSharedOutByHalvingTheLongest) {
  const auto plan = al::plan_epoch(buckets, std::vector<std::int64_t>{8, 0}, {.world_size = 4});
  const auto step = plan.step(0);
  for (std::int64_t r = 0; r < 4; ++r) EXPECT_EQ(step.rank(r)[0].samples, 2);
}

TEST(EpochPlan, WithFewerSamplesThanRanksTheOthersRunOneAtWeightZero) {
  const auto plan = al::plan_epoch(buckets, std::vector<std::int64_t>{1, 1}, {.world_size = 3});
  const auto step = plan.step(0);
  ASSERT_EQ(step.micro_batches.size(), 3u);
  std::vector<std::int64_t> samples;
  for (const al::micro_batch& m : step.micro_batches) {
    samples.push_back(m.samples);
    if (m.samples == 0) {
      EXPECT_EQ(m.weight, 0);
    }
  }
  std::sort(samples.begin(), samples.end());
  EXPECT_EQ(samples, (std::vector<std::int64_t>{0, 1, 1}));
}

TEST(EpochPlan, EpochsAndSeedsDifferInOrder) {
  const al::epoch_options seeded{.seed = 1};
  const auto first = al::plan_epoch(buckets, counts, seeded, 0).step(0);
  EXPECT_FALSE(first.next == al::plan_epoch(buckets, counts, seeded, 1).step(0).next);
  const auto order = [&](std::uint64_t seed, std::int64_t epoch) {
    std::vector<std::int64_t> samples;
    const auto plan = al::plan_epoch(buckets, counts, {.seed = seed}, epoch);
    plan.for_each_step(plan.start(), [&](const al::training_step& step) {
      samples.push_back(plan.sample(step.micro_batches[0], 0).index);
    });
    return samples;
  };
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_EQ(order(1, 1), order(1, 1));
}

TEST(EpochPlan, TheOrderDoesNotDependOnTheRanks) {
  const auto taken = [&](std::int64_t ranks, std::int64_t micro_batches) {
    const auto plan =
        al::plan_epoch(buckets, counts, {.world_size = ranks, .micro_batches = micro_batches});
    const auto step = plan.step(0);
    std::vector<al::sample_ref> samples;
    for (const al::micro_batch& m : step.micro_batches) {
      for (std::int64_t i = 0; i < m.samples; ++i) samples.push_back(plan.sample(m, i));
    }
    std::sort(samples.begin(), samples.end());
    return samples;
  };
  EXPECT_EQ(taken(8, 2), taken(2, 8));
}

TEST(EpochPlan, DealtByCostAStepHasOfEveryBucketItsShare) {
  // 2,000 micro-batches of one bucket in three, in the order of neither time nor length.
  const std::vector<al::bucket> three{
      {.sequence_length = 100, .batch_size = 1, .step_ms = 20, .single_ms = 20},
      {.sequence_length = 900, .batch_size = 1, .step_ms = 10, .single_ms = 10},
      {.sequence_length = 300, .batch_size = 1, .step_ms = 30, .single_ms = 30}};
  const std::vector<std::int64_t> samples{2000, 2000, 2000};
  const auto deviation = [&](al::dealing dealing, std::size_t bucket) {
    double squares = 0;
    const auto plan = al::plan_epoch(
        three, samples, {.world_size = 16, .micro_batches = 8, .seed = 3, .dealing = dealing});
    for (std::int64_t s = 0; s + 1 < plan.steps(); ++s) {
      double count = 0;
      for (const auto& m : plan.step(s).micro_batches) {
        count += m.bucket == static_cast<std::int64_t>(bucket) ? 1 : 0;
      }
      squares += (count - 128 / 3.0) * (count - 128 / 3.0);
    }
    return std::sqrt(squares / static_cast<double>(plan.steps() - 1));
  };
  for (std::size_t b = 0; b < three.size(); ++b) {
    EXPECT_LT(deviation(al::dealing::balanced, b), 1) << b;
    EXPECT_GT(deviation(al::dealing::as_drawn, b), 3) << b;  // by chance alone 5.3
  }
}

TEST(EpochPlan, ALookAheadHoldsTheSameSamplesAsItsStepsWould) {
  const auto taken = [&](std::int64_t lookahead) {
    const auto plan = al::plan_epoch(buckets, counts, {.world_size = 4, .lookahead = lookahead});
    std::vector<al::sample_ref> samples;
    for (std::int64_t s = 0; s < 8; ++s) {
      const auto step = plan.step(s);
      for (const al::micro_batch& m : step.micro_batches) {
        for (std::int64_t i = 0; i < m.samples; ++i) samples.push_back(plan.sample(m, i));
      }
    }
    std::sort(samples.begin(), samples.end());
    return samples;
  };
  EXPECT_EQ(taken(1), taken(8));
}

TEST(EpochPlan, ABillionSamplesAreSteppedInto) {
  const auto plan = al::plan_epoch(buckets, std::vector<std::int64_t>{900'000'000, 100'000'000},
                                   {.world_size = 1024, .micro_batches = 4});
  const auto last = plan.step(plan.steps() - 1);
  EXPECT_TRUE(plan.finished(last.next));
  EXPECT_EQ(plan.samples(), 1'000'000'000);
}

TEST(EpochPlan, APositionOfAnotherPlanIsRefused) {
  const auto plan = al::plan_epoch(buckets, counts, {.seed = 1});
  const auto refuses = [&](const al::epoch_position& at) {
    EXPECT_THROW((void)plan.step(at), std::invalid_argument);
  };
  refuses(al::plan_epoch(buckets, counts, {.seed = 2}).start());
  refuses(al::plan_epoch(buckets, counts, {.seed = 1}, 1).start());
  refuses(al::plan_epoch(buckets, std::vector<std::int64_t>{1000, 301}, {.seed = 1}).start());
  // Dealt as drawn, an epoch has another order.
  refuses(al::plan_epoch(buckets, counts, {.seed = 1, .dealing = al::dealing::as_drawn}).start());
  auto other_batches = buckets;
  other_batches[0].batch_size = 7;
  refuses(al::plan_epoch(other_batches, counts, {.seed = 1}).start());
  al::epoch_position beyond = plan.start();
  beyond.micro_batches = plan.micro_batches();
  refuses(beyond);
  al::epoch_position odd = plan.start();
  odd.steps_done = 3;
  refuses(odd);
}

TEST(EpochPlan, ADamagedPositionIsRefused) {
  const auto plan = al::plan_epoch(buckets, counts, {.world_size = 4, .lookahead = 8});
  const al::epoch_position saved = plan.step(0).next;
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const auto field : {&al::epoch_position::micro_batches, &al::epoch_position::window,
                           &al::epoch_position::window_steps, &al::epoch_position::steps_done,
                           &al::epoch_position::world_size, &al::epoch_position::redealt}) {
    for (const std::int64_t value : {least, least + 1, std::int64_t{-1}, most - 1, most}) {
      al::epoch_position damaged = saved;
      damaged.*field = value;
      for (const std::int64_t ranks : {4, 3}) {
        const auto resumed = al::plan_epoch(buckets, counts, {.world_size = ranks, .lookahead = 8});
        EXPECT_THROW((void)resumed.step(damaged), std::invalid_argument) << value;
      }
    }
  }
}

TEST(EpochPlan, BadArgumentsAreNamed) {
  const auto refuses = [&](const al::epoch_options& options) {
    EXPECT_THROW((void)al::plan_epoch(buckets, counts, options), std::invalid_argument);
  };
  refuses({.world_size = 0});
  refuses({.world_size = (1 << 20) + 1});
  refuses({.micro_batches = 0});
  refuses({.lookahead = 0});
  refuses({.step_ms = -1});
  refuses({.world_size = 1 << 20, .micro_batches = 1 << 20});
  const auto refuses_counts = [&](const std::vector<std::int64_t>& bad) {
    EXPECT_THROW((void)al::plan_epoch(buckets, bad, {}), std::invalid_argument);
  };
  refuses_counts({});
  refuses_counts({1});
  refuses_counts({0, 0});
  refuses_counts({-1, 5});
  EXPECT_THROW((void)al::plan_epoch(buckets, counts, {}, -1), std::invalid_argument);
  const std::vector<al::sample_source> none;
  EXPECT_THROW((void)al::plan_epoch(buckets, none, {}), std::invalid_argument);
  auto broken = buckets;
  broken[1].batch_size = 0;
  EXPECT_THROW((void)al::plan_epoch(broken, counts, {}), std::invalid_argument);
  broken = buckets;
  broken[1].single_ms = 0;
  EXPECT_THROW((void)al::plan_epoch(broken, counts, {}), std::invalid_argument);
  const auto plan = al::plan_epoch(buckets, counts, {});
  EXPECT_THROW((void)plan.step(-1), std::invalid_argument);
  EXPECT_THROW((void)plan.step(plan.steps()), std::invalid_argument);
  const auto step = plan.step(0);
  EXPECT_THROW((void)step.rank(1), std::invalid_argument);
  EXPECT_THROW((void)plan.sample(step.micro_batches[0], step.micro_batches[0].samples),
               std::invalid_argument);
}

}  // namespace
