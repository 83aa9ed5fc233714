#pragma once

#include <adaptiveload/support/cuda_error.cuh>
#include <cstddef>
#include <cstdint>
#include <utility>

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
///
/// With `overlaps` (compute capability 9.0 and later) the kernel may start while the last blocks of
/// the one before it run; it touches what others write only after `wait_for_previous_kernel`.
template <class... Parameters, class... Arguments>
void launch_overlapping(bool overlaps, const char* name, void (*kernel)(Parameters...),
                        std::int64_t blocks, dim3 threads, std::size_t shared_bytes,
                        cudaStream_t stream, Arguments&&... arguments) {
  constexpr std::size_t without_opt_in = 48 * 1024;
  if (shared_bytes > without_opt_in) {
    detail::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared_bytes)),
                  name);
  }
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  detail::check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}

/// As `launch_overlapping` without an overlap.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), std::int64_t blocks, dim3 threads,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  launch_overlapping(false, name, kernel, blocks, threads, shared_bytes, stream,
                     std::forward<Arguments>(arguments)...);
}

}  // namespace adaptiveload::device
