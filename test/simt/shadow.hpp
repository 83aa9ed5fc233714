#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "clocks.hpp"

namespace simt {

/// What the checks know about the launch that runs.
struct watch {
  clocks* order = nullptr;
  epoch launch_begin = 0;  // what happened since then, in other blocks, has no order
};

/// Who last wrote and read every two bytes of a range of memory.
///
/// The least that a thread can write alone are two bytes: neighbouring single bytes of two threads
/// would count as one.
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

  /// The host has written.
  void write_by_host(std::size_t byte, std::size_t bytes) { land(byte, bytes, 0, 0, 1); }

  /// Whether the bytes were written since `launch_begin`.
  bool written_since(std::size_t byte, std::size_t bytes, epoch since) const;

 private:
  struct cell {  // of two bytes; all 0: nobody has touched them
    epoch written, read;
    std::uint16_t writer, reader;
    tick write_tick, read_tick;
  };
  static constexpr std::size_t cell_bytes = 2;
  static constexpr std::uint16_t in_flight = 0xfffe, several = 0xffff;

  struct release_memory {
    void operator()(cell* cells) const;
  };

  std::string conflict(const cell& c, int thread, const watch& now, bool writes) const;
  void note_read(cell& c, int thread, clocks& order);

  std::unique_ptr<cell[], release_memory> cells_;
  // Readers of a cell with several in one epoch, by its read_tick: the tick of each thread's read.
  std::vector<std::vector<tick>> readers_;
  std::size_t readers_used_ = 0;
  epoch readers_epoch_ = 0;
};

}  // namespace simt
