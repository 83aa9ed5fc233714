#pragma once

#include <adaptiveload/schedule/cholesky.hpp>
#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/statistics.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace adaptiveload::detail {

/// How far, in e-folds of S and of B, a measurement tells of its neighbours, and how much: the
/// deviation of what it shares with them over that of what is its own.
struct correction_scales {
  double length = 1;
  double batch = 1;
  double shared = 0;
};

/// What multiplies a cost curve so that it passes through its measurements: kriging (Rasmussen and
/// Williams 2006, chapter 2) of the logarithm of measured over predicted time.
///
/// The logarithm has a part that a measurement shares with its neighbours in log S and log B, and a
/// part of its own that is gone a few tenths of an e-fold away. A measurement much slower than its
/// neighbours, a stall, is passed by.
class correction {
 public:
  correction() = default;

  /// `shapes` are ordered by sequence length. The scales are those that best predict each length,
  /// and each shape, from the others, unless they are given.
  correction(std::span<const measurement> shapes, const cost_curve& curve,
             const correction_scales* scales = nullptr)
      : curve_(curve) {
    std::array<std::vector<double>, 2> sizes;
    for (const measurement& m : shapes) {
      const double predicted = curve.step_ms(m.batch_size, m.sequence_length);
      values_.push_back(std::log(m.step_ms / predicted));
      sizes[predicted <= curve.floor_ms ? 1 : 0].push_back(std::abs(values_.back()));
    }
    // Steps at the floor wait for the host, and scatter several times as much as the others.
    if (sizes[0].size() >= 3 && sizes[1].size() >= 3) {
      floor_scatter_ = std::clamp(median(sizes[1]) / std::max(median(sizes[0]), 1e-9), 1.0, 30.0);
    }
    for (const measurement& m : shapes) points_.push_back(place(m.batch_size, m.sequence_length));
    nuggets_.assign(points_.size(), 0.0);
    choose(scales);
    // A stall makes its neighbours look fast, so the worst goes first.
    for (std::size_t most = points_.size() / 8; most > 0 && pass_by_stall(); --most) {
      choose(scales);
    }
  }

  /// The factor by which a step of this shape differs from the curve.
  [[nodiscard]] double factor(std::int64_t batch_size, std::int64_t sequence_length) const {
    const point p = place(batch_size, sequence_length);
    double sum = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) sum += covariance(p, points_[i]) * dual_[i];
    return std::exp(sum);
  }

  /// The standard deviation, relative, of a step of this shape from the corrected curve.
  [[nodiscard]] double deviation(std::int64_t batch_size, std::int64_t sequence_length) const {
    const point p = place(batch_size, sequence_length);
    std::vector<double> k;
    for (const point& q : points_) k.push_back(covariance(p, q));
    double variance = covariance(p, p);
    for (const double v : matrix_.half_solve(std::move(k))) variance -= v * v;
    return unit_ * std::sqrt(std::max(variance, 0.0));
  }

  /// Signed relative errors of the corrected curve, predicted / measured - 1.
  [[nodiscard]] std::vector<double> relative_errors(std::span<const measurement> shapes) const {
    std::vector<double> errors;
    for (const measurement& m : shapes) {
      errors.push_back(curve_.step_ms(m.batch_size, m.sequence_length) *
                           factor(m.batch_size, m.sequence_length) / m.step_ms -
                       1);
    }
    return errors;
  }

  [[nodiscard]] const correction_scales& scales() const { return scales_; }

 private:
  struct point {
    double batch;    ///< log B
    double length;   ///< log S
    double scatter;  ///< deviation of the part of its own, in units of `unit_`
  };

  [[nodiscard]] point place(std::int64_t batch_size, std::int64_t sequence_length) const {
    const bool at_floor = curve_.step_ms(batch_size, sequence_length) <= curve_.floor_ms;
    return {std::log(static_cast<double>(batch_size)),
            std::log(static_cast<double>(sequence_length)), at_floor ? floor_scatter_ : 1.0};
  }

  [[nodiscard]] double covariance(const point& p, const point& q) const {
    const double batch = p.batch - q.batch;
    const double length = p.length - q.length;
    const double b = batch / scales_.batch;
    const double l = length / scales_.length;
    const double scatter = std::min(p.scatter, q.scatter);
    // The second is exponential, not Gaussian, so that it does not overshoot between two close
    // measurements that differ.
    constexpr double reach = 0.1;
    return scales_.shared * scales_.shared * std::exp(-0.5 * (b * b + l * l)) +
           scatter * scatter * std::exp(-std::hypot(batch, length) / reach);
  }

  void choose(const correction_scales* given) {
    if (given != nullptr) return factorise(*given);
    double least = std::numeric_limits<double>::infinity();
    correction_scales best;
    for (const correction_scales& scales : candidates) {
      factorise(scales);
      const double error = held_out_error();
      // A curve that was fitted to the measurements hides part of its error at them: neighbours
      // must help by more than that to be listened to.
      if (error < (best.shared == 0 ? 0.9 : 1.0) * least) {
        least = error;
        best = scales;
      }
    }
    factorise(best);
  }

  void factorise(const correction_scales& scales) {
    scales_ = scales;
    const std::size_t n = points_.size();
    std::vector<double> rows(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) rows[i * n + j] = covariance(points_[i], points_[j]);
      rows[i * n + i] = covariance(points_[i], points_[i]) + nuggets_[i];
    }
    matrix_ = cholesky(std::move(rows), n);
    dual_ = matrix_.solve(values_);
    double square = 0;
    for (std::size_t i = 0; i < n; ++i) square += values_[i] * dual_[i];
    unit_ = std::sqrt(std::max(square, 0.0) / static_cast<double>(n));
  }

  /// What each measurement differs by from its prediction by the other lengths, plus by all other
  /// measurements, in its own scatter, added up. With Q the inverse of the matrix, those of a group
  /// G differ by (Q_GG)^-1 (Q values)_G.
  [[nodiscard]] double held_out_error() const {
    const std::size_t n = points_.size();
    const std::vector<double> inverse = matrix_.inverse();
    double sum = 0;
    for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
      while (end < n && points_[end].length == points_[begin].length) ++end;
      const std::size_t size = end - begin;
      std::vector<double> block(size * size);
      for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j < size; ++j) {
          block[i * size + j] = inverse[(begin + i) * n + begin + j];
        }
      }
      const auto first = dual_.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto differences = cholesky(std::move(block), size)
                                   .solve({first, first + static_cast<std::ptrdiff_t>(size)});
      for (std::size_t i = 0; i < size; ++i) {
        const std::size_t k = begin + i;
        if (nuggets_[k] != 0) continue;
        sum += (std::abs(differences[i]) + std::abs(dual_[k] / inverse[k * n + k])) /
               points_[k].scatter;
      }
    }
    return sum;
  }

  /// Frees the correction from the measurement that is slowest against its neighbours, if that is
  /// beyond chance.
  bool pass_by_stall() {
    const std::size_t n = points_.size();
    const std::vector<double> inverse = matrix_.inverse();
    std::vector<double> scores;  // in deviations, up to a factor
    for (std::size_t i = 0; i < n; ++i) scores.push_back(dual_[i] / std::sqrt(inverse[i * n + i]));
    const double deviation = robust_deviation(scores);
    const std::size_t worst =
        static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    const double excess = dual_[worst] / inverse[worst * n + worst];  // of a logarithm
    if (nuggets_[worst] != 0 || scores[worst] < 4 * deviation || excess < 0.1) return false;
    nuggets_[worst] = 1e6 * points_[worst].scatter * points_[worst].scatter;
    points_[worst].scatter = 0;
    return true;
  }

  static constexpr std::array<correction_scales, 19> candidates = [] {
    std::array<correction_scales, 19> grid{};  // the first shares nothing
    std::size_t i = 1;
    for (const double shared : {1.0, 3.0, 10.0}) {
      for (const double length : {0.7, 1.4, 2.8}) {
        for (const double batch : {1.4, 5.6}) grid[i++] = {length, batch, shared};
      }
    }
    return grid;
  }();

  cost_curve curve_;
  std::vector<point> points_;
  std::vector<double> values_;   ///< log(measured / curve)
  std::vector<double> nuggets_;  ///< added variance of measurements that are passed by
  double floor_scatter_ = 1;
  correction_scales scales_;
  cholesky matrix_;
  std::vector<double> dual_;
  double unit_ = 0;
};

}  // namespace adaptiveload::detail
