#pragma once

#include <adaptiveload/support/cuda_error.cuh>
#include <cstddef>
#include <utility>
#include <vector>

/// `size` objects in device memory, owned: on a GPU, or on the executor that stands in for one,
/// where nothing around them is accessible. Until written they hold NaN bytes.
template <class T>
class device_buffer {
 public:
  explicit device_buffer(std::size_t size) : size_(size) {
    if (size_ == 0) return;
    adaptiveload::detail::check(cudaMalloc(&data_, bytes()), "cudaMalloc");
#ifdef __CUDACC__  // the executor's memory is so already, and it knows that nobody wrote it
    adaptiveload::detail::check(cudaMemset(data_, 0xff, bytes()), "cudaMemset");
#endif
  }
  explicit device_buffer(const std::vector<T>& host) : device_buffer(host.size()) {
    upload(host);
  }
  device_buffer(device_buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  device_buffer& operator=(device_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~device_buffer() {
    cudaFree(data_);
  }

  T* data() {
    return data_;
  }
  const T* data() const {
    return data_;
  }
  std::size_t size() const {
    return size_;
  }
  std::size_t bytes() const {
    return size_ * sizeof(T);
  }

  /// `host` has `size()` elements.
  void upload(const std::vector<T>& host) {
    adaptiveload::detail::check(
        cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice),
        "cudaMemcpy to the device");
  }

  /// What the buffer holds once all work before is done.
  std::vector<T> download() const {
    std::vector<T> host(size_);
    adaptiveload::detail::check(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost),
                                "cudaMemcpy from the device");
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};
