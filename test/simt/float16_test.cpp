#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace {

template <class T>
struct format;

template <>
struct format<__nv_bfloat16> {
  static constexpr int fraction_bits = 7, bias = 127;
  static float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __nv_bfloat16 round(float value) { return __float2bfloat16_rn(value); }
};

template <>
struct format<__half> {
  static constexpr int fraction_bits = 10, bias = 15;
  static float widen(__half value) { return __half2float(value); }
  static __half round(float value) { return __float2half_rn(value); }
};

template <class T>
T of_bits(std::uint32_t bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// The value of a positive code, from the definition of the format; codes past infinity's go on as
/// if the exponents did.
template <class T>
double defined_value(std::uint32_t code) {
  using f = format<T>;
  const int exponent = static_cast<int>(code >> f::fraction_bits);
  const double fraction = code & ((1u << f::fraction_bits) - 1);
  const double one = 1u << f::fraction_bits;
  return exponent == 0 ? std::ldexp(fraction / one, 1 - f::bias)
                       : std::ldexp(1 + fraction / one, exponent - f::bias);
}

template <class T>
class simt_float16 : public testing::Test {
 protected:
  static constexpr std::uint32_t infinity_code = 0x7fffu >> format<T>::fraction_bits
                                                                << format<T>::fraction_bits;
};

using types = testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(simt_float16, types);

TYPED_TEST(simt_float16, every_code_widens_to_its_value_and_rounds_to_itself) {
  using f = format<TypeParam>;
  for (std::uint32_t code = 0; code <= 0xffff; ++code) {
    const auto value = of_bits<TypeParam>(code);
    const float wide = f::widen(value);
    const std::uint32_t magnitude = code & 0x7fff;
    ASSERT_EQ(std::signbit(wide), code > 0x7fff) << code;
    if (magnitude > this->infinity_code) {
      ASSERT_TRUE(std::isnan(wide)) << code;
      ASSERT_EQ(f::round(wide).bits, 0x7fff) << code;
      continue;
    }
    if (magnitude == this->infinity_code) {
      ASSERT_TRUE(std::isinf(wide)) << code;
    } else {
      ASSERT_EQ(std::fabs(wide), defined_value<TypeParam>(magnitude)) << code;
    }
    ASSERT_EQ(f::round(wide).bits, code);
  }
}

TYPED_TEST(simt_float16, what_lies_between_two_codes_rounds_to_the_nearer_and_a_tie_to_even) {
  using f = format<TypeParam>;
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::uint32_t code = 0; code < this->infinity_code; ++code) {
    const double middle = (defined_value<TypeParam>(code) + defined_value<TypeParam>(code + 1)) / 2;
    const float tie = static_cast<float>(middle);
    ASSERT_EQ(tie, middle) << code;
    for (const float sign : {1.f, -1.f}) {
      const std::uint32_t bit = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(f::round(sign * tie).bits, bit | (code + (code & 1))) << code;
      ASSERT_EQ(f::round(sign * std::nextafter(tie, 0.f)).bits, bit | code) << code;
      ASSERT_EQ(f::round(sign * std::nextafter(tie, infinity)).bits, bit | (code + 1)) << code;
    }
  }
  EXPECT_EQ(f::round(std::numeric_limits<float>::max()).bits, this->infinity_code);
}

TYPED_TEST(simt_float16, converts_implicitly_as_cuda_types_do) {
  const TypeParam value = 1.5f;
  EXPECT_EQ(static_cast<float>(value), 1.5f);
  static_assert(sizeof(TypeParam) == 2 && std::is_trivially_copyable_v<TypeParam>);
}

TEST(simt_float16_pairs, hold_the_first_in_x) {
  EXPECT_EQ(static_cast<float>(__floats2bfloat162_rn(1, 2).x), 1);
  EXPECT_EQ(static_cast<float>(__floats2bfloat162_rn(1, 2).y), 2);
  EXPECT_EQ(static_cast<float>(__floats2half2_rn(1, 2).x), 1);
  EXPECT_EQ(static_cast<float>(__floats2half2_rn(1, 2).y), 2);
}

}  // namespace
