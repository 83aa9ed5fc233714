#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/permutation.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace al = adaptiveload;

namespace {

RC_GTEST_PROP(KeyedPermutation, MapsEveryIndexToAnotherElement, ()) {
  const auto size = *rc::gen::inRange<std::int64_t>(0, 6000);
  const al::keyed_permutation order(size, *rc::gen::arbitrary<std::uint64_t>());
  std::vector<bool> seen(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t element = order(i);
    RC_ASSERT(element >= 0);
    RC_ASSERT(element < size);
    RC_ASSERT(!seen[static_cast<std::size_t>(element)]);
    seen[static_cast<std::size_t>(element)] = true;
  }
}

TEST(KeyedPermutation, IsTheSameEverywhere) {
  constexpr al::keyed_permutation order(10, 1);
  constexpr std::int64_t first = order(0);
  static_assert(first >= 0 && first < 10);
  const al::keyed_permutation again(10, 1);
  EXPECT_EQ(again(0), first);
}

/// Chi-squared over its degrees of freedom: 1 where all cells are as likely.
double unevenness(const std::vector<double>& cells) {
  double sum = 0;
  for (const double n : cells) sum += n;
  const double expected = sum / static_cast<double>(cells.size());
  double chi_squared = 0;
  for (const double n : cells) chi_squared += (n - expected) * (n - expected) / expected;
  return chi_squared / static_cast<double>(cells.size() - 1);
}

TEST(KeyedPermutation, OfASmallSetIsAnyOneOfItsOrdersAsOften) {
  std::vector<double> orders(24);  // of four elements, by their Lehmer code
  for (std::uint64_t key = 0; key < 24'000; ++key) {
    const al::keyed_permutation order(4, key);
    std::size_t code = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
      std::size_t smaller = 0;
      for (std::int64_t j = i + 1; j < 4; ++j) smaller += order(j) < order(i) ? 1u : 0u;
      code = code * static_cast<std::size_t>(4 - i) + smaller;
    }
    ++orders[code];
  }
  EXPECT_LT(unevenness(orders), 2.5);  // by chance once in 10,000
}

TEST(KeyedPermutation, SpreadsNeighboursEvenly) {
  for (const std::int64_t size : {1000, 50'000, 1'000'003}) {
    std::vector<double> places(100), gaps(100);
    for (std::uint64_t key = 0; key < 20; ++key) {
      const al::keyed_permutation order(size, key);
      for (std::int64_t i = 0; i < 500; ++i) {
        const std::int64_t gap = (order(i + 1) - order(i) + size) % size;
        ++places[static_cast<std::size_t>(order(i) * 100 / size)];
        ++gaps[static_cast<std::size_t>(gap * 100 / size)];
      }
    }
    EXPECT_LT(unevenness(places), 1.6) << size;
    EXPECT_LT(unevenness(gaps), 1.6) << size;
  }
}

TEST(KeyedPermutation, OtherKeysGiveOtherOrders) {
  const al::keyed_permutation a(100'000, 1), b(100'000, 2);
  int same = 0;
  for (std::int64_t i = 0; i < 100'000; ++i) same += a(i) == b(i) ? 1 : 0;
  EXPECT_LT(same, 10);  // one is expected
}

TEST(KeyedPermutation, BadSizesAreNamed) {
  EXPECT_THROW(al::keyed_permutation(-1, 0), std::invalid_argument);
  EXPECT_THROW(al::keyed_permutation((std::int64_t{1} << 62) + 1, 0), std::invalid_argument);
  const al::keyed_permutation largest(std::int64_t{1} << 62, 3);
  EXPECT_LT(largest(0), std::int64_t{1} << 62);
}

}  // namespace
