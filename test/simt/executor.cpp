#include <cstdlib>
#include <simt/executor.hpp>
#include <sstream>

#include "block.hpp"
#include "memory.hpp"

namespace simt {
namespace {

/// Throws unless a device takes the launch.
void check_launch(const char* kernel, std::int64_t blocks, dim3 threads, std::size_t shared_bytes) {
  const auto require = [&](bool holds, const char* what, auto value, auto limit) {
    if (holds) return;
    std::ostringstream text;
    text << kernel << ": launch with " << what << " " << value << "; allowed: 1 to " << limit;
    throw error(text.str());
  };
  const auto block_threads = std::uint64_t{threads.x} * threads.y * threads.z;
  const std::int64_t max_blocks = settings().max_blocks;
  require(blocks >= 1 && blocks <= max_blocks, "grid dimension x", blocks, max_blocks);
  require(threads.x >= 1 && threads.x <= 1024, "block dimension x", threads.x, 1024);
  require(threads.y >= 1 && threads.y <= 1024, "block dimension y", threads.y, 1024);
  require(threads.z >= 1 && threads.z <= 64, "block dimension z", threads.z, 64);
  require(block_threads <= 1024, "threads in a block", block_threads, 1024);
  require(shared_bytes <= settings().max_shared_bytes, "bytes of shared memory", shared_bytes,
          settings().max_shared_bytes);
}

std::uint64_t seed_from_environment() {
  const char* const seed = std::getenv("SIMT_ORDER_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

bool same_place(where a, where b) {
  return a.line() == b.line() && a.column() == b.column() && a.file_name() == b.file_name();
}

/// Brings the current thread to barrier `id` of `threads` threads, and waits there.
void wait_at_barrier(const char* operation, int id, int threads, where place) {
  block& b = block::running();
  barrier& meeting = b.barriers[static_cast<std::size_t>(id)];
  if (meeting.arrived == 0) meeting = {0, threads, place};
  if (meeting.threads != threads) {
    b.stop("comes to barrier " + std::to_string(id) + " of " + std::to_string(threads) +
               " threads, where others wait for " + std::to_string(meeting.threads),
           place);
  }
  if (id == 0 && !same_place(meeting.place, place)) {
    b.stop("comes to a sync_block where others wait in the one at " + place_text(meeting.place),
           place);
  }
  thread& self = b.current();
  self.state = waiting::at_barrier;
  self.operation = operation;
  self.place = place;
  self.barrier = id;
  if (++meeting.arrived == threads) {
    meeting.arrived = 0;
    std::vector<int> met;
    for (int rank = 0; rank < b.size(); ++rank) {
      thread& t = b.at(rank);
      if (t.state != waiting::at_barrier || t.barrier != id) continue;
      if (id != 0) met.push_back(rank);
      b.wake(t);
    }
    if (id == 0) {
      b.order.begin_epoch();
    } else {
      b.order.meet(met);
    }
  }
  b.wait();
}

/// Brings the current thread to a meeting of the lanes of `mask`, each with a value; `finish` is
/// called with the first lane's thread and the mask once all are there.
template <class Finish>
std::uint32_t meet_in_warp(const char* operation, unsigned mask, std::uint32_t value, int source,
                           where place, Finish finish) {
  block& b = block::running();
  thread& self = b.current();
  const int first = self.rank / warp_size * warp_size, lane = self.rank % warp_size;
  if ((mask >> lane & 1) == 0) {
    b.stop(
        std::string(operation) + " with a mask that lacks the calling lane " + std::to_string(lane),
        place);
  }
  const int lanes = b.lanes_in_warp_of(self.rank);
  if (lanes < warp_size && mask >> lanes != 0) {
    b.stop(std::string(operation) + " with a mask that names lanes from " + std::to_string(lanes) +
               " on, which the block doesn't have",
           place);
  }
  self.state = waiting::in_warp;
  self.operation = operation;
  self.place = place;
  self.mask = mask;
  self.value = value;
  self.source = source;
  for (int l = lanes - 1; l >= 0; --l) {
    if ((mask >> l & 1) == 0) continue;
    const thread& t = b.at(first + l);
    if (t.state != waiting::in_warp || t.mask != mask || !same_place(t.place, place)) {
      b.wait();
      return self.result;
    }
  }
  finish(first);
  for (int l = 0; l < lanes; ++l) {
    if ((mask >> l & 1) != 0 && l != lane) b.wake(b.at(first + l));
  }
  self.state = waiting::no;
  return self.result;
}

}  // namespace

device_settings& settings() {
  static device_settings value{.order_seed = seed_from_environment()};
  return value;
}

void run(const char* kernel, std::int64_t blocks, dim3 threads, std::size_t shared_bytes,
         void (*body)(void*), void* argument, bool overlaps) {
  check_launch(kernel, blocks, threads, shared_bytes);
  begin_launch(overlaps);
  gridDim = dim3(static_cast<unsigned>(blocks));
  blockDim = threads;
  for (std::int64_t i = 0; i < blocks; ++i) {
    shared_region shared(shared_bytes);
    block(kernel, {static_cast<unsigned>(i), 0, 0}, threads, body, argument).run();
  }
}

int thread_rank() {
  return block::running().current().rank;
}

void sync_block(where place) {
  wait_at_barrier("sync_block", 0, block::running().size(), place);
}

void sync_named(int id, int threads, where place) {
  block& b = block::running();
  if (id < 1 || id >= barrier_count) {
    b.stop("sync_named with barrier " + std::to_string(id) + "; allowed: 1 to 15", place);
  }
  if (threads < warp_size || threads > b.size() || threads % warp_size != 0) {
    b.stop("sync_named of " + std::to_string(threads) + " threads in a block of " +
               std::to_string(b.size()) + "; allowed: whole warps of the block",
           place);
  }
  wait_at_barrier("sync_named", id, threads, place);
}

void sync_warp(unsigned mask, where place) {
  meet_in_warp("sync_warp", mask, 0, 0, place, [mask](int first) {
    std::vector<int> met;
    for (int lane = 0; lane < warp_size; ++lane) {
      if ((mask >> lane & 1) != 0) met.push_back(first + lane);
    }
    block::running().order.meet(met);
  });
}

std::uint32_t shuffle(unsigned mask, std::uint32_t value, int source, where place) {
  block& b = block::running();
  if (source < 0 || source >= warp_size || (mask >> source & 1) == 0) {
    b.stop("shuffle from lane " + std::to_string(source) + ", which isn't in the mask", place);
  }
  return meet_in_warp("shuffle", mask, value, source, place, [&](int first) {
    for (int lane = 0; lane < b.lanes_in_warp_of(first); ++lane) {
      thread& t = b.at(first + lane);
      if ((mask >> lane & 1) != 0) t.result = b.at(first + t.source).value;
    }
  });
}

unsigned ballot(unsigned mask, bool value, where place) {
  block& b = block::running();
  return meet_in_warp("ballot", mask, value, 0, place, [&](int first) {
    unsigned votes = 0;
    for (int lane = 0; lane < b.lanes_in_warp_of(first); ++lane) {
      if ((mask >> lane & 1) != 0) votes |= b.at(first + lane).value << lane;
    }
    for (int lane = 0; lane < b.lanes_in_warp_of(first); ++lane) {
      if ((mask >> lane & 1) != 0) b.at(first + lane).result = votes;
    }
  });
}

void wait_for_previous_kernel() {
  block::running().current().saw_previous = true;
}

void fail(const char* what, where place) {
  block::running().stop(what, place);
}

}  // namespace simt
