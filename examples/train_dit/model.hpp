#pragma once

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "attention.hpp"
#include "layers.hpp"

namespace train_dit {

/// A sample's tokens along time, height and width.
struct token_grid {
  index frames = 0, height = 0, width = 0;

  [[nodiscard]] index tokens() const { return frames * height * width; }
};

/// sin and cos of `position` at frequencies from 1 down to 1 / `longest`, half of `out` each.
template <class Row>
void encode_position(double position, double longest, Row out) {
  const index half = out.size() / 2;
  for (index i = 0; i < half; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(half);
    const double angle = position * std::pow(longest, -share);
    out(i) = static_cast<typename Row::Scalar>(std::sin(angle));
    out(half + i) = static_cast<typename Row::Scalar>(std::cos(angle));
  }
}

/// One row a token: its time, height and width, each encoded in about a third of the features.
template <class T>
matrix<T> position_table(token_grid grid, index features) {
  const auto axis = [](index length, index width) {
    matrix<T> codes(length, width);
    for (index i = 0; i < length; ++i) encode_position(static_cast<double>(i), 100, codes.row(i));
    return codes;
  };
  const index side = features / 6 * 2;
  const matrix<T> time = axis(grid.frames, features - 2 * side);
  const matrix<T> y = axis(grid.height, side);
  const matrix<T> x = axis(grid.width, side);
  matrix<T> table(grid.tokens(), features);
  for (index token = 0; token < grid.tokens(); ++token) {
    const index row = token / grid.width;
    table.row(token) << time.row(row / grid.height), y.row(row % grid.height),
        x.row(token % grid.width);
  }
  return table;
}

/// A transformer block with AdaLN-zero (Peebles and Xie 2023): it starts as the identity.
template <class T>
class dit_block {
 public:
  dit_block(index features, index heads, std::mt19937_64& random)
      : features_(features),
        modulation_(features, chunks * features),
        qkv_(features, 3 * features, random),
        projection_(features, features, random),
        up_(features, 4 * features, random),
        down_(4 * features, features, random),
        attention_(heads) {}

  /// `x` is [rows, features], `condition` [batch, features].
  matrix<T> forward(matrix<T> x, const matrix<T>& condition, batch_shape shape) {
    modulations_ = modulation_.forward(condition);
    const auto m = [&](chunk_name which) { return chunk_of(modulations_, which, features_); };

    residual_ = x;
    x = norm1_.forward(std::move(x), shape, m(scale1), m(shift1));
    x = attention_.forward(qkv_.forward(std::move(x)), shape);
    x = gated1_.forward(residual_, projection_.forward(std::move(x)), shape, m(gate1));

    residual_ = x;
    x = norm2_.forward(std::move(x), shape, m(scale2), m(shift2));
    x = down_.forward(gelu_.forward(up_.forward(std::move(x))));
    return gated2_.forward(residual_, std::move(x), shape, m(gate2));
  }

  /// Adds the gradient at the condition to `dcondition`.
  matrix<T> backward(matrix<T> dy, matrix<T>& dcondition, batch_shape shape) {
    matrix<T> dmodulations(shape.batch, chunks * features_);
    const auto m = [&](chunk_name which) { return chunk_of(modulations_, which, features_); };
    const auto d = [&](chunk_name which) { return chunk_of(dmodulations, which, features_); };

    matrix<T> dbranch = gated2_.backward(dy, shape, m(gate2), d(gate2));
    dbranch = up_.backward(gelu_.backward(down_.backward(dbranch)));
    dy += norm2_.backward(dbranch, shape, m(scale2), d(scale2), d(shift2));

    dbranch = gated1_.backward(dy, shape, m(gate1), d(gate1));
    dbranch = qkv_.backward(attention_.backward(projection_.backward(dbranch), shape));
    dy += norm1_.backward(dbranch, shape, m(scale1), d(scale1), d(shift1));

    dcondition += modulation_.backward(dmodulations);
    return dy;
  }

  void add_parameters(std::vector<parameter<T>*>& list) {
    for (linear<T>* layer : {&modulation_, &qkv_, &projection_, &up_, &down_}) {
      list.insert(list.end(), {&layer->weight, &layer->bias});
    }
  }

 private:
  enum chunk_name : index { shift1, scale1, gate1, shift2, scale2, gate2, chunks };

  index features_;
  linear<T> modulation_, qkv_, projection_, up_, down_;
  modulated_norm<T> norm1_, norm2_;
  attention<T> attention_;
  gelu<T> gelu_;
  gated_residual<T> gated1_, gated2_;
  matrix<T> modulations_, residual_;
};

struct dit_config {
  index patch_features = 12;  ///< pixels of a patch times channels
  index features = 64;        ///< even, and a multiple of `heads`
  index heads = 4;
  index blocks = 2;
  std::uint64_t seed = 1;
};

/// A diffusion transformer: noisy patches and the time of each sample in, velocities out.
template <class T>
class dit {
 public:
  explicit dit(const dit_config& config) : dit(config, std::mt19937_64(config.seed)) {}

  /// `patches` is [batch * tokens, patch_features], `times` [batch] in [0, 1].
  matrix<T> forward(const matrix<T>& patches, const column<T>& times, token_grid grid) {
    shape_ = {times.size(), grid.tokens()};
    matrix<T> encoded(times.size(), config_.features);
    for (index b = 0; b < times.size(); ++b) {
      encode_position(1000.0 * static_cast<double>(times(b)), 1e4, encoded.row(b));
    }
    condition_ = silu2_.forward(time2_.forward(silu1_.forward(time1_.forward(encoded))));

    matrix<T> x = embed_.forward(patches);
    const matrix<T> positions = position_table<T>(grid, config_.features);
    for (index b = 0; b < shape_.batch; ++b) {
      x.middleRows(b * shape_.tokens, shape_.tokens) += positions;
    }
    for (dit_block<T>& block : blocks_) x = block.forward(std::move(x), condition_, shape_);

    modulations_ = modulation_.forward(condition_);
    x = norm_.forward(std::move(x), shape_, modulation(1), modulation(0));
    return head_.forward(std::move(x));
  }

  /// Adds the gradients of all parameters to theirs, from the one at the output.
  void backward(const matrix<T>& dvelocity) {
    matrix<T> dmodulations(shape_.batch, 2 * config_.features);
    const auto d = [&](index which) { return chunk_of(dmodulations, which, config_.features); };
    matrix<T> dx = norm_.backward(head_.backward(dvelocity), shape_, modulation(1), d(1), d(0));
    matrix<T> dcondition = modulation_.backward(dmodulations);
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
      dx = block->backward(std::move(dx), dcondition, shape_);
    }
    embed_.backward(dx);
    time1_.backward(silu1_.backward(time2_.backward(silu2_.backward(dcondition))));
  }

  std::vector<parameter<T>*> parameters() {
    std::vector<parameter<T>*> list;
    for (dit_block<T>& block : blocks_) block.add_parameters(list);
    for (linear<T>* layer : {&embed_, &time1_, &time2_, &modulation_, &head_}) {
      list.insert(list.end(), {&layer->weight, &layer->bias});
    }
    return list;
  }

 private:
  dit(const dit_config& config, std::mt19937_64 random)
      : config_(config),
        embed_(config.patch_features, config.features, random),
        time1_(config.features, config.features, random),
        time2_(config.features, config.features, random),
        modulation_(config.features, 2 * config.features),
        head_(config.features, config.patch_features) {
    for (index i = 0; i < config.blocks; ++i) {
      blocks_.emplace_back(config.features, config.heads, random);
    }
  }

  chunk<T> modulation(index which) { return chunk_of(modulations_, which, config_.features); }

  dit_config config_;
  linear<T> embed_, time1_, time2_, modulation_, head_;
  silu<T> silu1_, silu2_;
  std::vector<dit_block<T>> blocks_;
  modulated_norm<T> norm_;
  batch_shape shape_;
  matrix<T> condition_, modulations_;
};

}  // namespace train_dit
