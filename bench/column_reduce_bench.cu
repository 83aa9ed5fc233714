// Column sums of bfloat16 matrices, as fractions of a kernel that reads the matrix and does nothing
// else. Of each the sums of every column are checked first.
#include <benchmark/benchmark.h>

#include <adaptiveload/column_reduce.cuh>
#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

#include "gpu_time.hpp"
#include "run_benchmarks.hpp"

namespace al = adaptiveload;

namespace {

using element = __nv_bfloat16;

constexpr al::column_reduce_shape shapes[] = {{65536, 1536, 1}, {65536, 1536, 16}, {65536, 3072, 1},
                                              {65536, 5120, 1}, {1 << 20, 128, 1}, {8192, 16384, 1},
                                              {256, 1536, 1},   {2048, 1536, 1},   {8192, 1536, 1}};

constexpr int threads = 256;

/// Each thread reads `PerThread` times 16 bytes.
template <int PerThread, bool Streaming>
__global__ void __launch_bounds__(threads)
    read(const uint4* from, std::int64_t size, uint4* never) {
  const std::int64_t first = blockIdx.x * std::int64_t{threads} * PerThread + threadIdx.x;
  uint4 value[PerThread] = {};
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const std::int64_t at = first + i * threads;
    if (at < size) value[i] = Streaming ? __ldcs(from + at) : from[at];
  }
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {  // no pair of random numbers is this
    if (value[i].x == 0x7fc17fc1 && value[i].y == 0x7fc27fc2) *never = value[i];
  }
}

template <int PerThread, bool Streaming>
double read_seconds(const device_array<element>& matrix, std::int64_t elements) {
  const std::int64_t size = elements * 2 / static_cast<std::int64_t>(sizeof(uint4));
  constexpr std::int64_t per_block = std::int64_t{threads} * PerThread;
  const auto blocks = static_cast<unsigned>((size + per_block - 1) / per_block);
  const device_array<uint4> never(1);
  return median_seconds([&](cudaStream_t stream) {
    read<PerThread, Streaming><<<blocks, threads, 0, stream>>>(
        reinterpret_cast<const uint4*>(matrix.data()), size, never.data());
    check(cudaGetLastError(), "read");
  });
}

double best_read_seconds(const device_array<element>& matrix, std::int64_t elements) {
  return std::min(
      {read_seconds<1, false>(matrix, elements), read_seconds<2, false>(matrix, elements),
       read_seconds<4, false>(matrix, elements), read_seconds<8, false>(matrix, elements),
       read_seconds<4, true>(matrix, elements), read_seconds<8, true>(matrix, elements)});
}

__device__ float weight(std::int64_t row) {
  return static_cast<float>(row % 7) - 2.5f;
}

__global__ void fill_weights(float* weights, std::int64_t rows) {
  const std::int64_t row = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  if (row < rows) weights[row] = weight(row);
}

/// Adds 64 rows of one column to its group's sums, [2, groups, columns] and zero before.
__global__ void add_in_double(const element* matrix, al::column_reduce_shape shape, double* sums) {
  const std::int64_t column = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  if (column >= shape.columns) return;
  const std::int64_t first = blockIdx.y * std::int64_t{64}, rows = shape.rows / shape.groups;
  for (std::int64_t row = first; row < first + 64 && row < shape.rows; ++row) {
    const double value = __bfloat162float(matrix[row * shape.columns + column]);
    double* const to = sums + row / rows * shape.columns + column;
    atomicAdd(to, value);
    atomicAdd(to + shape.groups * shape.columns, value * weight(row));
  }
}

/// The largest difference of sums from those in double, relative to the root of their number.
double error_of(const device_array<element>& matrix, const al::column_reduce_shape& shape,
                const float* sums, const float* weighted) {
  const auto count = static_cast<std::size_t>(shape.groups * shape.columns);
  const device_array<double> in_double(static_cast<std::int64_t>(2 * count));
  check(cudaMemset(in_double.data(), 0, 2 * count * sizeof(double)), "cudaMemset");
  const dim3 blocks(static_cast<unsigned>((shape.columns + threads - 1) / threads),
                    static_cast<unsigned>((shape.rows + 63) / 64));
  add_in_double<<<blocks, threads>>>(matrix.data(), shape, in_double.data());
  check(cudaGetLastError(), "the check");
  std::vector<double> expected(2 * count);
  std::vector<float> got(2 * count);
  const auto copy = [](void* to, const void* from, std::size_t bytes) {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "the sums");
  };
  copy(expected.data(), in_double.data(), 2 * count * sizeof(double));
  copy(got.data(), sums, count * sizeof(float));
  copy(got.data() + count, weighted, count * sizeof(float));
  double worst = 0;
  for (std::size_t i = 0; i < (weighted == sums ? count : 2 * count); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    worst = error <= worst ? worst : error;  // a NaN stays
  }
  return worst / std::sqrt(static_cast<double>(shape.rows / shape.groups));
}

void measure(benchmark::State& state, bool weighted, const al::column_reduce_shape& shape) {
  try {
    const std::int64_t elements = shape.rows * shape.columns;
    const device_array<element> matrix = random_activation(elements);
    const device_array<float> weights(shape.rows);
    fill_weights<<<static_cast<unsigned>((shape.rows + threads - 1) / threads), threads>>>(
        weights.data(), shape.rows);
    check(cudaGetLastError(), "fill_weights");
    const device_array<float> sums(shape.groups * shape.columns);
    const device_array<float> weighted_sums(shape.groups * shape.columns);
    const std::size_t scratch_bytes = al::column_reduce_scratch_bytes(shape);
    const device_array<std::byte> scratch(static_cast<std::int64_t>(scratch_bytes));
    al::column_reduce_args<element> args{.shape = shape,
                                         .matrix = matrix.data(),
                                         .sums = {sums.data(), shape.columns},
                                         .scratch = scratch.data(),
                                         .scratch_bytes = scratch_bytes};
    if (weighted) {
      args.weights = weights.data();
      args.weighted_sums = {weighted_sums.data(), shape.columns};
    }
    al::column_reduce(args);
    const double error =
        error_of(matrix, shape, sums.data(), weighted ? weighted_sums.data() : sums.data());
    if (!(error < 1e-4)) {
      state.SkipWithError(("wrong results: off by " + std::to_string(error)).c_str());
      return;
    }
    const double roof = best_read_seconds(matrix, elements);
    for (auto _ : state) {
      const double seconds =
          median_seconds([&](cudaStream_t stream) { al::column_reduce(args, stream); });
      state.SetIterationTime(seconds);
      state.SetBytesProcessed(2 * elements);
      state.counters["fraction_of_roof"] = roof / seconds;
    }
  } catch (const std::exception& e) {
    cudaGetLastError();
    state.SkipWithError(e.what());
  }
}

void add_all() {
  for (const bool weighted : {false, true}) {
    for (const al::column_reduce_shape& shape : shapes) {
      const std::string name = std::string(weighted ? "sums_and_weighted_sums" : "sums") +
                               "/rows:" + std::to_string(shape.rows) +
                               "/columns:" + std::to_string(shape.columns) +
                               "/groups:" + std::to_string(shape.groups);
      benchmark::RegisterBenchmark(
          name.c_str(), [=](benchmark::State& state) { measure(state, weighted, shape); })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_benchmarks("column_reduce_bench", {argv, argv + argc}, add_all);
}
