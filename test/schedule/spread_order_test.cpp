#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/spread_order.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

using adaptiveload::detail::spread_order;

namespace {

constexpr std::int64_t strata = spread_order::strata;

std::vector<std::int64_t> all_of(const spread_order& order, std::int64_t size) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < size; ++i) indices.push_back(order(i));
  return indices;
}

RC_GTEST_PROP(SpreadOrder, HasEveryIndexOnce, (std::uint64_t key)) {
  const auto size = *rc::gen::inRange<std::int64_t>(0, 2000);
  std::vector<std::int64_t> indices = all_of(spread_order(size, key), size);
  std::sort(indices.begin(), indices.end());
  for (std::int64_t i = 0; i < size; ++i) RC_ASSERT(indices[static_cast<std::size_t>(i)] == i);
}

RC_GTEST_PROP(SpreadOrder, EachRoundHasItsShareOfAnyPartOfTheRange, (std::uint64_t key)) {
  const auto size = *rc::gen::inRange<std::int64_t>(8 * strata, 3000);
  const spread_order order(size, key);
  for (std::int64_t first = 0; first + strata <= size; first += strata) {
    std::vector<std::int64_t> round;
    order.for_each(first, strata, [&](std::int64_t index) { round.push_back(index); });
    std::sort(round.begin(), round.end());
    for (std::int64_t i = 0; i < strata; ++i) {
      const double share = static_cast<double>(round[static_cast<std::size_t>(i)] * strata) /
                           static_cast<double>(size);
      RC_ASSERT(std::abs(share - static_cast<double>(i)) < 2.3);
    }
  }
}

RC_GTEST_PROP(SpreadOrder, IsTheSameFromAnyPlaceOn, (std::uint64_t key)) {
  const auto size = *rc::gen::inRange<std::int64_t>(1, 2000);
  const auto first = *rc::gen::inRange<std::int64_t>(0, size);
  const auto count = *rc::gen::inRange<std::int64_t>(0, size - first + 1);
  const spread_order order(size, key);
  std::int64_t at = first;
  order.for_each(first, count, [&](std::int64_t index) { RC_ASSERT(index == order(at++)); });
  RC_ASSERT(at == first + count);
}

/// Chi squared over its degrees of freedom.
double unevenness(const std::vector<double>& cells) {
  double sum = 0;
  for (const double n : cells) sum += n;
  const double expected = sum / static_cast<double>(cells.size());
  double chi_squared = 0;
  for (const double n : cells) chi_squared += (n - expected) * (n - expected) / expected;
  return chi_squared / static_cast<double>(cells.size() - 1);
}

TEST(SpreadOrder, EachIndexIsAsLikelyAtAnyPlace) {
  constexpr int keys = 40'000;
  for (const std::int64_t size : {100, 300, 384}) {
    for (const std::int64_t place : {std::int64_t{0}, std::int64_t{57}, size - 1}) {
      std::vector<double> times(static_cast<std::size_t>(size));
      for (std::uint64_t key = 0; key < keys; ++key) {
        ++times[static_cast<std::size_t>(spread_order(size, key)(place))];
      }
      EXPECT_LT(unevenness(times), 1.4) << place << " of " << size;
    }
  }
}

TEST(SpreadOrder, ARoundsIndicesAreDrawnApart) {
  // How far a round's least indices lie apart: up to two strata, any distance.
  constexpr std::int64_t rows = 10;
  std::vector<double> apart(2 * rows - 1);
  for (std::uint64_t key = 0; key < 20'000; ++key) {
    std::vector<std::int64_t> round;
    spread_order(rows * strata, key).for_each(3 * strata, strata, [&](std::int64_t index) {
      round.push_back(index);
    });
    std::sort(round.begin(), round.end());
    ++apart[static_cast<std::size_t>(round[41] - round[40] - 1)];
  }
  for (std::int64_t d = 0; d < 2 * rows - 1; ++d) {  // the difference of two uniform draws
    const double pairs = static_cast<double>(rows - std::abs(d + 1 - rows));
    const double expected = 20'000 * pairs / (rows * rows);
    EXPECT_NEAR(apart[static_cast<std::size_t>(d)], expected, 5 * std::sqrt(expected)) << d;
  }
}

TEST(SpreadOrder, HoldsForVeryManyIndices) {
  constexpr std::int64_t size = (std::int64_t{1} << 61) + 77;
  const spread_order order(size, 5);
  for (const std::int64_t place : {std::int64_t{0}, size / 2, size - 1}) {
    EXPECT_GE(order(place), 0);
    EXPECT_LT(order(place), size);
  }
}

}  // namespace
