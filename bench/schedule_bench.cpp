// What planning costs on the CPU: batch sizes, fits, predictions, plans.
#include <benchmark/benchmark.h>

#include <adaptiveload/schedule.hpp>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

constexpr std::array<std::int64_t, 12> lengths{256,  1024,  1560,  3600,  4096,  7800,
                                               9360, 14040, 20280, 32760, 48000, 75600};
constexpr std::int64_t max_tokens = 302400;
constexpr al::cost_curve h200{
    .floor_ms = 196, .fixed_ms = 26, .per_sample = 0.7, .slope = 0.0262, .quadratic = 1.49e-6};

/// So many steps of as many shapes, with a scatter of a percent.
std::vector<al::measurement> steps_of(std::int64_t count) {
  std::vector<al::measurement> steps;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t length = lengths[static_cast<std::size_t>(i) % lengths.size()] + 4 * i;
    const std::int64_t batch_size = 1 + i * 7919 % (1 + max_tokens / length);
    const double scatter = 1 + 0.01 * std::sin(static_cast<double>(i));
    steps.push_back({batch_size, length, h200.step_ms(batch_size, length) * scatter,
                     12'000'000'000 + 220'000 * batch_size * length});
  }
  return steps;
}

void batch_size(benchmark::State& state) {
  const double exponent = static_cast<double>(state.range(0)) / 10;
  const al::batch_limits limits{max_tokens, std::pow(75600.0, exponent), exponent};
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(al::batch_size(lengths[i], limits));
    i = (i + 1) % lengths.size();
  }
}
BENCHMARK(batch_size)->ArgName("10p")->Arg(20)->Arg(19);

void tokens(benchmark::State& state) {
  al::video_shape shape{.frames = 81, .height = 480, .width = 832};
  for (auto _ : state) {
    benchmark::DoNotOptimize(shape);
    benchmark::DoNotOptimize(al::wan21.tokens(shape));
  }
}
BENCHMARK(tokens);

void fit_power_law(benchmark::State& state) {
  const auto steps = steps_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(al::fit_power_law(steps));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(fit_power_law)
    ->ArgName("shapes")
    ->RangeMultiplier(4)
    ->Range(16, 256)
    ->Unit(benchmark::kMillisecond);

void fit_cost_model(benchmark::State& state) {
  const auto steps = steps_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(al::fit_cost_model(steps));
}
BENCHMARK(fit_cost_model)
    ->ArgName("shapes")
    ->RangeMultiplier(4)
    ->Range(16, 256)
    ->Unit(benchmark::kMillisecond);

void fit_memory_model(benchmark::State& state) {
  const auto steps = steps_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(al::fit_memory_model(steps));
}
BENCHMARK(fit_memory_model)->ArgName("shapes")->RangeMultiplier(4)->Range(16, 256);

void step_ms(benchmark::State& state) {
  const al::cost_model cost = al::fit_cost_model(steps_of(45));
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cost.step_ms(2, lengths[i]));
    i = (i + 1) % lengths.size();
  }
  state.SetLabel(std::string(al::name_of(cost.form())));
}
BENCHMARK(step_ms);

/// A bucket for each length, the target time given.
void plan_buckets(benchmark::State& state) {
  const al::cost_model cost = al::fit_cost_model(steps_of(45));
  const al::equal_time_limits limits{max_tokens, cost.step_ms(1, lengths.back())};
  for (auto _ : state) benchmark::DoNotOptimize(al::plan_buckets(lengths, limits, cost));
}
BENCHMARK(plan_buckets)->Unit(benchmark::kMicrosecond);

/// The same, the target time chosen by simulating epochs.
void choose_plan(benchmark::State& state) {
  const al::cost_model cost = al::fit_cost_model(steps_of(45));
  const std::vector<al::sample_source> sources{
      {.counts = std::vector<std::int64_t>(lengths.size(), 5000)}};
  const al::plan_options options{.max_tokens = max_tokens,
                                 .epoch = {.world_size = state.range(0), .micro_batches = 4}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        al::plan_buckets(std::span<const std::int64_t>(lengths), sources, cost, options));
  }
}
BENCHMARK(choose_plan)->ArgName("ranks")->Arg(8)->Arg(128)->Unit(benchmark::kMillisecond);

/// A step time, taken note of.
void observe(benchmark::State& state) {
  const auto steps = steps_of(45);
  al::calibration watched(al::fit_cost_model(steps), steps);
  std::size_t i = 0;
  for (auto _ : state) {
    watched.observe(1, lengths[i], h200.step_ms(1, lengths[i]));
    i = (i + 1) % lengths.size();
  }
}
BENCHMARK(observe);

/// Whether the plan still holds.
void drift(benchmark::State& state) {
  const auto steps = steps_of(45);
  al::calibration watched(al::fit_cost_model(steps), steps);
  for (int i = 0; i < 40; ++i) {
    for (const std::int64_t s : lengths) watched.observe(1, s, h200.step_ms(1, s));
  }
  for (auto _ : state) benchmark::DoNotOptimize(watched.drift());
}
BENCHMARK(drift)->Unit(benchmark::kMicrosecond);

}  // namespace
