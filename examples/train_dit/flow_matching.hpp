#pragma once

#include <adaptiveload/schedule.hpp>
#include <cstddef>
#include <random>
#include <vector>

#include "data.hpp"
#include "model.hpp"
#include "parallel.hpp"

/// Flow matching (Lipman et al. 2023): the model learns the velocity from data to noise.
namespace train_dit {

inline token_grid grid_of(const adaptiveload::video_shape& shape) {
  return {shape.frames, shape.height / tokenizer.patch_height, shape.width / tokenizer.patch_width};
}

/// Cuts pixels [frames, height, width, channels] into `patches` [tokens, patch_features], a token's
/// patch a row.
template <class Patches>
void patchify(const std::vector<float>& pixels, const adaptiveload::video_shape& shape,
              Patches&& patches) {
  const token_grid grid = grid_of(shape);
  const index side_y = tokenizer.patch_height, side_x = tokenizer.patch_width;
  std::size_t next = 0;
  for (index frame = 0; frame < shape.frames; ++frame) {
    for (index y = 0; y < shape.height; ++y) {
      for (index x = 0; x < shape.width; ++x) {
        const index token = (frame * grid.height + y / side_y) * grid.width + x / side_x;
        const index pixel = (y % side_y) * side_x + x % side_x;
        for (index c = 0; c < channels; ++c) patches(token, pixel * channels + c) = pixels[next++];
      }
    }
  }
}

/// Samples of one shape on their way from data (time 0) to noise (time 1):
/// `x_t = (1 - t) x + t noise`, whose velocity is `noise - x`.
template <class T>
struct flow_batch {
  token_grid grid;
  matrix<T> noisy;     ///< [batch * tokens, patch_features]
  matrix<T> velocity;  ///< the same
  column<T> times;     ///< [batch]
};

/// The samples named by `ids`, at least one and all of one shape. Time and noise of each depend on
/// its name alone.
template <class T>
flow_batch<T> make_batch(const std::vector<sample_id>& ids) {
  const auto batch = static_cast<index>(ids.size());
  const adaptiveload::video_shape& shape = corpus[ids.front().bucket].shape;
  const token_grid grid = grid_of(shape);
  flow_batch<T> made{grid, matrix<T>(batch * grid.tokens(), patch_features),
                     matrix<T>(batch * grid.tokens(), patch_features), column<T>(batch)};
  parallel_for(batch, [&](index b) {
    std::mt19937_64 random = random_of(ids[static_cast<std::size_t>(b)]);
    auto x = made.noisy.middleRows(b * grid.tokens(), grid.tokens());
    auto velocity = made.velocity.middleRows(b * grid.tokens(), grid.tokens());
    patchify(render(shape, random), shape, x);
    const T t = static_cast<T>(std::uniform_real_distribution<double>(0, 1)(random));
    std::normal_distribution<float> noise;
    for (T& v : velocity.reshaped()) v = static_cast<T>(noise(random));
    velocity -= x;
    x += t * velocity;
    made.times(b) = t;
  });
  return made;
}

/// The mean squared error of a model's velocities.
template <class T>
double flow_loss(dit<T>& model, const flow_batch<T>& batch) {
  const matrix<T> v = model.forward(batch.noisy, batch.times, batch.grid);
  return static_cast<double>((v - batch.velocity).squaredNorm()) / static_cast<double>(v.size());
}

/// Adds the gradients of `weight` times that loss to those of the model's parameters, and returns
/// the loss.
template <class T>
double flow_gradient(dit<T>& model, const flow_batch<T>& batch, double weight) {
  matrix<T> error = model.forward(batch.noisy, batch.times, batch.grid) - batch.velocity;
  const auto size = static_cast<double>(error.size());
  const double loss = static_cast<double>(error.squaredNorm()) / size;
  error *= static_cast<T>(2 * weight / size);
  model.backward(error);
  return loss;
}

}  // namespace train_dit
