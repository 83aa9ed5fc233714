#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <adaptiveload/adaln.cuh>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "random_value.hpp"

/// What is computed, and what it must read and write: activations, and a modulation vector or its
/// gradient for each group.
struct operation {
  std::string_view name;
  int reads, writes;
  int vectors_read, vectors_written;

  bool operator==(const operation&) const = default;
};

inline constexpr operation modulate_forward{"layernorm_modulate_forward", 1, 1, 2, 0};
inline constexpr operation modulate_backward{"layernorm_modulate_backward", 2, 1, 1, 2};
inline constexpr operation gate_forward{"gate_residual_layernorm_modulate_forward", 2, 2, 3, 0};
inline constexpr operation gate_backward{"gate_residual_layernorm_modulate_backward", 4, 2, 2, 3};
inline constexpr operation operations[] = {modulate_forward, modulate_backward, gate_forward,
                                           gate_backward};

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

/// The tensors of all operations on a shape: bfloat16 data, float modulations of
/// [batch, groups, 6, features] (shift, scale, gate, three others), as `random_value.hpp` defines
/// every element. x is also the residual of the gated forward, and r of its backward.
struct tensors {
  /// `positions` are those of packed samples, in place of `shape.cu_seqlens`; none: not packed.
  tensors(const adaptiveload::activation_shape& shape, std::vector<std::int32_t> positions);

  adaptiveload::activation_shape shape;
  std::vector<std::int32_t> positions;
  std::int64_t rows, groups, elements;  ///< of all samples
  device_array<std::int32_t> cu_seqlens;
  device_array<__nv_bfloat16> x, branch, dy, dr, y, r, dx, dbranch;
  device_array<float> modulations, mean, rstd, dscale, dshift, dgate;

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
            .dscale = gradient(dscale),
            .dshift = gradient(dshift)};
  }
  adaptiveload::gate_residual_layernorm_modulate_args<__nv_bfloat16> gated_forward() const {
    return {.shape = shape,
            .residual = x.data(),
            .branch = branch.data(),
            .gate = gate(),
            .scale = scale(),
            .shift = shift(),
            .r = r.data(),
            .y = y.data(),
            .mean = mean.data(),
            .rstd = rstd.data()};
  }
  /// Without scratch.
  adaptiveload::gate_residual_layernorm_modulate_backward_args<__nv_bfloat16> gated_backward()
      const {
    return {.shape = shape,
            .r = x.data(),
            .branch = branch.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .gate = gate(),
            .scale = scale(),
            .dy = dy.data(),
            .dr = dr.data(),
            .dresidual = dx.data(),
            .dbranch = dbranch.data(),
            .dgate = gradient(dgate),
            .dscale = gradient(dscale),
            .dshift = gradient(dshift)};
  }
  adaptiveload::modulation<float> shift() const { return chunk(0); }
  adaptiveload::modulation<float> scale() const { return chunk(1); }
  adaptiveload::modulation<float> gate() const { return chunk(2); }

 private:
  adaptiveload::modulation<float> chunk(int which) const {
    const std::int64_t stride = 6 * shape.features;
    return {modulations.data() + which * shape.features, shape.groups * stride, stride};
  }
  adaptiveload::modulation_gradient<float> gradient(const device_array<float>& to) const {
    return {to.data(), shape.groups * shape.features, shape.features};
  }
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
