#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "layers.hpp"

namespace train_dit {

/// AdamW (Loshchilov and Hutter 2019), for the parameters of one model.
template <class T>
class adamw {
 public:
  explicit adamw(std::vector<parameter<T>*> parameters) : parameters_(std::move(parameters)) {
    for (const parameter<T>* p : parameters_) {
      moments_.push_back({matrix<T>::Zero(p->value.rows(), p->value.cols()),
                          matrix<T>::Zero(p->value.rows(), p->value.cols())});
    }
  }

  /// Applies the gradients, and sets them to zero.
  void step(double learning_rate) {
    ++steps_;
    const T rate = static_cast<T>(learning_rate * std::sqrt(1 - std::pow(beta2, steps_)) /
                                  (1 - std::pow(beta1, steps_)));
    const T decay = static_cast<T>(1 - learning_rate * weight_decay);
    parallel_for(static_cast<index>(parameters_.size()), [&](index i) {
      parameter<T>& p = *parameters_[static_cast<std::size_t>(i)];
      auto& [mean, square] = moments_[static_cast<std::size_t>(i)];
      const auto g = p.gradient.array();
      mean.array() += static_cast<T>(1 - beta1) * (g - mean.array());
      square.array() += static_cast<T>(1 - beta2) * (g.square() - square.array());
      p.value = (decay * p.value.array() - rate * mean.array() / (square.array().sqrt() + epsilon))
                    .matrix();
      p.gradient.setZero();
    });
  }

 private:
  struct moments {
    matrix<T> mean, square;
  };
  static constexpr double beta1 = 0.9, beta2 = 0.95, weight_decay = 0.01;
  static constexpr T epsilon = T(1e-8);

  std::vector<parameter<T>*> parameters_;
  std::vector<moments> moments_;
  int steps_ = 0;
};

}  // namespace train_dit
