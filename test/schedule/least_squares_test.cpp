#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/least_squares.hpp>
#include <array>
#include <cmath>
#include <vector>

namespace al = adaptiveload;

namespace {

using row = std::array<double, 3>;

double number() {
  return *rc::gen::inRange(-1000, 1000) / 100.0;
}

RC_GTEST_PROP(LeastSquares, SatisfiesTheConditionsOfAnOptimum, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(3, 12);
  // Columns of very different sizes, as 1, S and S^2 are.
  const double large = *rc::gen::element(1.0, 1e4, 1e9);
  std::vector<row> rows;
  std::vector<double> targets;
  std::vector<double> weights;
  for (std::size_t i = 0; i < count; ++i) {
    rows.push_back({number(), number() / large, number() * large});
    targets.push_back(number());
    weights.push_back(*rc::gen::inRange(1, 10) / 4.0);
  }
  const auto solution = al::detail::nonnegative_least_squares<3>(rows, targets, weights);
  for (std::size_t j = 0; j < 3; ++j) {
    double gradient = 0;  // of half the sum of squares, in units of the column
    double length = 0;
    for (std::size_t i = 0; i < count; ++i) {
      double residual = -targets[i];
      for (std::size_t k = 0; k < 3; ++k) residual += rows[i][k] * solution.coefficients[k];
      gradient += weights[i] * residual * rows[i][j];
      length += std::abs(rows[i][j]);
    }
    if (length == 0) continue;
    const double scaled = gradient / length;
    RC_ASSERT(solution.coefficients[j] >= 0);
    RC_ASSERT((solution.coefficients[j] > 0 ? std::abs(scaled) < 1e-5 : scaled > -1e-5));
  }
}

TEST(LeastSquares, AnExactFitHasNoResidual) {
  std::vector<row> rows;
  std::vector<double> targets;
  for (const double s : {256., 1024., 7800., 75600.}) {
    rows.push_back({1, s, s * s});
    targets.push_back(3 + 0.5 * s + 1e-6 * s * s);
  }
  const std::vector<double> ones(rows.size(), 1.0);
  const auto solution = al::detail::nonnegative_least_squares<3>(rows, targets, ones);
  EXPECT_NEAR(solution.coefficients[0], 3, 1e-6);
  EXPECT_NEAR(solution.coefficients[1], 0.5, 1e-9);
  EXPECT_NEAR(solution.coefficients[2], 1e-6, 1e-14);
  EXPECT_LT(solution.sum_of_squares, 1e-10);
}

TEST(LeastSquares, ColumnsThatAreAlikeOrAbsentDoNoHarm) {
  const std::vector<row> rows{{1, 1, 0}, {2, 2, 0}, {3, 3, 0}};
  const std::vector<double> targets{2, 4, 6};
  const std::vector<double> ones(3, 1.0);
  const auto solution = al::detail::nonnegative_least_squares<3>(rows, targets, ones);
  EXPECT_NEAR(solution.coefficients[0] + solution.coefficients[1], 2, 1e-12);
  EXPECT_EQ(solution.coefficients[2], 0);
}

TEST(Minimise, FindsTheDeeperOfTwoValleys) {
  const auto value = [](double x) { return std::pow(x * x - 1, 2) + 0.1 * x; };
  const double x = al::detail::minimise(value, -2.0, 2.0, 10, 1e-9);
  EXPECT_NEAR(4 * x * (x * x - 1) + 0.1, 0, 1e-6);
  EXPECT_LT(x, 0);
}

TEST(Minimise, FindsAMinimumAtAnEnd) {
  EXPECT_NEAR(al::detail::minimise([](double x) { return x; }, 1.0, 3.0, 4, 1e-9), 1, 1e-8);
  EXPECT_NEAR(al::detail::minimise([](double x) { return -x; }, 1.0, 3.0, 4, 1e-9), 3, 1e-8);
}

}  // namespace
