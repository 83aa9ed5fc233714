#include <adaptiveload/support/device.cuh>
#include <vector>

#include "../device_buffer.hpp"
#include "problem_of.hpp"

namespace device = adaptiveload::device;

/// What the executor finds where it sees every access, and the sanitizers do not.
namespace {

float* shared() {
  return reinterpret_cast<float*>(device::shared_memory());
}

void write_in_first_block(float* out) {
  if (blockIdx.x == 0) shared()[threadIdx.x] = 1;
  out[threadIdx.x] = shared()[threadIdx.x];
}

TEST(simt_shared_memory, what_the_block_before_wrote_is_gone) {
  device_buffer<float> out(32);
  const std::string problem =
      problem_of(write_in_first_block, 2, 32, 32 * sizeof(float), out.data());
  expect_says(problem, "block 1");
  expect_says(problem, "which nobody has written");
}

/// Sums what `threads` threads bring to static shared memory.
void sum_of_some(int threads, bool barrier, float* out) {
  __shared__ float storage[64];
  if (static_cast<int>(threadIdx.x) < threads) storage[threadIdx.x] = 1;
  if (barrier) device::sync_block();
  float sum = 0;
  for (int i = 0; i < 64; ++i) sum += storage[i];
  out[blockIdx.x * 64 + threadIdx.x] = sum;
}

TEST(simt_shared_memory, static_variables_are_watched) {
  device_buffer<float> out(128);
  const auto problem = [&](int threads, bool barrier) {
    return problem_of(sum_of_some, 2, 64, 0, threads, barrier, out.data());
  };
  EXPECT_EQ(problem(64, true), "");
  EXPECT_EQ(out.download(), std::vector<float>(128, 64));
  expect_says(problem(63, true), "of shared memory, which nobody has written");
  expect_says(problem(64, false), "of shared memory, which");
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
  device_buffer<float> out(64);
  EXPECT_EQ(problem_of(bytes_of_threads, 1, 64, 64, 0u, out.data()), "");
  expect_says(problem_of(bytes_of_threads, 1, 64, 64, 1u, out.data()), "with no barrier between");
}

void copy(const float* from, float* to) {
  to[threadIdx.x] = from[threadIdx.x];
}

TEST(simt_device_memory, read_of_what_nobody_wrote_is_found) {
  device_buffer<float> a(32), b(32);
  expect_says(problem_of(copy, 1, 32, 0, a.data(), b.data()),
              "of device memory, which nobody has written");
  a.upload(std::vector<float>(32));
  EXPECT_EQ(problem_of(copy, 1, 32, 0, a.data(), b.data()), "");
  EXPECT_EQ(problem_of(copy, 1, 32, 0, b.data(), a.data()), "");  // the launch before wrote it
}

void shift_by_one_block(float* data, int to) {
  if (threadIdx.x == 0) data[to == 0 ? 0 : blockIdx.x] = 1;
  if (blockIdx.x > 0 && to == 2) data[blockIdx.x - 1] += 1;
}

TEST(simt_device_memory, accesses_of_two_blocks_to_one_place_are_found) {
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
  device_buffer<float> data(std::vector<float>(32));
  EXPECT_EQ(problem_of(read_streaming_after_write, 1, 32, 0, data.data(), false), "");
  expect_says(problem_of(read_streaming_after_write, 1, 32, 0, data.data(), true),
              "by load_streaming, which this launch wrote");
}

}  // namespace
