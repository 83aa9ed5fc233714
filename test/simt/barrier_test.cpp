#include <adaptiveload/support/device.cuh>

#include "problem_of.hpp"

namespace device = adaptiveload::device;

namespace {

void some_threads_return() {
  if (threadIdx.x < 40) return;
  device::sync_block();
}

TEST(simt_barrier, that_ended_threads_never_reach_is_found) {
  const std::string problem = problem_of(some_threads_return, 3, 64, 0);
  expect_says(problem, "kernel: block 0: no thread can go on");
  expect_says(problem, "threads 0-39 ended");
  expect_says(problem, "threads 40-63 wait in sync_block (barrier_test.cpp:11)");
}

void one_barrier_a_branch() {
  if (threadIdx.x == 5) {
    device::sync_block();
  } else {
    device::sync_block();
  }
}

TEST(simt_barrier, in_two_branches_is_found) {
  expect_says(problem_of(one_barrier_a_branch, 1, 32, 0),
              "comes to a sync_block where others wait in the one at barrier_test.cpp");
}

void one_barrier_more_for_some() {
  for (unsigned i = 0; i <= threadIdx.x / 32; ++i) device::sync_block();
}

TEST(simt_barrier, passed_more_often_by_some_is_found) {
  const std::string problem = problem_of(one_barrier_more_for_some, 1, 64, 0);
  expect_says(problem, "threads 0-31 ended");
  expect_says(problem, "threads 32-63 wait in sync_block");
}

void named(int id, int threads) {
  device::sync_named(id, threads);
}

TEST(simt_barrier, named_barrier_takes_ids_1_to_15_and_whole_warps_of_the_block) {
  EXPECT_EQ(problem_of(named, 1, 64, 0, 1, 64), "");
  EXPECT_EQ(problem_of(named, 1, 64, 0, 15, 64), "");
  expect_says(problem_of(named, 1, 64, 0, 0, 64), "barrier 0; allowed: 1 to 15");
  expect_says(problem_of(named, 1, 64, 0, 16, 64), "barrier 16; allowed: 1 to 15");
  expect_says(problem_of(named, 1, 64, 0, 1, 40), "40 threads");
  expect_says(problem_of(named, 1, 64, 0, 1, 96), "96 threads in a block of 64");
}

void two_groups(int of_first, int of_second) {
  device::sync_named(1, threadIdx.x < 32 ? of_first : of_second);
}

TEST(simt_barrier, named_barrier_opens_for_the_threads_that_it_counts) {
  EXPECT_EQ(problem_of(two_groups, 1, 64, 0, 32, 32), "");
  EXPECT_EQ(problem_of(two_groups, 1, 64, 0, 64, 64), "");
  expect_says(problem_of(two_groups, 1, 64, 0, 32, 64), "comes to barrier 1 of");
  expect_says(problem_of(two_groups, 1, 96, 0, 64, 64),
              "wait in sync_named 1 of 64 threads (barrier_test.cpp");
}

}  // namespace
