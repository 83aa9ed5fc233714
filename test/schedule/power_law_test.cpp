#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/power_law.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

// SciPy 1.17.1, scipy.optimize.least_squares of a + b * B * (S / 1e4)**p - step_ms over the 45
// rows, bounds a, b >= 0 and 0 <= p <= 4, x_scale='jac', tolerances 1e-15, from p = 1, 1.5 and 2:
// all three end here, at a sum of squares of 6232091.65 ms^2.
TEST(PowerLaw, AgreesWithSciPyOnTheMeasuredSteps) {
  const auto steps = al::read_measurements(ADAPTIVELOAD_DATA "/wan2.1_1.3b_h200_steps.csv");
  const al::power_law law = al::fit_power_law(steps);
  constexpr double a = 319.337067;
  constexpr double b = 1.38748649e-4;
  constexpr double p = 1.60596828;
  EXPECT_NEAR(law.p, p, 0.02);
  EXPECT_NEAR(law.a, a, 0.02 * a);
  EXPECT_NEAR(law.b, b, 0.02 * b);

  double squares = 0;
  for (const auto& m : steps) {
    squares += std::pow(law.step_ms(m.batch_size, m.sequence_length) - m.step_ms, 2);
  }
  EXPECT_LT(squares, 6232091.65 * (1 + 1e-8));
}

TEST(PowerLaw, SaysHowWellItFits) {
  const std::vector<al::measurement> steps{
      {1, 100, 110}, {1, 200, 210}, {1, 300, 310}, {2, 150, 290}};
  const al::power_law law = al::fit_power_law(steps);
  double mean = 0;
  double worst = 0;
  double squares = 0;
  double variation = 0;
  for (const auto& m : steps) {
    const double predicted = law.step_ms(m.batch_size, m.sequence_length);
    mean += std::abs(predicted / m.step_ms - 1) / 4;
    worst = std::max(worst, std::abs(predicted / m.step_ms - 1));
    squares += std::pow(predicted - m.step_ms, 2);
    variation += std::pow(m.step_ms - 230, 2);
  }
  EXPECT_GT(mean, 0);
  EXPECT_NEAR(law.mean_relative_error, mean, 1e-12);
  EXPECT_NEAR(law.worst_relative_error, worst, 1e-12);
  EXPECT_NEAR(law.r_squared, 1 - squares / variation, 1e-12);
}

RC_GTEST_PROP(PowerLaw, ComesBackFromItsOwnSteps, ()) {
  const double a = *rc::gen::inRange(0, 500);
  const double b = *rc::gen::inRange(1, 1000) * 1e-6;
  const double p = *rc::gen::inRange(80, 250) / 100.0;
  const al::power_law truth{.a = a, .b = b, .p = p};
  std::vector<al::measurement> steps;
  for (const std::int64_t s : {256, 1024, 7800, 32760, 75600}) {
    for (const std::int64_t batch_size : {1, 3}) {
      steps.push_back({batch_size, s, truth.step_ms(batch_size, s)});
    }
  }
  const al::power_law law = al::fit_power_law(steps);
  RC_ASSERT(std::abs(law.p - p) < 1e-5);
  RC_ASSERT(law.worst_relative_error < 1e-4);
}

template <class Steps>
std::string error_of(const Steps& steps) {
  try {
    (void)al::fit_power_law(steps);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(PowerLaw, TooLittleOrDegenerateInputIsAnError) {
  using steps = std::vector<al::measurement>;
  EXPECT_EQ(error_of(steps{}), "measurements: distinct shapes is 0; allowed: 3 or more");
  EXPECT_EQ(error_of(steps{{1, 256, 1}, {1, 512, 2}, {1, 512, 3}}),
            "measurements: distinct shapes is 2; allowed: 3 or more");
  EXPECT_EQ(error_of(steps{{1, 256, 1}, {2, 256, 2}, {3, 256, 3}}),
            "measurements: distinct sequence lengths is 1; allowed: 2 or more");
  EXPECT_EQ(error_of(steps{{1, 256, 5}, {1, 512, 5}, {3, 256, 5}}),
            "measurements: growth of step_ms with the shape is 0; allowed: above 0");
  EXPECT_EQ(error_of(steps{{1, 256, 9}, {1, 512, 5}, {3, 2560, 1}}),
            "measurements: growth of step_ms with the shape is 0; allowed: above 0");
}

TEST(PowerLaw, AMeasurementThatCannotBeIsNamed) {
  using steps = std::vector<al::measurement>;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of(steps{{1, 256, 1}, {1, 512, nan}, {1, 1024, 3}}),
            "measurements[1].step_ms is nan; allowed: finite and above 0");
  EXPECT_EQ(error_of(steps{{1, 256, 1}, {1, 512, infinity}, {1, 1024, 3}}),
            "measurements[1].step_ms is inf; allowed: finite and above 0");
  EXPECT_EQ(error_of(steps{{1, 256, 1}, {1, 512, 2}, {1, 1024, -3}}),
            "measurements[2].step_ms is -3; allowed: finite and above 0");
  EXPECT_EQ(error_of(steps{{0, 256, 1}, {1, 512, 2}, {1, 1024, 3}}),
            "measurements[0].batch_size is 0; allowed: 1 or more");
  EXPECT_EQ(error_of(steps{{1, 256, 1}, {1, 0, 2}, {1, 1024, 3}}),
            "measurements[1].sequence_length is 0; allowed: 1 or more");
}

}  // namespace
