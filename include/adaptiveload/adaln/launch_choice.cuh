#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/row.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cstdint>
#include <type_traits>

/// Which kernel takes a shape, with how many threads.
namespace adaptiveload::detail {

using device::max_blocks;

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

template <int Value>
using constant = std::integral_constant<int, Value>;

/// Whether `pack`s of Width elements may be accessed at `data` and at whole multiples of the
/// strides from it.
template <int Width, class T, class... Stride>
bool packs_fit(const T* data, Stride... stride) {
  constexpr std::int64_t bytes = pack<T, Width>::access_bytes;
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0 &&
         ((stride * static_cast<std::int64_t>(sizeof(T)) % bytes == 0) && ...);
}

/// Whether the rows of these activations may be accessed in packs.
template <int Width, class... T>
bool rows_fit(std::int64_t features, const T*... data) {
  return features % Width == 0 && (packs_fit<Width>(data, features) && ...);
}

/// Whether the vectors of these modulations may.
template <int Width, class... M>
bool modulations_fit(const modulation<M>&... modulations) {
  return ((packs_fit<Width>(modulations.data, modulations.batch_stride, modulations.group_stride) &&
           packs_fit<Width>(modulations.table)) &&
          ...);
}

/// Whether rows may be copied in pieces of 16 bytes, by whichever of the kinds of copies.
template <class... T>
bool bulk_copies_fit(std::int64_t features, const T*... data) {
  return ((reinterpret_cast<std::uintptr_t>(data) % 16 == 0 &&
           features * static_cast<std::int64_t>(sizeof(T)) % 16 == 0) &&
          ...);
}

/// Calls `f(value)` with the value, of 1 to Max, as a constant.
template <int Max, class F>
void with_constant(std::int64_t value, F f) {
  if constexpr (Max > 1) {
    if (value < Max) return with_constant<Max - 1>(value, f);
  }
  f(constant<Max>{});
}

/// Calls `f(team, vectors, threads)` with the team that holds a row of `features` elements in
/// registers, as constants, and the block's threads; false if none does.
///
/// A thread holds at most 3 accesses of a row. So a warp takes up to 96 accesses (768 features of
/// 2 bytes), wider rows a block of the fewest warps, and short ones a part of a warp. Rows beyond
/// 512 threads are left to the streamed kernels.
template <int Width, class F>
bool with_team(std::int64_t features, F f) {
  constexpr int max_vectors = 3, warp_block = 128;
  const std::int64_t accesses = features / Width;
  if (accesses <= 8) return f(constant<8>{}, constant<1>{}, warp_block), true;
  if (accesses <= 16) return f(constant<16>{}, constant<1>{}, warp_block), true;
  int threads = 32;
  while (threads * max_vectors < accesses) threads *= 2;
  if (threads > 512) return false;
  const auto vectors = ceil_divide(accesses, threads);
  const auto choose = [&](auto v) {
    if (threads == 32) {
      f(constant<32>{}, v, warp_block);
    } else if constexpr (v.value >= 2) {  // fewer would have fitted half the threads
      f(constant<block_team>{}, v, threads);
    }
  };
  with_constant<max_vectors>(vectors, choose);
  return true;
}

/// Calls `f(width)` with Width as a constant if packs of it may be used, else with 1.
template <int Width, class F>
void with_width(bool fits, F f) {
  if (fits) {
    f(constant<Width>{});
  } else {
    f(constant<1>{});
  }
}

/// Threads of a block that streams a row.
inline int streamed_threads(std::int64_t features, int width) {
  const std::int64_t warps = ceil_divide(features, 32 * std::int64_t{width});
  return 32 * static_cast<int>(std::min<std::int64_t>(warps, 16));
}

}  // namespace adaptiveload::detail
