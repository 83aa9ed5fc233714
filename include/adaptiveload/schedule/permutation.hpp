#pragma once

#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>

namespace adaptiveload {

namespace detail {

inline constexpr std::uint64_t golden_64 = 0x9e3779b97f4a7c15u;  // 2^64 / the golden ratio, odd

/// A 64-bit hash of two values (SplitMix64's finaliser: Steele et al. 2014).
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a + golden_64 * (b + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace detail

/// A pseudo-random permutation of [0, size) that is evaluated at any index and stores nothing.
///
/// Feistel rounds on pairs (high, low) with high in [0, rows) and low in [0, 2^bits), rows * 2^bits
/// the least such product that holds `size`; indices that leave [0, size) walk on until they are
/// back (cycle walking: Black and Rogaway 2002; Mitchell et al. 2021 shuffle this way on GPUs).
/// Fewer than one index in sqrt(size) walks. The same key gives the same permutation on every
/// machine. Throws `std::invalid_argument` unless 0 <= size <= 2^62.
class keyed_permutation {
 public:
  constexpr keyed_permutation() = default;

  constexpr keyed_permutation(std::int64_t size, std::uint64_t key) : size_(size) {
    detail::require(size >= 0 && size <= std::int64_t{1} << 62, "size", size, "0 to 2^62");
    if (size < 2) return;
    const auto n = static_cast<std::uint64_t>(size);
    bits_ = std::max(1, (static_cast<int>(std::bit_width(n)) - 1) / 2);
    rows_ = ((n - 1) >> bits_) + 1;
    key_ = detail::mix(key, n);
    rounds_ = size < 4096 ? 32 : 6;  // small sets need more rounds to be shuffled evenly
  }

  [[nodiscard]] constexpr std::int64_t size() const { return size_; }

  /// The element at `index`, which must be in [0, size).
  [[nodiscard]] constexpr std::int64_t operator()(std::int64_t index) const {
    if (size_ < 2) return index;
    auto x = static_cast<std::uint64_t>(index);
    do {
      x = shuffle_once(x);
    } while (x >= static_cast<std::uint64_t>(size_));
    return static_cast<std::int64_t>(x);
  }

 private:
  /// 32 well-mixed bits of a half.
  static constexpr std::uint64_t hash(std::uint64_t half, std::uint64_t key) {
    const std::uint64_t x = (half ^ key) * 0xd6e8feb86659fd93u;
    return ((x ^ (x >> 32)) * 0xd6e8feb86659fd93u) >> 32;
  }

  [[nodiscard]] constexpr std::uint64_t shuffle_once(std::uint64_t x) const {
    const std::uint64_t mask = (std::uint64_t{1} << bits_) - 1;
    std::uint64_t high = x >> bits_;
    std::uint64_t low = x & mask;
    std::uint64_t key = key_;
    for (int i = 0; i < rounds_; i += 2) {
      high += hash(low, key += detail::golden_64) * rows_ >> 32;  // rows <= 2^32: the product fits
      high -= high >= rows_ ? rows_ : 0;
      low = (low + hash(high, key += detail::golden_64)) & mask;
    }
    return high << bits_ | low;
  }

  std::int64_t size_ = 0;
  int bits_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t key_ = 0;
  int rounds_ = 0;
};

}  // namespace adaptiveload
