#include <gtest/gtest.h>

#include <adaptiveload/schedule/bucket_plan.hpp>
#include <array>
#include <stdexcept>
#include <vector>

namespace al = adaptiveload;

namespace {

constexpr double quadratic(std::int64_t batch, std::int64_t sequence) {
  const auto b = static_cast<double>(batch);
  const auto s = static_cast<double>(sequence);
  return 50 + b * (0.1 * s + 1e-5 * s * s);
}

TEST(BucketPlan, SaysWhichLimitBinds) {
  const std::vector<std::int64_t> lengths{1024, 7800, 32760, 75600};
  const auto plan = al::plan_buckets(
      lengths, al::batch_limits{.max_tokens = 65536, .max_compute = 1.1e9}, quadratic);
  ASSERT_EQ(plan.size(), lengths.size());
  EXPECT_EQ(plan[0].batch_size, 64);
  EXPECT_EQ(plan[0].bound, al::batch_bound::memory);
  EXPECT_EQ(plan[1].batch_size, 8);
  EXPECT_EQ(plan[2].batch_size, 1);
  EXPECT_EQ(plan[2].bound, al::batch_bound::compute);
  EXPECT_EQ(plan[3].batch_size, 1);
  EXPECT_EQ(plan[3].bound, al::batch_bound::single_sample);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    EXPECT_EQ(plan[i].sequence_length, lengths[i]);
    EXPECT_EQ(plan[i].step_ms, quadratic(plan[i].batch_size, lengths[i]));
    EXPECT_EQ(plan[i].single_ms, quadratic(1, lengths[i]));
  }
}

TEST(BucketPlan, EqualTokensIsTheDualConstraintWithoutCompute) {
  const std::vector<std::int64_t> lengths{1, 1000, 100001, 302400};
  const auto plan = al::plan_buckets(lengths, al::batch_limits{.max_tokens = 302400}, quadratic);
  EXPECT_EQ(plan[0].batch_size, 302400);
  EXPECT_EQ(plan[1].batch_size, 302);
  EXPECT_EQ(plan[2].batch_size, 3);
  EXPECT_EQ(plan[3].batch_size, 1);
  for (const al::bucket& b : plan) EXPECT_EQ(b.bound, al::batch_bound::memory);
}

TEST(BucketPlan, EqualTimeTakesTheLargestBatchWithinMemoryAndTime) {
  const std::vector<std::int64_t> lengths{256, 1024, 7800, 32760, 75600};
  const double target = quadratic(1, 75600);
  const auto plan = al::plan_buckets(lengths, al::equal_time_limits{302400, target}, quadratic);
  for (const al::bucket& b : plan) {
    EXPECT_LE(b.tokens(), 302400);
    EXPECT_LE(b.step_ms, target);
    const bool memory_full = (b.batch_size + 1) * b.sequence_length > 302400;
    const bool time_full = quadratic(b.batch_size + 1, b.sequence_length) > target;
    EXPECT_TRUE(memory_full || time_full);
    EXPECT_EQ(b.bound, memory_full ? al::batch_bound::memory : al::batch_bound::compute);
  }
  const auto tight = al::plan_bucket(75600, al::equal_time_limits{302400, target / 2}, quadratic);
  EXPECT_EQ(tight.batch_size, 1);
  EXPECT_EQ(tight.bound, al::batch_bound::single_sample);
}

TEST(BucketPlan, IsComputedAtCompileTime) {
  constexpr std::array<std::int64_t, 3> lengths{1560, 7800, 32760};
  constexpr auto dual = al::plan_buckets(
      lengths, al::batch_limits{.max_tokens = 75600, .max_compute = 32760.0 * 32760}, quadratic);
  static_assert(dual[0].batch_size == 48 && dual[0].bound == al::batch_bound::memory);
  static_assert(dual[1].batch_size == 9 && dual[1].tokens() == 70200);
  static_assert(dual[2].batch_size == 1 && dual[2].bound == al::batch_bound::compute);
  static_assert(dual[2].step_ms == quadratic(1, 32760));
  constexpr auto timed =
      al::plan_buckets(lengths, al::equal_time_limits{75600, quadratic(1, 32760)}, quadratic);
  static_assert(timed[1].step_ms <= quadratic(1, 32760) && timed[1].batch_size == 9);
}

TEST(BucketPlan, BadArgumentsAreNamed) {
  const std::vector<std::int64_t> none;
  const std::vector<std::int64_t> one{100};
  EXPECT_THROW(al::plan_buckets(none, al::batch_limits{100}, quadratic), std::invalid_argument);
  EXPECT_THROW(al::plan_buckets(one, al::equal_time_limits{0, 1.0}, quadratic),
               std::invalid_argument);
  EXPECT_THROW(al::plan_buckets(one, al::equal_time_limits{100, 0.0}, quadratic),
               std::invalid_argument);
  EXPECT_THROW(al::plan_bucket(0, al::equal_time_limits{100, 1.0}, quadratic),
               std::invalid_argument);
  const auto broken = [](std::int64_t, std::int64_t) { return 0.0; };
  EXPECT_THROW(al::plan_buckets(one, al::batch_limits{100}, broken), std::invalid_argument);
}

}  // namespace
