#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "clocks.hpp"

namespace simt {

/// What the checks know about the launch that runs.
struct watch {
  clocks* order = nullptr;
  epoch launch_begin = 0;
  epoch overlap_begin = 0;  // what happened since then, in other blocks or launches, has no order
};

/// Who last wrote and read every cell of a range of memory. A cell is as many bytes, up to 16, as
/// all accesses so far were whole multiples of.
class shadow {
 public:
  explicit shadow(std::size_t bytes);

  /// What is wrong with a read or write by `thread`, in words; nothing if it is right.
  /// `valid_from`: bytes written before that epoch hold nothing.
  std::string read(std::size_t byte, std::size_t bytes, int thread, const watch& now,
                   epoch valid_from);
  std::string write(std::size_t byte, std::size_t bytes, int thread, const watch& now);

  /// After a `write`: until `land`, the bytes may not be touched.
  void begin_flight(std::size_t byte, std::size_t bytes);
  /// An agent has written.
  void land(std::size_t byte, std::size_t bytes, int agent, tick then, epoch at);

  /// After a `read`: until `end_reading`, the bytes may not be written.
  void begin_reading(std::size_t byte, std::size_t bytes, clocks& order);
  void end_reading(std::size_t byte, std::size_t bytes, int thread, clocks& order);

  /// Whether `holds(writer, epoch, tick)` of the last writers since `since`.
  template <class Predicate>
  bool all_writers(std::size_t byte, std::size_t bytes, epoch since, Predicate holds) {
    for (const cell& c : cells_of(byte, bytes)) {
      if (c.written >= since && !holds(int{c.writer}, c.written, c.write_tick)) return false;
    }
    return true;
  }

  /// Whether `holds(reader, epoch, tick)` of the last readers since `since`, as far as they are
  /// remembered: of several in an epoch, until a cell has several in a later one.
  template <class Predicate>
  bool all_readers(std::size_t byte, std::size_t bytes, epoch since, Predicate holds) {
    for (const cell& c : cells_of(byte, bytes)) {
      if (c.read < since || c.reader == copying) continue;
      if (c.reader != several) {
        if (!holds(int{c.reader}, c.read, c.read_tick)) return false;
      } else if (c.read == readers_epoch_) {
        const std::vector<tick>& readers = readers_[c.read_tick];
        for (std::size_t reader = 0; reader < readers.size(); ++reader) {
          if (readers[reader] != 0 && !holds(static_cast<int>(reader), c.read, readers[reader])) {
            return false;
          }
        }
      }
    }
    return true;
  }

  /// The host has written.
  void write_by_host(std::size_t byte, std::size_t bytes) { land(byte, bytes, 0, 0, 1); }

  /// Whether the bytes were written since `launch_begin`.
  bool written_since(std::size_t byte, std::size_t bytes, epoch since);

 private:
  struct cell {  // all 0: nobody has touched it
    epoch written, read;
    std::uint16_t writer, reader;
    tick write_tick, read_tick;
  };
  static constexpr std::uint16_t copying = 0xfffd, in_flight = 0xfffe, several = 0xffff;

  std::string conflict(const cell& c, int thread, const watch& now, bool writes) const;
  void note_read(cell& c, int thread, clocks& order);
  void set_readers(cell& c, std::vector<tick> readers);

  std::span<cell> cells_of(std::size_t byte, std::size_t bytes);
  void split_cells(std::size_t bytes);

  std::size_t cell_bytes_ = 16;
  std::vector<cell> cells_;
  // Readers of a cell with several in one epoch, by its read_tick: the tick of each thread's read.
  std::vector<std::vector<tick>> readers_;
  epoch readers_epoch_ = 0;
};

}  // namespace simt
