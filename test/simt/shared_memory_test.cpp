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

void write_in_first_block(float* out) {
  if (blockIdx.x == 0) shared()[threadIdx.x] = 1;
  out[threadIdx.x] = shared()[threadIdx.x];
}

TEST(simt_shared_memory, what_the_block_before_wrote_is_gone) {
  SKIP_UNLESS_TRACKED();
  device_buffer<float> out(32);
  const std::string problem =
      problem_of(write_in_first_block, 2, 32, 32 * sizeof(float), out.data());
  expect_says(problem, "block 1");
  expect_says(problem, "which nobody has written");
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

enum class between { nothing, sync_warp, sync_block };

void sync(between what) {
  if (what == between::sync_warp) device::sync_warp();
  if (what == between::sync_block) device::sync_block();
}

void write_then_read(between what, int distance, float* out) {
  shared()[threadIdx.x] = 0;
  device::sync_block();
  shared()[threadIdx.x] = static_cast<float>(threadIdx.x);
  sync(what);
  out[threadIdx.x] = shared()[(threadIdx.x + static_cast<unsigned>(distance)) % 64];
}

void read_then_write(between what, int distance, float* out) {
  shared()[threadIdx.x] = 0;
  device::sync_block();
  out[threadIdx.x] = shared()[(threadIdx.x + static_cast<unsigned>(distance)) % 64];
  sync(what);
  shared()[threadIdx.x] = 1;
}

void write_twice(between what, int distance, float*) {
  shared()[threadIdx.x] = 0;
  sync(what);
  shared()[(threadIdx.x + static_cast<unsigned>(distance)) % 64] = 1;
}

TEST(simt_shared_memory, accesses_of_two_threads_with_no_barrier_between_are_found) {
  SKIP_UNLESS_TRACKED();
  device_buffer<float> out(64);
  for (const auto kernel : {write_then_read, read_then_write, write_twice}) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      simt::settings().order_seed = seed;
      const auto problem = [&](between what, int distance) {
        return problem_of(kernel, 1, 64, 64 * sizeof(float), what, distance, out.data());
      };
      EXPECT_EQ(problem(between::nothing, 0), "");
      expect_says(problem(between::nothing, 1), "with no barrier between");
      expect_says(problem(between::sync_warp, 32), "with no barrier between");
      EXPECT_EQ(problem(between::sync_block, 1), "");
      EXPECT_EQ(problem(between::sync_block, 32), "");
    }
  }
  simt::settings().order_seed = 1;
}

void all_read_one_writes(between what, float* out) {
  if (threadIdx.x == 0) shared()[0] = 1;
  device::sync_block();
  out[threadIdx.x] = shared()[0];
  sync(what);
  if (threadIdx.x == 9) shared()[0] = 2;
}

TEST(simt_shared_memory, write_to_what_many_threads_read_needs_a_barrier) {
  SKIP_UNLESS_TRACKED();
  device_buffer<float> out(64);
  const auto problem = [&](between what) {
    return problem_of(all_read_one_writes, 1, 64, sizeof(float), what, out.data());
  };
  EXPECT_EQ(problem(between::sync_block), "");
  expect_says(problem(between::nothing), "thread 9: writes 4 bytes at byte 0 of shared memory");
  expect_says(problem(between::sync_warp), "reads, with no barrier between");
}

void pairs_of_warp(float* out) {
  shared()[threadIdx.x] = static_cast<float>(threadIdx.x);
  device::sync_warp();
  out[threadIdx.x] = shared()[threadIdx.x ^ 1];
}

void pairs_after_shuffle(float* out) {
  shared()[threadIdx.x] = static_cast<float>(threadIdx.x);
  device::shuffle_xor(device::full_mask, 0, 1);
  out[threadIdx.x] = shared()[threadIdx.x ^ 1];
}

TEST(simt_shared_memory, sync_warp_orders_accesses_of_its_lanes_and_a_shuffle_does_not) {
  SKIP_UNLESS_TRACKED();
  device_buffer<float> out(64);
  EXPECT_EQ(problem_of(pairs_of_warp, 1, 64, 256, out.data()), "");
  expect_says(problem_of(pairs_after_shuffle, 1, 64, 256, out.data()), "with no barrier between");
}

void named_barrier_orders(int group, float* out) {
  const unsigned partner = threadIdx.x ^ 32;
  shared()[threadIdx.x] = 1;
  device::sync_named(1 + static_cast<int>(threadIdx.x) / group, group);
  out[threadIdx.x] = shared()[partner];
}

TEST(simt_shared_memory, named_barrier_orders_accesses_of_its_threads) {
  SKIP_UNLESS_TRACKED();
  device_buffer<float> out(128);
  EXPECT_EQ(problem_of(named_barrier_orders, 1, 128, 512, 64, out.data()), "");
  expect_says(problem_of(named_barrier_orders, 1, 128, 512, 32, out.data()),
              "with no barrier between");
}

/// Each thread writes one byte, and reads one `distance` away.
void bytes_of_threads(unsigned distance, float* out) {
  std::byte* const memory = device::shared_memory();
  if (threadIdx.x < 16) shared()[threadIdx.x] = 0;
  device::sync_block();
  out[threadIdx.x] = shared()[0];
  device::sync_block();
  memory[threadIdx.x] = std::byte{1};
  out[threadIdx.x] = static_cast<float>(memory[(threadIdx.x + distance) % 64]);
}

TEST(simt_shared_memory, is_watched_byte_by_byte) {
  SKIP_UNLESS_TRACKED();
  device_buffer<float> out(64);
  EXPECT_EQ(problem_of(bytes_of_threads, 1, 64, 64, 0u, out.data()), "");
  expect_says(problem_of(bytes_of_threads, 1, 64, 64, 1u, out.data()), "with no barrier between");
}

}  // namespace
