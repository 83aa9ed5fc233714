#pragma once

#include <gtest/gtest.h>

#include <adaptiveload/schedule/cost_fit.hpp>
#include <adaptiveload/schedule/shape_benchmark.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace al = adaptiveload;

inline const std::vector<std::int64_t> lengths{256, 1024, 1560, 4096, 7800, 20280, 32760, 75600};
inline constexpr al::cost_curve truth{
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

/// Tests that have a file to record in.
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
