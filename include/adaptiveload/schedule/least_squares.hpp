#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

namespace adaptiveload::detail {

/// Solves the symmetric positive definite system A x = b in place by Cholesky; false when A is
/// singular to working precision. A should have a unit diagonal (scaled columns).
template <std::size_t K>
bool solve_positive_definite(std::array<std::array<double, K>, K> a, std::array<double, K>& x,
                             std::size_t size) {
  for (std::size_t j = 0; j < size; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j][j] -= a[j][k] * a[j][k];
    if (!(a[j][j] > 1e-13)) return false;
    a[j][j] = std::sqrt(a[j][j]);
    for (std::size_t i = j + 1; i < size; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
  }
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= a[i][k] * x[k];
    x[i] /= a[i][i];
  }
  for (std::size_t i = size; i-- > 0;) {
    for (std::size_t k = i + 1; k < size; ++k) x[i] -= a[k][i] * x[k];
    x[i] /= a[i][i];
  }
  return true;
}

template <std::size_t K>
struct least_squares_solution {
  std::array<double, K> coefficients{};
  double sum_of_squares = 0;
};

/// Minimises sum_i weight_i (row_i . x - target_i)^2 over x >= 0.
///
/// The optimum is the unconstrained one of some subset of columns, and K is at most 4, so every
/// subset is tried. Columns are scaled to unit length first: S^2 and 1 differ by ten decades.
template <std::size_t K>
least_squares_solution<K> nonnegative_least_squares(std::span<const std::array<double, K>> rows,
                                                    std::span<const double> targets,
                                                    std::span<const double> weights) {
  std::array<double, K> scale{};
  std::array<double, K> projection{};
  std::array<std::array<double, K>, K> gram{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < K; ++j) {
      projection[j] += weights[i] * rows[i][j] * targets[i];
      for (std::size_t k = 0; k <= j; ++k) gram[j][k] += weights[i] * rows[i][j] * rows[i][k];
    }
  }
  for (std::size_t j = 0; j < K; ++j) scale[j] = std::sqrt(gram[j][j]);

  least_squares_solution<K> best;
  double most_explained = 0;
  for (std::size_t subset = 1; subset < (std::size_t{1} << K); ++subset) {
    std::array<std::size_t, K> column{};
    std::size_t size = 0;
    bool usable = true;
    for (std::size_t j = 0; j < K; ++j) {
      if ((subset >> j & 1) == 0) continue;
      usable = usable && scale[j] > 0;
      column[size++] = j;
    }
    if (!usable) continue;
    std::array<std::array<double, K>, K> a{};
    std::array<double, K> x{};
    for (std::size_t j = 0; j < size; ++j) {
      x[j] = projection[column[j]] / scale[column[j]];
      for (std::size_t k = 0; k <= j; ++k) {
        a[j][k] = gram[column[j]][column[k]] / (scale[column[j]] * scale[column[k]]);
      }
    }
    if (!solve_positive_definite(a, x, size)) continue;
    if (std::any_of(x.begin(), x.end(), [](double v) { return v < 0; })) continue;
    double explained = 0;
    for (std::size_t j = 0; j < size; ++j) {
      explained += x[j] * projection[column[j]] / scale[column[j]];
    }
    if (explained <= most_explained) continue;
    most_explained = explained;
    best.coefficients = {};
    for (std::size_t j = 0; j < size; ++j) best.coefficients[column[j]] = x[j] / scale[column[j]];
  }
  // From the residuals, not from the Gram matrix: an exact fit must come out as exact.
  best.sum_of_squares = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double residual = -targets[i];
    for (std::size_t j = 0; j < K; ++j) residual += rows[i][j] * best.coefficients[j];
    best.sum_of_squares += weights[i] * residual * residual;
  }
  return best;
}

/// The minimum of a function of one variable on [low, high]: a scan, so that a second valley is not
/// missed, then golden sections down to `tolerance`. Returns the argument.
template <class Function>
double minimise(const Function& value, double low, double high, int scan, double tolerance) {
  const double width = (high - low) / scan;
  int best = 0;
  double least = value(low);
  for (int i = 1; i <= scan; ++i) {
    const double v = value(low + i * width);
    if (v < least) {
      least = v;
      best = i;
    }
  }
  double left = low + (best > 0 ? best - 1 : 0) * width;
  double right = low + (best < scan ? best + 1 : scan) * width;
  constexpr double golden = 0.61803398874989485;
  double x1 = right - golden * (right - left);
  double x2 = left + golden * (right - left);
  double v1 = value(x1);
  double v2 = value(x2);
  while (right - left > tolerance) {
    if (v1 <= v2) {
      right = x2;
      x2 = x1;
      v2 = v1;
      x1 = right - golden * (right - left);
      v1 = value(x1);
    } else {
      left = x1;
      x1 = x2;
      v1 = v2;
      x2 = left + golden * (right - left);
      v2 = value(x2);
    }
  }
  const double x = v1 <= v2 ? x1 : x2;
  return std::min(v1, v2) <= least ? x : low + best * width;
}

}  // namespace adaptiveload::detail
