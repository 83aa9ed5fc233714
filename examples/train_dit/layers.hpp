#pragma once

#include <Eigen/Core>
#include <adaptiveload/adaln_host.hpp>
#include <cmath>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

#include "parallel.hpp"

/// The layers of the model. `forward` keeps what `backward` needs; `backward` takes the gradient
/// at the output, adds the parameters' gradients to theirs and returns the gradient at the input.
/// An activation [batch, tokens, features] is a matrix of batch * tokens rows.
namespace train_dit {

template <class T>
using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using column = Eigen::Matrix<T, Eigen::Dynamic, 1>;

/// How many samples there are in a micro-batch, and how many tokens in each.
struct batch_shape {
  index batch = 0;
  index tokens = 0;
};

template <class T>
struct parameter {
  matrix<T> value;
  matrix<T> gradient;

  parameter(index rows, index cols)
      : value(matrix<T>::Zero(rows, cols)), gradient(matrix<T>::Zero(rows, cols)) {}
};

/// `y = x W + b`.
template <class T>
struct linear {
  parameter<T> weight;
  parameter<T> bias;

  /// All zeros, as the layers that AdaLN-zero starts from.
  linear(index in, index out) : weight(in, out), bias(1, out) {}

  /// Weights from a normal distribution of deviation 1 / sqrt(in).
  linear(index in, index out, std::mt19937_64& random) : linear(in, out) {
    std::normal_distribution<double> normal(0.0, 1.0 / std::sqrt(static_cast<double>(in)));
    for (T& w : weight.value.reshaped()) w = static_cast<T>(normal(random));
  }

  matrix<T> forward(matrix<T> x) {
    input_ = std::move(x);
    matrix<T> y(input_.rows(), weight.value.cols());
    parallel_runs(y.rows(), [&](index first, index rows) {
      auto out = y.middleRows(first, rows);
      out.noalias() = input_.middleRows(first, rows) * weight.value;
      out.rowwise() += bias.value.row(0);
    });
    return y;
  }

  matrix<T> backward(const matrix<T>& dy) {
    parallel_runs(dy.cols(), [&](index first, index cols) {
      const auto d = dy.middleCols(first, cols);
      weight.gradient.middleCols(first, cols).noalias() += input_.transpose() * d;
      bias.gradient.middleCols(first, cols) += d.colwise().sum();
    });
    matrix<T> dx(dy.rows(), weight.value.rows());
    parallel_runs(dx.rows(), [&](index first, index rows) {
      dx.middleRows(first, rows).noalias() = dy.middleRows(first, rows) * weight.value.transpose();
    });
    return dx;
  }

 private:
  matrix<T> input_;
};

/// `y = x sigmoid(x)`.
template <class T>
struct silu {
  matrix<T> forward(matrix<T> x) {
    input_ = std::move(x);
    return input_.array() * input_.array().logistic();
  }

  matrix<T> backward(const matrix<T>& dy) {
    const auto s = input_.array().logistic();
    return dy.array() * s * (1 + input_.array() * (1 - s));
  }

 private:
  matrix<T> input_;
};

/// GELU in its tanh form: `y = x / 2 (1 + tanh(u))`, `u = sqrt(2 / pi) (x + 0.044715 x^3)`.
template <class T>
struct gelu {
  matrix<T> forward(matrix<T> x) {
    input_ = std::move(x);
    tanh_.resizeLike(input_);
    matrix<T> y(input_.rows(), input_.cols());
    parallel_runs(y.rows(), [&](index first, index rows) {
      const auto in = input_.middleRows(first, rows).array();
      auto tanh = tanh_.middleRows(first, rows).array();
      tanh = (slope * in * (1 + cubic * in.square())).tanh();
      y.middleRows(first, rows).array() = T(0.5) * in * (1 + tanh);
    });
    return y;
  }

  matrix<T> backward(const matrix<T>& dy) {
    matrix<T> dx(dy.rows(), dy.cols());
    parallel_runs(dx.rows(), [&](index first, index rows) {
      const auto in = input_.middleRows(first, rows).array();
      const auto tanh = tanh_.middleRows(first, rows).array();
      const auto du = slope * (1 + 3 * cubic * in.square());
      dx.middleRows(first, rows).array() =
          dy.middleRows(first, rows).array() * T(0.5) * (1 + tanh + in * (1 - tanh.square()) * du);
    });
    return dx;
  }

 private:
  static constexpr T slope = static_cast<T>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  static constexpr T cubic = T(0.044715);
  matrix<T> input_, tanh_;
};

/// One chunk of a [batch, chunks, features] tensor of modulations, used where it lies.
template <class T>
struct chunk {
  T* data;
  index batch_stride;
};

template <class T>
chunk<T> chunk_of(matrix<T>& modulations, index which, index features) {
  return {modulations.data() + which * features, modulations.cols()};
}

/// The library's `y = n(x) * (1 + scale) + shift`, a sample a task.
template <class T>
struct modulated_norm {
  matrix<T> forward(matrix<T> x, batch_shape shape, chunk<T> scale, chunk<T> shift) {
    input_ = std::move(x);
    mean_.resize(input_.rows());
    rstd_.resize(input_.rows());
    matrix<T> y(input_.rows(), input_.cols());
    parallel_for(shape.batch, [&](index b) {
      const index row = b * shape.tokens;
      adaptiveload::host::layernorm_modulate_forward(adaptiveload::layernorm_modulate_args<T, T>{
          .shape = {.batch = 1, .tokens = shape.tokens, .features = y.cols()},
          .x = &input_(row, 0),
          .scale = {scale.data + b * scale.batch_stride, scale.batch_stride},
          .shift = {shift.data + b * shift.batch_stride, shift.batch_stride},
          .y = &y(row, 0),
          .mean = &mean_(row),
          .rstd = &rstd_(row)});
    });
    return y;
  }

  /// The gradients of scale and shift are written where `dscale` and `dshift` say.
  matrix<T> backward(const matrix<T>& dy, batch_shape shape, chunk<T> scale, chunk<T> dscale,
                     chunk<T> dshift) {
    matrix<T> dx(dy.rows(), dy.cols());
    parallel_for(shape.batch, [&](index b) {
      const index row = b * shape.tokens;
      adaptiveload::host::layernorm_modulate_backward(
          adaptiveload::layernorm_modulate_backward_args<T, T>{
              .shape = {.batch = 1, .tokens = shape.tokens, .features = dy.cols()},
              .x = &input_(row, 0),
              .mean = &mean_(row),
              .rstd = &rstd_(row),
              .scale = {scale.data + b * scale.batch_stride, scale.batch_stride},
              .dy = &dy(row, 0),
              .dx = &dx(row, 0),
              .dscale = {dscale.data + b * dscale.batch_stride, dscale.batch_stride},
              .dshift = {dshift.data + b * dshift.batch_stride, dshift.batch_stride}});
    });
    return dx;
  }

 private:
  matrix<T> input_;
  column<T> mean_, rstd_;
};

/// `y = residual + gate * branch`, with one gate vector a sample.
template <class T>
struct gated_residual {
  matrix<T> forward(const matrix<T>& residual, matrix<T> branch, batch_shape shape, chunk<T> gate) {
    branch_ = std::move(branch);
    matrix<T> y(residual.rows(), residual.cols());
    parallel_for(shape.batch, [&](index b) {
      const auto sample = Eigen::seqN(b * shape.tokens, shape.tokens);
      y(sample, Eigen::all) =
          residual(sample, Eigen::all) +
          (branch_(sample, Eigen::all).array().rowwise() * row(gate, b)).matrix();
    });
    return y;
  }

  /// The gradient of the branch; that of the residual is `dy` itself, and the gate's is written
  /// where `dgate` says.
  matrix<T> backward(const matrix<T>& dy, batch_shape shape, chunk<T> gate, chunk<T> dgate) {
    matrix<T> dbranch(dy.rows(), dy.cols());
    parallel_for(shape.batch, [&](index b) {
      const auto sample = Eigen::seqN(b * shape.tokens, shape.tokens);
      const auto d = dy(sample, Eigen::all).array();
      dbranch(sample, Eigen::all) = d.rowwise() * row(gate, b);
      row(dgate, b) = (d * branch_(sample, Eigen::all).array()).colwise().sum();
    });
    return dbranch;
  }

 private:
  auto row(chunk<T> gate, index b) const {
    return Eigen::Map<Eigen::Array<T, 1, Eigen::Dynamic>>(gate.data + b * gate.batch_stride,
                                                          branch_.cols());
  }
  matrix<T> branch_;
};

}  // namespace train_dit
