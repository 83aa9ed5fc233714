#include <stdexcept>
#include <vector>

#include "../device_buffer.hpp"
#include "problem_of.hpp"

namespace {

void nothing() {}

std::string problem_with(std::int64_t blocks, dim3 threads, std::size_t shared_bytes) {
  try {
    adaptiveload::device::launch("kernel", nothing, blocks, threads, shared_bytes, nullptr);
  } catch (const simt::error& problem) {
    return problem.what();
  }
  return "";
}

TEST(simt_launch, beyond_the_limits_of_a_device_is_found) {
  EXPECT_EQ(problem_with(1, dim3(1024), 227 * 1024), "");
  EXPECT_EQ(problem_with(1, dim3(4, 4, 64), 0), "");
  expect_says(problem_with(0, dim3(32), 0), "kernel: launch with grid dimension x 0; allowed: 1");
  expect_says(problem_with(0x80000000, dim3(32), 0), "grid dimension x 2147483648");
  expect_says(problem_with(1, dim3(0), 0), "block dimension x 0");
  expect_says(problem_with(1, dim3(1025), 0), "block dimension x 1025");
  expect_says(problem_with(1, dim3(1, 1, 65), 0), "block dimension z 65; allowed: 1 to 64");
  expect_says(problem_with(1, dim3(32, 33), 0), "threads in a block 1056; allowed: 1 to 1024");
  expect_says(problem_with(1, dim3(32), 227 * 1024 + 1), "bytes of shared memory 232449");
}

void note_order(int* next, int* order) {
  order[(*next)++] = static_cast<int>(threadIdx.x);
}

std::vector<int> order_of(std::uint64_t seed) {
  simt::settings().order_seed = seed;
  int next = 0;
  std::vector<int> order(64);
  EXPECT_EQ(problem_of(note_order, 1, 64, 0, &next, order.data()), "");
  simt::settings().order_seed = 1;
  return order;
}

TEST(simt_launch, runs_threads_in_the_order_of_the_seed) {
  const std::vector<int> in_order = order_of(0);
  EXPECT_TRUE(std::is_sorted(in_order.begin(), in_order.end()));
  EXPECT_NE(order_of(5), in_order);
  EXPECT_NE(order_of(5), order_of(6));
  EXPECT_EQ(order_of(7), order_of(7));
}

void throwing() {
  if (threadIdx.x == 3) throw std::out_of_range("three");
}

TEST(simt_launch, passes_an_exception_on_and_can_launch_again) {
  EXPECT_THROW(problem_of(throwing, 1, 32, 0), std::out_of_range);
  EXPECT_EQ(problem_of(nothing, 1, 32, 0), "");
}

}  // namespace
