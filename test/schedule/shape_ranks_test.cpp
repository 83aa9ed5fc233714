#include <gtest/gtest.h>

#include <adaptiveload/schedule/shape_benchmark.hpp>
#include <algorithm>
#include <barrier>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "shape_benchmark_case.hpp"

namespace {

/// Where ranks, a thread each, find the largest of their values.
class meeting {
 public:
  explicit meeting(int ranks) : values_(static_cast<std::size_t>(ranks)), all_(ranks) {}

  double largest(int rank, double value) {
    values_[static_cast<std::size_t>(rank)] = value;
    all_.arrive_and_wait();
    const double result = *std::max_element(values_.begin(), values_.end());
    all_.arrive_and_wait();
    return result;
  }

 private:
  std::vector<double> values_;
  std::barrier<> all_;
};

TEST_F(Record, RanksOfUnequalSpeedAgree) {
  constexpr int ranks = 3;
  std::vector<al::measured_steps> results(ranks);
  std::vector<job> jobs(ranks);
  for (int run = 0; run < 2; ++run) {  // the second resumes from the record, which rank 0 has
    meeting meet(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      jobs[rank] = job{.most_tokens = 160000 - 20000 * rank, .speed = 1 + 0.2 * rank};
      threads.emplace_back([&, rank] {
        // Last bits that differ, as between two makes of processor.
        std::fesetround(rank == 1 ? FE_UPWARD : FE_TONEAREST);
        auto options = jobs[rank].options();
        options.budget_seconds = 200;
        if (rank == 0) options.record = path;
        options.slowest_rank = [&, rank](double v) { return meet.largest(rank, v); };
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
  meeting meet(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      job j;
      auto options = j.options();
      options.slowest_rank = [&, rank](double v) { return meet.largest(rank, v); };
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

}  // namespace
