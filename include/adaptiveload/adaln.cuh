#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/backward_one_pass_launch.cuh>
#include <adaptiveload/adaln/backward_two_pass_launch.cuh>
#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/forward_launch.cuh>
#include <algorithm>
#include <cstddef>

/// The AdaLN operations on a GPU. All are asynchronous on the caller's stream, allocate nothing,
/// can be captured into a CUDA graph, and give the same bits for the same inputs.
namespace adaptiveload {

/// `y = n(x) * (1 + scale) + shift` in one kernel; see `layernorm_modulate_args`.
///
/// Fast where features, addresses and strides allow accesses of 16 bytes, correct everywhere.
/// Throws `std::invalid_argument` on a bad argument, before anything is launched, and `cuda_error`
/// if the launch fails.
template <class X, class M, class Y>
void layernorm_modulate_forward(const layernorm_modulate_args<X, M, Y>& args,
                                cudaStream_t stream = nullptr) {
  detail::check_arguments(args);
  if (detail::rows(args.shape) == 0) return;
  const bool bulk = device::current_properties().compute_capability >= 90;
  detail::launch_forward(args, stream, bulk);
}

/// Bytes of scratch that `layernorm_modulate_backward` needs for a shape on the current device.
inline std::size_t layernorm_modulate_backward_scratch_bytes(const activation_shape& shape) {
  detail::check_shape(shape);
  return std::max(
      detail::one_pass_scratch_bytes(shape, device::current_properties().multiprocessors),
      detail::two_pass_layout(shape).bytes);
}

/// The gradients of `layernorm_modulate`; see `layernorm_modulate_backward_args`.
///
/// Throws as the forward does, also for a scratch that is too small or not aligned to 16 bytes.
template <class X, class M, class Y>
void layernorm_modulate_backward(const layernorm_modulate_backward_args<X, M, Y>& args,
                                 cudaStream_t stream = nullptr) {
  detail::check_arguments(args);
  detail::check_scratch(args.scratch, args.scratch_bytes,
                        layernorm_modulate_backward_scratch_bytes(args.shape));
  const device::properties properties = device::current_properties();
  const bool bulk = properties.compute_capability >= 90;
  if (detail::launch_backward_one_pass(args, stream, properties, bulk)) return;
  detail::launch_backward_two_pass(args, stream);
}

}  // namespace adaptiveload
