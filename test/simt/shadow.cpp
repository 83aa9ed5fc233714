#include "shadow.hpp"

#include <cstdlib>
#include <new>

namespace simt {
namespace {

/// Whether an event of another time has no order with what `thread` does now.
bool unordered(epoch at, int agent, tick then, int thread, const watch& now) {
  if (at == now.order->now()) return !now.order->ordered(agent, then, thread);
  return at >= now.launch_begin && at < now.order->block_begin();
}

std::string who(epoch at, int agent, const watch& now) {
  if (at < now.order->block_begin()) return "another block";
  return agent < now.order->threads() ? "thread " + std::to_string(agent) : "a copy";
}

}  // namespace

void shadow::release_memory::operator()(cell* cells) const {
  std::free(cells);
}

shadow::shadow(std::size_t bytes)  // pages that are never touched take no memory
    : cells_(static_cast<cell*>(std::calloc(bytes / cell_bytes + 1, sizeof(cell)))) {
  if (cells_ == nullptr) throw std::bad_alloc();
}

std::string shadow::conflict(const cell& c, int thread, const watch& now, bool writes) const {
  if (c.writer == in_flight && c.written >= now.order->block_begin()) {
    return "which a copy is under way to";
  }
  if (unordered(c.written, c.writer, c.write_tick, thread, now)) {
    return "which " + who(c.written, c.writer, now) + " wrote, with no barrier between";
  }
  if (!writes || c.read == 0) return {};
  if (c.reader != several) {
    if (!unordered(c.read, c.reader, c.read_tick, thread, now)) return {};
    return "which " + who(c.read, c.reader, now) + " reads, with no barrier between";
  }
  if (c.read != now.order->now()) {
    if (!unordered(c.read, 0, 0, thread, now)) return {};
    return "which another block reads";
  }
  const std::vector<tick>& readers = readers_[c.read_tick];
  for (std::size_t reader = 0; reader < readers.size(); ++reader) {
    const int agent = static_cast<int>(reader);
    if (readers[reader] != 0 && !now.order->ordered(agent, readers[reader], thread)) {
      return "which " + who(c.read, agent, now) + " reads, with no barrier between";
    }
  }
  return {};
}

void shadow::note_read(cell& c, int thread, clocks& order) {
  const auto self = static_cast<std::uint16_t>(thread);
  const tick ticks = order.ticks(thread);
  if (c.read != order.now() || c.reader == self) {
    c.read = order.now();
    c.reader = self;
    c.read_tick = ticks;
    return;
  }
  if (readers_epoch_ != order.now()) {
    readers_epoch_ = order.now();
    readers_used_ = 0;
  }
  if (c.reader != several) {
    if (readers_used_ > 0xffff) return;  // only the first reader is remembered
    if (readers_used_ == readers_.size()) readers_.emplace_back();
    std::vector<tick>& readers = readers_[readers_used_];
    readers.assign(static_cast<std::size_t>(order.threads()), 0);
    readers[c.reader] = c.read_tick;
    c.reader = several;
    c.read_tick = static_cast<tick>(readers_used_++);
  }
  readers_[c.read_tick][self] = ticks;
}

std::string shadow::read(std::size_t byte, std::size_t bytes, int thread, const watch& now,
                         epoch valid_from) {
  for (std::size_t i = byte / cell_bytes; i * cell_bytes < byte + bytes; ++i) {
    cell& c = cells_[i];
    if (c.written < valid_from) return "which nobody has written";
    if (c.written >= now.launch_begin) {
      if (std::string problem = conflict(c, thread, now, false); !problem.empty()) return problem;
    }
    note_read(c, thread, *now.order);
  }
  return {};
}

std::string shadow::write(std::size_t byte, std::size_t bytes, int thread, const watch& now) {
  for (std::size_t i = byte / cell_bytes; i * cell_bytes < byte + bytes; ++i) {
    cell& c = cells_[i];
    if (c.written >= now.launch_begin || c.read >= now.launch_begin) {
      if (std::string problem = conflict(c, thread, now, true); !problem.empty()) return problem;
    }
    c = {now.order->now(), 0, static_cast<std::uint16_t>(thread), 0, now.order->ticks(thread), 0};
  }
  return {};
}

void shadow::begin_flight(std::size_t byte, std::size_t bytes) {
  for (std::size_t i = byte / cell_bytes; i * cell_bytes < byte + bytes; ++i) {
    cells_[i].writer = in_flight;
  }
}

void shadow::land(std::size_t byte, std::size_t bytes, int agent, tick then, epoch at) {
  for (std::size_t i = byte / cell_bytes; i * cell_bytes < byte + bytes; ++i) {
    cells_[i] = {at, 0, static_cast<std::uint16_t>(agent), 0, then, 0};
  }
}

bool shadow::written_since(std::size_t byte, std::size_t bytes, epoch since) const {
  for (std::size_t i = byte / cell_bytes; i * cell_bytes < byte + bytes; ++i) {
    if (cells_[i].written >= since) return true;
  }
  return false;
}

}  // namespace simt
