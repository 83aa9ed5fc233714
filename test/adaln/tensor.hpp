#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "../device_buffer.hpp"

/// Numbers on the host and on the device. Those on the device lie `offset` elements behind an
/// aligned address, and on a GPU between guards (the executor guards every allocation itself).
template <class T>
class tensor {
 public:
  explicit tensor(std::int64_t size, std::int64_t offset = 0)
      : host(static_cast<std::size_t>(size)), offset_(static_cast<std::size_t>(offset)) {}

  std::vector<T> host;

  T* on_device() { return device_.data() + guard + offset_; }

  void upload() { upload(host); }
  /// Other numbers, as many.
  void upload(const std::vector<T>& numbers) {
    poison();
    copy(on_device(), numbers.data(), numbers.size(), cudaMemcpyHostToDevice);
  }
  /// Fills the device's with NaN.
  void poison() {
    device_ = device_buffer<T>(0);  // frees, before as much again is allocated
    device_ = device_buffer<T>(guard + offset_ + host.size() + guard);
  }

  /// Reads back what the device has; how many elements before and behind it were written.
  std::int64_t download() {
    copy(host.data(), on_device(), host.size(), cudaMemcpyDeviceToHost);
    std::vector<T> beside(guard + offset_ + guard);
    copy(beside.data(), device_.data(), guard + offset_, cudaMemcpyDeviceToHost);
    copy(beside.data() + guard + offset_, on_device() + host.size(), guard, cudaMemcpyDeviceToHost);
    return std::count_if(beside.begin(), beside.end(), is_written);
  }

  /// Whether an element holds anything but poison.
  static bool is_written(const T& element) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &element, sizeof(T));
    return std::any_of(bytes, bytes + sizeof(T), [](unsigned char byte) { return byte != 0xff; });
  }

  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(host)); }

 private:
#ifdef __CUDACC__
  static constexpr std::size_t guard = 256 / sizeof(T);
#else
  static constexpr std::size_t guard = 0;
#endif

  static void copy(T* to, const T* from, std::size_t count, cudaMemcpyKind kind) {
    if (count == 0) return;
    adaptiveload::detail::check(cudaMemcpy(to, from, count * sizeof(T), kind), "cudaMemcpy");
  }

  std::size_t offset_;
  device_buffer<T> device_{0};
};
