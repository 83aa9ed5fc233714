#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/backward_one_pass_launch.cuh>
#include <adaptiveload/adaln/backward_two_pass_launch.cuh>
#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/adaln/forward_launch.cuh>
#include <cstddef>

/// The AdaLN operations on a GPU. All are asynchronous on the caller's stream, allocate nothing,
/// can be captured into a CUDA graph, and give the same bits for the same inputs. Fast where
/// features, addresses and strides allow accesses of 16 bytes, correct everywhere.
///
/// They throw `std::invalid_argument` on a bad argument (a backward also for a scratch that is too
/// small or not aligned to 16 bytes), before anything is launched, and `cuda_error` if a launch
/// fails.
namespace adaptiveload {

/// `y = n(x) * (1 + scale) + shift` in one kernel; see `layernorm_modulate_args`.
template <class X, class M, class Y>
void layernorm_modulate_forward(const layernorm_modulate_args<X, M, Y>& args,
                                cudaStream_t stream = nullptr) {
  detail::check_arguments(args);
  if (detail::rows(args.shape) == 0) return;
  const device::properties properties = device::current_properties();
  detail::launch_forward<false>(detail::without_gate(args), stream, properties,
                                properties.compute_capability >= 90);
}

/// Bytes of scratch that `layernorm_modulate_backward` needs for a shape on the current device.
inline std::size_t layernorm_modulate_backward_scratch_bytes(const activation_shape& shape) {
  detail::check_shape(shape);
  return detail::backward_scratch_bytes<false>(shape, device::current_properties().multiprocessors);
}

/// The gradients of `layernorm_modulate`; see `layernorm_modulate_backward_args`.
template <class X, class M, class Y>
void layernorm_modulate_backward(const layernorm_modulate_backward_args<X, M, Y>& args,
                                 cudaStream_t stream = nullptr) {
  detail::check_arguments(args);
  detail::check_scratch(args.scratch, args.scratch_bytes,
                        layernorm_modulate_backward_scratch_bytes(args.shape));
  detail::launch_backward<false>(detail::kernel_arguments(args), args.scratch, stream);
}

/// `r = residual + gate * branch`, `y = n(r) * (1 + scale) + shift` in one kernel; see
/// `gate_residual_layernorm_modulate_args`.
template <class X, class M, class Y>
void gate_residual_layernorm_modulate_forward(
    const gate_residual_layernorm_modulate_args<X, M, Y>& args, cudaStream_t stream = nullptr) {
  detail::check_arguments(args);
  if (detail::rows(args.shape) == 0) return;
  const device::properties properties = device::current_properties();
  detail::launch_forward<true>(args, stream, properties, properties.compute_capability >= 90);
}

/// Bytes of scratch that `gate_residual_layernorm_modulate_backward` needs for a shape on the
/// current device.
inline std::size_t gate_residual_layernorm_modulate_backward_scratch_bytes(
    const activation_shape& shape) {
  detail::check_shape(shape);
  return detail::backward_scratch_bytes<true>(shape, device::current_properties().multiprocessors);
}

/// The gradients of `gate_residual_layernorm_modulate`; see
/// `gate_residual_layernorm_modulate_backward_args`.
template <class X, class M, class Y>
void gate_residual_layernorm_modulate_backward(
    const gate_residual_layernorm_modulate_backward_args<X, M, Y>& args,
    cudaStream_t stream = nullptr) {
  detail::check_arguments(args);
  detail::check_scratch(args.scratch, args.scratch_bytes,
                        gate_residual_layernorm_modulate_backward_scratch_bytes(args.shape));
  detail::launch_backward<true>(detail::kernel_arguments(args), args.scratch, stream);
}

}  // namespace adaptiveload
