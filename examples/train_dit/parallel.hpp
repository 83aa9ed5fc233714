#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <thread>
#include <type_traits>
#include <vector>

namespace train_dit {

using index = Eigen::Index;

/// A fixed set of threads, the caller among them, that run the tasks of one loop at a time.
class thread_pool {
 public:
  explicit thread_pool(unsigned threads) {
    for (unsigned i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(); });
  }
  ~thread_pool() {
    stop_ = true;
    wake();
    for (std::thread& worker : workers_) worker.join();
  }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  [[nodiscard]] index threads() const { return static_cast<index>(workers_.size()) + 1; }

  /// Runs task(0) ... task(count - 1) and returns when all are done. Tasks must not throw.
  template <class Task>
  void run(index count, const Task& task) {
    if (count == 1 || workers_.empty()) {
      for (index i = 0; i < count; ++i) task(i);
      return;
    }
    task_ = &task;
    call_ = [](const void* erased, index i) { (*static_cast<const Task*>(erased))(i); };
    count_ = count;
    next_ = 0;
    busy_ = static_cast<int>(workers_.size());
    wake();
    work();
    for (int busy = busy_; busy != 0; busy = busy_) busy_.wait(busy);
  }

 private:
  void wake() {
    ++generation_;
    generation_.notify_all();
  }
  void work() {
    for (index i = next_++; i < count_; i = next_++) call_(task_, i);
  }
  void serve() {
    for (unsigned seen = 0;;) {
      generation_.wait(seen);
      seen = generation_;
      if (stop_) return;
      work();
      if (--busy_ == 0) busy_.notify_one();
    }
  }

  std::vector<std::thread> workers_;
  std::atomic<unsigned> generation_ = 0;  // of the loop; the workers sleep until it changes
  std::atomic<int> busy_ = 0;
  std::atomic<index> next_ = 0;
  std::atomic<bool> stop_ = false;
  const void* task_ = nullptr;
  void (*call_)(const void*, index) = nullptr;
  index count_ = 0;
};

/// One a core, up to four, more than which so small a model cannot feed.
inline unsigned default_threads() {
  return std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
}

/// The program's threads: as many as its first caller asks for.
inline thread_pool& pool(unsigned threads = default_threads()) {
  static thread_pool shared(threads);
  return shared;
}

/// Runs task(0) ... task(count - 1) on all threads.
template <class Task>
void parallel_for(index count, const Task& task) {
  pool().run(count, task);
}

/// Runs body(first, length) on each thread, for one run of [0, count) each.
template <class Body>
void parallel_runs(index count, const Body& body) {
  constexpr index smallest = 16;  // below that, waking a thread takes longer than the work
  const index runs = std::clamp<index>(count / smallest, 1, pool().threads());
  parallel_for(runs, [&](index run) {
    const index first = count * run / runs;
    body(first, count * (run + 1) / runs - first);
  });
}

}  // namespace train_dit
