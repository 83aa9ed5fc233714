#include <gtest/gtest.h>

#include <adaptiveload/schedule/batch_size.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

namespace al = adaptiveload;

namespace {

TEST(BatchSize, IsTheSmallerOfBothQuotientsAndAtLeastOne) {
  EXPECT_EQ(al::batch_size(1000, {.max_tokens = 10000}), 10);
  EXPECT_EQ(al::batch_size(1000, {.max_tokens = 10999, .max_compute = 1e9}), 10);
  EXPECT_EQ(al::batch_size(1000, {.max_tokens = 100000, .max_compute = 7.9e6}), 7);
  EXPECT_EQ(al::batch_size(1000, {.max_tokens = 999, .max_compute = 1e9}), 1);
  EXPECT_EQ(al::batch_size(1000, {.max_tokens = 100000, .max_compute = 10}), 1);
}

TEST(BatchSize, IsKnownAtCompileTime) {
  constexpr auto b =
      al::batch_size(32760, {.max_tokens = 302400, .max_compute = 5.7e9, .exponent = 2.0});
  static_assert(b == 5);
  static_assert(al::batch_size(32400, {.max_tokens = 302400,
                                       .max_compute = 7 * 180.0 * 180.0 * 180.0,
                                       .exponent = 1.5}) == 7);
  static_assert(
      al::batch_size(32760, {.max_tokens = 302400, .max_compute = 1.2e9, .exponent = 1.87}) == 4);
}

TEST(BatchSize, IsExactWhereTheQuotientIsAnInteger) {
  for (const std::int64_t root : {1, 2, 3, 7, 50, 181, 274, 1000}) {
    for (const std::int64_t batch : {1, 2, 3, 10, 97}) {
      struct power {
        double exponent;
        int of_sequence, of_compute;
      };
      // S = root^of_sequence, S^exponent = root^of_compute
      for (const power p : {power{1.0, 1, 1},
                            {2.0, 1, 2},
                            {3.0, 1, 3},
                            {0.5, 2, 1},
                            {1.5, 2, 3},
                            {2.5, 2, 5},
                            {4.0 / 3, 3, 4},
                            {1.2, 5, 6},
                            {1.75, 4, 7}}) {
        const double exact_sequence = std::pow(root, p.of_sequence);
        const double compute = static_cast<double>(batch) * std::pow(root, p.of_compute);
        if (exact_sequence > 0x1p31 || compute > 0x1p53) continue;
        const auto sequence = static_cast<std::int64_t>(exact_sequence);
        const al::batch_limits limits{std::numeric_limits<std::int64_t>::max(), compute,
                                      p.exponent};
        EXPECT_EQ(al::batch_size(sequence, limits), batch) << sequence << "^" << p.exponent;
        al::batch_limits below = limits;
        below.max_compute = std::nextafter(compute, 0.0);
        EXPECT_EQ(al::batch_size(sequence, below), std::max<std::int64_t>(1, batch - 1))
            << sequence << "^" << p.exponent;
      }
    }
  }
}

TEST(BatchSize, AnIrrationalPowerTimesABatchGivesThatBatch) {
  for (const double exponent : {0.3, 1.1, 1.5, 1.87, 1.9, 2.123456789}) {
    for (std::int64_t sequence = 2; sequence < 100000; sequence = sequence * 5 / 3 + 1) {
      for (const std::int64_t batch : {1, 3, 11, 1000}) {
        const double compute = static_cast<double>(batch) * std::pow(sequence, exponent);
        al::batch_limits limits{std::numeric_limits<std::int64_t>::max(), compute, exponent};
        EXPECT_EQ(al::batch_size(sequence, limits), batch) << sequence << "^" << exponent;
        limits.max_compute *= 1 - 1e-14;
        EXPECT_EQ(al::batch_size(sequence, limits), std::max<std::int64_t>(1, batch - 1));
      }
    }
  }
}

TEST(BatchSize, AgreesWithIntegersForSquares) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const auto sequence = static_cast<std::int64_t>(random() % 100000 + 1);
    const auto tokens = static_cast<std::int64_t>(random() % 1000000 + 1);
    const auto compute = static_cast<std::int64_t>(random() % (std::uint64_t{1} << 40) + 1);
    const std::int64_t expected =
        std::max<std::int64_t>(1, std::min(tokens / sequence, compute / (sequence * sequence)));
    EXPECT_EQ(al::batch_size(sequence, {tokens, static_cast<double>(compute), 2.0}), expected);
  }
}

TEST(BatchSize, DoesNotOverflowAtTheLongestSequence) {
  constexpr std::int64_t longest = std::int64_t{1} << 31;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  static_assert(al::batch_size(longest, {most, 5 * 0x1p62, 2.0}) == 5);
  static_assert(al::batch_size(longest, {most, 5 * 0x1p93, 3.0}) == 5);
  static_assert(al::batch_size(longest, {most, 0x1p1000, 3.0}) == most / longest);
  static_assert(al::batch_size(1, {most}) == most);
  static_assert(al::batch_size(longest - 1, {most, 3 * 0x1p62, 2.0}) == 3);
  static_assert(al::batch_size(longest, {longest * 3, 1e300, 1.9}) == 3);
}

TEST(BatchSize, BadArgumentsAreNamed) {
  EXPECT_THROW((void)al::batch_size(0, {100}), std::invalid_argument);
  EXPECT_THROW((void)al::batch_size((std::int64_t{1} << 31) + 1, {100}), std::invalid_argument);
  EXPECT_THROW((void)al::batch_size(10, {0}), std::invalid_argument);
  EXPECT_THROW((void)al::batch_size(10, {100, 0.0}), std::invalid_argument);
  EXPECT_THROW((void)al::batch_size(10, {100, std::nan("")}), std::invalid_argument);
  EXPECT_THROW((void)al::batch_size(10, {100, 1.0, -1.0}), std::invalid_argument);
  EXPECT_THROW((void)al::batch_size(10, {100, 1.0, std::nan("")}), std::invalid_argument);
  try {
    (void)al::batch_size(10, {-5});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "max_tokens is -5; allowed: at least 1");
  }
}

}  // namespace
