#include <gtest/gtest.h>

#include <adaptiveload/schedule/shape_benchmark.hpp>
#include <cstdint>
#include <fstream>
#include <ios>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "shape_benchmark_case.hpp"

namespace {

TEST_F(Record, RepetitionsEndWhenTheMedianIsSteady) {
  job j;
  j.noise = [](std::int64_t, std::int64_t s, int run) {
    return s == 1024 ? 1 + 0.1 * (7 * run % 11) : 1.0;  // that length never settles
  };
  auto options = j.options();
  options.record = path;
  (void)al::benchmark_shapes(j, options);
  std::ifstream in(path);
  al::csv_reader rows(in, "record");
  while (rows.next()) {
    if (rows.text(rows.column("step_ms")) == "out_of_memory") continue;
    const bool noisy = rows.number<int>(rows.column("sequence_length")) == 1024;
    EXPECT_EQ(rows.number<int>(rows.column("repetitions")),
              noisy ? options.most_repetitions : options.least_repetitions);
  }
}

TEST_F(Record, ResumesWithoutMeasuringTwice) {
  job whole;
  const auto expected = al::benchmark_shapes(whole, whole.options());

  std::map<std::pair<std::int64_t, std::int64_t>, int> measured;
  for (std::size_t interrupted = 7;; interrupted += 23) {
    job j;
    auto options = j.options();
    options.record = path;
    options.on_progress = [&](const al::benchmark_progress& p) {
      measured[{p.batch_size, p.sequence_length}] += 1;
    };
    const auto step = [&](std::int64_t b, std::int64_t s) {
      if (j.steps.size() == interrupted) throw std::runtime_error("killed");
      return j(b, s);
    };
    try {
      const auto steps = al::benchmark_shapes(step, options);
      EXPECT_EQ(steps.out_of_memory, expected.out_of_memory);
      EXPECT_GE(steps.measurements.size(), expected.measurements.size());
      break;
    } catch (const std::runtime_error& error) {
      ASSERT_STREQ(error.what(), "killed");
      // The kill may come while a row is written.
      std::ofstream(path, std::ios::app) << "12,25";
    }
  }
  const auto record = al::read_measured_steps(path);
  for (const auto& m : record.measurements) {
    EXPECT_NEAR(m.step_ms, truth.step_ms(m.batch_size, m.sequence_length), 1e-9 * m.step_ms);
  }
  for (std::size_t i = 0; i < record.measurements.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      EXPECT_FALSE(record.measurements[i] == record.measurements[k]);
    }
  }
}

TEST_F(Record, AFinishedBenchmarkRunsNothing) {
  job first;
  auto options = first.options();
  options.record = path;
  options.max_tokens = 80000;
  options.budget_seconds = 10000;
  const auto steps = al::benchmark_shapes(first, options);
  const std::string written = text();

  job second;
  options.now_ms = [&] { return second.now_ms; };
  const auto again = al::benchmark_shapes(second, options);
  EXPECT_TRUE(second.steps.empty());
  EXPECT_EQ(again.measurements, steps.measurements);
  EXPECT_EQ(text(), written);
}

TEST_F(Record, IsAFileOfMeasurements) {
  job j;
  auto options = j.options();
  options.record = path;
  const auto steps = al::benchmark_shapes(j, options);
  EXPECT_EQ(al::read_measurements(path), steps.measurements);
  EXPECT_EQ(al::read_measured_steps(path).out_of_memory, steps.out_of_memory);
}

TEST_F(Record, AnotherFileIsNotWrittenTo) {
  for (const std::string other : {"batch_size,sequence_length,step_ms\n1,256,5\n", "half a line",
                                  "batch_size,sequence_length,step_ms\n1,256,5"}) {
    std::ofstream(path) << other;
    job j;
    auto options = j.options();
    options.record = path;
    EXPECT_THROW((void)al::benchmark_shapes(j, options), al::csv_error);
    EXPECT_EQ(text(), other);
    EXPECT_TRUE(j.steps.empty());
  }
}

TEST_F(Record, AHeaderThatWasCutOffIsWrittenAgain) {
  std::ofstream(path) << "batch_size,sequ";
  job j;
  auto options = j.options();
  options.record = path;
  const auto steps = al::benchmark_shapes(j, options);
  EXPECT_EQ(al::read_measurements(path), steps.measurements);
}

TEST_F(Record, AFileThatCannotBeWrittenIsNamedBeforeAnyStep) {
  job j;
  auto options = j.options();
  options.record = path / "below_a_file_that_is_not_a_folder.csv";
  try {
    (void)al::benchmark_shapes(j, options);
    FAIL();
  } catch (const al::csv_error& error) {
    EXPECT_EQ(std::string(error.what()),
              options.record.string() + ": cannot be written: No such file or directory");
  }
  EXPECT_TRUE(j.steps.empty());
}

}  // namespace
