#include <gtest/gtest.h>

#include <adaptiveload/schedule.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "data.hpp"
#include "flow_matching.hpp"
#include "model.hpp"
#include "optimizer.hpp"
#include "replay.hpp"

namespace train_dit {
namespace {

namespace al = adaptiveload;

constexpr std::size_t longest = corpus.size() - 1;

TEST(TrainDitData, IsTheSameWhateverItIsBatchedWith) {
  const auto two = make_batch<float>(first_samples(1, data_part::training, longest, 2));
  const auto one = make_batch<float>({{1, data_part::training, longest, 1}});
  EXPECT_EQ(two.noisy.bottomRows(one.noisy.rows()), one.noisy);
  EXPECT_EQ(two.velocity.bottomRows(one.noisy.rows()), one.velocity);
  EXPECT_EQ(two.times(1), one.times(0));
}

TEST(TrainDitData, DiffersBetweenSamplesPartsAndSeeds) {
  const sample_id id{1, data_part::training, 0, 0};
  const auto sample = make_batch<float>({id});
  for (const sample_id& other :
       {sample_id{2, data_part::training, 0, 0}, sample_id{1, data_part::held_out, 0, 0},
        sample_id{1, data_part::training, 0, 1}}) {
    EXPECT_NE(make_batch<float>({other}).noisy, sample.noisy);
  }
}

TEST(TrainDitData, MovesAndStaysInRange) {
  std::mt19937_64 random(1);
  const al::video_shape& shape = corpus[longest].shape;
  const std::vector<float> pixels = render(shape, random);
  const auto frame = static_cast<std::ptrdiff_t>(shape.height * shape.width * channels);
  ASSERT_EQ(std::ssize(pixels), shape.frames * frame);
  EXPECT_FALSE(std::equal(pixels.begin(), pixels.begin() + frame, pixels.begin() + frame));
  for (const float p : pixels) EXPECT_LE(std::abs(p), 1.0F);
}

TEST(TrainDitData, ATokenIsAPatchOfOneFrame) {
  const al::video_shape shape{.frames = 2, .height = 4, .width = 6};
  std::vector<float> pixels;
  for (int i = 0; i < 2 * 4 * 6 * channels; ++i) pixels.push_back(static_cast<float>(i));
  matrix<float> patches(tokenizer.tokens(shape), patch_features);
  patchify(pixels, shape, patches);
  // The second frame's patch at rows 2, 3 and columns 4, 5: 6 tokens a frame, 3 a row of patches.
  const auto patch = patches.row(6 + 3 + 2);
  const auto pixel = [&](int row, int col, int c) {
    return static_cast<float>(((4 + row) * 6 + col) * channels + c);
  };
  EXPECT_EQ(patch(0), pixel(2, 4, 0));
  EXPECT_EQ(patch(channels + 1), pixel(2, 5, 1));
  EXPECT_EQ(patch(3 * channels + 2), pixel(3, 5, 2));
}

TEST(TrainDitModel, StartsAtZeroVelocity) {
  dit<float> model({.patch_features = patch_features});
  const auto batch = make_batch<float>(first_samples(1, data_part::training, 0, 2));
  EXPECT_EQ(model.forward(batch.noisy, batch.times, batch.grid).norm(), 0.0F);
}

TEST(TrainDitModel, KeepsSamplesApart) {
  dit<double> model({.patch_features = patch_features, .features = 12, .heads = 2});
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 0.3);
  for (parameter<double>* p : model.parameters()) {
    for (double& v : p->value.reshaped()) v = normal(random);
  }
  const auto two = make_batch<double>(first_samples(1, data_part::training, 3, 2));
  const auto one = make_batch<double>({{1, data_part::training, 3, 1}});
  const matrix<double> together = model.forward(two.noisy, two.times, two.grid);
  const matrix<double> alone = model.forward(one.noisy, one.times, one.grid);
  EXPECT_LT((together.bottomRows(alone.rows()) - alone).norm(), 1e-12 * alone.norm());
}

TEST(TrainDitOptimizer, IsAdamWAsPublished) {
  parameter<double> p(1, 1);
  p.value(0, 0) = 2;
  adamw<double> optimizer({&p});
  double expected = 2, mean = 0, square = 0;
  for (int t = 1; t <= 3; ++t) {
    const double g = 0.1 * t;
    p.gradient(0, 0) = g;
    optimizer.step(0.01);
    mean = 0.9 * mean + 0.1 * g;
    square = 0.95 * square + 0.05 * g * g;
    expected -=
        0.01 * (mean / (1 - std::pow(0.9, t)) / std::sqrt(square / (1 - std::pow(0.95, t))) +
                0.01 * expected);
    EXPECT_NEAR(p.value(0, 0), expected, 1e-8);  // but for where epsilon stands
    EXPECT_EQ(p.gradient(0, 0), 0);
  }
}

/// Every bucket with two samples a micro-batch.
al::epoch_plan small_epoch(const al::sample_source& samples) {
  std::vector<al::bucket> buckets;
  for (const std::int64_t s : sequence_lengths()) {
    buckets.push_back({.sequence_length = s,
                       .batch_size = 2,
                       .step_ms = static_cast<double>(2 * s),
                       .single_ms = static_cast<double>(s)});
  }
  return al::plan_epoch(buckets, samples.counts, {.world_size = 4, .seed = 1});
}

TEST(TrainDitReplay, AStepFollowsTheMeanOverItsSamples) {
  const dit<float> initial({.patch_features = patch_features, .features = 16, .blocks = 1});
  replay run(small_epoch(sample_counts(30)), initial, 1);
  const al::training_step plan = run.epoch().step(0);
  double loss = 0;
  for (const al::micro_batch& m : plan.micro_batches) {
    for (std::int64_t i = 0; i < m.samples; ++i) {
      dit<float> model = initial;
      loss += flow_loss(
          model, make_batch<float>({{1, data_part::training, static_cast<std::size_t>(m.bucket),
                                     run.epoch().sample(m, i).index}}));
    }
  }
  const step_run step = run.step();
  EXPECT_EQ(step.samples, plan.samples);
  EXPECT_EQ(std::ssize(step.rank_ms), 4);
  EXPECT_NEAR(step.loss, loss / static_cast<double>(plan.samples), 1e-5);
}

TEST(TrainDitReplay, TrainsOnEverySampleOnceAndTheLossFalls) {
  const dit<float> initial({.patch_features = patch_features, .features = 16, .blocks = 1});
  auto held_out = make_batch<float>(first_samples(1, data_part::held_out, 0, 32));
  const al::sample_source mostly_images{{400, 0, 0, 4, 0, 0, 0, 0}};
  replay run(small_epoch(mostly_images), initial, 1);
  const double before = flow_loss(run.model(), held_out);
  std::int64_t samples = 0;
  while (!run.finished()) samples += run.step().samples;
  EXPECT_EQ(samples, mostly_images.samples());
  EXPECT_EQ(samples, run.samples());
  EXPECT_LT(flow_loss(run.model(), held_out), 0.85 * before);
}

}  // namespace
}  // namespace train_dit
