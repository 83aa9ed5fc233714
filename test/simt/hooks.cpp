#include <cstddef>
#include <cstdint>

#include "block.hpp"
#include "memory.hpp"

/// The compiler's thread sanitizer announces every access to memory by a call of these functions.
/// We link no sanitizer: the executor takes the calls, and so sees what the kernels do by plain
/// C++. The names are the sanitizer's (tsan_interface.h, tsan_interface_atomic.h).
namespace {

void announce(simt::access kind, const void* address, std::size_t bytes) {
  if (simt::block::is_running()) simt::check_access(kind, address, bytes, nullptr);
}

void read(const void* address, std::size_t bytes) {
  announce(simt::access::read, address, bytes);
}

void write(const void* address, std::size_t bytes) {
  announce(simt::access::write, address, bytes);
}

}  // namespace

#define SIMT_HOOKS(bytes)                                      \
  void __tsan_read##bytes(void* address) {                     \
    read(address, bytes);                                      \
  }                                                            \
  void __tsan_write##bytes(void* address) {                    \
    write(address, bytes);                                     \
  }                                                            \
  void __tsan_unaligned_read##bytes(void* address) {           \
    read(address, bytes);                                      \
  }                                                            \
  void __tsan_unaligned_write##bytes(void* address) {          \
    write(address, bytes);                                     \
  }                                                            \
  void __tsan_volatile_read##bytes(void* address) {            \
    read(address, bytes);                                      \
  }                                                            \
  void __tsan_volatile_write##bytes(void* address) {           \
    write(address, bytes);                                     \
  }                                                            \
  void __tsan_unaligned_volatile_read##bytes(void* address) {  \
    read(address, bytes);                                      \
  }                                                            \
  void __tsan_unaligned_volatile_write##bytes(void* address) { \
    write(address, bytes);                                     \
  }

// Of host code alone, in the tests: kernels use the library's device functions.
#define SIMT_ATOMIC_HOOKS(bits)                                                                    \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* a, int) {     \
    return __atomic_load_n(a, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* a, std::uint##bits##_t v, int) {  \
    __atomic_store_n(a, v, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile std::uint##bits##_t* a,             \
                                                      std::uint##bits##_t v, int) {                \
    return __atomic_fetch_add(a, v, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile std::uint##bits##_t* a,             \
                                                      std::uint##bits##_t v, int) {                \
    return __atomic_fetch_sub(a, v, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_exchange(volatile std::uint##bits##_t* a,              \
                                                     std::uint##bits##_t v, int) {                 \
    return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile std::uint##bits##_t* a,               \
                                                    std::uint##bits##_t* expected,                 \
                                                    std::uint##bits##_t v, int, int) {             \
    return __atomic_compare_exchange_n(a, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }

extern "C" {

void __tsan_init() {
  simt::accesses_are_tracked = true;
}

SIMT_HOOKS(1)
SIMT_HOOKS(2)
SIMT_HOOKS(4)
SIMT_HOOKS(8)
SIMT_HOOKS(16)

void __tsan_read_range(void* address, std::size_t bytes) {
  read(address, bytes);
}
void __tsan_write_range(void* address, std::size_t bytes) {
  write(address, bytes);
}

void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

SIMT_ATOMIC_HOOKS(8)
SIMT_ATOMIC_HOOKS(32)
SIMT_ATOMIC_HOOKS(64)

}  // extern "C"
