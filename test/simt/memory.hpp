#pragma once

#include <simt/executor.hpp>

#include "clocks.hpp"

namespace simt {

/// The dynamic shared memory of the block that is about to run: exactly `bytes`, holding NaN bytes.
class shared_region {
 public:
  explicit shared_region(std::size_t bytes);
  ~shared_region();
  shared_region(const shared_region&) = delete;
};

enum class access { read, write, streaming_read };

/// Checks an access of the running thread, if it is to shared or device memory. `place` is null
/// where it isn't known.
void check_access(access kind, const void* address, std::size_t bytes, const where* place);

void check_aligned(const void* address, std::size_t alignment, where place);

/// Checks that shared memory has `bytes` at `address`.
void check_in_shared_memory(const void* address, std::size_t bytes, where place);

/// Checks that all threads that wrote or read these bytes last have called `show_to_copies` since.
void check_shown(const void* shared, std::size_t bytes, where place);

/// A copy to shared memory that goes on for a while is a write by the running thread when it
/// begins, and by an agent of the clocks when it lands. Between, NaN bytes lie there.
void begin_copy(void* shared, std::size_t bytes, where place);
void land_copy(void* shared, const void* from, std::size_t bytes, int agent, tick then);

/// A copy from shared memory that goes on for a while: `shared` may not be written until it ends;
/// nothing may touch `global` until the launch does. All writers of `shared` must have called
/// `show_to_copies` since.
void begin_store(void* global, const void* shared, std::size_t bytes, where place);
void end_store(void* global, const void* shared, std::size_t bytes);

/// Begins a launch: what happens before it comes before all that its blocks do. If it overlaps
/// those before, that is so only for what a thread does once it has waited for them.
void begin_launch(bool overlaps);

}  // namespace simt
