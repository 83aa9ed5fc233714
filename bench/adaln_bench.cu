// The AdaLN operations on a GPU: the library's kernels beside what else there is, each as a
// fraction of a kernel that moves the same activations and does nothing else.
#include <benchmark/benchmark.h>

#include <exception>
#include <iterator>
#include <string>
#include <vector>

#include "contender.hpp"
#include "gpu_time.hpp"
#include "result_check.hpp"
#include "run_benchmarks.hpp"

namespace al = adaptiveload;

namespace {

struct workload {
  al::activation_shape shape;
  std::vector<std::int32_t> positions = {};  ///< of packed samples; none: not packed

  std::int64_t elements() const {
    return (positions.empty() ? shape.batch : 1) * shape.tokens * shape.features;
  }
  std::string name() const {
    const std::string sizes = "/B:" + std::to_string(shape.batch) +
                              "/S:" + std::to_string(shape.tokens) +
                              "/D:" + std::to_string(shape.features);
    const std::string groups =
        shape.groups > 1 ? "/groups:" + std::to_string(shape.groups) : std::string();
    return sizes + groups + (positions.empty() ? "" : "/packed");
  }
};

/// For everybody.
const workload large_workloads[] = {
    {{1, 65536, 1536}}, {{16, 4096, 1536}}, {{1, 65536, 3072}}, {{1, 65536, 5120}}};

/// A video's 75,600 tokens between 2,000 samples of 256.
workload packed(std::int64_t features) {
  std::vector<std::int32_t> positions = {0};
  for (int sample = 0; sample < 2001; ++sample) {
    positions.push_back(positions.back() + (sample == 1000 ? 75600 : 256));
  }
  return {{2001, positions.back(), features}, positions};
}

/// For the library's kernels alone: few rows, short ones, wide ones; a vector per frame, per token;
/// and samples of very different lengths, before as many rows of equal ones.
const workload other_workloads[] = {
    {{1, 256, 1536}},       {{1, 1024, 1536}},         {{1, 8192, 1536}},
    {{1, 1 << 20, 128}},    {{1, 8192, 16384}},        {{2, 32768, 1536, 16}},
    {{2, 32768, 3072, 16}}, {{1, 65536, 1536, 65536}}, {{1, 65536, 3072, 65536}},
    packed(1536),           {{2260, 260, 1536}}};

void report(benchmark::State& state, const traffic& moved, std::int64_t elements, double seconds) {
  state.SetIterationTime(seconds);
  state.SetBytesProcessed((moved.reads + moved.writes) * 2 * elements);
  state.counters["fraction_of_roof"] = roof_seconds(moved, elements) / seconds;
}

void measure(benchmark::State& state, const contender& who, const workload& work) {
  try {
    const traffic moved = traffic_of(who.what, work.shape);
    roof_seconds(moved, work.elements());  // while there is no other memory in use
    const tensors t(work.shape, work.positions);
    al::layernorm_modulate_forward(t.forward());  // the statistics that backwards need
    const enqueue call = who.prepare(t);
    const std::string problems = check_results(who, t, call);
    if (!problems.empty()) {
      state.SkipWithError(("wrong results: " + problems).c_str());
      return;
    }
    for (auto _ : state) report(state, moved, t.elements, median_seconds(call));
  } catch (const std::exception& e) {
    cudaGetLastError();
    state.SkipWithError(e.what());
  }
}

void measure_roof(benchmark::State& state, const operation& what, const workload& work) {
  try {
    const traffic moved = traffic_of(what, work.shape);
    for (auto _ : state) {
      report(state, moved, work.elements(), roof_seconds(moved, work.elements()));
    }
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

template <class... Arguments, class F>
void add(const std::string& name, F f, const Arguments&... arguments) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) { f(state, arguments...); })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

void add_all() {
  std::vector<contender> everybody = fused();
  const auto append = [&](std::vector<contender> others) {
    everybody.insert(everybody.end(), std::make_move_iterator(others.begin()),
                     std::make_move_iterator(others.end()));
  };
  append(discrete_chain());
  append(textbook());
#ifdef ADAPTIVELOAD_HAS_CUDNN
  append(cudnn());
#endif
  const auto add_workload = [](const workload& work, const std::vector<contender>& contenders) {
    for (const operation& what : operations) {
      const auto name = [&](const std::string& who) {
        return std::string(what.name) + "/" + who + work.name();
      };
      add(name("roof"), measure_roof, what, work);
      for (const contender& who : contenders) {
        if (who.what == what) add(name(who.name), measure, who, work);
      }
    }
  };
  for (const workload& work : large_workloads) add_workload(work, everybody);
  for (const workload& work : other_workloads) add_workload(work, fused());
}

}  // namespace

int main(int argc, char** argv) {
  return run_benchmarks("adaln_bench", {argv, argv + argc}, add_all);
}
