#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <stdexcept>

/// Runs CUDA kernels, compiled by the host compiler, on the CPU: one fiber a CUDA thread, blocks in
/// turn. It is there to find the mistakes that a GPU hides, not to be a fast GPU.
namespace simt {

/// What a kernel or its launch did wrong: kernel, block, threads, place.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The device that the library sees, and the order in which its threads run.
struct device_settings {
  int multiprocessors = 4;
  int compute_capability = 90;
  std::size_t max_shared_bytes = 227 * 1024;
  std::int64_t max_blocks = 0x7fffffff;  // of a grid; tests lower it to see what lies beyond
  /// 0: the first thread that can run, runs. Else the thread is drawn at random, from this seed.
  std::uint64_t order_seed = 1;
};

device_settings& settings();

/// Whether every plain access of the kernels is announced (by the hooks of hooks.cpp); if not, who
/// wrote and read what isn't known, and addresses alone are checked.
extern bool accesses_are_tracked;

using where = std::source_location;

/// Calls `body(argument)` once a CUDA thread. Throws `error`. If the launch overlaps those before
/// (programmatic dependent launch), it runs after them still, but its threads may touch what they
/// touch only after `wait_for_previous_kernel`.
void run(const char* kernel, std::int64_t blocks, dim3 threads, std::size_t shared_bytes,
         void (*body)(void*), void* argument, bool overlaps = false);

/// Notes that a kernel ran to its end. Names of those of other than internal linkage are added to
/// the file `<executable>.kernels`.
void note_executed(const void* kernel);

/// The rest is called by a running thread.

int thread_rank();
std::byte* shared_memory();

void sync_block(where place);
void sync_named(int id, int threads, where place);
void sync_warp(unsigned mask, where place);

/// The `value` that lane `source` brought. All lanes of `mask` meet here.
std::uint32_t shuffle(unsigned mask, std::uint32_t value, int source, where place);

/// The lanes of `mask` that brought true.
unsigned ballot(unsigned mask, bool value, where place);

void init_barrier(const void* barrier, where place);
void expect_bytes(const void* barrier, std::uint32_t bytes, where place);
void copy_bulk(void* shared, const void* global, std::uint32_t bytes, const void* barrier,
               where place);
void wait_for_bytes(const void* barrier, std::uint32_t parity, where place);

/// Bulk copies to global memory, in groups of the calling thread. They read at the latest moment
/// there is.
void show_to_copies(where place);
void store_bulk(void* global, const void* shared, std::uint32_t bytes, where place);
void commit_bulk_group();
void wait_for_bulk_reads(int pending);

void wait_for_previous_kernel();

void copy_async(void* shared, const void* global, std::size_t bytes, where place);
void end_copy_group();
void wait_for_copy_groups(int pending);

/// Stops the launch with an error about the calling thread.
[[noreturn]] void fail(const char* what, where place);

/// Checks an access of `bytes` at an address that must be a multiple of `alignment`.
void check_read(const void* address, std::size_t bytes, std::size_t alignment, where place);
void check_streaming_read(const void* address, std::size_t bytes, std::size_t alignment,
                          where place);
void check_write(const void* address, std::size_t bytes, std::size_t alignment, where place);

/// Accesses that have been checked.
template <class T>
__attribute__((no_sanitize("thread"))) T unchecked_load(const T* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

template <class T>
__attribute__((no_sanitize("thread"))) void unchecked_store(T* address, const T& value) {
  std::memcpy(address, &value, sizeof(T));
}

}  // namespace simt
