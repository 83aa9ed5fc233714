#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/deal.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace al = adaptiveload;
using al::detail::dealt_step;
using al::detail::dealt_window;

namespace {

std::vector<double> rank_loads(const dealt_step& step, const std::vector<double>& costs) {
  std::vector<double> loads;
  for (std::size_t r = 0; r + 1 < step.rank_begin.size(); ++r) {
    loads.push_back(0);
    for (const std::int32_t i :
         al::detail::part_of_rank(step.items, step.rank_begin, static_cast<std::int64_t>(r))) {
      loads.back() += costs[static_cast<std::size_t>(i)];
    }
  }
  return loads;
}

TEST(Deal, WaitingAtEveryStepTheLongestGoesToTheLeastLoaded) {
  const std::vector<double> costs{7, 1, 1, 1, 4, 2};
  const dealt_window window(costs, 1, 9, {2, al::ranks_wait::every_step, al::dealing::balanced});
  std::vector<double> loads = rank_loads(window.step(0), costs);
  std::sort(loads.begin(), loads.end());
  EXPECT_EQ(loads, (std::vector<double>{8, 8}));
}

TEST(Deal, WaitingAtEveryMicroBatchNeighboursInCostRunTogether) {
  const std::vector<double> costs{9, 1, 5, 8, 2, 4};
  const dealt_window window(costs, 1, 9,
                            {2, al::ranks_wait::every_micro_batch, al::dealing::balanced});
  const dealt_step step = window.step(0);
  ASSERT_EQ(step.rank_begin, (std::vector<std::int32_t>{0, 3, 6}));
  for (std::size_t position = 0; position < 3; ++position) {
    const double a = costs[static_cast<std::size_t>(step.items[position])];
    const double b = costs[static_cast<std::size_t>(step.items[position + 3])];
    EXPECT_EQ(std::abs(a - b), 1) << position;
  }
}

TEST(Deal, AsDrawnItemsGoInTurn) {
  const std::vector<double> costs{1, 2, 3, 4};
  const dealt_window window(costs, 1, 9, {2, al::ranks_wait::every_step, al::dealing::as_drawn});
  std::vector<double> loads = rank_loads(window.step(0), costs);
  std::sort(loads.begin(), loads.end());
  EXPECT_TRUE(loads == (std::vector<double>{4, 6}) || loads == (std::vector<double>{5, 5}));
}

RC_GTEST_PROP(Deal, EveryItemOfAWindowIsDealtOnce, ()) {
  const auto ranks = *rc::gen::inRange<std::int64_t>(1, 8);
  const auto rounds = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto steps = *rc::gen::inRange<std::int64_t>(1, rounds + 1);
  const auto wait =
      *rc::gen::element(al::ranks_wait::every_step, al::ranks_wait::every_micro_batch);
  const auto how = *rc::gen::element(al::dealing::balanced, al::dealing::as_drawn);
  std::vector<double> costs;
  for (std::int64_t i = 0; i < ranks * rounds; ++i) {
    costs.push_back(static_cast<double>(*rc::gen::inRange(1, 100)));
  }
  const dealt_window window(costs, steps, *rc::gen::arbitrary<std::uint64_t>(), {ranks, wait, how});
  std::vector<int> dealt(costs.size());
  for (std::int64_t s = 0; s < steps; ++s) {
    const dealt_step step = window.step(s);
    for (const std::int32_t i : step.items) ++dealt[static_cast<std::size_t>(i)];
    // Graham's bound: no rank is above the mean by more than one item.
    if (wait == al::ranks_wait::every_step && how == al::dealing::balanced) {
      const std::vector<double> loads = rank_loads(step, costs);
      const double mean =
          std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(ranks);
      double longest = 0;
      for (const std::int32_t i : step.items) {
        longest = std::max(longest, costs[static_cast<std::size_t>(i)]);
      }
      RC_ASSERT(*std::max_element(loads.begin(), loads.end()) <= mean + longest);
    }
  }
  RC_ASSERT(dealt == std::vector<int>(costs.size(), 1));
}

RC_GTEST_PROP(Deal, SortsByCostAndKeepsTheOrderOfEquals, (std::vector<std::uint16_t> values)) {
  std::vector<double> costs(values.begin(), values.end());
  std::vector<std::int32_t> expected(costs.size());
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
    return costs[static_cast<std::size_t>(a)] > costs[static_cast<std::size_t>(b)];
  });
  RC_ASSERT(al::detail::sorted_by_cost(costs) == expected);
}

}  // namespace
