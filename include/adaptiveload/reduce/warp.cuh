#pragma once

#include <adaptiveload/support/device.cuh>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace adaptiveload {

/// The sum, for the reductions' `op`.
struct plus {
  template <class T>
  __device__ T operator()(const T& a, const T& b) const {
    return a + b;
  }
};

namespace detail {

template <class T, class Shuffle>
__device__ T shuffle_words(const T& value, Shuffle shuffle) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32,
                "a shuffled value is trivially copyable and of at most 32 bytes");
  struct words {
    std::uint32_t word[(sizeof(T) + 3) / 4];
  };
  words bits{};
  if constexpr (sizeof(T) % 4 == 0) {
    bits = __builtin_bit_cast(words, value);
  } else {
    __builtin_memcpy(&bits, &value, sizeof(T));
  }
#pragma unroll
  for (std::uint32_t& word : bits.word) word = shuffle(word);
  if constexpr (sizeof(T) % 4 == 0) {
    return __builtin_bit_cast(T, bits);
  } else {
    T result;
    __builtin_memcpy(&result, &bits, sizeof(T));
    return result;
  }
}

}  // namespace detail

/// The value of lane `source` of the calling lane's aligned part of `Width` lanes, for any
/// trivially copyable type of at most 32 bytes. Every lane of `mask` must call.
template <int Width = device::warp_size, class T>
__device__ T warp_broadcast(const T& value, int source, unsigned mask = device::full_mask) {
  return detail::shuffle_words(
      value, [=](std::uint32_t word) { return device::shuffle(mask, word, source, Width); });
}

/// Combines the values of an aligned part of `Width` lanes (a power of two up to 32) and gives
/// every lane the result, the same bits in each.
///
/// `op` is associative; it need not be commutative: it is applied in the order of the lanes. T is
/// trivially copyable and of at most 32 bytes. Every lane of `mask` must call; `mask` must hold
/// whole parts.
///
///     float total = warp_reduce(value, adaptiveload::plus{});
///     float eighth = warp_reduce<4>(value, adaptiveload::plus{});  // of lanes 4 k to 4 k + 3
template <int Width = device::warp_size, class T, class Op>
__device__ T warp_reduce(T value, Op op, unsigned mask = device::full_mask) {
  static_assert(Width >= 1 && Width <= device::warp_size && (Width & (Width - 1)) == 0);
  [[maybe_unused]] const int lane = device::lane();
#pragma unroll
  for (int distance = 1; distance < Width; distance *= 2) {
    const T other = detail::shuffle_words(
        value, [=](std::uint32_t word) { return device::shuffle_xor(mask, word, distance); });
    if constexpr (std::is_same_v<Op, plus> && std::is_arithmetic_v<T>) {
      value = value + other;  // commutative to the bit
    } else {
      value = (lane & distance) == 0 ? op(value, other) : op(other, value);
    }
  }
  return value;
}

}  // namespace adaptiveload
