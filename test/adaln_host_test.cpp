#include <gtest/gtest.h>

#include <adaptiveload/adaln_host.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "expect_invalid.hpp"
#include "random_values.hpp"

namespace al = adaptiveload;

namespace {

using numbers = std::vector<double>;

numbers random_numbers(std::int64_t count, std::uint64_t stream, double deviation = 1,
                       double mean = 0) {
  numbers values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = mean + deviation * random_normal(test_seed() + stream, i);
  }
  return values;
}

/// `layernorm_modulate` in double, with the samples' modulations in one [batch, 6, features] tensor
/// (shift first, scale second) or, if `shared`, one of each for all samples.
struct modulate_case {
  al::activation_shape shape;
  double epsilon = 1e-6;
  bool shared = false;

  std::int64_t stride() const { return shared ? 0 : 6 * shape.features; }
  std::int64_t elements() const { return shape.batch * shape.tokens * shape.features; }
  std::size_t rows() const { return static_cast<std::size_t>(shape.batch * shape.tokens); }

  numbers x = random_numbers(elements(), 1, 0.7, 3);
  numbers modulations = random_numbers(6 * shape.batch * shape.features, 2);
  numbers dy = random_numbers(elements(), 3);

  struct result {
    numbers y, mean, rstd;
  };
  result forward() const {
    result r{numbers(x.size()), numbers(rows()), numbers(rows())};
    al::host::layernorm_modulate_forward<double, double, double>(
        {.shape = shape,
         .x = x.data(),
         .scale = {modulations.data() + shape.features, stride()},
         .shift = {modulations.data(), stride()},
         .y = r.y.data(),
         .mean = r.mean.data(),
         .rstd = r.rstd.data(),
         .epsilon = epsilon});
    return r;
  }

  /// What the gradients are of: the sum of dy * y.
  double loss() const {
    const numbers y = forward().y;
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum;
  }

  struct gradients {
    numbers dx, modulations;  ///< the second as the modulations lie; a sample's own if `shared`
  };
  gradients backward() const {
    const result saved = forward();
    gradients g{numbers(x.size()), numbers(modulations.size())};
    al::host::layernorm_modulate_backward<double, double, double>(
        {.shape = shape,
         .x = x.data(),
         .mean = saved.mean.data(),
         .rstd = saved.rstd.data(),
         .scale = {modulations.data() + shape.features, stride()},
         .dy = dy.data(),
         .dx = g.dx.data(),
         .dscale = {g.modulations.data() + shape.features, 6 * shape.features},
         .dshift = {g.modulations.data(), 6 * shape.features}});
    return g;
  }
};

/// Expects `gradient` to be that of `loss` after `parameters`, by central differences.
template <class Loss>
void expect_gradient(numbers& parameters, const numbers& gradient, Loss loss) {
  constexpr double step = 1e-5;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double kept = parameters[i];
    parameters[i] = kept + step;
    const double above = loss();
    parameters[i] = kept - step;
    const double below = loss();
    parameters[i] = kept;
    const double difference = (above - below) / (2 * step);
    EXPECT_NEAR(gradient[i], difference, 1e-7 * (1 + std::abs(difference))) << "parameter " << i;
  }
}

TEST(LayernormModulateOnHost, NormalisesScalesAndShifts) {
  const numbers x{1, 2, 3, 4}, scale{0, 1, -1, 0.5}, shift{0, 0, 7, -1};
  numbers y(4);
  double mean = 0, rstd = 0;
  al::host::layernorm_modulate_forward<double, double, double>({.shape = {1, 1, 4},
                                                                .x = x.data(),
                                                                .scale = {scale.data()},
                                                                .shift = {shift.data()},
                                                                .y = y.data(),
                                                                .mean = &mean,
                                                                .rstd = &rstd,
                                                                .epsilon = 0.3125});
  EXPECT_DOUBLE_EQ(mean, 2.5);
  EXPECT_DOUBLE_EQ(rstd, 0.8);  // 1 / sqrt(1.25 + 0.3125)
  const numbers expected{-1.2, -0.8, 7, 0.8};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], expected[i], 1e-15) << i;
}

TEST(LayernormModulateOnHost, TakesEachSamplesModulationWhereItLies) {
  const modulate_case c{.shape = {3, 4, 5}};
  const auto whole = c.forward();
  for (std::int64_t sample = 0; sample < 3; ++sample) {
    for (std::int64_t token = 0; token < 4; ++token) {
      const auto row = static_cast<std::size_t>(sample * 4 + token);
      for (std::size_t i = 0; i < 5; ++i) {
        const std::size_t of_sample = static_cast<std::size_t>(sample) * 6 * 5 + i;
        const double normal = (c.x[row * 5 + i] - whole.mean[row]) * whole.rstd[row];
        EXPECT_NEAR(whole.y[row * 5 + i],
                    normal * (1 + c.modulations[of_sample + 5]) + c.modulations[of_sample], 1e-12);
      }
    }
  }
}

TEST(LayernormModulateOnHost, OfOneFeatureIsTheShift) {
  const modulate_case c{.shape = {2, 3, 1}};
  const auto [y, mean, rstd] = c.forward();
  for (std::size_t row = 0; row < 6; ++row) {
    EXPECT_EQ(y[row], c.modulations[row / 3 * 6]);
    EXPECT_EQ(mean[row], c.x[row]);
    EXPECT_NEAR(rstd[row], 1e3, 1e-9);
  }
}

TEST(LayernormModulateOnHost, HasTheGradientsOfFiniteDifferences) {
  for (const al::activation_shape& shape :
       {al::activation_shape{1, 1, 2}, {2, 3, 7}, {1, 5, 16}, {3, 1, 19}}) {
    for (const double epsilon : {1e-6, 0.5}) {
      modulate_case c{.shape = shape, .epsilon = epsilon};
      const auto g = c.backward();
      expect_gradient(c.x, g.dx, [&] { return c.loss(); });
      expect_gradient(c.modulations, g.modulations, [&] { return c.loss(); });
    }
  }
}

TEST(LayernormModulateOnHost, GivesASharedModulationOneGradientASample) {
  modulate_case c{.shape = {3, 4, 5}, .shared = true};
  const auto g = c.backward();
  numbers of_all(c.modulations.size());
  for (std::size_t i = 0; i < 2 * 5; ++i) {
    for (std::size_t sample = 0; sample < 3; ++sample) of_all[i] += g.modulations[sample * 30 + i];
  }
  expect_gradient(c.x, g.dx, [&] { return c.loss(); });
  expect_gradient(c.modulations, of_all, [&] { return c.loss(); });
}

TEST(LayernormModulateOnHost, InFloatIsCloseToDoubleAtLargeMeans) {
  for (const float mean : {0.f, 1e2f, 1e4f}) {
    constexpr std::int64_t rows = 5, features = 1000;
    std::vector<float> x(rows * features), y(x.size()), dx(x.size()), m(rows), r(rows);
    std::vector<float> scale(features), shift(features), dscale(features), dshift(features);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = mean + random_normal(test_seed(), i);
    for (std::size_t i = 0; i < scale.size(); ++i) scale[i] = random_normal(test_seed() + 1, i);
    al::host::layernorm_modulate_forward<float, float, float>({.shape = {1, rows, features},
                                                               .x = x.data(),
                                                               .scale = {scale.data()},
                                                               .shift = {shift.data()},
                                                               .y = y.data(),
                                                               .mean = m.data(),
                                                               .rstd = r.data()});
    al::host::layernorm_modulate_backward<float, float, float>({.shape = {1, rows, features},
                                                                .x = x.data(),
                                                                .mean = m.data(),
                                                                .rstd = r.data(),
                                                                .scale = {scale.data()},
                                                                .dy = y.data(),
                                                                .dx = dx.data(),
                                                                .dscale = {dscale.data()},
                                                                .dshift = {dshift.data()}});
    modulate_case c{.shape = {1, rows, features}};
    c.x.assign(x.begin(), x.end());
    c.dy.assign(y.begin(), y.end());
    c.modulations.assign(c.modulations.size(), 0);
    for (std::size_t i = 0; i < scale.size(); ++i) c.modulations[features + i] = scale[i];
    const auto expect_near = [&](const char* name, const std::vector<float>& got,
                                 const double* expected) {
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        difference += std::pow(got[i] - expected[i], 2);
        size += std::pow(expected[i], 2);
      }
      EXPECT_LE(std::sqrt(difference / size), 1e-6) << name << ", mean " << mean;
    };
    const auto exact = c.forward();
    const auto gradients = c.backward();
    expect_near("y", y, exact.y.data());
    expect_near("rstd", r, exact.rstd.data());
    expect_near("dx", dx, gradients.dx.data());
    expect_near("dscale", dscale, gradients.modulations.data() + features);
    expect_near("dshift", dshift, gradients.modulations.data());
  }
}

TEST(LayernormModulateOnHost, OfSamplesWithoutTokensHasGradientsOfZero) {
  numbers dscale(6, 5.), dshift(6, 5.);
  al::layernorm_modulate_backward_args<double, double, double> args;
  args.shape = {2, 0, 3};
  args.dscale = {dscale.data(), 3};
  args.dshift = {dshift.data(), 3};
  al::host::layernorm_modulate_backward(args);
  EXPECT_EQ(dscale, numbers(6));
  EXPECT_EQ(dshift, numbers(6));
}

TEST(LayernormModulateOnHost, WritesNothingIfAnArgumentIsBad) {
  const numbers in(2 * 3 * 4, 1.), statistics(6, 1.);
  numbers out(2 * 3 * 4, 5.), dscale(8, 5.), dshift(8, 5.);
  const al::layernorm_modulate_args<double, double, double> good{.shape = {2, 3, 4},
                                                                 .x = in.data(),
                                                                 .scale = {in.data(), 4},
                                                                 .shift = {in.data(), 4},
                                                                 .y = out.data()};
  const auto expect_forward = [&](auto change, const std::string& message) {
    auto args = good;
    change(args);
    expect_invalid([&] { al::host::layernorm_modulate_forward(args); }, message);
  };
  expect_forward([](auto& a) { a.shape.batch = -1; }, "shape.batch is -1; allowed: 0 or more");
  expect_forward([](auto& a) { a.shape.tokens = -1; }, "shape.tokens is -1; allowed: 0 or more");
  expect_forward([](auto& a) { a.shape.features = 0; }, "shape.features is 0; allowed: 1 or more");
  expect_forward([](auto& a) { a.epsilon = 0; }, "epsilon is 0; allowed: finite and above 0");
  expect_forward([](auto& a) { a.x = nullptr; }, "x is null; allowed: a pointer to data");
  expect_forward([](auto& a) { a.scale.data = nullptr; }, "scale.data is null");
  expect_forward([](auto& a) { a.y = nullptr; }, "y is null");

  const al::layernorm_modulate_backward_args<double, double, double> good_backward{
      .shape = {2, 3, 4},
      .x = in.data(),
      .mean = statistics.data(),
      .rstd = statistics.data(),
      .scale = {in.data(), 4},
      .dy = in.data(),
      .dx = out.data(),
      .dscale = {dscale.data(), 4},
      .dshift = {dshift.data(), 4}};
  const auto expect_backward = [&](auto change, const std::string& message) {
    auto args = good_backward;
    change(args);
    expect_invalid([&] { al::host::layernorm_modulate_backward(args); }, message);
  };
  expect_backward([](auto& a) { a.shape.features = -4; }, "shape.features is -4");
  expect_backward([](auto& a) { a.x = nullptr; }, "x is null");
  expect_backward([](auto& a) { a.mean = nullptr; }, "mean is null");
  expect_backward([](auto& a) { a.rstd = nullptr; }, "rstd is null");
  expect_backward([](auto& a) { a.scale.data = nullptr; }, "scale.data is null");
  expect_backward([](auto& a) { a.dy = nullptr; }, "dy is null");
  expect_backward([](auto& a) { a.dx = nullptr; }, "dx is null");
  expect_backward([](auto& a) { a.dx = const_cast<double*>(a.x); }, "dx is x; allowed: ");
  expect_backward([](auto& a) { a.dscale.batch_stride = 3; },
                  "dscale.batch_stride is 3; allowed: ");
  expect_backward([](auto& a) { a.dshift.batch_stride = 0; },
                  "dshift.batch_stride is 0; allowed: ");

  EXPECT_EQ(out, numbers(24, 5.));
  EXPECT_EQ(dscale, numbers(8, 5.));
  EXPECT_EQ(dshift, numbers(8, 5.));
}

}  // namespace
