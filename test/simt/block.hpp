#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <simt/executor.hpp>
#include <string>
#include <utility>
#include <vector>

#include "clocks.hpp"
#include "fiber.hpp"

namespace simt {

inline constexpr int warp_size = 32;
inline constexpr int barrier_count = 16;  // barrier 0 is the block's

/// What a thread waits for.
enum class waiting { no, exited, at_barrier, in_warp, for_transfer };

struct copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

struct thread {
  context fiber;
  uint3 index;
  int rank = 0;

  waiting state = waiting::no;
  const char* operation = "";  // that it waits in
  where place{};
  int barrier = 0;                         // at_barrier
  const void* transfer_barrier = nullptr;  // for_transfer
  unsigned mask = 0;                       // in_warp
  std::uint32_t value = 0;                 // brought to a shuffle or vote
  int source = 0;                          // lane of the value wanted
  std::uint32_t result = 0;                // what it gets

  std::deque<std::vector<copy>> copy_groups{1};  // the last is the current one
  std::pair<epoch, tick> shown{};  // all that it wrote up to then has been shown to bulk copies
  bool saw_previous = false;       // has waited for the launches before
};

/// Threads that have come to a barrier, and what they said about it.
struct barrier {
  int arrived = 0, threads = 0;
  where place{};
};

/// A barrier that counts bytes (an mbarrier). Copies land when a thread waits for them or the next
/// phase is announced, the latest moment there is.
struct transfer {
  int agent = 0;  // of the clocks
  std::uint32_t phases = 0;
  bool arrived = false;
  std::uint64_t expected = 0, announced = 0;  // bytes
  std::vector<copy> copies;
  tick landed = 0;
  clocks::moment seen;
};

/// The block that is running: its threads, and which of them can go on.
class block {
 public:
  block(const char* kernel, uint3 index, dim3 threads, void (*body)(void*), void* argument);
  ~block();
  block(const block&) = delete;

  /// Runs all threads to their end. Throws what stopped them.
  void run();

  static block& running();
  static bool is_running();

  clocks order;
  std::array<barrier, barrier_count> barriers;
  std::map<const void*, transfer> transfers;
  std::map<int, std::deque<std::vector<copy>>> stores;  // groups of a thread, the last one current

  thread& current() { return *current_; }
  int size() const { return static_cast<int>(threads_.size()); }
  thread& at(int rank) { return threads_[static_cast<std::size_t>(rank)]; }
  int lanes_in_warp_of(int rank) const;

  /// Lets others run until `wake` is called for the current thread, which has noted why.
  void wait();
  void wake(thread& t);

  /// Ends the launch. `what` is what the current thread does wrong; without a place, the last one
  /// that the thread is known to have passed is named.
  [[noreturn]] void stop(const std::string& what, const where* place);
  [[noreturn]] void stop(const std::string& what, where place) { stop(what, &place); }

 private:
  static void enter(boost::context::detail::transfer_t came);
  thread* next();
  std::size_t draw(std::size_t bound);
  [[noreturn]] void leave();
  [[noreturn]] void stop_deadlocked();
  std::string describe() const;

  const char* kernel_;
  uint3 index_;
  void (*body_)(void*);
  void* argument_;
  std::uint64_t random_;
  std::vector<thread> threads_;
  std::vector<thread*> ready_;  // a ring of size() + 1
  std::size_t ready_begin_ = 0, ready_count_ = 0;
  thread* current_ = nullptr;
  int exited_ = 0;
  context host_;
  std::string failure_;
  std::exception_ptr exception_;
};

/// Why the threads of `b` that wait go on waiting for ever.
std::string explain_deadlock(block& b);

/// "0-31, 40" for ranks.
std::string ranks_text(const std::vector<int>& ranks);

/// "file.cuh:12" of a place.
std::string place_text(where place);

}  // namespace simt
