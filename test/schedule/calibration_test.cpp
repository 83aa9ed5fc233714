#include <gtest/gtest.h>

#include <adaptiveload/schedule/calibration.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

constexpr al::cost_curve planned{
    .floor_ms = 190, .fixed_ms = 20, .per_sample = 1, .slope = 0.027, .quadratic = 1.5e-6};

/// The shapes of a plan: about 2.5 s each.
const std::vector<al::step_shape> buckets{{300, 256}, {80, 1024}, {52, 1560}, {20, 3600},
                                          {8, 7800},  {3, 14040}, {2, 20280}, {1, 32760}};

al::measurement step_of(const al::cost_curve& curve, const al::step_shape& s) {
  return {s.batch_size, s.sequence_length, curve.step_ms(s.batch_size, s.sequence_length)};
}

std::vector<al::measurement> benchmark() {
  std::vector<al::measurement> steps;
  for (const std::int64_t s : {256, 1024, 3600, 7800, 20280, 32760, 75600}) {
    for (std::int64_t b = 1; b * s <= 100000; b *= 3) steps.push_back(step_of(planned, {b, s}));
  }
  return steps;
}

al::calibration watch(const al::calibration_options& options = {}) {
  return {al::fit_cost_model(benchmark()), benchmark(), options};
}

/// Runs every bucket so many times, with 2 % of scatter and a stall in twenty.
void run(al::calibration& watched, const al::cost_curve& truth, int times) {
  std::mt19937 random(3);
  for (int i = 0; i < times; ++i) {
    for (const al::step_shape& s : buckets) {
      const double noise = std::exp(0.02 * std::normal_distribution<>()(random));
      watched.observe(s.batch_size, s.sequence_length,
                      step_of(truth, s).step_ms * noise * (random() % 20 == 0 ? 4 : 1));
    }
  }
}

al::cost_curve times(double factor) {
  return {.floor_ms = factor * planned.floor_ms,
          .fixed_ms = factor * planned.fixed_ms,
          .per_sample = factor * planned.per_sample,
          .slope = factor * planned.slope,
          .quadratic = factor * planned.quadratic};
}

al::cost_curve with_attention_slowed(double factor) {
  al::cost_curve curve = planned;
  curve.quadratic *= factor;
  return curve;
}

TEST(Calibration, StepsAsPlannedAreNoDrift) {
  auto watched = watch();
  EXPECT_FALSE(watched.drift().drifted);  // before the first step
  run(watched, planned, 40);
  const al::plan_drift drift = watched.drift();
  EXPECT_NEAR(drift.slowdown, 1, 0.01);
  EXPECT_LT(drift.unevenness, 0.01);
  EXPECT_FALSE(drift.drifted);
}

TEST(Calibration, AllSlowerAlikeIsASlowdownAndEven) {
  auto watched = watch();
  run(watched, times(1.3), 40);
  const al::plan_drift drift = watched.drift();
  EXPECT_NEAR(drift.slowdown, 1.3, 0.013);
  EXPECT_LT(drift.unevenness, 0.01);
  EXPECT_TRUE(drift.drifted);
}

TEST(Calibration, SlowerAttentionIsUneven) {
  auto watched = watch();
  const al::cost_curve truth = with_attention_slowed(2);
  run(watched, truth, 40);
  const al::plan_drift drift = watched.drift();
  EXPECT_TRUE(drift.drifted);
  EXPECT_GT(drift.unevenness, 0.1);  // between 1.01 for images and 1.64 for the longest clip
}

TEST(Calibration, TheUpdatedModelPredictsWhatIsRunNow) {
  for (const al::cost_curve& truth :
       {planned, times(1.3), times(0.8), with_attention_slowed(1.5), with_attention_slowed(0.5)}) {
    auto watched = watch();
    run(watched, truth, 40);
    const al::cost_model model = watched.updated();
    for (const auto& [b, s] : buckets) {
      EXPECT_NEAR(model.step_ms(b, s) / truth.step_ms(b, s), 1, 0.02) << b << " x " << s;
      const std::int64_t half = (b + 1) / 2;  // a batch that a new plan might choose
      EXPECT_NEAR(model.step_ms(half, s) / truth.step_ms(half, s), 1, 0.05) << half << " x " << s;
    }
  }
}

TEST(Calibration, WhatWasBeforeIsForgotten) {
  auto watched = watch();
  run(watched, planned, 500);
  run(watched, times(1.5), 40);
  EXPECT_NEAR(watched.drift().slowdown, 1.5, 0.015);
}

TEST(Calibration, ShapesCountByTheirTime) {
  auto watched = watch();
  for (int i = 0; i < 100; ++i) watched.observe(1, 32760, 1.5 * planned.step_ms(1, 32760));
  for (int i = 0; i < 100; ++i) watched.observe(1, 1024, planned.step_ms(1, 1024));
  EXPECT_NEAR(watched.drift().slowdown, 1.5, 0.001);
}

TEST(Calibration, FewRunsOfAShapeAreNotListenedTo) {
  auto watched = watch({.least_run_count = 5});
  for (int i = 0; i < 4; ++i) watched.observe(1, 32760, 9000);
  EXPECT_TRUE(watched.observed().empty());
  EXPECT_EQ(watched.drift().slowdown, 1);
  EXPECT_NEAR(watched.updated().step_ms(1, 32760), planned.step_ms(1, 32760), 1);
  watched.observe(1, 32760, 9000);
  ASSERT_EQ(watched.observed().size(), 1u);
  EXPECT_EQ(watched.observed()[0].shape, (al::step_shape{1, 32760}));
  EXPECT_EQ(watched.observed()[0].observed_ms, 9000);
  EXPECT_EQ(watched.observed()[0].run_count, 5);
}

TEST(Calibration, ScatterAloneIsNotUneven) {
  std::mt19937 random(5);
  auto watched = watch();
  for (int i = 0; i < 8; ++i) {
    for (const al::step_shape& s : buckets) {
      const double noise = std::exp(0.25 * std::normal_distribution<>()(random));
      watched.observe(s.batch_size, s.sequence_length, step_of(planned, s).step_ms * noise);
    }
  }
  EXPECT_LT(watched.drift().unevenness, 0.05);
}

TEST(Calibration, KeepsTheShapesSeenLast) {
  auto watched = watch({.most_shapes = 3, .least_run_count = 1});
  for (const std::int64_t b : {1, 2, 3, 1, 4}) watched.observe(b, 256, 190);
  std::vector<std::int64_t> kept;
  for (const auto& s : watched.observed()) kept.push_back(s.shape.batch_size);
  EXPECT_EQ(kept, (std::vector<std::int64_t>{1, 3, 4}));
}

TEST(Calibration, BadInputIsNamed) {
  const auto error_of = [](const std::function<void()>& action) -> std::string {
    try {
      action();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  auto watched = watch();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_of([&] { watched.observe(0, 256, 1); }), "batch_size is 0; allowed: 1 or more");
  EXPECT_EQ(error_of([&] { watched.observe(1, 0, 1); }),
            "sequence_length is 0; allowed: 1 or more");
  EXPECT_EQ(error_of([&] { watched.observe(1, 256, 0); }),
            "step_ms is 0; allowed: finite and above 0");
  EXPECT_EQ(error_of([&] { watched.observe(1, 256, nan); }),
            "step_ms is nan; allowed: finite and above 0");
  EXPECT_EQ(error_of([] { (void)watch({.recent = 0}); }), "recent is 0; allowed: 1 or more");
  EXPECT_EQ(error_of([] { (void)watch({.most_shapes = 0}); }),
            "most_shapes is 0; allowed: 1 or more");
  EXPECT_EQ(error_of([] { (void)watch({.least_run_count = 0}); }),
            "least_run_count is 0; allowed: 1 or more");
  EXPECT_EQ(error_of([] { (void)watch({.tolerance = 0}); }), "tolerance is 0; allowed: above 0");
  EXPECT_EQ(error_of([] {
              al::calibration(al::cost_model(planned), {{1, 256, -1}});
            }),
            "measurements[0].step_ms is -1; allowed: finite and above 0");
  const al::calibration nothing(al::cost_model(planned), {});
  EXPECT_EQ(error_of([&] { (void)nothing.updated(); }),
            "measurements: distinct shapes is 0; allowed: 5 or more");
}

}  // namespace
