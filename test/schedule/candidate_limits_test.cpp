#include <gtest/gtest.h>

#include <adaptiveload/schedule/candidate_limits.hpp>
#include <algorithm>
#include <cstdint>
#include <vector>

namespace al = adaptiveload;

namespace {

double cost(std::int64_t batch, std::int64_t s) {
  return static_cast<double>(batch * s);
}

std::vector<double> limits(const std::vector<std::int64_t>& lengths, std::int64_t max_tokens) {
  const auto full = al::plan_buckets(lengths, al::batch_limits{.max_tokens = max_tokens}, cost);
  return al::detail::candidate_limits(std::span<const al::bucket>(full), cost);
}

TEST(CandidateLimits, AdmitWholeSamplesFromTheLongestUp) {
  EXPECT_EQ(limits({10, 30}, 60), (std::vector<double>{60, 50, 40, 30}));
  EXPECT_EQ(limits({100}, 60), (std::vector<double>{100}));
}

TEST(CandidateLimits, AreASpreadWhereThereAreManyButHaveTheEnds) {
  const auto many = limits({1, 7, 13, 50}, 100'000);
  EXPECT_LE(many.size(), 200u);
  EXPECT_EQ(many.front(), 100'000);
  EXPECT_EQ(many.back(), 50);
  EXPECT_TRUE(std::is_sorted(many.rbegin(), many.rend()));
}

}  // namespace
