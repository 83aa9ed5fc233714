#include "block.hpp"

#include <sys/mman.h>

#include <memory>
#include <new>

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace simt {
namespace {

block* the_block = nullptr;

/// Unwinds a thread that has done something wrong.
struct stop_signal {};

/// Stacks for the threads of a block, each with a page below it that cannot be touched.
std::byte* stack_of(int rank, std::size_t& bytes) {
  constexpr std::size_t page = 4096, each = std::size_t{256} * 1024;
  static std::vector<std::byte*> stacks;
  while (stacks.size() <= static_cast<std::size_t>(rank)) {
    void* memory = mmap(nullptr, page + each, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) throw std::bad_alloc();
    stacks.push_back(static_cast<std::byte*>(memory) + page);
  }
  bytes = each;
  return stacks[static_cast<std::size_t>(rank)];
}

}  // namespace

block::block(const char* kernel, uint3 index, dim3 threads, void (*body)(void*), void* argument)
    : order(static_cast<int>(threads.x * threads.y * threads.z)),
      kernel_(kernel),
      index_(index),
      body_(body),
      argument_(argument),
      random_(settings().order_seed + index.x),
      threads_(std::size_t{threads.x} * threads.y * threads.z),
      ready_(threads_.size()) {
  int rank = 0;
  for (unsigned z = 0; z < threads.z; ++z) {
    for (unsigned y = 0; y < threads.y; ++y) {
      for (unsigned x = 0; x < threads.x; ++x, ++rank) {
        thread& t = at(rank);
        t.index = {x, y, z};
        t.rank = rank;
        std::size_t bytes = 0;
        std::byte* const stack = stack_of(rank, bytes);
        t.fiber = make_context(stack, bytes, enter);
        wake(t);
      }
    }
  }
  the_block = this;
}

block::~block() {
  the_block = nullptr;
}

block& block::running() {
  return *the_block;
}

bool block::is_running() {
  return the_block != nullptr;
}

int block::lanes_in_warp_of(int rank) const {
  const int first = rank / warp_size * warp_size;
  return std::min(warp_size, size() - first);
}

void block::run() {
  blockIdx = index_;
  current_ = next();
  threadIdx = current_->index;
  switch_context(host_, current_->fiber);
  for (const auto& [barrier, t] : transfers) {
    if (failure_.empty() && !t.copies.empty()) {
      failure_ = describe() + ": ends with bulk copies under way to its shared memory";
    }
  }
  for (const auto& [rank, groups] : stores) {
    if (failure_.empty() && groups.size() + groups.back().size() > 1) {
      failure_ = describe() + ", thread " + std::to_string(rank) +
                 ": ends with bulk copies under way from its shared memory";
    }
  }
  if (exception_) std::rethrow_exception(exception_);
  if (!failure_.empty()) throw error(failure_);
}

void block::enter(boost::context::detail::transfer_t came) {
  block& b = running();
  arrive(b.current_->fiber, came);
  bool stopped = false;
  try {
    b.body_(b.argument_);
  } catch (const stop_signal&) {
    stopped = true;
  } catch (...) {
    b.exception_ = std::current_exception();
    stopped = true;
  }
  if (stopped) b.leave();
  b.current_->state = waiting::exited;
  ++b.exited_;
  thread& ended = *b.current_;
  thread* const following = b.next();
  if (following == nullptr) {
    if (b.exited_ < b.size()) b.stop_deadlocked();
    b.leave();
  }
  b.current_ = following;
  threadIdx = following->index;
  switch_context(ended.fiber, following->fiber, true);
}

void block::wait() {
  thread& from = *current_;
  thread* const following = next();
  if (following == nullptr) stop_deadlocked();
  if (following != &from) {
    current_ = following;
    threadIdx = following->index;
    switch_context(from.fiber, following->fiber);
  }
}

void block::wake(thread& t) {
  t.state = waiting::no;
  ready_[(ready_begin_ + ready_count_++) % ready_.size()] = &t;
}

/// Draws below `bound` (Steele, Lea and Flood 2014: SplitMix).
std::size_t block::draw(std::size_t bound) {
  std::uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::size_t>((z ^ (z >> 31)) >> 32) * bound >> 32;
}

thread* block::next() {
  if (ready_count_ == 0) return nullptr;
  thread*& first = ready_[ready_begin_];
  if (settings().order_seed != 0) {
    std::swap(first, ready_[(ready_begin_ + draw(ready_count_)) % ready_.size()]);
  }
  ready_begin_ = (ready_begin_ + 1) % ready_.size();
  --ready_count_;
  return first;
}

void block::leave() {
  switch_context(current_->fiber, host_, true);
  __builtin_unreachable();
}

void block::stop(const std::string& what, const where* place) {
  const thread& t = *current_;
  failure_ = describe() + ", thread " + std::to_string(t.rank) + ": " + what;
  if (place != nullptr) {
    failure_ += " (" + place_text(*place) + ")";
    throw stop_signal();
  }
  // Called by a hook, through which no exception may pass: the thread is left where it is.
  if (t.place.line() != 0) failure_ += " (after " + place_text(t.place) + ")";
  leave();
}

void block::stop_deadlocked() {
  failure_ = describe() + ": " + explain_deadlock(*this);
  leave();
}

std::string block::describe() const {
  std::string index = std::to_string(index_.x);
  if (gridDim.y * gridDim.z > 1) {
    index = "(" + index + ", " + std::to_string(index_.y) + ", " + std::to_string(index_.z) + ")";
  }
  return std::string(kernel_) + ": block " + index;
}

}  // namespace simt
