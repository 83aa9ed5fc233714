#pragma once

#include <cuda_bf16.h>

#include <cstdint>

/// Any element of the benchmark's random tensors by itself, on the CPU as on the GPU: so checks
/// need no copies of them.

/// Element i of a stream of numbers of deviation 1 about 0 (Steele et al. 2014, SplitMix).
__host__ __device__ inline float random_number(std::uint64_t stream, std::int64_t i) {
  std::uint64_t z =
      stream * 0xd1342543de82ef95 + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  const auto sum =
      static_cast<float>((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48));
  return (sum * 0x1p-16f - 2.f) * 1.7320508f;
}

/// x has rows of different means.
__host__ __device__ inline __nv_bfloat16 x_value(std::int64_t i, std::int64_t features) {
  return __float2bfloat16_rn(random_number(1, i) + 3 * random_number(2, i / features));
}
__host__ __device__ inline __nv_bfloat16 dy_value(std::int64_t i) {
  return __float2bfloat16_rn(random_number(3, i));
}
__host__ __device__ inline __nv_bfloat16 branch_value(std::int64_t i) {
  return __float2bfloat16_rn(random_number(5, i));
}
__host__ __device__ inline __nv_bfloat16 dr_value(std::int64_t i) {
  return __float2bfloat16_rn(random_number(6, i));
}
__host__ __device__ inline float modulation_value(std::int64_t i) {
  return 0.5f * random_number(4, i);
}
