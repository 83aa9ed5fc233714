#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace simt {

/// Time is cut into epochs, numbered through all launches: one begins with every block and at each
/// of its block barriers. Number 1 is the host's, before all launches.
using epoch = std::uint32_t;
using tick = std::uint16_t;

/// What happened before what among the threads of the running block since its last block barrier:
/// vector clocks (Mattern 1989), a row a thread. Beside the threads there are agents that write for
/// them, one for each transfer barrier.
class clocks {
 public:
  static constexpr int transfer_agents = 256;

  /// The latest event of every agent that a barrier has seen.
  struct moment {
    epoch at = 0;
    std::vector<tick> seen;
  };

  /// Begins a block.
  explicit clocks(int threads);

  int threads() const { return threads_; }
  epoch now() const { return now_; }
  epoch block_begin() const { return block_begin_; }
  tick ticks(int thread) { return row(thread)[static_cast<std::size_t>(thread)]; }

  /// Whether what `agent` did at `then` of the present epoch comes before what `thread` does now.
  bool ordered(int agent, tick then, int thread) {
    return agent == thread || row(thread)[static_cast<std::size_t>(agent)] >= then;
  }

  /// All threads of the block have met.
  void begin_epoch() { now_ = next_epoch(); }

  /// These threads have met.
  void meet(const std::vector<int>& threads);

  /// `barrier` has seen all that came before in `thread`.
  void release(int thread, moment& barrier);
  /// `barrier` has seen what `agent` did at `then`, now.
  void release(int agent, tick then, moment& barrier);
  /// All that `barrier` has seen comes before what `thread` does from now on.
  void acquire(int thread, const moment& barrier);

  /// What `thread` does from now on has later ticks.
  void advance(int thread);

  /// The number of the next epoch, which begins.
  static epoch next_epoch();

 private:
  tick* row(int thread);
  tick* seen_now(moment& barrier);

  int threads_;
  std::size_t agents_;
  epoch now_, block_begin_;
  std::vector<epoch> row_epoch_;  // a row of an older epoch is all 0 but for its own first tick
  std::vector<tick> rows_;
};

}  // namespace simt
