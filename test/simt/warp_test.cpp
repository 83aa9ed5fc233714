#include <adaptiveload/support/device.cuh>
#include <cstdint>
#include <vector>

#include "../device_buffer.hpp"
#include "problem_of.hpp"

namespace device = adaptiveload::device;

namespace {

void all_lanes_shuffle(int lanes) {
  if (device::lane() >= lanes) return;
  device::shuffle_xor(device::full_mask, 1, 1);
}

TEST(simt_warp, shuffle_with_lanes_that_ended_is_found) {
  const std::string problem = problem_of(all_lanes_shuffle, 1, 64, 0, 30);
  expect_says(problem, "threads 0-29, 32-61 wait in shuffle for lanes 0-31 (warp_test.cpp:14)");
  expect_says(problem, "threads 30-31, 62-63 ended");
  EXPECT_EQ(problem_of(all_lanes_shuffle, 1, 64, 0, 32), "");
}

TEST(simt_warp, shuffle_with_lanes_that_the_block_lacks_is_found) {
  expect_says(problem_of(all_lanes_shuffle, 1, 40, 0, 32), "names lanes from 8 on");
}

void some_lanes_shuffle() {
  if (threadIdx.x < 16) device::shuffle_xor(device::full_mask, 1, 1);
  device::sync_block();
}

TEST(simt_warp, shuffle_with_lanes_that_wait_elsewhere_is_found) {
  const std::string problem = problem_of(some_lanes_shuffle, 1, 32, 0);
  expect_says(problem, "threads 0-15 wait in shuffle for lanes 0-31");
  expect_says(problem, "threads 16-31 wait in sync_block");
}

void shuffle_in_two_branches() {
  if (threadIdx.x < 16) {
    device::shuffle_xor(device::full_mask, 1, 1);
  } else {
    device::shuffle_xor(device::full_mask, 1, 1);
  }
}

TEST(simt_warp, shuffle_in_two_branches_is_found) {
  expect_says(problem_of(shuffle_in_two_branches, 1, 32, 0), "no thread can go on");
}

void shuffle_with_mask(unsigned mask, int source) {
  device::shuffle(mask, 1, source);
}

TEST(simt_warp, mask_must_hold_the_caller_and_the_source) {
  expect_says(problem_of(shuffle_with_mask, 1, 32, 0, 0x7fffffffu, 0), "lacks the calling lane 31");
  expect_says(problem_of(shuffle_with_mask, 1, 1, 0, 1u, 3), "shuffle from lane 3");
}

void broadcast_in_parts(unsigned* result) {
  result[threadIdx.x] = device::shuffle(device::full_mask, threadIdx.x, 3, 8);
}

TEST(simt_warp, shuffle_gives_what_the_lane_held) {
  device_buffer<unsigned> result(64);
  ASSERT_EQ(problem_of(broadcast_in_parts, 1, 64, 0, result.data()), "");
  const std::vector<unsigned> got = result.download();
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(got[i], i / 8 * 8 + 3);
}

void parts_at_different_times(unsigned* result) {
  const unsigned lane = threadIdx.x, mask = lane < 8 ? 0xffu : 0xffffff00u;
  unsigned value = lane;
  for (unsigned i = 0; i <= lane / 8; ++i) {
    if (lane >= 8 && i > 0) break;
    value += device::shuffle_xor(mask, value, 4);
  }
  result[lane] = value;
}

TEST(simt_warp, parts_of_a_warp_meet_on_their_own) {
  device_buffer<unsigned> result(32);
  ASSERT_EQ(problem_of(parts_at_different_times, 1, 32, 0, result.data()), "");
  const std::vector<unsigned> got = result.download();
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], i + (i ^ 4));
}

void vote(unsigned mask, unsigned* result) {
  const unsigned lane = threadIdx.x;
  if ((mask >> lane & 1) != 0 || lane == 31) {
    result[lane] = simt::ballot(mask, lane % 3 == 0, simt::where::current());
  }
}

TEST(simt_warp, vote_gives_the_lanes_of_the_mask_that_brought_true) {
  device_buffer<unsigned> result(std::vector<unsigned>(32));
  const auto problem = [&](unsigned mask) {
    return problem_of(vote, 1, 32, 0, mask, result.data());
  };
  EXPECT_EQ(problem(device::full_mask), "");
  EXPECT_EQ(result.download()[5], 0x49249249u);
  EXPECT_EQ(problem(0x8000000fu), "");
  EXPECT_EQ(result.download()[1], 0x9u);
  expect_says(problem(0xf), "ballot with a mask that lacks the calling lane 31");
}

}  // namespace
