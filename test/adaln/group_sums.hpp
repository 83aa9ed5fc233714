#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

/// Sums over the rows of groups, of a number for each feature, made by several threads.
class group_sums {
 public:
  group_sums(std::int64_t groups, std::int64_t features)
      : features_(features),
        sums_(static_cast<std::size_t>(groups * features)),
        terms_(static_cast<std::size_t>(groups)) {}

  /// Adds `features` numbers to those of a group; each is a sum of terms whose sizes have squares
  /// of this sum.
  void add(std::int64_t group, const double* numbers, double squares_of_terms) {
    const std::lock_guard guard(locks_[static_cast<std::size_t>(group) % locks_.size()]);
    double* const sums = sums_.data() + group * features_;
    for (std::int64_t i = 0; i < features_; ++i) sums[i] += numbers[i];
    terms_[static_cast<std::size_t>(group)] += squares_of_terms;
  }

  std::int64_t groups() const { return static_cast<std::int64_t>(terms_.size()); }
  std::int64_t features() const { return features_; }
  const double* of(std::int64_t group) const { return sums_.data() + group * features_; }
  /// What the terms of a group's sums come to, if they do not cancel.
  double size(std::int64_t group) const {
    return std::sqrt(terms_[static_cast<std::size_t>(group)]);
  }

 private:
  std::int64_t features_;
  std::vector<double> sums_, terms_;
  std::array<std::mutex, 64> locks_;
};
