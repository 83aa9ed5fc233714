#include <gtest/gtest.h>

#include <adaptiveload/reduce.cuh>
#include <adaptiveload/support/device.cuh>
#include <adaptiveload/support/launch.cuh>
#include <cstdint>
#include <numeric>
#include <vector>

#include "device_buffer.hpp"

namespace al = adaptiveload;

namespace {

__global__ void saxpy(float a, const float* x, float* y, std::int64_t n) {
  const std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

TEST(device, every_thread_of_every_block_runs_once) {
  constexpr std::size_t n = 1000;
  std::vector<float> x(n), y(n);
  std::iota(x.begin(), x.end(), 1.f);
  std::iota(y.begin(), y.end(), 5.f);
  device_buffer<float> device_x(x), device_y(y);
  al::device::launch("saxpy", saxpy, 8, dim3(128), 0, nullptr, 2.f, device_x.data(),
                     device_y.data(), static_cast<std::int64_t>(n));
  const std::vector<float> got = device_y.download();
  for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(got[i], 2 * x[i] + y[i]) << i;
}

__global__ void sum_of_block(const float* x, float* sum) {
  float* const storage = reinterpret_cast<float*>(al::device::shared_memory());
  const float total =
      al::block_reduce(x[blockIdx.x * blockDim.x + threadIdx.x], al::plus{}, storage);
  if (threadIdx.x == 0) sum[blockIdx.x] = total;
}

TEST(device, threads_of_a_block_share_memory) {
  std::vector<float> x(3 * 96);
  std::iota(x.begin(), x.end(), 0.f);
  device_buffer<float> device_x(x), sum(3);
  al::device::launch("sum_of_block", sum_of_block, 3, dim3(96), 3 * sizeof(float), nullptr,
                     device_x.data(), sum.data());
  EXPECT_EQ(sum.download(), (std::vector<float>{96 * 47.5, 96 * 143.5, 96 * 239.5}));
}

}  // namespace
