#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

/// The seed of this run's random inputs: ADAPTIVELOAD_TEST_SEED of the environment, or a new one in
/// every run; printed, so that a failure can be had again.
inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const char* const given = std::getenv("ADAPTIVELOAD_TEST_SEED");
    const std::uint64_t chosen =
        given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::printf("ADAPTIVELOAD_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    return chosen;
  }();
  return seed;
}

/// Random numbers of which any can be had without those before it: number `i` of stream `seed`
/// (Steele et al. 2014, SplitMix).
inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed * 0xd1342543de82ef95 + i * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// Uniform in [0, 1).
inline float random_uniform(std::uint64_t seed, std::uint64_t i) {
  return static_cast<float>(random_bits(seed, i) >> 40) * 0x1p-24f;
}

/// Near a normal distribution of mean 0 and deviation 1: the sum of four uniform numbers.
inline float random_normal(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t bits = random_bits(seed, i);
  const auto sum = static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                      (bits >> 32 & 0xffff) + (bits >> 48));
  return std::fmaf(sum, 0x1p-16f, -2.f) * 1.7320508f;
}
