#include <adaptiveload/support/device.cuh>
#include <vector>

#include "../device_buffer.hpp"
#include "problem_of.hpp"

namespace device = adaptiveload::device;

namespace {

void copy(const float* from, float* to) {
  to[threadIdx.x] = from[threadIdx.x];
}

void touch(float* data, std::ptrdiff_t index, bool writes) {
  if (writes) {
    device::store(data + index, 1.f);
  } else {
    device::load(data + index);
  }
}

TEST(simt_device_memory, access_beyond_its_end_is_found) {
  device_buffer<float> data(std::vector<float>(100));
  EXPECT_EQ(problem_of(touch, 1, 1, 0, data.data(), 99, false), "");
  expect_says(problem_of(touch, 1, 1, 0, data.data(), 100, false),
              "reads 4 bytes at byte 400 of device memory, which has 400");
  expect_says(problem_of(touch, 1, 1, 0, data.data(), -1, true), "writes 4 bytes at byte -4");
  expect_says(problem_of(touch, 1, 1, 0, data.data(), 200'000, true), "writes 4 bytes at byte");
}

TEST(simt_device_memory, plain_access_beyond_its_end_is_found) {
  device_buffer<float> a(std::vector<float>(31)), b(32);
  if (simt::accesses_are_tracked) {
    expect_says(problem_of(copy, 1, 32, 0, a.data(), b.data()), "thread 31: reads 4 bytes");
  } else {
    EXPECT_DEATH(problem_of(copy, 1, 32, 0, a.data(), b.data()), "use-after-poison");
  }
}

struct alignas(16) four {
  float values[4];
};

void touch_four(float* data, bool writes) {
  auto* const at = reinterpret_cast<four*>(data);
  if (writes) {
    device::store(at, four{});
  } else {
    device::load(at);
  }
}

TEST(simt_device_memory, misaligned_access_is_found) {
  device_buffer<float> data(std::vector<float>(16));
  for (const bool writes : {false, true}) {
    EXPECT_EQ(problem_of(touch_four, 1, 1, 0, data.data() + 4, writes), "");
    expect_says(problem_of(touch_four, 1, 1, 0, data.data() + 6, writes),
                "an address that is 8 bytes off a multiple of 16");
  }
}

}  // namespace
