#include "memory.hpp"

#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>

#include "block.hpp"
#include "shadow.hpp"

namespace simt {
namespace {

/// Not accessible, on either side of a piece of memory: wider than most wrong strides.
constexpr std::size_t guard = std::size_t{1} << 20;

constexpr std::size_t shared_capacity = std::size_t{228} * 1024;

void forbid([[maybe_unused]] const std::byte* begin, [[maybe_unused]] std::size_t bytes) {
#if SIMT_ADDRESS_SANITIZER
  __asan_poison_memory_region(begin, bytes);
#endif
}

void permit([[maybe_unused]] const std::byte* begin, [[maybe_unused]] std::size_t bytes) {
#if SIMT_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(begin, bytes);
#endif
}

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

/// Memory with guards around it. Of its `capacity`, `bytes` are accessible.
class piece {
 public:
  std::size_t bytes = 0;
  shadow history;

  explicit piece(std::size_t capacity)
      : history(capacity),
        whole_((2 * guard + capacity + alignment - 1) / alignment * alignment),
        memory_(static_cast<std::byte*>(std::aligned_alloc(alignment, whole_))) {
    if (memory_ == nullptr) throw std::bad_alloc();
    resize(capacity);
  }
  ~piece() {
    permit(memory_, whole_);
    std::free(memory_);
  }
  piece(const piece&) = delete;

  /// Forgets the contents.
  void resize(std::size_t size) {
    bytes = size;
    permit(begin(), bytes);
    std::memset(begin(), 0xff, bytes);  // NaN in every floating point type
    forbid(memory_, guard);
    forbid(begin() + bytes, whole_ - guard - bytes);
  }

  std::byte* begin() const { return memory_ + guard; }
  bool surrounds(std::uintptr_t address) const { return address - address_of(memory_) < whole_; }

 private:
  static constexpr std::size_t alignment = 256;  // as cudaMalloc's
  std::size_t whole_;
  std::byte* memory_;
};

/// By first address.
std::map<std::uintptr_t, std::unique_ptr<piece>>& device_memory() {
  static std::map<std::uintptr_t, std::unique_ptr<piece>> pieces;
  return pieces;
}

piece& shared_piece() {
  static piece memory(shared_capacity);
  return memory;
}

/// Memory that accesses are checked against.
struct region {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  shadow* history = nullptr;
  bool shared = false;
};

/// The kernels' `__shared__` variables: the executable's thread-local ones (see cuda_runtime.h).
const region& static_shared_memory() {
  static const region memory = [] {
    region found{.shared = true};
    const auto look = [](dl_phdr_info* module, std::size_t, void* to) {
      for (int i = 0; i < module->dlpi_phnum; ++i) {
        if (module->dlpi_phdr[i].p_type != PT_TLS) continue;
        static_cast<region*>(to)->begin = static_cast<std::byte*>(module->dlpi_tls_data);
        static_cast<region*>(to)->bytes = module->dlpi_phdr[i].p_memsz;
      }
      return 1;  // the first module is the executable
    };
    dl_iterate_phdr(look, &found);
    found.history = new shadow(found.bytes);
    return found;
  }();
  return memory;
}

piece* last_found[4] = {};  // most accesses are near one of those before
std::size_t next_found = 0;

/// The device memory that the address is in or near; null: none.
piece* find_device_memory(std::uintptr_t address) {
  for (piece* const found : last_found) {
    if (found != nullptr && found->surrounds(address)) return found;
  }
  const auto after = device_memory().upper_bound(address + guard);
  if (after == device_memory().begin()) return nullptr;
  piece* const found = std::prev(after)->second.get();
  if (!found->surrounds(address)) return nullptr;
  return last_found[next_found++ % std::size(last_found)] = found;
}

/// The memory that the address is in or near; an empty one: none that is watched.
region find_memory(std::uintptr_t address) {
  piece& shared = shared_piece();
  if (shared.surrounds(address)) return {shared.begin(), shared.bytes, &shared.history, true};
  const region& of_variables = static_shared_memory();
  if (address - address_of(of_variables.begin) < of_variables.bytes) return of_variables;
  piece* const memory = find_device_memory(address);
  if (memory == nullptr) return {};
  return {memory->begin(), memory->bytes, &memory->history, false};
}

epoch launch_begin = 0;
epoch chain_begin = 0;  // of the first launch that the present one may overlap

}  // namespace

bool accesses_are_tracked = false;

shared_region::shared_region(std::size_t bytes) {
  shared_piece().resize(bytes);
}

shared_region::~shared_region() {
  shared_piece().resize(0);
}

std::byte* shared_memory() {
  return shared_piece().begin();
}

void begin_launch(bool overlaps) {
  launch_begin = clocks::next_epoch();
  if (!overlaps) chain_begin = launch_begin;
  shared_piece().history = shadow(shared_capacity);
  *static_shared_memory().history = shadow(static_shared_memory().bytes);
}

void check_access(access kind, const void* pointer, std::size_t bytes, const where* place) {
  block& b = block::running();
  const std::uintptr_t address = address_of(pointer);
  const context& own = b.current().fiber;
  if (address - address_of(own.stack) < own.stack_bytes) return;
  const auto [begin, size, history, shared] = find_memory(address);
  if (begin == nullptr) return;

  const std::size_t byte = address - address_of(begin);
  const epoch block_begin = b.order.block_begin();
  std::string problem;
  if (byte >= size || bytes > size - byte) {
    problem = "which has " + std::to_string(size);
  } else if (shared && kind == access::streaming_read) {
    problem = "by load_streaming, which is for device memory";
  } else if (accesses_are_tracked) {
    const watch now = shared ? watch{&b.order, block_begin, block_begin}
                             : watch{&b.order, launch_begin,
                                     b.current().saw_previous ? launch_begin : chain_begin};
    const int thread = b.current().rank;
    if (kind == access::write) {
      problem = history->write(byte, bytes, thread, now);
    } else if (kind == access::streaming_read &&
               history->written_since(byte, bytes, launch_begin)) {
      problem = "by load_streaming, which this launch wrote";
    } else {
      problem = history->read(byte, bytes, thread, now, shared ? block_begin : 1);
    }
  }
  if (problem.empty()) return;
  std::string text = kind == access::write ? "writes " : "reads ";
  text += std::to_string(bytes) + " bytes at byte " +
          std::to_string(static_cast<std::ptrdiff_t>(byte)) + " of " +
          (shared ? "shared" : "device") + " memory, " + problem;
  b.stop(text, place);
}

void check_aligned(const void* address, std::size_t alignment, where place) {
  const std::size_t off = address_of(address) % alignment;
  if (off == 0) return;
  block::running().stop("accesses an address that is " + std::to_string(off) +
                            " bytes off a multiple of " + std::to_string(alignment),
                        &place);
}

void check_in_shared_memory(const void* address, std::size_t bytes, where place) {
  const std::size_t byte = address_of(address) - address_of(shared_memory());
  if (byte < shared_piece().bytes && bytes <= shared_piece().bytes - byte) return;
  block::running().stop("copies to an address that isn't in the block's shared memory", &place);
}

void check_shown(const void* shared, std::size_t bytes, where place) {
  if (!accesses_are_tracked) return;
  block& b = block::running();
  shadow& history = shared_piece().history;
  const std::size_t byte = address_of(shared) - address_of(shared_memory());
  const auto shown = [&](int thread, epoch at, tick then) {
    return thread >= b.size() || b.at(thread).shown >= std::pair(at, then);
  };
  if (!history.all_writers(byte, bytes, b.order.block_begin(), shown)) {
    b.stop("copies where a thread wrote what it hasn't shown to bulk copies", &place);
  }
  if (!history.all_readers(byte, bytes, b.order.block_begin(), shown)) {
    b.stop("copies over what a thread read and hasn't shown to bulk copies", &place);
  }
}

void begin_copy(void* shared, std::size_t bytes, where place) {
  check_access(access::write, shared, bytes, &place);
  std::memset(shared, 0xff, bytes);
  if (!accesses_are_tracked) return;
  const std::size_t byte = address_of(shared) - address_of(shared_memory());
  shared_piece().history.begin_flight(byte, bytes);
}

void land_copy(void* shared, const void* from, std::size_t bytes, int agent, tick then) {
  std::memcpy(shared, from, bytes);
  if (!accesses_are_tracked) return;
  const std::size_t byte = address_of(shared) - address_of(shared_memory());
  shared_piece().history.land(byte, bytes, agent, then, block::running().order.now());
}

void begin_store(void* global, const void* shared, std::size_t bytes, where place) {
  block& b = block::running();
  check_access(access::read, shared, bytes, &place);
  check_access(access::write, global, bytes, &place);
  if (!accesses_are_tracked) return;
  const std::size_t from = address_of(shared) - address_of(shared_memory());
  const auto shown = [&](int writer, epoch at, tick then) {
    return writer >= b.size() || b.at(writer).shown >= std::pair(at, then);
  };
  if (!shared_piece().history.all_writers(from, bytes, b.order.block_begin(), shown)) {
    b.stop("copies what its writer hasn't shown to bulk copies", &place);
  }
  shared_piece().history.begin_reading(from, bytes, b.order);
  if (piece* const memory = find_device_memory(address_of(global))) {
    memory->history.begin_flight(address_of(global) - address_of(memory->begin()), bytes);
  }
}

void end_store(void* global, const void* shared, std::size_t bytes) {
  block& b = block::running();
  std::memcpy(global, shared, bytes);
  if (!accesses_are_tracked) return;
  const std::size_t from = address_of(shared) - address_of(shared_memory());
  shared_piece().history.end_reading(from, bytes, b.current().rank, b.order);
}

void check_read(const void* address, std::size_t bytes, std::size_t alignment, where place) {
  check_aligned(address, alignment, place);
  check_access(access::read, address, bytes, &place);
}

void check_streaming_read(const void* address, std::size_t bytes, std::size_t alignment,
                          where place) {
  check_aligned(address, alignment, place);
  check_access(access::streaming_read, address, bytes, &place);
}

void check_write(const void* address, std::size_t bytes, std::size_t alignment, where place) {
  check_aligned(address, alignment, place);
  check_access(access::write, address, bytes, &place);
}

namespace {

/// Notes that the host has written device memory.
void written_by_host(const void* pointer, std::size_t bytes) {
  if (!accesses_are_tracked) return;
  if (piece* const memory = find_device_memory(address_of(pointer))) {
    memory->history.write_by_host(address_of(pointer) - address_of(memory->begin()), bytes);
  }
}

}  // namespace
}  // namespace simt

const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaSuccess ? "cudaSuccess" : "cudaErrorInvalidValue";
}

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaSuccess ? "no error" : "invalid argument";
}

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  auto made = std::make_unique<simt::piece>(bytes);
  *address = made->begin();
  simt::device_memory().emplace(simt::address_of(*address), std::move(made));
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  if (address == nullptr) return cudaSuccess;
  std::fill(std::begin(simt::last_found), std::end(simt::last_found), nullptr);
  const bool known = simt::device_memory().erase(simt::address_of(address)) == 1;
  return known ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  std::memcpy(to, from, bytes);
  if (kind == cudaMemcpyHostToDevice) simt::written_by_host(to, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  std::memset(address, value, bytes);
  simt::written_by_host(address, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(address, value, bytes);
}
