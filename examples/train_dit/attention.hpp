#pragma once

#include <Eigen/Core>
#include <cmath>

#include "layers.hpp"

namespace train_dit {

/// Multi-head self-attention over each sample's tokens: `softmax(Q K^T / sqrt(d)) V`.
///
/// Every token attends to every token, so the work is tokens^2 a sample. The probabilities are made
/// a few queries at a time and never kept: the backward makes them again from the logarithm of each
/// query's sum (Dao et al. 2022).
template <class T>
struct attention {
  explicit attention(index heads) : heads_(heads) {}

  /// From [rows, 3 * features], a token's query, key and value, to [rows, features].
  matrix<T> forward(matrix<T> qkv, batch_shape shape) {
    qkv_ = std::move(qkv);
    const index features = qkv_.cols() / 3;
    output_.resize(qkv_.rows(), features);
    log_sum_.resize(qkv_.rows(), heads_);
    parallel_for(shape.batch * heads_, [&](index task) {
      const head h(*this, shape, task);
      const auto k = h.of(qkv_, 1), v = h.of(qkv_, 2);
      matrix<T> p;
      for (index first = 0; first < shape.tokens; first += queries) {
        const index rows = std::min(queries, shape.tokens - first);
        p.noalias() = h.of(qkv_, 0).middleRows(first, rows) * k.transpose();
        p *= h.scale;
        auto log_sum = log_sum_.block(h.row + first, h.number, rows, 1);
        log_sum = p.rowwise().maxCoeff();
        p.colwise() -= log_sum.col(0);
        p = p.array().exp();
        const column<T> sum = p.rowwise().sum();
        auto out = h.of(output_).middleRows(first, rows);
        out.noalias() = p * v;
        out.array().colwise() /= sum.array();
        log_sum.array() += sum.array().log();
      }
    });
    return output_;
  }

  matrix<T> backward(const matrix<T>& dy, batch_shape shape) {
    matrix<T> dqkv = matrix<T>::Zero(qkv_.rows(), qkv_.cols());
    parallel_for(shape.batch * heads_, [&](index task) {
      const head h(*this, shape, task);
      const auto k = h.of(qkv_, 1), v = h.of(qkv_, 2);
      auto dk = h.of(dqkv, 1), dv = h.of(dqkv, 2);
      matrix<T> p, ds;
      for (index first = 0; first < shape.tokens; first += queries) {
        const index rows = std::min(queries, shape.tokens - first);
        const auto q = h.of(qkv_, 0).middleRows(first, rows);
        const auto d = h.of(dy).middleRows(first, rows);
        p.noalias() = q * k.transpose();
        const auto log_sum = log_sum_.block(h.row + first, h.number, rows, 1);
        p *= h.scale;
        p.colwise() -= log_sum.col(0);
        p = p.array().exp();
        dv.noalias() += p.transpose() * d;
        // Through softmax: ds = p (dp - sum(dp p)), and sum(dp p) over the keys is dy . y.
        ds.noalias() = d * v.transpose();
        const column<T> mean =
            d.cwiseProduct(h.of(output_).middleRows(first, rows)).rowwise().sum();
        ds = p.array() * (ds.colwise() - mean).array() * h.scale;
        h.of(dqkv, 0).middleRows(first, rows).noalias() = ds * k;
        dk.noalias() += ds.transpose() * q;
      }
    });
    return dqkv;
  }

 private:
  static constexpr index queries = 64;  // whose probabilities stay in the second-level cache

  /// One head of one sample: its rows, and its columns in each of query, key and value.
  struct head {
    head(const attention& a, batch_shape shape, index task)
        : number(task % a.heads_), row(task / a.heads_ * shape.tokens), tokens(shape.tokens) {
      size = a.qkv_.cols() / 3 / a.heads_;
      scale = 1 / std::sqrt(static_cast<T>(size));
    }

    /// Of [rows, features].
    auto of(auto& m) const { return m.block(row, number * size, tokens, size); }
    /// Of [rows, 3 * features]: query (0), key (1) or value (2).
    auto of(auto& m, index which) const {
      return m.block(row, which * m.cols() / 3 + number * size, tokens, size);
    }

    index number, row, tokens, size;
    T scale;
  };

  index heads_;
  matrix<T> qkv_, output_, log_sum_;
};

}  // namespace train_dit
