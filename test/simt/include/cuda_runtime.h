#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

/// What the library and its tests use of the CUDA language and runtime, on the CPU: a device that
/// does everything at once, in the calling host thread.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
/// Blocks run in turn, so one object serves them all. Thread-local variables of the executable lie
/// in one place, where the executor watches them.
#define __shared__ static thread_local

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

/// Those of the running thread.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
using cudaStream_t = struct simt_stream*;

const char* cudaGetErrorName(cudaError_t code);
const char* cudaGetErrorString(cudaError_t code);
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}

/// Memory of exactly `bytes`, with nothing accessible around it, holding NaN bytes.
cudaError_t cudaMalloc(void** address, std::size_t bytes);
cudaError_t cudaFree(void* address);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* address, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream);

template <class T>
cudaError_t cudaMalloc(T** address, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(address), bytes);
}

inline std::uint32_t __float_as_uint(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
inline float __uint_as_float(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
/// A GPU's is off by at most one unit in the last place; this one rounds.
inline float rsqrtf(float value) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(value)));
}
using std::fmaf;
using std::fmaxf;
using std::fminf;
