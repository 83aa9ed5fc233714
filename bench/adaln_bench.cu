// The AdaLN operations on a GPU: the library's kernels beside what else there is, each as a
// fraction of a kernel that moves the same activations and does nothing else.
#include <benchmark/benchmark.h>

#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "contender.hpp"
#include "gpu_time.hpp"
#include "result_check.hpp"
#include "run_benchmarks.hpp"

namespace al = adaptiveload;

namespace {

constexpr al::activation_shape large_shapes[] = {
    {1, 65536, 1536}, {16, 4096, 1536}, {1, 65536, 3072}, {1, 65536, 5120}};
/// For the library's kernels and their nearest rivals only.
constexpr al::activation_shape other_shapes[] = {
    {1, 256, 1536}, {1, 1024, 1536}, {1, 8192, 1536}, {1, 1 << 20, 128}, {1, 8192, 16384}};

std::string name_of(const operation& what, const std::string& who, const al::activation_shape& s) {
  return std::string(what.name) + "/" + who + "/B:" + std::to_string(s.batch) +
         "/S:" + std::to_string(s.tokens) + "/D:" + std::to_string(s.features);
}

void report(benchmark::State& state, const operation& what, std::int64_t elements, double seconds) {
  state.SetIterationTime(seconds);
  state.SetBytesProcessed((what.reads + what.writes) * 2 * elements);
  state.counters["fraction_of_roof"] = roof_seconds(what, elements) / seconds;
}

void measure(benchmark::State& state, const contender& who, const al::activation_shape& shape) {
  try {
    const tensors t(shape);
    al::layernorm_modulate_forward(t.forward());  // the statistics that backwards need
    const enqueue call = who.prepare(t);
    const std::string problems = check_results(who, t, call);
    if (!problems.empty()) {
      state.SkipWithError(("wrong results: " + problems).c_str());
      return;
    }
    for (auto _ : state) report(state, who.what, t.elements, median_seconds(call));
  } catch (const std::exception& e) {
    cudaGetLastError();
    state.SkipWithError(e.what());
  }
}

void measure_roof(benchmark::State& state, const operation& what, std::int64_t elements) {
  try {
    for (auto _ : state) report(state, what, elements, roof_seconds(what, elements));
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
  for (const al::activation_shape& shape : large_shapes) {
    for (const operation& what : {modulate_forward, modulate_backward}) {
      add(name_of(what, "roof", shape), measure_roof, what,
          shape.batch * shape.tokens * shape.features);
      for (const contender& who : everybody) {
        if (std::strcmp(who.what.name, what.name) == 0)
          add(name_of(what, who.name, shape), measure, who, shape);
      }
    }
  }
  for (const al::activation_shape& shape : other_shapes) {
    for (const contender& who : fused())
      add(name_of(who.what, who.name, shape), measure, who, shape);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_benchmarks("adaln_bench", {argv, argv + argc}, add_all);
}
