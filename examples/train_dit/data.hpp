#pragma once

#include <adaptiveload/schedule.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

/// Images and clips of discs and squares that move and bounce, made on the fly from a seed.
namespace train_dit {

inline constexpr int channels = 3;

/// How pixels become tokens: without an autoencoder, in patches of 1 x 2 x 2 as Wan's latents.
inline constexpr adaptiveload::tokenizer tokenizer{.patch_height = 2, .patch_width = 2};
inline constexpr int patch_features = 2 * 2 * channels;

/// The corpus: frames, height and width in pixels, and shares of the samples.
inline constexpr std::array<adaptiveload::weighted_shape, 8> corpus{{
    {{1, 16, 16}, 0.40},
    {{1, 16, 24}, 0.20},
    {{1, 32, 32}, 0.08},
    {{3, 16, 16}, 0.10},
    {{5, 16, 16}, 0.08},
    {{5, 16, 24}, 0.04},
    {{9, 16, 16}, 0.04},
    {{8, 16, 24}, 0.06},
}};

/// Tokens of a sample of each shape of the corpus.
inline std::vector<std::int64_t> sequence_lengths() {
  std::vector<std::int64_t> lengths;
  for (const auto& [shape, share] : corpus) lengths.push_back(tokenizer.tokens(shape));
  return lengths;
}

/// `samples` shared out among the shapes of the corpus, at least one each.
inline adaptiveload::sample_source sample_counts(std::int64_t samples) {
  adaptiveload::sample_source source;
  for (const auto& [shape, share] : corpus) {
    const std::int64_t count = std::llround(share * static_cast<double>(samples));
    source.counts.push_back(std::max<std::int64_t>(1, count));
  }
  return source;
}

/// Parts of the data that have no sample in common.
enum class data_part : std::uint64_t { training, held_out, benchmark };

/// Names a sample: the `number`-th of a shape of the corpus.
struct sample_id {
  std::uint64_t seed = 0;
  data_part part = data_part::training;
  std::size_t bucket = 0;
  std::int64_t number = 0;
};

/// The first `count` samples of a shape.
inline std::vector<sample_id> first_samples(std::uint64_t seed, data_part part, std::size_t bucket,
                                            std::int64_t count) {
  std::vector<sample_id> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back({seed, part, bucket, i});
  return ids;
}

inline std::mt19937_64 random_of(const sample_id& id) {
  std::uint64_t state = id.seed;
  for (const std::uint64_t word : {static_cast<std::uint64_t>(id.part), std::uint64_t{id.bucket},
                                   static_cast<std::uint64_t>(id.number)}) {
    state = (state ^ word) * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019;  // 2^64 / golden ratio
    state ^= state >> 29;
  }
  return std::mt19937_64(state);
}

/// A disc or a square, and how it moves: sizes and places in pixels, speed in pixels a frame.
struct moving_shape {
  bool disc;
  double radius, x, y, speed_x, speed_y;
  std::array<double, channels> colour;

  moving_shape(const adaptiveload::video_shape& frame, std::mt19937_64& random) {
    std::uniform_real_distribution<double> uniform(0, 1);
    const auto height = static_cast<double>(frame.height), width = static_cast<double>(frame.width);
    disc = uniform(random) < 0.5;
    radius = std::min(height, width) * (0.15 + 0.2 * uniform(random));
    x = width * uniform(random);
    y = height * uniform(random);
    speed_x = 4 * uniform(random) - 2;
    speed_y = 4 * uniform(random) - 2;
    for (double& c : colour) c = 2 * uniform(random) - 1;
  }

  /// How much of a pixel it covers at a time, 0 to 1: its edge is one pixel wide.
  [[nodiscard]] double coverage(const adaptiveload::video_shape& frame, double time, double row,
                                double col) const {
    const double dx = std::abs(col - bounce(x + speed_x * time, static_cast<double>(frame.width)));
    const double dy = std::abs(row - bounce(y + speed_y * time, static_cast<double>(frame.height)));
    const double distance = disc ? std::sqrt(dx * dx + dy * dy) : std::max(dx, dy);
    return std::clamp(radius - distance + 0.5, 0.0, 1.0);
  }

 private:
  /// Reflects a position at 0 and `size`.
  static double bounce(double position, double size) {
    return std::abs(std::remainder(position, 2 * size));
  }
};

/// The pixels of a sample, [frames, height, width, channels] in [-1, 1].
inline std::vector<float> render(const adaptiveload::video_shape& shape, std::mt19937_64& random) {
  std::uniform_real_distribution<double> dark(-1, -0.5);
  std::array<double, channels> background{};
  for (double& c : background) c = dark(random);
  const std::array<moving_shape, 2> shapes{moving_shape(shape, random),
                                           moving_shape(shape, random)};
  std::vector<float> pixels;
  pixels.reserve(static_cast<std::size_t>(shape.frames * shape.height * shape.width * channels));
  for (std::int64_t frame = 0; frame < shape.frames; ++frame) {
    for (std::int64_t row = 0; row < shape.height; ++row) {
      for (std::int64_t col = 0; col < shape.width; ++col) {
        std::array<double, channels> colour = background;
        for (const moving_shape& s : shapes) {
          const double covered = s.coverage(shape, static_cast<double>(frame),
                                            static_cast<double>(row), static_cast<double>(col));
          for (std::size_t c = 0; c < colour.size(); ++c) {
            colour[c] += covered * (s.colour[c] - colour[c]);
          }
        }
        for (const double c : colour) pixels.push_back(static_cast<float>(c));
      }
    }
  }
  return pixels;
}

}  // namespace train_dit
