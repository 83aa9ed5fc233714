#include "memory.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>

#include "block.hpp"

namespace simt {
namespace {

/// Not accessible, on either side of a piece of device memory: wider than most wrong strides.
constexpr std::size_t guard = std::size_t{1} << 20;

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

/// Memory with guards around it.
struct piece {
  std::byte* memory;
  std::size_t bytes;

  explicit piece(std::size_t size)
      : memory(static_cast<std::byte*>(std::aligned_alloc(256, whole(size)))), bytes(size) {
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(begin(), 0xff, bytes);  // NaN in every floating point type
    forbid(memory, guard);
    forbid(begin() + bytes, whole(size) - guard - bytes);
  }
  ~piece() {
    permit(memory, whole(bytes));
    std::free(memory);
  }
  piece(const piece&) = delete;

  static std::size_t whole(std::size_t size) { return (2 * guard + size + 255) / 256 * 256; }
  std::byte* begin() const { return memory + guard; }
};

/// By first address.
std::map<std::uintptr_t, std::unique_ptr<piece>>& device_memory() {
  static std::map<std::uintptr_t, std::unique_ptr<piece>> pieces;
  return pieces;
}

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

/// The piece of device memory in which, guards included, the address is.
piece* find_piece(std::uintptr_t address) {
  auto after = device_memory().upper_bound(address + guard);
  if (after == device_memory().begin()) return nullptr;
  piece& found = *std::prev(after)->second;
  return address < address_of(found.begin() + found.bytes + guard) ? &found : nullptr;
}

std::byte* shared_memory_begin = nullptr;
std::size_t shared_memory_bytes = 0;

void check_access(const char* access, const void* pointer, std::size_t bytes, std::size_t alignment,
                  where place) {
  block& b = block::running();
  const std::uintptr_t address = address_of(pointer);
  if (address % alignment != 0) {
    b.stop(std::string(access) + " of " + std::to_string(bytes) + " bytes at an address that is " +
               std::to_string(address % alignment) + " off a multiple of " +
               std::to_string(alignment),
           place);
  }
  if (const piece* const found = find_piece(address)) {
    const std::uintptr_t begin = address_of(found->begin());
    if (address < begin || address + bytes > begin + found->bytes) {
      b.stop(std::string(access) + " of " + std::to_string(bytes) + " bytes at byte " +
                 std::to_string(static_cast<std::intptr_t>(address - begin)) +
                 " of device memory of " + std::to_string(found->bytes) + " bytes",
             place);
    }
  }
}

}  // namespace

shared_region::shared_region(std::size_t bytes) {
  static piece memory(228 * 1024);
  shared_memory_begin = memory.begin();
  shared_memory_bytes = bytes;
  permit(memory.begin(), bytes);
  std::memset(memory.begin(), 0xff, bytes);
  forbid(memory.begin() + bytes, memory.bytes - bytes);
}

shared_region::~shared_region() {
  shared_memory_bytes = 0;
}

std::byte* shared_memory() {
  return shared_memory_begin;
}

void check_read(const void* address, std::size_t bytes, std::size_t alignment, where place) {
  check_access("read", address, bytes, alignment, place);
}

void check_write(const void* address, std::size_t bytes, std::size_t alignment, where place) {
  check_access("write", address, bytes, alignment, place);
}

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
  const bool known = simt::device_memory().erase(simt::address_of(address)) == 1;
  return known || address == nullptr ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  if (bytes > 0) std::memset(address, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(address, value, bytes);
}
