#include <gtest/gtest.h>

#include <adaptiveload/schedule/corpus.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace al = adaptiveload;

namespace {

TEST(MixSources, AnEpochDrawsInProportionToTheWeights) {
  const std::vector<al::sample_source> sources{{{600, 300}}, {{50, 50}}};
  const auto mixed = al::mix_sources(sources, std::vector<double>{3, 1});
  EXPECT_DOUBLE_EQ(mixed[0].passes * 900, 750);
  EXPECT_DOUBLE_EQ(mixed[1].passes * 100, 250);
  EXPECT_EQ(mixed[1].counts, sources[1].counts);
}

TEST(MixSources, ASourceOfWeightZeroIsLeftOut) {
  const auto mixed = al::mix_sources({{{10}}, {{10}}, {{0}}}, std::vector<double>{1, 0, 0});
  EXPECT_EQ(mixed[0].passes, 2);
  EXPECT_EQ(mixed[1].passes, 0);
  EXPECT_EQ(mixed[2].passes, 0);
}

TEST(MixSources, BadWeightsAreNamed) {
  const std::vector<al::sample_source> sources{{{10}}, {{0}}};
  const auto mix = [&](std::vector<double> weights) { (void)al::mix_sources(sources, weights); };
  EXPECT_THROW(mix({1}), std::invalid_argument);
  EXPECT_THROW(mix({1, 1}), std::invalid_argument);
  EXPECT_THROW(mix({-1, 0}), std::invalid_argument);
  EXPECT_THROW(mix({0, 0}), std::invalid_argument);
  EXPECT_THROW(mix({std::numeric_limits<double>::quiet_NaN(), 0}), std::invalid_argument);
  EXPECT_THROW(mix({std::numeric_limits<double>::infinity(), 0}), std::invalid_argument);
}

}  // namespace
