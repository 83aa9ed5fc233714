#include <adaptiveload/support/device.cuh>
#include <vector>

#include "../device_buffer.hpp"
#include "problem_of.hpp"

namespace device = adaptiveload::device;

namespace {

void copy(const float* from, float* to) {
  to[threadIdx.x] = from[threadIdx.x];
}

TEST(simt_device_memory, read_of_what_nobody_wrote_is_found) {
  SKIP_UNLESS_TRACKED();
  device_buffer<float> a(32), b(32);
  expect_says(problem_of(copy, 1, 32, 0, a.data(), b.data()),
              "of device memory, which nobody has written");
  a.upload(std::vector<float>(32));
  EXPECT_EQ(problem_of(copy, 1, 32, 0, a.data(), b.data()), "");
  EXPECT_EQ(problem_of(copy, 1, 32, 0, b.data(), a.data()), "");  // the launch before wrote it
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

void shift_by_one_block(float* data, int to) {
  if (threadIdx.x == 0) data[to == 0 ? 0 : blockIdx.x] = 1;
  if (blockIdx.x > 0 && to == 2) data[blockIdx.x - 1] += 1;
}

TEST(simt_device_memory, accesses_of_two_blocks_to_one_place_are_found) {
  SKIP_UNLESS_TRACKED();
  device_buffer<float> data(std::vector<float>(4));
  EXPECT_EQ(problem_of(shift_by_one_block, 4, 1, 0, data.data(), 1), "");
  expect_says(problem_of(shift_by_one_block, 4, 1, 0, data.data(), 0),
              "block 1, thread 0: writes 4 bytes at byte 0 of device memory, which another block "
              "wrote");
  expect_says(problem_of(shift_by_one_block, 4, 1, 0, data.data(), 2), "which another block wrote");
}

void read_streaming_after_write(float* data, bool writes) {
  if (writes) data[threadIdx.x] = 1;
  device::load_streaming(data + threadIdx.x);
  data[threadIdx.x] = 2;
}

TEST(simt_device_memory, load_streaming_is_for_what_the_launch_does_not_write_before) {
  SKIP_UNLESS_TRACKED();
  device_buffer<float> data(std::vector<float>(32));
  EXPECT_EQ(problem_of(read_streaming_after_write, 1, 32, 0, data.data(), false), "");
  expect_says(problem_of(read_streaming_after_write, 1, 32, 0, data.data(), true),
              "by load_streaming, which this launch wrote");
}

}  // namespace
