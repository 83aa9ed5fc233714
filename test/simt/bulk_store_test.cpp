#include <adaptiveload/support/device.cuh>
#include <vector>

#include "../device_buffer.hpp"
#include "problem_of.hpp"

namespace device = adaptiveload::device;

namespace {

constexpr int values = 64, stages = 2;  // of a stage; of the ring
constexpr unsigned threads = 64;
constexpr std::size_t ring_bytes = stages * values * sizeof(float);

enum class mistake {
  none,
  not_shown,
  shown_by_one,
  no_barrier,
  no_wait,
  waits_for_one_too_few,
  no_barrier_after_wait,
  not_committed,
  no_wait_at_end,
};

/// Writes `runs` runs of numbers through a ring of stages that bulk copies empty.
void store_all(mistake made, int runs, float* to) {
  auto* const ring = reinterpret_cast<float*>(device::shared_memory());
  const unsigned thread = threadIdx.x;
  for (int run = 0; run < runs; ++run) {
    float* const stage = ring + run % stages * values;
    if (thread == 0 && run >= stages) {
      if (made == mistake::waits_for_one_too_few) {
        device::wait_for_bulk_reads<stages>();
      } else if (made != mistake::no_wait) {
        device::wait_for_bulk_reads<stages - 1>();
      }
    }
    if (made != mistake::no_barrier_after_wait) device::sync_block();
    stage[thread] = static_cast<float>(run * values) + static_cast<float>(thread);
    if (made != mistake::not_shown && (made != mistake::shown_by_one || thread == 0)) {
      device::show_to_copies();
    }
    if (made != mistake::no_barrier) device::sync_block();
    if (thread == 0) {
      device::store_bulk(to + run * values, stage, values * sizeof(float));
      if (made != mistake::not_committed) device::commit_bulk_group();
    }
  }
  if (thread == 0 && made != mistake::no_wait_at_end) device::wait_for_bulk_reads<0>();
}

std::string problem_with(mistake made, int runs = 7) {
  device_buffer<float> to(static_cast<std::size_t>(runs * values));
  const std::string problem = problem_of(store_all, 1, threads, ring_bytes, made, runs, to.data());
  if (problem.empty()) {
    const std::vector<float> got = to.download();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] != static_cast<float>(i)) return "wrong results";
    }
  }
  return problem;
}

TEST(simt_bulk_store, empties_a_ring) {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    simt::settings().order_seed = seed;
    for (const int runs : {1, 2, 3, 8}) EXPECT_EQ(problem_with(mistake::none, runs), "") << runs;
  }
  simt::settings().order_seed = 1;
}

TEST(simt_bulk_store, of_what_is_written_again_before_it_was_read_is_found) {
  for (const mistake made : {mistake::no_wait, mistake::waits_for_one_too_few}) {
    EXPECT_NE(problem_with(made), "");
    if (simt::accesses_are_tracked) expect_says(problem_with(made), "which a copy still reads");
  }
}

TEST(simt_bulk_store, that_a_block_leaves_behind_is_found) {
  expect_says(problem_with(mistake::no_wait_at_end, 2),
              "block 0, thread 0: ends with bulk copies under way from its shared memory");
  expect_says(problem_with(mistake::not_committed, 2), "ends with bulk copies under way");
}

void store_once(int to, int from, std::uint32_t bytes, float* data) {
  auto* const shared = reinterpret_cast<float*>(device::shared_memory());
  for (int i = 0; i < 32; ++i) shared[i] = 1;
  device::show_to_copies();
  device::store_bulk(data + to, shared + from, bytes);
  device::commit_bulk_group();
  device::wait_for_bulk_reads<0>();
}

TEST(simt_bulk_store, needs_aligned_addresses_whole_16_bytes_and_room) {
  device_buffer<float> data(std::vector<float>(64));
  const auto problem = [&](int to, int from, std::uint32_t bytes) {
    return problem_of(store_once, 1, 1, 128, to, from, bytes, data.data());
  };
  EXPECT_EQ(problem(4, 0, 128), "");
  expect_says(problem(1, 0, 16), "4 bytes off a multiple of 16");
  expect_says(problem(0, 2, 16), "8 bytes off a multiple of 16");
  expect_says(problem(0, 0, 24), "store_bulk of 24 bytes; allowed: a multiple of 16");
  expect_says(problem(0, 4, 128), "isn't in the block's shared memory");
  expect_says(problem(60, 0, 32), "writes 32 bytes at byte 240 of device memory, which has 256");
  simt::settings().compute_capability = 80;
  expect_says(problem(0, 0, 16), "store_bulk on a device below compute capability 9.0");
  simt::settings().compute_capability = 90;
}

#ifdef __SANITIZE_THREAD__  // the executor sees plain accesses

TEST(simt_bulk_store, needs_its_source_written_before_and_shown) {
  for (const std::uint64_t seed : {0, 1, 2}) {
    simt::settings().order_seed = seed;
    expect_says(problem_with(mistake::not_shown), "hasn't shown to bulk copies");
    expect_says(problem_with(mistake::shown_by_one), "hasn't shown to bulk copies");
    expect_says(problem_with(mistake::no_barrier), "of shared memory, which");
    EXPECT_NE(problem_with(mistake::no_barrier_after_wait), "");
  }
  simt::settings().order_seed = 1;
}

void store_then_read(float* data, float* copy) {
  auto* const shared = reinterpret_cast<float*>(device::shared_memory());
  for (int i = 0; i < 4; ++i) shared[i] = 1;
  device::show_to_copies();
  device::store_bulk(data, shared, 16);
  device::commit_bulk_group();
  device::wait_for_bulk_reads<0>();
  *copy = data[0];
}

TEST(simt_bulk_store, is_there_for_the_next_launch_alone) {
  device_buffer<float> data(4), copy(1);
  expect_says(problem_of(store_then_read, 1, 1, 16, data.data(), copy.data()),
              "of device memory, which a copy is under way to");
}

#endif

}  // namespace
