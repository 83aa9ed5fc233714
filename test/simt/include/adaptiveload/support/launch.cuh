#pragma once

#include <adaptiveload/support/cuda_error.cuh>
#include <cstddef>
#include <cstdint>
#include <simt/executor.hpp>
#include <tuple>
#include <utility>

/// The library's header of this name, for the executor.
namespace adaptiveload::device {

inline const std::int64_t& max_blocks = simt::settings().max_blocks;

struct properties {
  int multiprocessors;
  int compute_capability;
  std::size_t max_shared_bytes;
};

inline properties current_properties() {
  const simt::device_settings& device = simt::settings();
  return {device.multiprocessors, device.compute_capability, device.max_shared_bytes};
}

template <class... Parameters, class... Arguments>
void launch_overlapping(bool overlaps, const char* name, void (*kernel)(Parameters...),
                        std::int64_t blocks, dim3 threads, std::size_t shared_bytes, cudaStream_t,
                        Arguments&&... arguments) {
  struct call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> parameters;
  } call{kernel, {static_cast<Parameters>(arguments)...}};
  const auto body = [](void* argument) {
    const auto& c = *static_cast<const struct call*>(argument);
    std::apply(c.kernel, c.parameters);
  };
  simt::run(name, blocks, threads, shared_bytes, body, &call, overlaps);
  simt::note_executed(reinterpret_cast<const void*>(kernel));
}

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), std::int64_t blocks, dim3 threads,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  launch_overlapping(false, name, kernel, blocks, threads, shared_bytes, stream,
                     std::forward<Arguments>(arguments)...);
}

}  // namespace adaptiveload::device
