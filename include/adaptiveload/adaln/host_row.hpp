#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// What the operations on the CPU share: groups of rows, a row's norm, and its gradients.
namespace adaptiveload::host::detail {

/// Of packed samples, whose positions the CPU can read.
inline void check_positions(const activation_shape& shape) {
  if (shape.cu_seqlens == nullptr) return;
  const auto reject = [&](std::int64_t i, const std::string& allowed) {
    adaptiveload::detail::throw_invalid("shape.cu_seqlens[" + std::to_string(i) + "]",
                                        shape.cu_seqlens[i], allowed);
  };
  if (shape.cu_seqlens[0] != 0) reject(0, "0");
  for (std::int64_t i = 1; i <= shape.batch; ++i) {
    const std::int32_t before = shape.cu_seqlens[i - 1];
    if (shape.cu_seqlens[i] < before) {
      reject(i, "at least the position before it, " + std::to_string(before));
    }
  }
  if (shape.cu_seqlens[shape.batch] != shape.tokens) {
    reject(shape.batch, "shape.tokens = " + std::to_string(shape.tokens));
  }
}

/// A group of tokens, and its rows: from `begin` up to `end`.
struct token_group {
  std::int64_t sample, group, begin, end;
};

template <class F>
void for_each_group(const activation_shape& shape, F f) {
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    if (shape.cu_seqlens != nullptr) {
      f(token_group{sample, 0, shape.cu_seqlens[sample], shape.cu_seqlens[sample + 1]});
      continue;
    }
    const std::int64_t length = shape.tokens / shape.groups;
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      const std::int64_t begin = sample * shape.tokens + group * length;
      f(token_group{sample, group, begin, begin + length});
    }
  }
}

/// A group's vector of `of`, plus the table, plus `offset`; without data, `offset`.
template <class Compute, class M>
std::vector<Compute> vector_of(const modulation<M>& of, const token_group& group,
                               std::int64_t features, Compute offset = 0) {
  std::vector<Compute> result(static_cast<std::size_t>(features), offset);
  if (of.data == nullptr) return result;
  const M* data = of.data + group.sample * of.batch_stride + group.group * of.group_stride;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] += static_cast<Compute>(data[i]);
  if (of.table == nullptr) return result;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] += static_cast<Compute>(of.table[i]);
  return result;
}

/// What n(x) is multiplied by.
template <class Compute, class M>
std::vector<Compute> factors_of(const modulation<M>& scale, modulate form, const token_group& group,
                                std::int64_t features) {
  return vector_of(scale, group, features, Compute(form == modulate::one_plus_scale ? 1 : 0));
}

/// The gradient of a modulation: summed over one group after another.
template <class G>
class gradient_sum {
 public:
  gradient_sum(const modulation_gradient<G>& to, std::int64_t features)
      : to_(to), sum_(static_cast<std::size_t>(features)), total_(sum_) {}

  G* data() { return sum_.data(); }

  /// Writes the sum over `group`, adds it to the total, and begins the next.
  void finish(const token_group& group) {
    if (to_.data != nullptr) {
      std::copy(sum_.begin(), sum_.end(),
                to_.data + group.sample * to_.batch_stride + group.group * to_.group_stride);
    }
    for (std::size_t i = 0; i < sum_.size(); ++i) total_[i] += sum_[i];
    std::fill(sum_.begin(), sum_.end(), G{0});
  }

  void write_total() const {
    if (to_.total != nullptr) std::copy(total_.begin(), total_.end(), to_.total);
  }

 private:
  modulation_gradient<G> to_;
  std::vector<G> sum_, total_;
};

/// Sum of term(0) ... term(count - 1), in eight interleaved partial sums: vectorised by the
/// compiler, and rounding errors grow eight times slower.
template <class Compute, class Term>
Compute sum(std::int64_t count, Term term) {
  std::array<Compute, 8> partial{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::int64_t k = 0; k < 8; ++k) partial[static_cast<std::size_t>(k)] += term(i + k);
  }
  for (; i < count; ++i) partial[0] += term(i);
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

/// n(x) of a row. The mean rounds to its own size; what rounding took from it matters where it is
/// large against the deviation, so it comes back as `rest`.
template <class Compute, class T>
class normal_row {
 public:
  /// From x alone.
  normal_row(const T* x, std::int64_t features, norm kind, Compute epsilon) : x_(x) {
    const auto count = static_cast<Compute>(features);
    if (kind == norm::layer) {
      mean_ = sum<Compute>(features, [this](std::int64_t i) { return value(i); }) / count;
      set_rest(features);
    }
    const auto square = [this](std::int64_t i) { return centred(i) * centred(i); };
    rstd_ = 1 / std::sqrt(sum<Compute>(features, square) / count + epsilon);
  }

  /// From what the forward saved of it, row number `row`. Means are of a layer norm alone.
  normal_row(const T* x, std::int64_t features, norm kind, const Compute* means,
             const Compute* rstds, std::int64_t row)
      : x_(x), rstd_(rstds[row]) {
    if (kind == norm::layer) {
      mean_ = means[row];
      set_rest(features);
    }
  }

  Compute operator()(std::int64_t i) const { return centred(i) * rstd_; }
  Compute mean() const { return mean_ + rest_; }
  Compute rstd() const { return rstd_; }

 private:
  Compute value(std::int64_t i) const { return static_cast<Compute>(x_[i]); }
  Compute centred(std::int64_t i) const { return (value(i) - mean_) - rest_; }

  void set_rest(std::int64_t features) {
    rest_ = sum<Compute>(features, [this](std::int64_t i) { return value(i) - mean_; }) /
            static_cast<Compute>(features);
  }

  const T* x_;
  Compute mean_ = 0, rest_ = 0, rstd_ = 0;
};

/// Writes `n * factor + shift` and the statistics of a row.
template <class Args, class Compute, class T, class Y>
void write_forward(const Args& args, std::int64_t row, const normal_row<Compute, T>& n,
                   const std::vector<Compute>& factors, const std::vector<Compute>& shift, Y* y) {
  for (std::size_t i = 0; i < factors.size(); ++i) {
    y[i] = static_cast<Y>(n(static_cast<std::int64_t>(i)) * factors[i] + shift[i]);
  }
  if (args.mean != nullptr) args.mean[row] = n.mean();
  if (args.rstd != nullptr) args.rstd[row] = n.rstd();
}

/// Writes the gradient at the norm's input to dx, and adds a row's terms to dscale and dshift. `n`
/// by value: the compiler vectorises what no pointer leads to.
template <class Compute, class T, class Y>
void backward_row(const normal_row<Compute, T> n, norm kind, const std::vector<Compute>& factors,
                  const Y* dy, Compute* dx, Compute* dscale, Compute* dshift) {
  const auto features = static_cast<std::int64_t>(factors.size());
  const auto count = static_cast<Compute>(features);
  const auto gradient = [dy, factor = factors.data()](std::int64_t i) {
    return static_cast<Compute>(dy[i]) * factor[i];
  };
  const Compute mean_gradient =
      kind == norm::layer ? sum<Compute>(features, gradient) / count : Compute{0};
  const Compute mean_projection =
      sum<Compute>(features, [&](std::int64_t i) { return gradient(i) * n(i); }) / count;
  for (std::int64_t i = 0; i < features; ++i) {
    const Compute normal = n(i);
    dscale[i] += static_cast<Compute>(dy[i]) * normal;
    dshift[i] += static_cast<Compute>(dy[i]);
    dx[i] = n.rstd() * (gradient(i) - mean_gradient - normal * mean_projection);
  }
}

}  // namespace adaptiveload::host::detail
