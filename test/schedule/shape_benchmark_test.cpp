#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/cost_fit.hpp>
#include <adaptiveload/schedule/memory_model.hpp>
#include <adaptiveload/schedule/shape_benchmark.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "shape_benchmark_case.hpp"

namespace {

RC_GTEST_PROP(LargestBatchSize, IsFoundInAFewTrials, ()) {
  const auto limit = *rc::gen::inRange<std::int64_t>(0, 100000);
  const auto most = *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 200000),
                                    rc::gen::just(std::numeric_limits<std::int64_t>::max()));
  int trials = 0;
  const auto fits = [&](std::int64_t b) {
    ++trials;
    RC_ASSERT(b >= 1);
    RC_ASSERT(b <= most);
    return b <= limit;
  };
  RC_ASSERT(al::largest_batch_size(most, fits) == std::min(limit, most));
  RC_ASSERT(trials <= 2 * std::log2(static_cast<double>(limit) + 2) + 2);
}

TEST(ShapeBenchmark, TellsEnoughToPredictEveryShape) {
  job j;
  const auto steps = al::benchmark_shapes(j, j.options());
  const auto model = al::fit_cost_model(steps.measurements);
  for (const std::int64_t s : lengths) {
    for (std::int64_t b = 1; b * s <= j.most_tokens; b += 1 + b / 3) {
      EXPECT_NEAR(model.step_ms(b, s) / truth.step_ms(b, s), 1, 0.01) << b << " x " << s;
      EXPECT_FALSE(model.predict(b, s).extrapolated) << b << " x " << s;
    }
  }
}

TEST(ShapeBenchmark, AFewShapesWellChosenAreEnough) {
  job j;
  auto options = j.options();
  options.budget_seconds = 110;
  const auto steps = al::benchmark_shapes(j, options);
  EXPECT_LT(steps.measurements.size(), 30u);
  const auto model = al::fit_cost_model(steps.measurements);
  for (const std::int64_t s : lengths) {
    for (std::int64_t b = 1; b * s <= j.most_tokens; b *= 2) {
      EXPECT_NEAR(model.step_ms(b, s) / truth.step_ms(b, s), 1, 0.05) << b << " x " << s;
    }
  }
}

TEST(ShapeBenchmark, TwoMinutesOfNoisyStepsPredictAnH200) {
  // Steps as measured, with 2 % of scatter and a stall now and then.
  const auto measured = al::read_measurements(ADAPTIVELOAD_DATA "/wan2.1_1.3b_h200_steps.csv");
  const auto h200 = al::fit_cost_model(measured);
  double now_ms = 0;
  std::mt19937 random(5);
  const auto step = [&](std::int64_t b, std::int64_t s) {
    if (b * s > 100000) throw al::out_of_memory("too large");
    const double noise = 0.02 * std::normal_distribution<>()(random);
    now_ms += h200.step_ms(b, s) * std::exp(noise) * (random() % 40 == 0 ? 3 : 1);
  };
  al::shape_benchmark_options options;
  options.sequence_lengths = {256, 1024, 1560, 3600, 7800, 14040, 20280, 32760, 75600};
  options.budget_seconds = 120;
  options.now_ms = [&] { return now_ms; };
  const auto model = al::fit_cost_model(al::benchmark_shapes(step, options).measurements);
  double error = 0;
  double count = 0;
  for (const auto& m : measured) {
    if (m.tokens() < 8192) continue;
    error += std::abs(model.step_ms(m.batch_size, m.sequence_length) / m.step_ms - 1);
    ++count;
  }
  EXPECT_LT(error / count, 0.03);
}

TEST(ShapeBenchmark, KeepsToItsBudget) {
  for (const double budget : {1.0, 30.0, 100.0, 1000.0}) {
    job j;
    auto options = j.options();
    options.budget_seconds = budget;
    (void)al::benchmark_shapes(j, options);
    // A step cannot be broken off: warm-up and first repetition of the longest sample.
    EXPECT_LT(j.now_ms, 1000 * budget + 2 * truth.step_ms(1, 75600));
  }
}

TEST(ShapeBenchmark, FindsTheLargestBatchOfTheEnds) {
  job j;
  const auto steps = al::benchmark_shapes(j, j.options());
  const auto has = [&](std::int64_t b, std::int64_t s) {
    return std::any_of(steps.measurements.begin(), steps.measurements.end(),
                       [&](const auto& m) { return m.batch_size == b && m.sequence_length == s; });
  };
  EXPECT_TRUE(has(1, 75600));
  EXPECT_TRUE(has(2, 75600));
  EXPECT_TRUE(has(1, 256));
  EXPECT_TRUE(has(625, 256));
  const auto memory = al::fit_memory_model(steps.measurements, steps.out_of_memory);
  EXPECT_EQ(memory.max_tokens(1'000'000'000'000), 626 * 256 - 1);
}

TEST(ShapeBenchmark, WhatRanOutOfMemoryIsNotTriedAgain) {
  job j;
  (void)al::benchmark_shapes(j, j.options());
  std::int64_t failed = std::numeric_limits<std::int64_t>::max();
  for (const auto& [b, s] : j.steps) {
    EXPECT_LT(b * s, failed);
    if (b * s > j.most_tokens) failed = b * s;
  }
}

TEST(ShapeBenchmark, ALengthThatDoesNotFitIsLeftOut) {
  job j;
  j.most_tokens = 30000;
  const auto steps = al::benchmark_shapes(j, j.options());
  for (const auto& m : steps.measurements) EXPECT_LE(m.sequence_length, 20280);
  EXPECT_TRUE(std::any_of(steps.measurements.begin(), steps.measurements.end(),
                          [](const auto& m) { return m.sequence_length == 20280; }));
}

TEST(ShapeBenchmark, KeepsToTheGivenTokens) {
  job j;
  auto options = j.options();
  options.max_tokens = 80000;
  const auto steps = al::benchmark_shapes(j, options);
  for (const auto& [b, s] : j.steps) EXPECT_LE(b * s, 80000);
  EXPECT_TRUE(steps.out_of_memory.empty());
}

TEST(ShapeBenchmark, WarmUpAndStallsDoNotCount) {
  job j;
  j.noise = [](std::int64_t b, std::int64_t, int run) {
    return run == 0 ? 3.0 : run == 2 && b % 2 == 0 ? 5.0 : 1.0;
  };
  auto options = j.options();
  options.budget_seconds = 2000;
  const auto steps = al::benchmark_shapes(j, options);
  ASSERT_GT(steps.measurements.size(), 10u);
  for (const auto& m : steps.measurements) {
    EXPECT_NEAR(m.step_ms, truth.step_ms(m.batch_size, m.sequence_length), 1e-9 * m.step_ms);
  }
}

TEST(ShapeBenchmark, ProgressRunsDownToTheEnd) {
  job j;
  auto options = j.options();
  std::vector<al::benchmark_progress> told;
  options.on_progress = [&](const al::benchmark_progress& p) { told.push_back(p); };
  const auto steps = al::benchmark_shapes(j, options);
  ASSERT_GE(told.size(), steps.measurements.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_GT(told[i].seconds_left, 0);
    EXPECT_LE(told[i].elapsed_seconds + told[i].seconds_left, options.budget_seconds + 1e-9);
    EXPECT_GE(told[i].elapsed_seconds, i > 0 ? told[i - 1].elapsed_seconds : 0);
  }
}

TEST(ShapeBenchmark, TheStepNeedNotTellItsMemory) {
  job j;
  const auto step = [&](std::int64_t b, std::int64_t s) { (void)j(b, s); };
  const auto steps = al::benchmark_shapes(step, j.options());
  EXPECT_FALSE(steps.measurements.empty());
  for (const auto& m : steps.measurements) EXPECT_FALSE(m.peak_memory_bytes.has_value());
}

TEST(ShapeBenchmark, BadOptionsAreNamed) {
  using options = al::shape_benchmark_options;
  const auto error_of = [](const std::function<void(options&)>& change) -> std::string {
    job j;
    options o = j.options();
    change(o);
    try {
      (void)al::benchmark_shapes(j, o);
    } catch (const std::invalid_argument& error) {
      EXPECT_TRUE(j.steps.empty());
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of([](options& o) { o.sequence_lengths.clear(); }),
            "sequence_lengths is empty; allowed: one or more lengths");
  EXPECT_EQ(error_of([](options& o) { o.sequence_lengths.push_back(0); }),
            "sequence_lengths is 0; allowed: 1 or more each");
  EXPECT_EQ(error_of([](options& o) { o.max_tokens = 75599; }),
            "max_tokens is 75599; allowed: at least the longest sequence length");
  EXPECT_EQ(error_of([](options& o) { o.budget_seconds = 0; }),
            "budget_seconds is 0; allowed: above 0");
  EXPECT_EQ(error_of([](options& o) { o.warm_up = -1; }), "warm_up is -1; allowed: 0 or more");
  EXPECT_EQ(error_of([](options& o) { o.least_repetitions = 0; }),
            "least_repetitions is 0; allowed: 1 or more");
  EXPECT_EQ(error_of([](options& o) { o.most_repetitions = 1; }),
            "most_repetitions is 1; allowed: at least least_repetitions");
  EXPECT_EQ(error_of([](options& o) { o.steady = 0; }), "steady is 0; allowed: above 0");
}

}  // namespace
