#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <adaptiveload/adaln.cuh>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "random_value.hpp"

/// What is computed, and the activations that it must read and write: its roof is a kernel that
/// moves as many and does nothing else.
struct operation {
  const char* name;
  int reads, writes;
};

inline constexpr operation modulate_forward{"layernorm_modulate_forward", 1, 1};
inline constexpr operation modulate_backward{"layernorm_modulate_backward", 2, 1};

inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw adaptiveload::cuda_error(code, call);
}

/// Memory on the GPU, owned.
template <class T>
class device_array {
 public:
  device_array() = default;
  explicit device_array(std::int64_t size) {
    check(cudaMalloc(&data_, static_cast<std::size_t>(size) * sizeof(T)), "cudaMalloc");
  }
  device_array(device_array&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  device_array& operator=(device_array&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~device_array() { cudaFree(data_); }

  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

/// The tensors of an operation on [batch, tokens, features]: bfloat16 data, float modulations of
/// [batch, 6, features] (shift first, scale second), as `random_value.hpp` defines every element.
struct tensors {
  explicit tensors(const adaptiveload::activation_shape& shape);

  adaptiveload::activation_shape shape;
  std::int64_t rows, elements;
  device_array<__nv_bfloat16> x, dy, y, dx;
  device_array<float> modulations, mean, rstd, dscale, dshift;

  adaptiveload::layernorm_modulate_args<__nv_bfloat16> forward() const {
    return {.shape = shape,
            .x = x.data(),
            .scale = scale(),
            .shift = shift(),
            .y = y.data(),
            .mean = mean.data(),
            .rstd = rstd.data()};
  }
  /// Without scratch.
  adaptiveload::layernorm_modulate_backward_args<__nv_bfloat16> backward() const {
    return {.shape = shape,
            .x = x.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .scale = scale(),
            .dy = dy.data(),
            .dx = dx.data(),
            .dscale = {dscale.data(), shape.features},
            .dshift = {dshift.data(), shape.features}};
  }
  adaptiveload::modulation<float> scale() const {
    return {modulations.data() + shape.features, 6 * shape.features};
  }
  adaptiveload::modulation<float> shift() const { return {modulations.data(), 6 * shape.features}; }
};

device_array<__nv_bfloat16> random_activation(std::int64_t elements);

/// Enqueues one call.
using enqueue = std::function<void(cudaStream_t)>;

/// Somebody's way to compute an operation. `prepare` allocates what a call needs.
struct contender {
  std::string name;
  operation what;
  double tolerance;  ///< how far its outputs may be from those of the CPU, relative in norm
  std::function<enqueue(const tensors&)> prepare;
};

std::vector<contender> fused();           ///< the library's kernels
std::vector<contender> discrete_chain();  ///< a kernel for each operation of a framework
std::vector<contender> textbook();        ///< a block a row, on CUB's block reduction
#ifdef ADAPTIVELOAD_HAS_CUDNN
std::vector<contender> cudnn();
#endif
