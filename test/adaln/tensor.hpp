#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
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

  void upload() {
    poison();
    copy(on_device(), host.data(), host.size(), cudaMemcpyHostToDevice);
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

/// How the vectors of a modulation or of its gradient lie in a tensor.
enum class layout {
  dense,         ///< [vectors, features]
  six_chunks,    ///< one of the chunks of [vectors, 6, features]
  odd_stride,    ///< features + 1 apart, so that most are misaligned
  last_first,    ///< a negative stride
  shared_by_all  ///< stride 0; a gradient lies dense
};

inline constexpr layout layouts[] = {layout::dense, layout::six_chunks, layout::odd_stride,
                                     layout::last_first, layout::shared_by_all};

/// Vectors of `features` numbers, at one stride.
template <class T>
class vectors {
 public:
  vectors(std::int64_t count, std::int64_t features, layout how, std::int64_t chunk = 0,
          std::int64_t offset = 0)
      : count_(count),
        features_(features),
        stride_(how == layout::six_chunks      ? 6 * features
                : how == layout::odd_stride    ? features + 1
                : how == layout::last_first    ? -features
                : how == layout::shared_by_all ? 0
                                               : features),
        first_(how == layout::six_chunks                ? chunk * features
               : how == layout::last_first && count > 0 ? (count - 1) * features
                                                        : 0),
        all_(how == layout::six_chunks      ? count * 6 * features
             : how == layout::odd_stride    ? count * (features + 1)
             : how == layout::shared_by_all ? features
                                            : count * features,
             offset) {}

  std::int64_t stride() const { return stride_; }
  T* on_device() { return all_.on_device() + first_; }
  T* on_host(std::int64_t i = 0) { return all_.host.data() + first_ + i * stride_; }
  const T* on_host(std::int64_t i = 0) const { return all_.host.data() + first_ + i * stride_; }

  tensor<T>& all() { return all_; }
  const tensor<T>& all() const { return all_; }

  /// How many elements that are in none of the vectors hold anything but poison.
  std::int64_t written_between() const {
    std::int64_t written = std::count_if(all_.host.begin(), all_.host.end(), tensor<T>::is_written);
    for (std::int64_t i = 0; i < (stride_ == 0 ? std::min<std::int64_t>(count_, 1) : count_); ++i) {
      written -= std::count_if(on_host(i), on_host(i) + features_, tensor<T>::is_written);
    }
    return written;
  }

 private:
  std::int64_t count_, features_, stride_, first_;
  tensor<T> all_;
};
