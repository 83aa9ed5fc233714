#include <gtest/gtest.h>

#include <adaptiveload/schedule/load_report.hpp>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace al = adaptiveload;

namespace {

TEST(LoadReport, BubbleIsTheShareOfTimeSpentWaiting) {
  const std::vector<double> rank_ms{100, 50, 200, 100};  // two steps of two ranks
  const auto report = al::report_load(rank_ms, 2, 30, 6000);
  EXPECT_EQ(report.steps, 2);
  EXPECT_EQ(report.samples, 30);
  EXPECT_EQ(report.tokens, 6000);
  EXPECT_DOUBLE_EQ(report.epoch_ms, 300);
  EXPECT_DOUBLE_EQ(report.bubble, 1 - 450.0 / 600);
  EXPECT_DOUBLE_EQ(report.step_cv, 50.0 / 150);
  EXPECT_DOUBLE_EQ(report.compute_cv, (25.0 / 75 + 50.0 / 150) / 2);
  EXPECT_DOUBLE_EQ(report.tokens_per_second_per_rank, 6000 / 0.6);
  EXPECT_DOUBLE_EQ(report.samples_per_second_per_rank, 30 / 0.6);
}

TEST(LoadReport, EqualRanksHaveNoBubble) {
  const std::vector<double> rank_ms(12, 7.0);
  const auto report = al::report_load(rank_ms, 4, 1, 1);
  EXPECT_EQ(report.bubble, 0);
  EXPECT_EQ(report.compute_cv, 0);
  EXPECT_EQ(report.step_cv, 0);
}

TEST(LoadReport, PeakMemoryIsThatOfTheLargestMicroBatch) {
  al::load_recorder recorder(1);
  for (const std::int64_t tokens : {300, 1000, 20}) recorder.add_micro_batch(tokens);
  const al::load_report report = recorder.report();
  EXPECT_EQ(report.peak_tokens, 1000);
  EXPECT_EQ(report.peak_bytes({.fixed_bytes = 5e6, .bytes_per_token = 2e3}), 7e6);
}

TEST(LoadReport, BadArgumentsAreNamed) {
  const std::vector<double> three{1, 2, 3};
  const std::vector<double> bad{1, std::nan("")};
  EXPECT_THROW(al::report_load(three, 0, 1, 1), std::invalid_argument);
  EXPECT_THROW(al::report_load(three, 2, 1, 1), std::invalid_argument);
  EXPECT_THROW(al::report_load({}, 2, 1, 1), std::invalid_argument);
  EXPECT_THROW(al::report_load(bad, 2, 1, 1), std::invalid_argument);
}

}  // namespace
