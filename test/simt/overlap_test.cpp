#include <adaptiveload/support/device.cuh>
#include <vector>

#include "../device_buffer.hpp"
#include "problem_of.hpp"

namespace device = adaptiveload::device;

/// Launches that begin before those before them have ended. What the executor finds where it sees
/// every access.
namespace {

enum class waits { first, after_reading, after_writing, never, in_one_thread };

struct increment {
  waits how;
  const float* from;
  float* to;

  void run() const {
    const unsigned i = threadIdx.x;
    if (how == waits::first || (how == waits::in_one_thread && i == 0)) {
      device::wait_for_previous_kernel();
    }
    device::let_next_kernel_start();
    const float value = from[i];
    if (how == waits::after_reading) device::wait_for_previous_kernel();
    to[i] = value + 1;
    if (how == waits::after_writing) device::wait_for_previous_kernel();
  }

  std::string problem(bool overlaps) {
    const auto body = [](void* argument) { static_cast<const increment*>(argument)->run(); };
    try {
      simt::run("kernel", 1, dim3(32), 0, body, this, overlaps);
    } catch (const simt::error& problem) {
      return problem.what();
    }
    return "";
  }
};

class simt_overlap : public testing::Test {
 protected:
  device_buffer<float> a{std::vector<float>(32)}, b{32}, c{std::vector<float>(32)}, d{32};

  /// Of a launch that overlaps one that read `a` and wrote `b`.
  std::string problem_after_a_to_b(waits how, const float* from, float* to) {
    EXPECT_EQ((increment{waits::never, a.data(), b.data()}.problem(false)), "");
    return increment{how, from, to}.problem(true);
  }
};

TEST_F(simt_overlap, reads_what_the_kernel_before_wrote_once_it_has_waited) {
  EXPECT_EQ(problem_after_a_to_b(waits::first, b.data(), d.data()), "");
  EXPECT_EQ(d.download(), std::vector<float>(32, 2));
  expect_says(problem_after_a_to_b(waits::after_reading, b.data(), d.data()),
              "which a kernel before, which may still run, wrote");
  EXPECT_NE(problem_after_a_to_b(waits::in_one_thread, b.data(), d.data()), "");
}

TEST_F(simt_overlap, writes_what_the_kernel_before_touched_once_it_has_waited) {
  EXPECT_EQ(problem_after_a_to_b(waits::after_reading, c.data(), b.data()), "");
  expect_says(problem_after_a_to_b(waits::after_writing, c.data(), b.data()),
              "which a kernel before, which may still run, wrote");
  expect_says(problem_after_a_to_b(waits::after_writing, c.data(), a.data()),
              "which a kernel before, which may still run, reads");
}

TEST_F(simt_overlap, touches_what_no_kernel_before_touched_without_a_wait) {
  EXPECT_EQ(problem_after_a_to_b(waits::never, c.data(), d.data()), "");
  EXPECT_EQ(problem_after_a_to_b(waits::never, a.data(), d.data()), "");  // both read
}

TEST_F(simt_overlap, reaches_back_to_the_last_launch_that_waited_as_a_whole) {
  EXPECT_EQ(problem_after_a_to_b(waits::never, c.data(), d.data()), "");
  EXPECT_NE((increment{waits::never, b.data(), c.data()}.problem(true)), "");
  EXPECT_EQ((increment{waits::never, b.data(), c.data()}.problem(false)), "");
}

}  // namespace
