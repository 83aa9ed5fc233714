#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>

/// How far an output may be from a computation in double, relative in norm, by its storage type:
/// half a unit in the last place of the short types, a few roundings of float.
template <class T>
inline constexpr double accuracy = std::is_same_v<T, __nv_bfloat16> ? 4e-3
                                   : std::is_same_v<T, __half>      ? 5e-4
                                                                    : 1e-6;

/// The distance of numbers from those expected: of all, relative in norm, and of the worst one,
/// relative to itself and to the size of its row, which shows one wrong among millions.
class distance {
 public:
  /// Takes in a row. `least_size` stands for the size of numbers that are smaller, where they are
  /// what is left of terms of that size. A NaN makes the distance NaN.
  template <class T>
  void add(const T* got, const double* expected, std::int64_t count, double least_size = 0) {
    double difference = 0, size = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double e = static_cast<double>(static_cast<float>(got[i])) - expected[i];
      difference += e * e;
      size += expected[i] * expected[i];
    }
    size = std::max(size, least_size * least_size * static_cast<double>(count));
    const double typical = std::sqrt(size / static_cast<double>(std::max<std::int64_t>(count, 1)));
    for (std::int64_t i = 0; i < count; ++i) {
      const double e = std::abs(static_cast<double>(static_cast<float>(got[i])) - expected[i]);
      if (e > 0) worst_ = std::max(worst_, e / (std::abs(expected[i]) + typical));
    }
    difference_ += difference;
    size_ += size;
  }
  void add(const distance& other) {
    difference_ += other.difference_;
    size_ += other.size_;
    worst_ = std::max(worst_, other.worst_);
  }

  double in_norm() const { return difference_ == 0 ? 0 : std::sqrt(difference_ / size_); }
  double of_worst() const { return worst_; }

 private:
  double difference_ = 0, size_ = 0, worst_ = 0;
};

/// Distances of outputs, gathered by several threads.
class distances {
 public:
  void add(const std::string& name, const distance& d) {
    const std::lock_guard guard(lock_);
    all_[name].add(d);
  }
  void expect_near(const std::string& name, double bound) const {
    const auto found = all_.find(name);
    if (found == all_.end()) return;  // of no rows
    EXPECT_LE(found->second.in_norm(), bound) << name << ", relative in norm";
    EXPECT_LE(found->second.of_worst(), 8 * bound) << name << ", the worst element";
  }

 private:
  std::mutex lock_;
  std::map<std::string, distance> all_;
};
