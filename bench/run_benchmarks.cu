#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "run_benchmarks.hpp"

namespace {

void describe_machine() {
  int devices = 0, device = 0;
  cudaDeviceProp gpu{};
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 ||
      cudaGetDevice(&device) != cudaSuccess ||
      cudaGetDeviceProperties(&gpu, device) != cudaSuccess) {
    throw std::runtime_error("no CUDA device");
  }
  std::string driver = "unknown";
  std::ifstream("/sys/module/nvidia/version") >> driver;
  benchmark::AddCustomContext("gpu", gpu.name);
  benchmark::AddCustomContext("driver", driver);
  benchmark::AddCustomContext("cuda", std::to_string(CUDART_VERSION / 1000) + "." +
                                          std::to_string(CUDART_VERSION % 1000 / 10));
}

/// Turns "--json FILE" into Google Benchmark's options, for a file beside it; returns FILE.
std::string take_json_option(std::vector<std::string>& arguments) {
  for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
    if (arguments[i] != "--json") continue;
    const std::string file = arguments[i + 1];
    arguments[i] = "--benchmark_out=" + file + ".partial";
    arguments[i + 1] = "--benchmark_out_format=json";
    return file;
  }
  return "";
}

void run(std::vector<std::string>& arguments, void (*add_all)()) {
  const std::string json = take_json_option(arguments);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1) throw std::runtime_error(std::string(argv[1]) + " is no option; see --help");
  describe_machine();
  add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (!json.empty() && std::rename((json + ".partial").c_str(), json.c_str()) != 0) {
    throw std::runtime_error("can't write " + json);
  }
}

}  // namespace

int run_benchmarks(const std::string& program, std::vector<std::string> arguments,
                   void (*add_all)()) {
  try {
    run(arguments, add_all);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), e.what());
    return 1;
  }
}
