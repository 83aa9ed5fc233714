#include <gtest/gtest.h>

#include <adaptiveload/adaln_host.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "adaln_host_case.hpp"

namespace al = adaptiveload;

namespace {

void expect_near(const numbers& got, const numbers& expected, const char* name) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << name << ' ' << i;
  }
}

/// Expects `gradient` to be that of `loss` after `parameters`, by central differences.
template <class T, class Loss>
void expect_gradient(std::vector<T>& parameters, const numbers& gradient, const char* name,
                     Loss loss) {
  constexpr double step = 0x1p-17;
  ASSERT_EQ(parameters.size(), gradient.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const T kept = parameters[i];
    parameters[i] = static_cast<T>(kept + step);
    const double above = loss();
    parameters[i] = static_cast<T>(kept - step);
    const double below = loss();
    parameters[i] = kept;
    const double difference = (above - below) / (2 * step);
    ASSERT_NEAR(gradient[i], difference, 1e-7 * (1 + std::abs(difference))) << name << ' ' << i;
  }
}

/// Both operations, both norms, both forms.
class AdaLnOnHost : public testing::TestWithParam<std::tuple<bool, al::norm, al::modulate>> {
 protected:
  host_case of(const al::activation_shape& shape, std::vector<std::int32_t> positions = {},
               placement place = placement::chunks, double epsilon = 1e-6) const {
    const auto [gated, kind, form] = GetParam();
    return {.gated = gated,
            .kind = kind,
            .form = form,
            .shape = shape,
            .positions = std::move(positions),
            .place = place,
            .epsilon = epsilon};
  }

  /// Modulations of samples, frames and tokens, packed samples, each placement.
  std::vector<host_case> cases() const {
    std::vector<host_case> all{of({1, 1, 2}, {}, placement::chunks, 0.5),
                               of({2, 3, 7}, {}, placement::chunks, 0.5),
                               of({1, 5, 16}),
                               of({3, 1, 19}),
                               of({4, 6, 5}, {0, 3, 3, 5, 6}),
                               of({3, 2, 8}, {0, 0, 2, 2}, placement::reversed),
                               of({2, 3, 5}, {0, 2, 3}, placement::shared)};
    for (const placement place :
         {placement::chunks, placement::transposed, placement::reversed, placement::shared}) {
      all.push_back(of({2, 6, 5, 3}, {}, place));
      all.push_back(of({2, 3, 6, 3}, {}, place));
      all.push_back(of({3, 2, 5}, {}, place));
    }
    return all;
  }
};

std::string name_of(const testing::TestParamInfo<AdaLnOnHost::ParamType>& of) {
  const auto [gated, kind, form] = of.param;
  return std::string(gated ? "gated_" : "") +
         (kind == al::norm::layer ? "layer" : "root_mean_square") +
         (form == al::modulate::scale ? "_affine" : "");
}

INSTANTIATE_TEST_SUITE_P(
    , AdaLnOnHost,
    testing::Combine(testing::Bool(), testing::Values(al::norm::layer, al::norm::root_mean_square),
                     testing::Values(al::modulate::one_plus_scale, al::modulate::scale)),
    name_of);

std::string text_of(const host_case& c) {
  std::string text = "batch " + std::to_string(c.shape.batch) + ", tokens " +
                     std::to_string(c.shape.tokens) + ", features " +
                     std::to_string(c.shape.features) + ", groups " +
                     std::to_string(c.shape.groups) + ", placement " +
                     std::to_string(static_cast<int>(c.place)) + ", packed at";
  for (const std::int32_t position : c.positions) text += ' ' + std::to_string(position);
  return text;
}

TEST_P(AdaLnOnHost, IsTheFormula) {
  for (host_case c : cases()) {
    for (const bool with_tables : {true, false}) {
      SCOPED_TRACE(text_of(c));
      if (!with_tables) c.tables.clear();
      const auto got = c.forward(), expected = c.by_formula();
      expect_near(got.r, expected.r, "r");
      expect_near(got.y, expected.y, "y");
      expect_near(got.mean, expected.mean, "mean");
      expect_near(got.rstd, expected.rstd, "rstd");
    }
  }
}

TEST_P(AdaLnOnHost, HasTheGradientsOfFiniteDifferences) {
  for (host_case c : cases()) {
    SCOPED_TRACE(text_of(c));
    const auto g = c.backward();
    const auto loss = [&] { return c.loss(); };
    expect_gradient(c.x, g.dx, "dx", loss);
    if (c.gated) expect_gradient(c.branch, g.dbranch, "dbranch", loss);
    expect_gradient(c.tables, g.totals, "total", loss);
    if (c.place == placement::shared) {
      expect_gradient(c.modulations, g.totals, "shared modulation", loss);
    } else {
      expect_gradient(c.modulations, g.modulations, "modulation", loss);
    }
  }
}

TEST_P(AdaLnOnHost, GivesTotalsThatAreTheSumsOfTheGroupsGradients) {
  for (const host_case& c : cases()) {
    if (c.place == placement::reversed) continue;  // does not lie as vectors of six
    SCOPED_TRACE(text_of(c));
    const auto g = c.backward();
    numbers sums(g.totals.size());
    for (std::size_t i = 0; i < g.modulations.size(); ++i)
      sums[i % sums.size()] += g.modulations[i];
    expect_near(g.totals, sums, "total");
  }
}

TEST_P(AdaLnOnHost, GivesTheGradientsThatAreWanted) {
  const host_case c = of({2, 4, 5, 2});
  const auto all = c.backward();
  for (unsigned wanted = 0; wanted < 64; ++wanted) {
    SCOPED_TRACE(wanted);
    auto expected = all;
    for (std::size_t i = 0; i < expected.modulations.size(); ++i) {
      const auto which = static_cast<host_case::chunk>(i / 5 % 6);
      if (!host_case::is_data_wanted(wanted, which)) expected.modulations[i] = 0;
      if (i < 30 && !host_case::is_total_wanted(wanted, which)) expected.totals[i] = 0;
    }
    const auto some = c.backward(wanted);
    EXPECT_EQ(some.dx, all.dx);
    EXPECT_EQ(some.dbranch, all.dbranch);
    EXPECT_EQ(some.modulations, expected.modulations);
    EXPECT_EQ(some.totals, expected.totals);
  }
}

TEST_P(AdaLnOnHost, OfNoTokensHasGradientsOfZero) {
  for (const host_case& c : {of({2, 0, 3}), of({2, 0, 3, 4}), of({2, 0, 3}, {0, 0, 0})}) {
    SCOPED_TRACE(text_of(c));
    const auto g = c.backward();
    EXPECT_EQ(g.modulations, numbers(g.modulations.size()));
    EXPECT_EQ(g.totals, numbers(g.totals.size()));
  }
  for (const host_case& c : {of({0, 5, 3}), of({0, 0, 3}, {0})}) {
    EXPECT_EQ(c.backward().totals, numbers(6 * 3));
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

TEST(LayernormModulateOnHost, OfOneFeatureIsTheShift) {
  host_case c{.shape = {2, 3, 1}};
  c.tables.clear();
  const auto [r, y, mean, rstd] = c.forward();
  for (std::size_t row = 0; row < 6; ++row) {
    EXPECT_EQ(y[row], c.modulations[row / 3 * 6]);
    EXPECT_EQ(mean[row], c.x[row]);
    EXPECT_NEAR(rstd[row], 1e3, 1e-9);
  }
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
    host_case c{.shape = {1, rows, features}};
    c.x.assign(x.begin(), x.end());
    c.dy.assign(y.begin(), y.end());
    c.tables.assign(c.tables.size(), 0);
    c.modulations.assign(c.modulations.size(), 0);
    for (std::size_t i = 0; i < scale.size(); ++i) c.modulations[features + i] = scale[i];
    const auto expect_close = [&](const char* name, const std::vector<float>& got,
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
    expect_close("y", y, exact.y.data());
    expect_close("rstd", r, exact.rstd.data());
    expect_close("dx", dx, gradients.dx.data());
    expect_close("dscale", dscale, gradients.modulations.data() + features);
    expect_close("dshift", dshift, gradients.modulations.data());
  }
}

/// A storage type that rounds to halves.
struct coarse {
  float value = 0;
  coarse() = default;
  explicit coarse(float exact) : value(std::round(2 * exact) / 2) {}
  explicit operator float() const { return value; }
  bool operator==(const coarse&) const = default;
};

TEST(GateResidualLayernormModulateOnHost, NormalisesWhatItsOutputHolds) {
  constexpr std::int64_t rows = 6, features = 9;
  std::vector<coarse> residual(rows * features), branch(residual), r(residual), y(residual);
  std::vector<coarse> of_rounded(residual);
  std::vector<float> gate(features), scale(features, 9), mean(rows), rstd(rows);
  for (std::size_t i = 0; i < residual.size(); ++i) {
    residual[i] = coarse(3 * random_normal(test_seed(), i));
    branch[i] = coarse(3 * random_normal(test_seed() + 1, i));
  }
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = random_uniform(test_seed() + 2, i);
  al::host::gate_residual_layernorm_modulate_forward<coarse, float, coarse>(
      {.shape = {1, rows, features},
       .residual = residual.data(),
       .branch = branch.data(),
       .gate = {gate.data()},
       .scale = {scale.data()},
       .shift = {},
       .r = r.data(),
       .y = y.data()});
  for (std::size_t i = 0; i < r.size(); ++i) {
    EXPECT_EQ(r[i].value, coarse(residual[i].value + gate[i % features] * branch[i].value).value);
  }
  al::host::layernorm_modulate_forward<coarse, float, coarse>({.shape = {1, rows, features},
                                                               .x = r.data(),
                                                               .scale = {scale.data()},
                                                               .shift = {},
                                                               .y = of_rounded.data()});
  EXPECT_TRUE(y == of_rounded);
}

TEST(LayernormModulateOnHost, WorksInPlace) {
  host_case c{.shape = {2, 3, 7}};
  const auto apart = c.forward();
  al::host::layernorm_modulate_forward<double, double, double>({.shape = c.shape,
                                                                .x = c.x.data(),
                                                                .scale = c.of(host_case::scale),
                                                                .shift = c.of(host_case::shift),
                                                                .y = c.x.data()});
  EXPECT_EQ(c.x, apart.y);
}

TEST(GateResidualLayernormModulateOnHost, WorksInPlace) {
  host_case c{.gated = true, .shape = {2, 3, 7}};
  const auto apart = c.forward();
  al::host::gate_residual_layernorm_modulate_forward<double, double, double>(
      {.shape = c.shape,
       .residual = c.x.data(),
       .branch = c.branch.data(),
       .gate = c.of(host_case::gate),
       .scale = c.of(host_case::scale),
       .shift = c.of(host_case::shift),
       .r = c.x.data(),
       .y = c.branch.data()});
  EXPECT_EQ(c.x, apart.r);
  EXPECT_EQ(c.branch, apart.y);
}

TEST(LayernormModulateOnHost, WithoutAShiftAddsNothing) {
  host_case c{.shape = {2, 3, 7}, .place = placement::shared};
  c.tables.clear();
  numbers y(c.x.size());
  al::host::layernorm_modulate_forward<double, double, double>({.shape = c.shape,
                                                                .x = c.x.data(),
                                                                .scale = c.of(host_case::scale),
                                                                .shift = {},
                                                                .y = y.data()});
  std::fill_n(c.modulations.begin(), 7, 0.);
  EXPECT_EQ(y, c.forward().y);
}

}  // namespace
