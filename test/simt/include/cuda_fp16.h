#pragma once

#include <bit>
#include <cstdint>

/// IEEE binary16 as CUDA's header of this name has it.
struct __half {
  __half() = default;
  inline __half(float value);
  inline operator float() const;

  std::uint16_t bits;
};

struct alignas(4) __half2 {
  __half x, y;
};

/// Rounds to nearest, ties to even; beyond 65,504 to infinity. A NaN becomes 0x7fff.
inline __half __float2half_rn(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  std::uint32_t rounded;
  if (value != value) {
    __half nan;
    nan.bits = 0x7fff;
    return nan;
  } else if (magnitude >= 0x477ff000) {  // 65,520, from where on infinity is nearest
    rounded = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the least normal number
    rounded = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  } else {
    // In units of 2^-24: adding 1/2 puts the unit at a float's last bit, and the sum rounds.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    rounded = std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5f);
  }
  __half result;
  result.bits = static_cast<std::uint16_t>(sign | rounded);
  return result;
}

inline float __half2float(__half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t exponent = value.bits >> 10 & 0x1f, fraction = value.bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign == 0 ? magnitude : -magnitude;
}

inline __half __float2half(float value) {
  return __float2half_rn(value);
}
inline __half2 __floats2half2_rn(float low, float high) {
  return {__float2half_rn(low), __float2half_rn(high)};
}

inline __half::__half(float value) : __half(__float2half_rn(value)) {}
inline __half::operator float() const {
  return __half2float(*this);
}
