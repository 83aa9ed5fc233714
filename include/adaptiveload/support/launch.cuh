#pragma once

#include <adaptiveload/support/cuda_error.cuh>
#include <cstddef>
#include <cstdint>

namespace adaptiveload::device {

inline constexpr std::int64_t max_blocks = 0x7fffffff;  // of a grid's x dimension

/// The calling thread's current CUDA device.
struct properties {
  int multiprocessors;
  int compute_capability;        // 10 * major + minor
  std::size_t max_shared_bytes;  // of one block, after opting in
};

inline properties current_properties() {
  int device = 0;
  detail::check(cudaGetDevice(&device), "cudaGetDevice");
  const auto attribute = [device](cudaDeviceAttr which) {
    int value = 0;
    detail::check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
    return value;
  };
  return {.multiprocessors = attribute(cudaDevAttrMultiProcessorCount),
          .compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                                attribute(cudaDevAttrComputeCapabilityMinor),
          .max_shared_bytes =
              static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))};
}

/// Starts `kernel(arguments...)` on `stream` with `blocks` blocks of `threads` threads and
/// `shared_bytes` of dynamic shared memory. Throws `cuda_error` if the launch is refused.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), std::int64_t blocks, dim3 threads,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  constexpr std::size_t without_opt_in = 48 * 1024;
  if (shared_bytes > without_opt_in) {
    detail::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared_bytes)),
                  name);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  detail::check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}

}  // namespace adaptiveload::device
