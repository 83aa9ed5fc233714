#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
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
  /// 0: the first thread that can run, runs. Else the thread is drawn at random, from this seed.
  std::uint64_t order_seed = 1;
};

device_settings& settings();

using where = std::source_location;

/// Calls `body(argument)` once a CUDA thread. Throws `error`.
void run(const char* kernel, std::int64_t blocks, dim3 threads, std::size_t shared_bytes,
         void (*body)(void*), void* argument);

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

/// Stops the launch with an error about the calling thread.
[[noreturn]] void fail(const char* what, where place);

/// Checks an access of `bytes` at an address that must be a multiple of `alignment`.
void check_read(const void* address, std::size_t bytes, std::size_t alignment, where place);
void check_write(const void* address, std::size_t bytes, std::size_t alignment, where place);

}  // namespace simt
