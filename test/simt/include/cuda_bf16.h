#pragma once

#include <bit>
#include <cstdint>

/// bfloat16 as CUDA's header of this name has it: the upper half of a float.
struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  inline __nv_bfloat16(float value);
  inline operator float() const;

  std::uint16_t bits;
};

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

/// Rounds to nearest, ties to even. A NaN becomes 0x7fff.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  __nv_bfloat16 result;
  if (value != value) {
    result.bits = 0x7fff;
  } else {
    result.bits = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  return result;
}

inline float __bfloat162float(__nv_bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline __nv_bfloat16 __float2bfloat16(float value) {
  return __float2bfloat16_rn(value);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}

inline __nv_bfloat16::__nv_bfloat16(float value) : __nv_bfloat16(__float2bfloat16_rn(value)) {}
inline __nv_bfloat16::operator float() const {
  return __bfloat162float(*this);
}
