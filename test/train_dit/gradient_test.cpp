#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "flow_matching.hpp"
#include "layers.hpp"
#include "model.hpp"

namespace train_dit {
namespace {

using values = matrix<double>;

values random_values(index rows, index cols, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  values m(rows, cols);
  for (double& v : m.reshaped()) v = normal(random);
  return m;
}

/// AdaLN-zero starts with gates at 0, where most gradients are 0 too: any other weights show more.
void randomise(const std::vector<parameter<double>*>& parameters, std::mt19937_64& random) {
  for (parameter<double>* p : parameters) {
    const double size = 0.5 / std::sqrt(static_cast<double>(p->value.rows()));
    p->value = size * random_values(p->value.rows(), p->value.cols(), random);
    p->gradient.setZero();
  }
}

/// Every element of `gradient` against the central difference of `loss`.
void expect_gradient(values& at, const values& gradient, const std::function<double()>& loss,
                     const std::string& name) {
  constexpr double step = 1e-5;
  ASSERT_EQ(at.size(), gradient.size()) << name;
  const double typical = gradient.norm() / std::sqrt(static_cast<double>(gradient.size()));
  ASSERT_GT(typical, 1e-6) << name;
  for (index i = 0; i < at.size(); ++i) {
    double& value = at.data()[i];
    const double before = value;
    value = before + step;
    const double above = loss();
    value = before - step;
    const double below = loss();
    value = before;
    ASSERT_NEAR(gradient.data()[i], (above - below) / (2 * step), 1e-6 * typical + 1e-9)
        << name << ", element " << i;
  }
}

TEST(TrainDitGradient, OfTheBlockMatchesFiniteDifferences) {
  std::mt19937_64 random(1);
  const index features = 8;
  const batch_shape shape{2, 5};
  dit_block<double> block(features, 2, random);
  std::vector<parameter<double>*> parameters;
  block.add_parameters(parameters);
  randomise(parameters, random);
  values x = random_values(shape.batch * shape.tokens, features, random);
  values condition = random_values(shape.batch, features, random);
  const values direction = random_values(x.rows(), features, random);
  const auto loss = [&] {
    return block.forward(x, condition, shape).cwiseProduct(direction).sum();
  };

  loss();
  values dcondition = values::Zero(shape.batch, features);
  const values dx = block.backward(direction, dcondition, shape);
  expect_gradient(x, dx, loss, "x");
  expect_gradient(condition, dcondition, loss, "condition");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    expect_gradient(parameters[i]->value, parameters[i]->gradient, loss,
                    "parameter " + std::to_string(i));
  }
}

TEST(TrainDitGradient, OfAttentionOverSeveralRunsOfQueriesMatchesFiniteDifferences) {
  std::mt19937_64 random(2);
  const batch_shape shape{1, 70};  // queries are taken 64 at a time
  attention<double> layer(2);
  values qkv = random_values(shape.tokens, 3 * 4, random);
  const values direction = random_values(shape.tokens, 4, random);
  const auto loss = [&] { return layer.forward(qkv, shape).cwiseProduct(direction).sum(); };
  loss();
  const values gradient = layer.backward(direction, shape);
  expect_gradient(qkv, gradient, loss, "qkv");
}

TEST(TrainDitGradient, OfTheFlowMatchingLossMatchesFiniteDifferences) {
  std::mt19937_64 random(3);
  dit<double> model(
      {.patch_features = patch_features, .features = 6, .heads = 1, .blocks = 2, .seed = 1});
  randomise(model.parameters(), random);
  flow_batch<double> batch{{2, 1, 2},
                           random_values(2 * 4, patch_features, random),
                           random_values(2 * 4, patch_features, random),
                           column<double>{{0.2, 0.9}}};
  const double weight = 0.25;
  const auto loss = [&] { return weight * flow_loss(model, batch); };
  EXPECT_DOUBLE_EQ(weight * flow_gradient(model, batch, weight), loss());
  for (parameter<double>* p : model.parameters()) {
    expect_gradient(p->value, p->gradient, loss,
                    std::to_string(p->value.rows()) + " x " + std::to_string(p->value.cols()));
  }
}

TEST(TrainDitGradient, AddsUpUntilTheOptimizerTakesIt) {
  std::mt19937_64 random(4);
  dit<double> model({.patch_features = patch_features, .features = 6, .heads = 1, .blocks = 1});
  randomise(model.parameters(), random);
  const auto batch = make_batch<double>(first_samples(1, data_part::training, 0, 1));
  flow_gradient(model, batch, 1.0);
  const values once = model.parameters().front()->gradient;
  flow_gradient(model, batch, 1.0);
  EXPECT_LT((model.parameters().front()->gradient - 2 * once).norm(), 1e-12 * once.norm());
}

}  // namespace
}  // namespace train_dit
