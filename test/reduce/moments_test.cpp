#include <gtest/gtest.h>

#include <adaptiveload/reduce.cuh>
#include <adaptiveload/support/launch.cuh>
#include <cmath>
#include <cstddef>
#include <vector>

#include "../device_buffer.hpp"
#include "../random_values.hpp"

namespace al = adaptiveload;

namespace {

/// The moments of each block's `count` values, taken in by its threads in turn and merged.
__global__ void moments_of_blocks(const float* values, int count, al::moments* result) {
  auto* const storage = reinterpret_cast<al::moments*>(al::device::shared_memory());
  al::moments own;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    own.add(values[static_cast<int>(blockIdx.x) * count + i]);
  }
  const al::moments all = al::block_reduce(own, al::merge_moments{}, storage);
  if (threadIdx.x == 0) result[blockIdx.x] = all;
}

std::vector<al::moments> moments_on_device(const std::vector<float>& values, int count,
                                           unsigned threads) {
  const std::size_t blocks = count == 0 ? 1 : values.size() / static_cast<std::size_t>(count);
  const device_buffer<float> in(values);
  device_buffer<al::moments> out(blocks);
  al::device::launch("moments_of_blocks", moments_of_blocks, static_cast<std::int64_t>(blocks),
                     dim3(threads), threads / 32 * sizeof(al::moments), nullptr, in.data(), count,
                     out.data());
  return out.download();
}

TEST(Moments, AgreeWithDoubleHoweverLargeTheMean) {
  for (const unsigned count : {1u, 2u, 31u, 100u, 5000u}) {
    for (const float mean : {0.f, 1.f, -100.f, 1e4f}) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = mean + random_normal(test_seed(), i);
      }
      double expected_mean = 0, expected_m2 = 0;
      for (const float value : values) expected_mean += value;
      expected_mean /= count;
      for (const float value : values) expected_m2 += std::pow(value - expected_mean, 2);

      for (const unsigned threads : {32u, 128u, 1024u}) {
        SCOPED_TRACE(testing::Message()
                     << count << " values of mean " << mean << ", " << threads << " threads");
        const al::moments got = moments_on_device(values, static_cast<int>(count), threads).front();
        EXPECT_EQ(got.count, static_cast<float>(count));
        // One rounding of the mean a number of the thread's own, 5 in the warp and one a warp. They
        // reach M2 in proportion to the mean; a sum of squares would lose in proportion to its
        // square.
        const double roundings = static_cast<double>(count / threads + 1 + 5 + threads / 32);
        const double bound = roundings * 0x1p-24 * (1 + std::abs(mean));
        EXPECT_NEAR(got.mean, expected_mean, bound);
        EXPECT_NEAR(got.m2, expected_m2, 2 * bound * (1 + expected_m2));
      }
    }
  }
}

TEST(Moments, OfNoNumbersAreZero) {
  const al::moments got = moments_on_device({}, 0, 64).front();
  EXPECT_EQ(got.count, 0);
  EXPECT_EQ(got.mean, 0);
  EXPECT_EQ(got.m2, 0);
}

TEST(Moments, MergedWithThoseOfNoNumbersAreUnchanged) {
  const al::moments some{3, 5, 7};
  for (const al::moments& merged :
       {al::merge_moments{}(some, al::moments{}), al::merge_moments{}(al::moments{}, some)}) {
    EXPECT_EQ(merged.count, 3);
    EXPECT_EQ(merged.mean, 5);
    EXPECT_EQ(merged.m2, 7);
  }
}

TEST(Moments, OfAConstantHaveNoDeviation) {
  const al::moments got = moments_on_device(std::vector<float>(3 * 77, 1234.5f), 77, 64)[2];
  EXPECT_EQ(got.mean, 1234.5f);
  EXPECT_EQ(got.m2, 0);
}

}  // namespace
