#include <adaptiveload/schedule.hpp>
#include <array>
#include <cstdint>
#include <cstdio>

int main() {
  namespace al = adaptiveload;

  const auto steps = al::read_measurements("data/wan2.1_1.3b_h200_steps.csv");
  const al::cost_model cost = al::fit_cost_model(steps);
  const al::memory_model memory = al::fit_memory_model(steps);

  const std::array lengths{al::wan21.tokens({.frames = 1, .height = 480, .width = 832}),
                           al::wan21.tokens({.frames = 33, .height = 480, .width = 832}),
                           al::wan21.tokens({.frames = 81, .height = 480, .width = 832})};
  const al::equal_time_limits limits{.max_tokens = memory.max_tokens(140'000'000'000),
                                     .target_ms = cost.step_ms(1, lengths.back())};
  for (const al::bucket& b : al::plan_buckets(lengths, limits, cost)) {
    std::printf("%jd tokens: %jd samples, %.0f ms\n", std::intmax_t{b.sequence_length},
                std::intmax_t{b.batch_size}, b.step_ms);
  }
}
