#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/cost_fit.hpp>
#include <adaptiveload/schedule/memory_model.hpp>
#include <adaptiveload/schedule/shape_benchmark.hpp>
#include <algorithm>
#include <barrier>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace al = adaptiveload;

namespace {

const std::vector<std::int64_t> lengths{256, 1024, 1560, 4096, 7800, 20280, 32760, 75600};
constexpr al::cost_curve truth{
    .floor_ms = 190, .fixed_ms = 20, .per_sample = 1, .slope = 0.027, .quadratic = 1.5e-6};

/// A training job on a clock of its own.
struct job {
  double now_ms = 0;
  std::int64_t most_tokens = 160000;
  double speed = 1;
  std::function<double(std::int64_t, std::int64_t, int)> noise = [](auto...) { return 1.0; };
  std::vector<std::pair<std::int64_t, std::int64_t>> steps{};
  std::map<std::pair<std::int64_t, std::int64_t>, int> runs{};

  std::int64_t operator()(std::int64_t b, std::int64_t s) {
    steps.emplace_back(b, s);
    if (b * s > most_tokens) {
      now_ms += 100;
      throw al::out_of_memory("too large");
    }
    now_ms += truth.step_ms(b, s) / speed * noise(b, s, runs[{b, s}]++);
    return 11'000'000'000 + 200'000 * b * s;
  }

  al::shape_benchmark_options options() {
    al::shape_benchmark_options o;
    o.sequence_lengths = lengths;
    o.budget_seconds = 600;
    o.now_ms = [this] { return now_ms; };
    return o;
  }
};

class Record : public testing::Test {
 protected:
  Record() {
    path = std::filesystem::temp_directory_path() /
           ("adaptiveload_" +
            std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".csv");
    std::filesystem::remove(path);
  }
  ~Record() override { std::filesystem::remove(path); }

  [[nodiscard]] std::string text() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path path;
};

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

TEST_F(Record, RanksOfUnequalSpeedAgree) {
  constexpr int ranks = 3;
  std::vector<al::measured_steps> results(ranks);
  std::vector<job> jobs(ranks);
  for (int run = 0; run < 2; ++run) {  // the second resumes from the record, which rank 0 has
    double value[ranks];
    double most = 0;
    std::barrier meet(ranks, [&]() noexcept { most = *std::max_element(value, value + ranks); });
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      jobs[rank] = job{.most_tokens = 160000 - 20000 * rank, .speed = 1 + 0.2 * rank};
      threads.emplace_back([&, rank] {
        // Last bits that differ, as between two makes of processor.
        std::fesetround(rank == 1 ? FE_UPWARD : FE_TONEAREST);
        auto options = jobs[rank].options();
        options.budget_seconds = 200;
        if (rank == 0) options.record = path;
        options.slowest_rank = [&, rank](double v) {
          value[rank] = v;
          meet.arrive_and_wait();
          const double result = most;
          meet.arrive_and_wait();
          return result;
        };
        results[rank] = al::benchmark_shapes(jobs[rank], options);
      });
    }
    for (auto& thread : threads) thread.join();
    for (int rank = 1; rank < ranks; ++rank) {
      EXPECT_EQ(jobs[rank].steps, jobs[0].steps);
      EXPECT_EQ(results[rank].out_of_memory, results[0].out_of_memory);
      ASSERT_EQ(results[rank].measurements.size(), results[0].measurements.size());
      for (std::size_t i = 0; i < results[0].measurements.size(); ++i) {
        al::measurement m = results[rank].measurements[i];
        EXPECT_DOUBLE_EQ(m.step_ms, results[0].measurements[i].step_ms);
        m.step_ms = results[0].measurements[i].step_ms;
        EXPECT_EQ(m, results[0].measurements[i]);
      }
    }
  }
  ASSERT_GT(results[0].measurements.size(), 10u);
  for (const auto& m : results[0].measurements) {
    EXPECT_LE(m.tokens(), 120000);  // what fits on every rank
    EXPECT_NEAR(m.step_ms, truth.step_ms(m.batch_size, m.sequence_length), 1e-6 * m.step_ms);
  }
}

/// What each of three ranks throws, where `change` differs one from the others.
std::vector<std::string> errors_of_ranks(
    const std::function<void(int, al::shape_benchmark_options&)>& change,
    const std::function<void(int, std::int64_t, std::int64_t)>& before_step) {
  constexpr int ranks = 3;
  std::vector<std::string> errors(ranks, "no error");
  double value[ranks];
  double most = 0;
  std::barrier meet(ranks, [&]() noexcept { most = *std::max_element(value, value + ranks); });
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      job j;
      auto options = j.options();
      options.slowest_rank = [&, rank](double v) {
        value[rank] = v;
        meet.arrive_and_wait();
        const double result = most;
        meet.arrive_and_wait();
        return result;
      };
      change(rank, options);
      const auto step = [&](std::int64_t b, std::int64_t s) {
        before_step(rank, b, s);
        return j(b, s);
      };
      try {
        (void)al::benchmark_shapes(step, options);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

TEST(ShapeBenchmark, AStepThatFailsOnOneRankFailsOnAll) {
  const std::string other = "another rank failed at 2 samples of 75600 tokens";
  const auto nothing = [](int, al::shape_benchmark_options&) {};
  // Together with the others' steps, and where another one runs out of memory.
  for (const int out_of_memory_on : {-1, 2}) {
    const auto errors = errors_of_ranks(nothing, [&](int rank, std::int64_t b, std::int64_t s) {
      if (b != 2 || s != 75600) return;
      if (rank == 1) throw std::runtime_error("a link went down");
      if (rank == out_of_memory_on) throw al::out_of_memory("too large");
    });
    EXPECT_EQ(errors, (std::vector<std::string>{other, "a link went down", other}));
  }
}

TEST(ShapeBenchmark, RanksThatFailTogetherThrowTheirOwn) {
  const auto nothing = [](int, al::shape_benchmark_options&) {};
  const auto errors = errors_of_ranks(nothing, [](int rank, std::int64_t, std::int64_t) {
    if (rank != 1) throw std::runtime_error("rank " + std::to_string(rank));
  });
  EXPECT_EQ(errors, (std::vector<std::string>{
                        "rank 0", "another rank failed at 1 samples of 75600 tokens", "rank 2"}));
}

TEST_F(Record, ThatFailsOnItsRankFailsOnAll) {
  const auto any_step = [](int, std::int64_t, std::int64_t) {};
  const auto with_record = [&](int rank, al::shape_benchmark_options& o) {
    if (rank == 0) o.record = path / "below_a_file.csv";
  };
  const auto errors = errors_of_ranks(with_record, any_step);
  EXPECT_TRUE(errors[0].ends_with("cannot be written: No such file or directory")) << errors[0];
  EXPECT_EQ(errors[1], "another rank failed");
  EXPECT_EQ(errors[2], "another rank failed");
}

TEST(ShapeBenchmark, ACallersFunctionThatFailsOnOneRankFailsOnAll) {
  const auto any_step = [](int, std::int64_t, std::int64_t) {};
  const auto with_progress = [](int rank, al::shape_benchmark_options& o) {
    if (rank != 2) return;
    o.on_progress = [](const al::benchmark_progress& p) {
      if (p.measured == 5) throw std::runtime_error("the terminal is gone");
    };
  };
  const auto errors = errors_of_ranks(with_progress, any_step);
  EXPECT_TRUE(errors[0].starts_with("another rank failed at ")) << errors[0];
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_EQ(errors[2], "the terminal is gone");
}

TEST(ShapeBenchmark, AFailedReduceIsNotReducedAgain) {
  job j;
  auto options = j.options();
  int calls = 0;
  options.slowest_rank = [&](double) -> double {
    ++calls;
    throw std::runtime_error("no network");
  };
  EXPECT_THROW((void)al::benchmark_shapes(j, options), std::runtime_error);
  EXPECT_EQ(calls, 1);
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
