#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <simt/executor.hpp>

/// The library's header of this name, for the executor.
namespace adaptiveload::device {

using simt::where;

inline constexpr int warp_size = 32;
inline constexpr unsigned full_mask = 0xffffffffu;

inline int thread_rank() {
  return simt::thread_rank();
}

inline int lane() {
  return thread_rank() % warp_size;
}

inline std::uint32_t shuffle_xor(unsigned mask, std::uint32_t value, int lane_mask,
                                 where place = where::current()) {
  return simt::shuffle(mask, value, lane() ^ lane_mask, place);
}

inline std::uint32_t shuffle(unsigned mask, std::uint32_t value, int source, int width = warp_size,
                             where place = where::current()) {
  return simt::shuffle(mask, value, (lane() & ~(width - 1)) | (source & (width - 1)), place);
}

inline void sync_warp(unsigned mask = full_mask, where place = where::current()) {
  simt::sync_warp(mask, place);
}

inline void sync_block(where place = where::current()) {
  simt::sync_block(place);
}

inline void sync_named(int id, int threads, where place = where::current()) {
  simt::sync_named(id, threads, place);
}

inline std::byte* shared_memory() {
  return simt::shared_memory();
}

template <class T>
inline constexpr std::size_t access_alignment = sizeof(T) == 8 || sizeof(T) == 16 ? sizeof(T)
                                                                                  : alignof(T);

template <class T>
T load(const T* address, where place = where::current()) {
  simt::check_read(address, sizeof(T), access_alignment<T>, place);
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

template <class T>
T load_streaming(const T* address, where place = where::current()) {
  return load(address, place);
}

template <class T>
void store(T* address, const T& value, where place = where::current()) {
  simt::check_write(address, sizeof(T), access_alignment<T>, place);
  std::memcpy(address, &value, sizeof(T));
}

}  // namespace adaptiveload::device
