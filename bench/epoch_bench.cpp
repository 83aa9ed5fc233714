// What an epoch costs as a function: its start, all of its steps, any one step. No memory grows
// with the samples; `bytes_per_sample` is what an enumeration holds at most.
#include <benchmark/benchmark.h>

#include <adaptiveload/schedule.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace al = adaptiveload;

namespace {

std::atomic<std::size_t> bytes_held{0};
std::atomic<std::size_t> most_bytes{0};

constexpr std::size_t header = alignof(std::max_align_t);

}  // namespace

// Not inlined: g++ 12 would take the reach for the header for one out of bounds.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* block = std::malloc(size + header);
  if (block == nullptr) throw std::bad_alloc();
  *static_cast<std::size_t*>(block) = size;
  const std::size_t held = bytes_held += size;
  if (held > most_bytes) most_bytes = held;
  return static_cast<std::byte*>(block) + header;
}

[[gnu::noinline]] void operator delete(void* pointer) noexcept {
  if (pointer == nullptr) return;
  void* block = static_cast<std::byte*>(pointer) - header;
  bytes_held -= *static_cast<std::size_t*>(block);
  std::free(block);
}

[[gnu::noinline]] void operator delete(void* pointer, std::size_t) noexcept {
  operator delete(pointer);
}

namespace {

// The shapes of data/wan_mix.csv and their shares.
constexpr std::int64_t lengths[] = {1024,  1560,  4096,  7800,  14040, 20280,
                                    32760, 18000, 32400, 46800, 75600};
constexpr double shares[] = {0.22, 0.08, 0.06, 0.14, 0.14, 0.10, 0.12, 0.05, 0.04, 0.03, 0.02};

double step_ms(std::int64_t batch, std::int64_t s) {
  const auto length = static_cast<double>(s);
  return 26 + static_cast<double>(batch) * length * (0.0262 + 1.49e-6 * length);
}

/// Buckets of 302,400 tokens or, at the most to enumerate, of a single sample each.
std::vector<al::bucket> buckets(bool single) {
  return al::plan_buckets(lengths, al::equal_time_limits{single ? 1 : 302'400, step_ms(1, 75'600)},
                          step_ms);
}

std::vector<std::int64_t> counts(std::int64_t samples) {
  std::vector<std::int64_t> of_bucket;
  for (const double share : shares) {
    of_bucket.push_back(std::llround(share * static_cast<double>(samples)));
  }
  return of_bucket;
}

al::epoch_options options(al::ranks_wait wait) {
  return {.world_size = 1024, .micro_batches = 4, .seed = 1, .ranks_wait = wait};
}

void enumerate(benchmark::State& state, al::ranks_wait wait, bool single) {
  const std::vector<al::bucket> plan = buckets(single);
  const std::vector<std::int64_t> of_bucket = counts(state.range(0));
  const std::size_t before = bytes_held;
  most_bytes = before;
  std::int64_t samples = 0;
  for (auto _ : state) {
    const auto epoch = al::plan_epoch(plan, of_bucket, options(wait));
    epoch.for_each_step(epoch.start(), [&](const al::training_step& step) {
      for (const al::micro_batch& m : step.micro_batches) {
        for (std::int64_t i = 0; i < m.samples; ++i) {
          benchmark::DoNotOptimize(epoch.sample(m, i).index);
          ++samples;
        }
      }
    });
  }
  state.SetItemsProcessed(samples);
  state.SetComplexityN(state.range(0));
  state.counters["bytes_per_sample"] =
      static_cast<double>(most_bytes - before) / static_cast<double>(state.range(0));
}
BENCHMARK_CAPTURE(enumerate, waiting_at_every_step, al::ranks_wait::every_step, false)
    ->RangeMultiplier(10)
    ->Range(10'000, 10'000'000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);
BENCHMARK_CAPTURE(enumerate, waiting_at_every_micro_batch, al::ranks_wait::every_micro_batch, false)
    ->RangeMultiplier(10)
    ->Range(10'000, 10'000'000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);
BENCHMARK_CAPTURE(enumerate, of_a_sample_each, al::ranks_wait::every_step, true)
    ->RangeMultiplier(10)
    ->Range(10'000, 10'000'000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

/// From the bucket counts to the first step of all ranks.
void first_step(benchmark::State& state) {
  const std::vector<al::bucket> plan = buckets(false);
  const std::vector<std::int64_t> of_bucket = counts(state.range(0));
  for (auto _ : state) {
    const auto epoch = al::plan_epoch(plan, of_bucket, options(al::ranks_wait::every_step));
    benchmark::DoNotOptimize(epoch.step(0));
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(first_step)
    ->RangeMultiplier(10)
    ->Range(10'000, 1'000'000'000)
    ->Unit(benchmark::kMicrosecond)
    ->Complexity(benchmark::o1);

/// A step of all ranks at random.
void any_step(benchmark::State& state, std::int64_t ranks) {
  const std::vector<al::bucket> plan = buckets(false);
  al::epoch_options dealt = options(al::ranks_wait::every_step);
  dealt.world_size = ranks;
  const auto epoch = al::plan_epoch(plan, counts(state.range(0)), dealt);
  const std::int64_t steps = epoch.steps();
  std::uint64_t random = 0;
  for (auto _ : state) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const auto at = static_cast<std::int64_t>(random >> 33) % steps;
    benchmark::DoNotOptimize(epoch.step(at));
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK_CAPTURE(any_step, of_8_ranks, 8)
    ->RangeMultiplier(10)
    ->Range(10'000, 1'000'000'000)
    ->Unit(benchmark::kMicrosecond)
    ->Complexity(benchmark::o1);
BENCHMARK_CAPTURE(any_step, of_1024_ranks, 1024)
    ->RangeMultiplier(10)
    ->Range(1'000'000, 1'000'000'000)
    ->Unit(benchmark::kMicrosecond)
    ->Complexity(benchmark::o1);

}  // namespace
