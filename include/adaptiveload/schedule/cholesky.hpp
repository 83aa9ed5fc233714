#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace adaptiveload::detail {

/// The Cholesky factor L of a symmetric positive definite matrix, A = L L'.
class cholesky {
 public:
  cholesky() = default;

  /// Factors the `size` x `size` matrix of which `rows` holds at least the lower triangle.
  cholesky(std::vector<double> rows, std::size_t size) : l_(std::move(rows)), size_(size) {
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = l_[i * size_ + j];
        for (std::size_t k = 0; k < j; ++k) sum -= l_[i * size_ + k] * l_[j * size_ + k];
        l_[i * size_ + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / l_[j * size_ + j];
      }
    }
  }

  /// The solution y of L y = b; its squared length is b' A^-1 b.
  [[nodiscard]] std::vector<double> half_solve(std::vector<double> b) const {
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t k = 0; k < i; ++k) b[i] -= l_[i * size_ + k] * b[k];
      b[i] /= l_[i * size_ + i];
    }
    return b;
  }

  /// The solution x of A x = b.
  [[nodiscard]] std::vector<double> solve(std::vector<double> b) const {
    b = half_solve(std::move(b));
    for (std::size_t i = size_; i-- > 0;) {
      b[i] /= l_[i * size_ + i];
      for (std::size_t k = 0; k < i; ++k) b[k] -= l_[i * size_ + k] * b[i];
    }
    return b;
  }

  /// A^-1, row by row.
  [[nodiscard]] std::vector<double> inverse() const {
    std::vector<double> rows;
    rows.reserve(size_ * size_);
    for (std::size_t i = 0; i < size_; ++i) {
      std::vector<double> unit(size_, 0.0);
      unit[i] = 1;
      const std::vector<double> row = solve(std::move(unit));
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return rows;
  }

 private:
  std::vector<double> l_;
  std::size_t size_ = 0;
};

}  // namespace adaptiveload::detail
