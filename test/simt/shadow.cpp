#include "shadow.hpp"

#include <limits>
#include <utility>

namespace simt {
namespace {

/// Whether an event of another time has no order with what `thread` does now.
bool unordered(epoch at, int agent, tick then, int thread, const watch& now) {
  if (at == now.order->now()) return !now.order->ordered(agent, then, thread);
  return at >= now.overlap_begin && at < now.order->block_begin();
}

std::string who(epoch at, int agent, const watch& now) {
  if (at < now.launch_begin) return "a kernel before, which may still run,";
  if (at < now.order->block_begin()) return "another block";
  return agent < now.order->threads() ? "thread " + std::to_string(agent) : "a copy";
}

}  // namespace

shadow::shadow(std::size_t bytes) : cells_((bytes + cell_bytes_ - 1) / cell_bytes_) {}

std::span<shadow::cell> shadow::cells_of(std::size_t byte, std::size_t bytes) {
  if (bytes == 0) return {};
  const std::size_t multiple_of = (byte | bytes) & (~(byte | bytes) + 1);  // of this power of 2
  if (multiple_of < cell_bytes_) split_cells(multiple_of);
  return std::span(cells_).subspan(byte / cell_bytes_, bytes / cell_bytes_);
}

void shadow::split_cells(std::size_t bytes) {
  const std::size_t parts = cell_bytes_ / bytes;
  std::vector<cell> split;
  split.reserve(cells_.size() * parts);
  for (const cell& whole : cells_) {
    for (std::size_t part = 0; part < parts; ++part) {
      split.push_back(whole);
      if (part > 0 && whole.reader == several && whole.read == readers_epoch_) {
        set_readers(split.back(), readers_[whole.read_tick]);
      }
    }
  }
  cells_ = std::move(split);
  cell_bytes_ = bytes;
}

std::string shadow::conflict(const cell& c, int thread, const watch& now, bool writes) const {
  if (c.writer == in_flight && c.written >= now.order->block_begin()) {
    return "which a copy is under way to";
  }
  if (unordered(c.written, c.writer, c.write_tick, thread, now)) {
    return "which " + who(c.written, c.writer, now) + " wrote, with no barrier between";
  }
  if (!writes || c.read == 0) return {};
  if (c.reader == copying && c.read >= now.order->block_begin()) return "which a copy still reads";
  if (c.reader != several) {
    if (!unordered(c.read, c.reader, c.read_tick, thread, now)) return {};
    return "which " + who(c.read, c.reader, now) + " reads, with no barrier between";
  }
  if (c.read != now.order->now()) {
    if (!unordered(c.read, 0, 0, thread, now)) return {};
    return "which " + who(c.read, 0, now) + " reads";
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

void shadow::set_readers(cell& c, std::vector<tick> readers) {
  if (readers_.size() > std::numeric_limits<tick>::max()) return;  // one reader is remembered
  c.reader = several;
  c.read_tick = static_cast<tick>(readers_.size());
  readers_.push_back(std::move(readers));
}

void shadow::note_read(cell& c, int thread, clocks& order) {
  const auto self = static_cast<std::uint16_t>(thread);
  const tick ticks = order.ticks(thread);
  if (c.reader == copying && c.read >= order.block_begin()) return;
  if (c.read != order.now() || c.reader == self) {
    c.read = order.now();
    c.reader = self;
    c.read_tick = ticks;
    return;
  }
  if (readers_epoch_ != order.now()) {
    readers_epoch_ = order.now();
    readers_.clear();
  }
  if (c.reader != several) {
    std::vector<tick> readers(static_cast<std::size_t>(order.threads()));
    readers[c.reader] = c.read_tick;
    set_readers(c, std::move(readers));
  }
  if (c.reader == several) readers_[c.read_tick][self] = ticks;
}

std::string shadow::read(std::size_t byte, std::size_t bytes, int thread, const watch& now,
                         epoch valid_from) {
  for (cell& c : cells_of(byte, bytes)) {
    if (c.written < valid_from) return "which nobody has written";
    if (c.written >= now.overlap_begin) {
      if (std::string problem = conflict(c, thread, now, false); !problem.empty()) return problem;
    }
    note_read(c, thread, *now.order);
  }
  return {};
}

std::string shadow::write(std::size_t byte, std::size_t bytes, int thread, const watch& now) {
  for (cell& c : cells_of(byte, bytes)) {
    if (c.written >= now.overlap_begin || c.read >= now.overlap_begin) {
      if (std::string problem = conflict(c, thread, now, true); !problem.empty()) return problem;
    }
    c = {now.order->now(), 0, static_cast<std::uint16_t>(thread), 0, now.order->ticks(thread), 0};
  }
  return {};
}

void shadow::begin_flight(std::size_t byte, std::size_t bytes) {
  for (cell& c : cells_of(byte, bytes)) c.writer = in_flight;
}

void shadow::land(std::size_t byte, std::size_t bytes, int agent, tick then, epoch at) {
  for (cell& c : cells_of(byte, bytes)) {
    c = {at, 0, static_cast<std::uint16_t>(agent), 0, then, 0};
  }
}

void shadow::begin_reading(std::size_t byte, std::size_t bytes, clocks& order) {
  for (cell& c : cells_of(byte, bytes)) {
    c.read = order.now();
    c.reader = copying;
  }
}

void shadow::end_reading(std::size_t byte, std::size_t bytes, int thread, clocks& order) {
  for (cell& c : cells_of(byte, bytes)) {
    c.read = order.now();
    c.reader = static_cast<std::uint16_t>(thread);
    c.read_tick = order.ticks(thread);
  }
}

bool shadow::written_since(std::size_t byte, std::size_t bytes, epoch since) {
  for (const cell& c : cells_of(byte, bytes)) {
    if (c.written >= since) return true;
  }
  return false;
}

}  // namespace simt
