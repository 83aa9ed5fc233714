#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/memory_model.hpp>
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

al::measurement peak(std::int64_t batch_size, std::int64_t length, std::int64_t bytes) {
  return {batch_size, length, 1.0, bytes};
}

std::vector<al::measurement> any_peaks() {
  const auto count = *rc::gen::inRange(2, 30);
  std::vector<al::measurement> steps;
  for (int i = 0; i < count; ++i) {
    steps.push_back(
        peak(*rc::gen::inRange(1, 50), *rc::gen::inRange(1, 5000), *rc::gen::inRange(1, 1000000)));
  }
  RC_PRE(std::any_of(steps.begin(), steps.end(), [&](const al::measurement& m) {
    return m.tokens() != steps.front().tokens();
  }));
  return steps;
}

TEST(MemoryModel, ALineComesBack) {
  const std::vector<al::measurement> steps{peak(1, 100, 3200), peak(2, 100, 3400),
                                           peak(10, 30, 3600)};
  const auto model = al::fit_memory_model(steps);
  EXPECT_NEAR(model.fixed_bytes, 3000, 1e-6);
  EXPECT_NEAR(model.bytes_per_token, 2, 1e-9);
  EXPECT_NEAR(model.worst_relative_excess, 0, 1e-12);
  EXPECT_EQ(model.most_tokens, 300);
}

RC_GTEST_PROP(MemoryModel, IsNeverBelowAMeasurementNorNegative, ()) {
  const auto steps = any_peaks();
  const auto model = al::fit_memory_model(steps);
  RC_ASSERT(model.fixed_bytes >= 0);
  RC_ASSERT(model.bytes_per_token >= 0);
  for (const auto& m : steps) {
    RC_ASSERT(model.peak_bytes(m.tokens()) >= static_cast<double>(*m.peak_memory_bytes));
  }
}

RC_GTEST_PROP(MemoryModel, NoLineAboveTheMeasurementsIsCloser, ()) {
  const auto steps = any_peaks();
  const auto model = al::fit_memory_model(steps);
  // The tightest line of another slope.
  al::memory_model other = model;
  other.bytes_per_token = model.bytes_per_token * *rc::gen::inRange(0, 300) / 100.0 +
                          *rc::gen::element(0.0, 1.0, 100.0);
  other.fixed_bytes = 0;
  for (const auto& m : steps) {
    other.fixed_bytes =
        std::max(other.fixed_bytes, static_cast<double>(*m.peak_memory_bytes) -
                                        other.bytes_per_token * static_cast<double>(m.tokens()));
  }
  double excess = 0;
  for (const auto& m : steps) {
    excess += other.peak_bytes(m.tokens()) / static_cast<double>(*m.peak_memory_bytes) - 1;
  }
  RC_ASSERT(model.mean_relative_excess <=
            excess / static_cast<double>(steps.size()) * (1 + 1e-9) + 1e-9);
}

RC_GTEST_PROP(MemoryModel, MaxTokensIsTheMostThatFits, ()) {
  const auto steps = any_peaks();
  const auto model = al::fit_memory_model(steps);
  RC_PRE(model.bytes_per_token > 0);
  const auto budget =
      static_cast<std::int64_t>(model.peak_bytes(*rc::gen::inRange(2, 1000000)) + 1);
  const auto tokens = model.max_tokens(budget, 0.0);
  RC_ASSERT(model.peak_bytes(tokens) <= static_cast<double>(budget) * (1 + 1e-12));
  RC_ASSERT(model.peak_bytes(tokens + 1) > static_cast<double>(budget) * (1 - 1e-12));
}

TEST(MemoryModel, AShapeThatRanOutOfMemoryIsABound) {
  const std::vector<al::measurement> steps{peak(1, 100, 1100), peak(2, 100, 1200)};
  const std::vector<al::step_shape> failed{{8, 100}, {5, 100}};
  const auto model = al::fit_memory_model(steps, failed);
  EXPECT_EQ(model.max_tokens(1400, 0), 400);
  EXPECT_EQ(model.max_tokens(1'000'000, 0), 499);
}

TEST(MemoryModel, MeasurementsWithoutAPeakArePassedOver) {
  const std::vector<al::measurement> steps{peak(1, 100, 1100), {50, 100, 1.0}, peak(2, 100, 1200)};
  EXPECT_EQ(al::fit_memory_model(steps).most_tokens, 200);
}

TEST(MemoryModel, FlatMemoryLeavesOnlyThatBound) {
  const std::vector<al::measurement> steps{peak(1, 100, 1200), peak(2, 100, 1100)};
  const std::vector<al::step_shape> failed{{8, 100}};
  const auto model = al::fit_memory_model(steps, failed);
  EXPECT_EQ(model.bytes_per_token, 0);
  EXPECT_EQ(model.fixed_bytes, 1200);
  EXPECT_EQ(model.max_tokens(2000), 799);
}

TEST(MemoryModel, TheSafetyMarginIsAShareOfTheBudget) {
  const std::vector<al::measurement> steps{peak(1, 100, 1100), peak(2, 100, 1200)};
  const auto model = al::fit_memory_model(steps);
  EXPECT_EQ(model.max_tokens(2000, 0.1), 800);
  EXPECT_EQ(model.max_tokens(2000), 900);  // 5 %
}

template <class Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(MemoryModel, BadInputIsNamed) {
  const std::vector<al::measurement> steps{peak(1, 100, 1100), peak(2, 100, 1200)};
  const auto model = al::fit_memory_model(steps);
  EXPECT_EQ(error_of([&] { (void)model.max_tokens(2000, 1.0); }),
            "safety_margin is 1; allowed: 0 or more, below 1");
  EXPECT_EQ(error_of([&] { (void)model.max_tokens(1000, 0.0); }),
            "budget_bytes is 1000; allowed: at least, after the safety margin, the memory of a "
            "step of one token");
  EXPECT_EQ(error_of([&] { (void)al::fit_memory_model(std::span(steps).first(1)); }),
            "measurements: distinct token counts with peak_memory_bytes is 1; allowed: 2 or more");
  const std::vector<al::measurement> bad{peak(1, 100, 1100), peak(2, 100, 0)};
  EXPECT_EQ(error_of([&] { (void)al::fit_memory_model(bad); }),
            "measurements[1].peak_memory_bytes is 0; allowed: 1 or more, or absent");
  const std::vector<al::step_shape> none{{0, 100}};
  EXPECT_EQ(error_of([&] { (void)al::fit_memory_model(steps, none); }),
            "out_of_memory: batch_size is 0; allowed: 1 or more");
  const std::vector<al::step_shape> no_tokens{{1, 0}};
  EXPECT_EQ(error_of([&] { (void)al::fit_memory_model(steps, no_tokens); }),
            "out_of_memory: sequence_length is 0; allowed: 1 or more, and fewer than 2^63 tokens");
}

TEST(MemoryModel, OnAnH200MemoryIsAffineInTokens) {
  const auto model =
      al::fit_memory_model(al::read_measurements(ADAPTIVELOAD_DATA "/wan2.1_1.3b_h200_steps.csv"));
  EXPECT_LT(model.mean_relative_excess, 0.07);
  EXPECT_LT(model.worst_relative_excess, 0.14);
}

}  // namespace
