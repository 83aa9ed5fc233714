#include <adaptiveload/support/device.cuh>
#include <numeric>
#include <vector>

#include "../device_buffer.hpp"
#include "problem_of.hpp"

namespace device = adaptiveload::device;

namespace {

constexpr int values = 64, stages = 2;  // of a stage; of the ring
constexpr unsigned threads = 64;
constexpr std::size_t ring_bytes = stages * (values * sizeof(float) + 8);

enum class mistake {
  none,
  no_wait,
  one_waits,
  wrong_parity,
  refills_before_barrier,
  not_shown,
  shown_by_one,
  fewer_bytes,
  more_bytes,
  announced_twice,
  not_ready,
  ready_unseen,
  too_far_ahead,
};

/// Doubles `runs` runs of `values` numbers that come by bulk copies through a ring of stages.
void double_all(mistake made, int runs, const float* from, float* to) {
  auto* const ring = reinterpret_cast<float*>(device::shared_memory());
  auto* const full = reinterpret_cast<device::transfer_barrier*>(ring + stages * values);
  const unsigned thread = threadIdx.x;
  constexpr std::uint32_t bytes = values * sizeof(float);

  const auto fill = [&](int run) {
    const int stage = run % stages;
    if (thread != 0 || (run >= runs && made != mistake::too_far_ahead)) return;
    if (run >= runs) run = 0;
    device::expect_bytes(full + stage, made == mistake::fewer_bytes  ? bytes + 16
                                       : made == mistake::more_bytes ? bytes - 16
                                                                     : bytes);
    if (made == mistake::announced_twice) device::expect_bytes(full + stage, bytes);
    device::copy_bulk(ring + stage * values, from + run * values, bytes, full + stage);
  };

  if (thread == 0 && made != mistake::not_ready) {
    for (int stage = 0; stage < stages; ++stage) device::init_barrier(full + stage);
  }
  if (made != mistake::ready_unseen) device::sync_block();
  for (int run = 0; run < stages; ++run) fill(run);

  for (int run = 0; run < runs; ++run) {
    const int stage = run % stages;
    const auto parity = static_cast<unsigned>(run / stages % 2);
    if (made != mistake::no_wait && (made != mistake::one_waits || thread == 0)) {
      device::wait_for_bytes(full + stage, made == mistake::wrong_parity ? parity ^ 1 : parity);
    }
    const float value = ring[stage * values + static_cast<int>(thread)];
    if (made != mistake::not_shown && (made != mistake::shown_by_one || thread == 0)) {
      device::show_to_copies();
    }
    if (made == mistake::refills_before_barrier) fill(run + stages);
    device::sync_block();
    if (made != mistake::refills_before_barrier) fill(run + stages);
    to[run * values + static_cast<int>(thread)] = 2 * value;
  }
}

std::string problem_with(mistake made, int runs = 7) {
  std::vector<float> from(static_cast<std::size_t>(runs * values));
  std::iota(from.begin(), from.end(), 0.f);
  device_buffer<float> device_from(from), to(from.size());
  const std::string problem = problem_of(double_all, 1, threads, ring_bytes, made, runs,
                                         static_cast<const float*>(device_from.data()), to.data());
  if (problem.empty()) {
    const std::vector<float> got = to.download();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] != 2 * from[i]) return "wrong results";
    }
  }
  return problem;
}

TEST(simt_bulk_copy, fills_a_ring) {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    simt::settings().order_seed = seed;
    for (const int runs : {1, 2, 3, 8}) EXPECT_EQ(problem_with(mistake::none, runs), "") << runs;
  }
  simt::settings().order_seed = 1;
}

TEST(simt_bulk_copy, that_is_read_without_a_wait_is_found) {
  if (simt::accesses_are_tracked) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      simt::settings().order_seed = seed;
      expect_says(problem_with(mistake::no_wait), "of shared memory, which");
      expect_says(problem_with(mistake::one_waits), "of shared memory, which");
    }
    simt::settings().order_seed = 1;
  } else {
    EXPECT_NE(problem_with(mistake::no_wait), "");
  }
}

TEST(simt_bulk_copy, waited_for_with_the_wrong_parity_is_found) {
  EXPECT_NE(problem_with(mistake::wrong_parity), "");
}

TEST(simt_bulk_copy, over_what_others_still_read_is_found) {
  EXPECT_NE(problem_with(mistake::refills_before_barrier), "");
}

TEST(simt_bulk_copy, over_what_a_reader_has_not_shown_is_found) {
  if (!simt::accesses_are_tracked) GTEST_SKIP() << "plain accesses are not seen";
  for (const std::uint64_t seed : {0, 1, 2}) {
    simt::settings().order_seed = seed;
    for (const mistake made : {mistake::not_shown, mistake::shown_by_one}) {
      expect_says(problem_with(made), "copies over what a thread read and hasn't shown");
    }
  }
  simt::settings().order_seed = 1;
}

TEST(simt_bulk_copy, must_bring_the_bytes_that_were_announced) {
  const std::string problem = problem_with(mistake::fewer_bytes);
  expect_says(problem, "no thread can go on");
  expect_says(problem, "wait in wait_for_bytes");
  expect_says(problem_with(mistake::more_bytes), "copies 256 bytes in a phase that expects 240");
  expect_says(problem_with(mistake::announced_twice), "announces bytes twice");
}

TEST(simt_bulk_copy, needs_a_barrier_that_was_made_ready_and_seen) {
  expect_says(problem_with(mistake::not_ready), "a transfer barrier that nobody has made ready");
  for (const std::uint64_t seed : {0, 1, 2}) {
    simt::settings().order_seed = seed;
    if (simt::accesses_are_tracked) {
      EXPECT_NE(problem_with(mistake::ready_unseen), "");
    }
  }
  simt::settings().order_seed = 1;
}

TEST(simt_bulk_copy, under_way_when_the_block_ends_is_found) {
  expect_says(problem_with(mistake::too_far_ahead), "ends with bulk copies under way");
}

void copy_once(int to, int from, std::uint32_t bytes, const float* data) {
  auto* const full = reinterpret_cast<device::transfer_barrier*>(device::shared_memory());
  auto* const shared = reinterpret_cast<float*>(device::shared_memory() + 16);
  device::init_barrier(full);
  device::expect_bytes(full, bytes);
  device::copy_bulk(shared + to, data + from, bytes, full);
  device::wait_for_bytes(full, 0);
}

TEST(simt_bulk_copy, needs_aligned_addresses_whole_16_bytes_and_room) {
  device_buffer<float> data(std::vector<float>(64));
  const auto problem = [&](int to, int from, std::uint32_t bytes) {
    return problem_of(copy_once, 1, 1, 16 + 128, to, from, bytes,
                      static_cast<const float*>(data.data()));
  };
  EXPECT_EQ(problem(0, 4, 128), "");
  expect_says(problem(1, 0, 16), "4 bytes off a multiple of 16");
  expect_says(problem(0, 2, 16), "8 bytes off a multiple of 16");
  expect_says(problem(0, 0, 24), "copy_bulk of 24 bytes; allowed: a multiple of 16");
  expect_says(problem(4, 0, 128), "isn't in the block's shared memory");
  expect_says(problem(0, 60, 32), "reads 32 bytes at byte 240 of device memory, which has 256");
  simt::settings().compute_capability = 80;
  expect_says(problem(0, 0, 16), "copy_bulk on a device below compute capability 9.0");
  simt::settings().compute_capability = 90;
}

enum class wait_mistake { none, no_wait, waits_for_one_too_few, no_barrier };

/// Each thread copies 16 bytes a run, and reads those of its neighbour.
void copy_by_threads(wait_mistake made, const float* from, float* to) {
  auto* const ring = reinterpret_cast<float*>(device::shared_memory());
  const int thread = static_cast<int>(threadIdx.x), all = static_cast<int>(blockDim.x);
  constexpr int runs = 5;
  const auto fill = [&](int run) {
    if (run < runs) {
      device::copy_async(ring + (run % stages * all + thread) * 4, from + (run * all + thread) * 4);
    }
    device::end_copy_group();
  };
  for (int run = 0; run < stages; ++run) fill(run);
  for (int run = 0; run < runs; ++run) {
    if (made == wait_mistake::waits_for_one_too_few) {
      device::wait_for_copy_groups<stages>();
    } else if (made != wait_mistake::no_wait) {
      device::wait_for_copy_groups<stages - 1>();
    }
    if (made != wait_mistake::no_barrier) device::sync_block();
    const int at = (thread + 1) % all * 4;
    for (int i = 0; i < 4; ++i) to[run * all * 4 + at + i] = ring[run % stages * all * 4 + at + i];
    device::sync_block();
    fill(run + stages);
  }
}

std::string problem_with(wait_mistake made) {
  std::vector<float> from(5 * threads * 4);
  std::iota(from.begin(), from.end(), 0.f);
  device_buffer<float> device_from(from), to(from.size());
  const std::string problem = problem_of(copy_by_threads, 1, threads, stages * threads * 16, made,
                                         static_cast<const float*>(device_from.data()), to.data());
  return problem.empty() && to.download() != from ? "wrong results" : problem;
}

TEST(simt_async_copy, is_there_after_a_wait_and_for_others_after_a_barrier) {
  EXPECT_EQ(problem_with(wait_mistake::none), "");
  if (simt::accesses_are_tracked) {
    expect_says(problem_with(wait_mistake::no_wait), "which a copy is under way to");
    expect_says(problem_with(wait_mistake::waits_for_one_too_few), "which a copy is under way to");
    EXPECT_NE(problem_with(wait_mistake::no_barrier), "");
  } else {
    expect_says(problem_with(wait_mistake::no_wait), "wrong results");
    expect_says(problem_with(wait_mistake::waits_for_one_too_few), "wrong results");
  }
}

}  // namespace
