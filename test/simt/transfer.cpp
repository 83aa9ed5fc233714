#include <string>

#include "block.hpp"
#include "memory.hpp"

namespace simt {
namespace {

constexpr std::size_t barrier_bytes = 8, copy_alignment = 16;

/// The barrier there, that the current thread is about to use.
transfer& find(const void* barrier, where place) {
  block& b = block::running();
  const auto found = b.transfers.find(barrier);
  if (found == b.transfers.end()) {
    b.stop("uses a transfer barrier that nobody has made ready", place);
  }
  check_access(access::read, barrier, barrier_bytes, &place);
  return found->second;
}

/// Ends the phase if all that it waits for has been announced.
void end_phase(transfer& t) {
  if (!t.arrived || t.announced != t.expected) return;
  block::running().order.release(t.agent, ++t.landed, t.seen);
  for (const copy& c : t.copies) land_copy(c.to, c.from, c.bytes, t.agent, t.landed);
  ++t.phases;
  t.arrived = false;
  t.expected = t.announced = 0;
  t.copies.clear();
}

/// Lets those that wait look again.
void wake_waiting(const void* barrier) {
  block& b = block::running();
  for (int rank = 0; rank < b.size(); ++rank) {
    thread& t = b.at(rank);
    if (t.state == waiting::for_transfer && t.transfer_barrier == barrier) b.wake(t);
  }
}

void check_copy(void* shared, const void* global, std::size_t bytes, std::size_t alignment,
                where place) {
  check_aligned(shared, alignment, place);
  check_read(global, bytes, alignment, place);
  check_in_shared_memory(shared, bytes, place);
  begin_copy(shared, bytes, place);
}

void check_bulk(const std::string& operation, std::uint32_t bytes, where place) {
  block& b = block::running();
  if (settings().compute_capability < 90) {
    b.stop(operation + " on a device below compute capability 9.0", place);
  }
  if (bytes % copy_alignment != 0) {
    b.stop(operation + " of " + std::to_string(bytes) + " bytes; allowed: a multiple of 16", place);
  }
}

}  // namespace

void init_barrier(const void* barrier, where place) {
  block& b = block::running();
  check_write(barrier, barrier_bytes, barrier_bytes, place);
  check_in_shared_memory(barrier, barrier_bytes, place);
  const int agent = b.size() + static_cast<int>(b.transfers.size());
  if (agent == b.size() + clocks::transfer_agents) b.stop("makes too many barriers ready", place);
  const auto [made, fresh] = b.transfers.try_emplace(barrier);
  if (!fresh) b.stop("makes a barrier ready that is in use", place);
  made->second.agent = agent;
}

void expect_bytes(const void* barrier, std::uint32_t bytes, where place) {
  constexpr std::uint64_t most = (1u << 20) - 1;
  block& b = block::running();
  transfer& t = find(barrier, place);
  end_phase(t);
  if (t.arrived) b.stop("announces bytes twice in one phase of a barrier", place);
  if (bytes > most) b.stop("announces more than 1,048,575 bytes in one phase", place);
  t.arrived = true;
  t.expected = bytes;
  b.order.release(b.current().rank, t.seen);
  wake_waiting(barrier);
}

void copy_bulk(void* shared, const void* global, std::uint32_t bytes, const void* barrier,
               where place) {
  block& b = block::running();
  check_bulk("copy_bulk", bytes, place);
  transfer& t = find(barrier, place);
  check_in_shared_memory(shared, bytes, place);
  check_shown(shared, bytes, place);
  check_copy(shared, global, bytes, copy_alignment, place);
  t.copies.push_back({shared, global, bytes});
  t.announced += bytes;
  if (t.arrived && t.announced > t.expected) {
    b.stop("copies " + std::to_string(t.announced) + " bytes in a phase that expects " +
               std::to_string(t.expected),
           place);
  }
  wake_waiting(barrier);
}

void wait_for_bytes(const void* barrier, std::uint32_t parity, where place) {
  block& b = block::running();
  thread& self = b.current();
  transfer& t = find(barrier, place);
  for (;;) {
    if ((t.phases & 1) == parity) end_phase(t);
    if ((t.phases & 1) != parity) break;
    self.state = waiting::for_transfer;
    self.operation = "wait_for_bytes";
    self.place = place;
    self.transfer_barrier = barrier;
    b.wait();
  }
  b.order.acquire(self.rank, t.seen);
  wake_waiting(barrier);
}

void show_to_copies(where) {
  block& b = block::running();
  thread& self = b.current();
  self.shown = {b.order.now(), b.order.ticks(self.rank)};
  b.order.advance(self.rank);
}

void store_bulk(void* global, const void* shared, std::uint32_t bytes, where place) {
  check_bulk("store_bulk", bytes, place);
  check_aligned(global, copy_alignment, place);
  check_aligned(shared, copy_alignment, place);
  check_in_shared_memory(shared, bytes, place);
  begin_store(global, shared, bytes, place);
  block& b = block::running();
  b.stores.try_emplace(b.current().rank, 1).first->second.back().push_back({global, shared, bytes});
}

void commit_bulk_group() {
  block& b = block::running();
  b.stores.try_emplace(b.current().rank, 1).first->second.emplace_back();
}

void wait_for_bulk_reads(int pending) {
  block& b = block::running();
  const auto found = b.stores.find(b.current().rank);
  if (found == b.stores.end()) return;
  // Beside the committed groups there is the current one.
  for (auto& groups = found->second; groups.size() > static_cast<std::size_t>(pending) + 1;) {
    for (const copy& c : groups.front()) end_store(c.to, c.from, c.bytes);
    groups.pop_front();
  }
}

void copy_async(void* shared, const void* global, std::size_t bytes, where place) {
  check_copy(shared, global, bytes, bytes, place);
  block::running().current().copy_groups.back().push_back({shared, global, bytes});
}

void end_copy_group() {
  block::running().current().copy_groups.emplace_back();
}

void wait_for_copy_groups(int pending) {
  block& b = block::running();
  thread& self = b.current();
  // Beside the ended groups there is the current one.
  while (self.copy_groups.size() > static_cast<std::size_t>(pending) + 1) {
    for (const copy& c : self.copy_groups.front()) {
      land_copy(c.to, c.from, c.bytes, self.rank, b.order.ticks(self.rank));
    }
    self.copy_groups.pop_front();
  }
}

}  // namespace simt
