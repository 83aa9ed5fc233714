#pragma once

#include <adaptiveload/support/device.cuh>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace adaptiveload::detail {

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float to_float(__half value) {
  return __half2float(value);
}

template <class T>
__device__ T from_float(float value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else {
    return value;
  }
}

/// `Width` neighbouring elements, moved in accesses of up to 16 bytes.
template <class T, int Width>
struct pack {
  static constexpr int bytes = Width * static_cast<int>(sizeof(T));
  static constexpr int access_bytes = std::min(bytes, 16);
  static constexpr int accesses = bytes / access_bytes;
  struct alignas(access_bytes) access {
    T values[static_cast<std::size_t>(Width / accesses)];
  };

  access parts[static_cast<std::size_t>(accesses)];

  __device__ float operator[](int i) const {
    const access& part = parts[i / (Width / accesses)];
    const int k = i % (Width / accesses);
    if constexpr (std::is_same_v<T, __nv_bfloat16> && Width / accesses > 1) {
      // Half of a word in one instruction; nvcc 13.0 takes two for the upper one.
      struct words {
        std::uint32_t values[static_cast<std::size_t>(Width / accesses / 2)];
      };
      const std::uint32_t word = __builtin_bit_cast(words, part).values[k / 2];
      return __uint_as_float(k % 2 == 0 ? word << 16 : word & 0xffff0000);
    } else {
      return to_float(part.values[k]);
    }
  }
};

/// Reads `pack`s that will be read again soon.
template <int Width, class T>
__device__ pack<T, Width> load_pack(const T* address) {
  using result = pack<T, Width>;
  result read;
#pragma unroll
  for (int i = 0; i < result::accesses; ++i) {
    read.parts[i] = device::load(reinterpret_cast<const typename result::access*>(address) + i);
  }
  return read;
}

/// Reads `pack`s once.
template <int Width, class T>
__device__ pack<T, Width> load_pack_streaming(const T* address) {
  using result = pack<T, Width>;
  result read;
#pragma unroll
  for (int i = 0; i < result::accesses; ++i) {
    read.parts[i] =
        device::load_streaming(reinterpret_cast<const typename result::access*>(address) + i);
  }
  return read;
}

/// Starts to copy a pack, of 8 bytes or more, from global to shared memory; see
/// `device::wait_for_copy_groups`.
template <int Width, class T>
__device__ void copy_pack(T* shared, const T* global) {
  using result = pack<T, Width>;
#pragma unroll
  for (int i = 0; i < result::accesses; ++i) {
    device::copy_async<result::access_bytes>(
        reinterpret_cast<typename result::access*>(shared) + i,
        reinterpret_cast<const typename result::access*>(global) + i);
  }
}

/// Whether what is written will be read again soon.
enum class reuse { soon, late };

/// Writes a pack.
template <reuse Reuse = reuse::soon, class T, int Width>
__device__ void write_pack(T* address, const pack<T, Width>& values) {
  using result = pack<T, Width>;
#pragma unroll
  for (int i = 0; i < result::accesses; ++i) {
    const auto to = reinterpret_cast<typename result::access*>(address) + i;
    if constexpr (Reuse == reuse::late) {
      device::store_streaming(to, values.parts[i]);
    } else {
      device::store(to, values.parts[i]);
    }
  }
}

template <class T, int Width>
__device__ pack<T, Width> round_pack(const float (&values)[Width]) {
  using result = pack<T, Width>;
  constexpr int each = Width / result::accesses;
  result rounded;
#pragma unroll
  for (int i = 0; i < result::accesses; ++i) {
    auto& part = rounded.parts[i];
    if constexpr (std::is_same_v<T, float> || each == 1) {
#pragma unroll
      for (int k = 0; k < each; ++k) part.values[k] = from_float<T>(values[i * each + k]);
    } else {  // one instruction converts a pair
#pragma unroll
      for (int k = 0; k < each; k += 2) {
        const float low = values[i * each + k], high = values[i * each + k + 1];
        if constexpr (std::is_same_v<T, __nv_bfloat16>) {
          const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
          part.values[k] = pair.x;
          part.values[k + 1] = pair.y;
        } else {
          const __half2 pair = __floats2half2_rn(low, high);
          part.values[k] = pair.x;
          part.values[k + 1] = pair.y;
        }
      }
    }
  }
  return rounded;
}

/// Rounds to T and writes.
template <reuse Reuse = reuse::soon, class T, int Width>
__device__ void store_pack(T* address, const float (&values)[Width]) {
  write_pack<Reuse>(address, round_pack<T>(values));
}

template <class T, int Width>
__device__ float mean_of(const pack<T, Width>& values) {
  float mean = 0;
#pragma unroll
  for (int k = 0; k < Width; ++k) mean += values[k] * (1.f / Width);
  return mean;
}

template <class T, int Width>
__device__ void read_pack(const T* address, float (&values)[Width]) {
  const auto read = load_pack<Width>(address);
#pragma unroll
  for (int k = 0; k < Width; ++k) values[k] = read[k];
}

template <class T, int Width>
__device__ void add_pack(const T* address, float (&values)[Width]) {
  const auto read = load_pack<Width>(address);
#pragma unroll
  for (int k = 0; k < Width; ++k) values[k] += read[k];
}

}  // namespace adaptiveload::detail
