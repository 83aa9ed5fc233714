#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace adaptiveload {

/// A CUDA call failed. `what()` gives the call, the error's CUDA name and its text.
class cuda_error : public std::runtime_error {
 public:
  cuda_error(cudaError_t code, const std::string& call)
      : std::runtime_error(call + ": " + cudaGetErrorName(code) + " (" + cudaGetErrorString(code) +
                           ")"),
        code_(code) {}

  [[nodiscard]] cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

namespace detail {

inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw cuda_error(code, call);
}

}  // namespace detail
}  // namespace adaptiveload
