#include <adaptiveload/support/device.cuh>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../device_buffer.hpp"
#include "problem_of.hpp"

namespace device = adaptiveload::device;

namespace {

float* shared() {
  return reinterpret_cast<float*>(device::shared_memory());
}

void read_unwritten(float* out) {
  if (threadIdx.x != 7) shared()[threadIdx.x] = 1;
  device::sync_block();
  out[threadIdx.x] = shared()[threadIdx.x];
}

TEST(simt_shared_memory, read_of_what_nobody_wrote_is_found) {
  device_buffer<float> out(32);
  const std::string problem = problem_of(read_unwritten, 1, 32, 32 * sizeof(float), out.data());
  if (simt::accesses_are_tracked) {
    expect_says(problem,
                "kernel: block 0, thread 7: reads 4 bytes at byte 28 of shared memory, "
                "which nobody has written (after shared_memory_test.cpp:19)");
  } else {
    EXPECT_TRUE(std::isnan(out.download()[7]));
  }
}

void touch_shared(int index, bool writes) {
  for (int i = 0; i < 8; ++i) shared()[i] = 1;
  if (writes) {
    device::store(shared() + index, 1.f);
  } else {
    shared()[0] = device::load(shared() + index);
  }
}

TEST(simt_shared_memory, access_beyond_its_end_is_found) {
  EXPECT_EQ(problem_of(touch_shared, 1, 1, 32, 7, false), "");
  expect_says(problem_of(touch_shared, 1, 1, 32, 8, false),
              "reads 4 bytes at byte 32 of shared memory, which has 32");
  expect_says(problem_of(touch_shared, 1, 1, 32, 8, true), "writes 4 bytes at byte 32");
  expect_says(problem_of(touch_shared, 1, 1, 32, -1, true), "writes 4 bytes at byte -4");
}

void write_plainly(int index) {
  shared()[index] = 1;
}

TEST(simt_shared_memory, plain_access_beyond_its_end_is_found) {
  if (simt::accesses_are_tracked) {
    expect_says(problem_of(write_plainly, 1, 1, 32, 8), "writes 4 bytes at byte 32");
  } else {
    EXPECT_DEATH(problem_of(write_plainly, 1, 1, 32, 8), "use-after-poison");
  }
}

}  // namespace
