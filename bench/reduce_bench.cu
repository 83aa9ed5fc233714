// The library's reductions beside CUB's: nanoseconds of one, in a GPU full of blocks that do
// nothing else, each reduction waiting for the one before.
#include <benchmark/benchmark.h>

#include <adaptiveload/reduce.cuh>
#include <cmath>
#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <string>
#include <vector>

#include "gpu_time.hpp"
#include "run_benchmarks.hpp"

namespace al = adaptiveload;

namespace {

constexpr int reductions = 512, warp_threads = 256;

/// A thread's next value, given the sum before: sums stay near 1.
__device__ float next(float sum, int threads) {
  return fmaf(sum, 0.25f, 0.5f + 1e-3f * static_cast<float>(threadIdx.x % 4)) /
         static_cast<float>(threads);
}

struct ours {
  template <int Width>
  static __device__ float in_warp(float value) {
    return al::warp_reduce<Width>(value, al::plus{});
  }
  template <int Threads>
  static __device__ float in_block(float value, int i) {
    __shared__ float storage[2][32];
    return al::block_reduce(value, al::plus{}, storage[i % 2]);
  }
};

struct cubs {
  template <int Width>
  static __device__ float in_warp(float value) {
    using reduce = cub::WarpReduce<float, Width>;
    __shared__ typename reduce::TempStorage storage[warp_threads / Width];
    const float sum = reduce(storage[threadIdx.x / Width]).Sum(value);
    return __shfl_sync(0xffffffff, sum, 0, Width);
  }
  template <int Threads>
  static __device__ float in_block(float value, int i) {
    using reduce = cub::BlockReduce<float, Threads>;
    __shared__ typename reduce::TempStorage storage[2];
    __shared__ float result[2];
    const float sum = reduce(storage[i % 2]).Sum(value);
    if (threadIdx.x == 0) result[i % 2] = sum;
    __syncthreads();
    return result[i % 2];
  }
};

template <class Who, int Width>
__global__ void __launch_bounds__(warp_threads) reduce_in_warps(float* out) {
  float sum = 1;
  for (int i = 0; i < reductions; ++i) sum = Who::template in_warp<Width>(next(sum, Width));
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

template <class Who, int Threads>
__global__ void __launch_bounds__(Threads) reduce_in_blocks(float* out) {
  float sum = 1;
  for (int i = 0; i < reductions; ++i) {
    sum = Who::template in_block<Threads>(next(sum, Threads), i);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

using kernel = void (*)(float*);

std::vector<float> results(kernel k, unsigned threads) {
  const device_array<float> out(threads);
  k<<<1, threads>>>(out.data());
  std::vector<float> host(threads);
  check(cudaMemcpy(host.data(), out.data(), threads * sizeof(float), cudaMemcpyDeviceToHost),
        "the reduction");
  return host;
}

void measure(benchmark::State& state, kernel k, kernel other, unsigned threads) {
  const auto got = results(k, threads), expected = results(other, threads);
  for (unsigned i = 0; i < threads; ++i) {
    if (!(std::abs(got[i] - expected[i]) <= 1e-5f)) {
      state.SkipWithError("ours and CUB's differ");
      return;
    }
  }
  int device = 0, multiprocessors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  const auto blocks = static_cast<unsigned>(multiprocessors) * (2048 / threads);
  const device_array<float> out(std::int64_t{blocks} * threads);
  for (auto _ : state) {
    state.SetIterationTime(median_seconds([&](cudaStream_t stream) {
                             k<<<blocks, threads, 0, stream>>>(out.data());
                             check(cudaGetLastError(), "the reduction");
                           }) /
                           reductions);
  }
}

void add(const std::string& what, kernel of_ours, kernel of_cubs, unsigned threads) {
  for (const bool is_ours : {true, false}) {
    benchmark::RegisterBenchmark((what + (is_ours ? "/adaptiveload" : "/cub")).c_str(),
                                 [=](benchmark::State& state) {
                                   measure(state, is_ours ? of_ours : of_cubs,
                                           is_ours ? of_cubs : of_ours, threads);
                                 })
        ->UseManualTime()
        ->Iterations(1);
  }
}

template <int Width>
void add_warp() {
  add("sum_over_" + std::to_string(Width) + "_lanes", reduce_in_warps<ours, Width>,
      reduce_in_warps<cubs, Width>, warp_threads);
}

template <int Threads>
void add_block() {
  add("sum_over_" + std::to_string(Threads) + "_threads", reduce_in_blocks<ours, Threads>,
      reduce_in_blocks<cubs, Threads>, Threads);
}

void add_all() {
  add_warp<8>();
  add_warp<32>();
  add_block<128>();
  add_block<256>();
  add_block<512>();
  add_block<1024>();
}

}  // namespace

int main(int argc, char** argv) {
  return run_benchmarks("reduce_bench", {argv, argv + argc}, add_all);
}
