#pragma once

#include <gtest/gtest.h>

#include <adaptiveload/adaln_host.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "random_values.hpp"

using numbers = std::vector<double>;

inline numbers random_numbers(std::int64_t count, std::uint64_t stream, double deviation = 1,
                              double mean = 0) {
  numbers values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = mean + deviation * random_normal(test_seed() + stream, i);
  }
  return values;
}

/// How the modulations of a case lie in one tensor of six vectors a group.
enum class placement {
  chunks,      ///< [batch, groups, 6, features]
  transposed,  ///< [groups, batch, 6, features]
  reversed,    ///< [6, batch, groups, features], from back to front
  shared       ///< [6, features], of all groups
};

/// `layernorm_modulate` or, if `gated`, `gate_residual_layernorm_modulate`, in double.
struct host_case {
  using activation_shape = adaptiveload::activation_shape;
  using norm = adaptiveload::norm;
  using modulate = adaptiveload::modulate;
  enum chunk : std::int64_t { shift, scale, gate };

  bool gated = false;
  norm kind = norm::layer;
  modulate form = modulate::one_plus_scale;
  activation_shape shape;
  std::vector<std::int32_t> positions = {};  ///< `cu_seqlens`, if any
  placement place = placement::chunks;
  double epsilon = 1e-6;

  std::int64_t rows() const {
    return positions.empty() ? shape.batch * shape.tokens : shape.tokens;
  }
  std::int64_t vectors() const { return 6 * shape.batch * shape.groups; }

  numbers x = random_numbers(rows() * shape.features, 1, 0.7, 3);  ///< the residual, if gated
  numbers branch = random_numbers(rows() * shape.features, 2);
  numbers modulations =
      random_numbers((place == placement::shared ? 6 : vectors()) * shape.features, 3);
  std::vector<float> tables = random_tables();  ///< [6, features]
  numbers dy = random_numbers(rows() * shape.features, 4);
  numbers dr = random_numbers(rows() * shape.features, 5);

  struct result {
    numbers r, y, mean, rstd;  ///< r: x, unless gated
  };

  result forward() const {
    result to{x, numbers(x.size()), numbers(size(rows())), numbers(size(rows()))};
    if (gated) {
      adaptiveload::host::gate_residual_layernorm_modulate_forward<double, double, double>(
          {.shape = sizes(),
           .residual = x.data(),
           .branch = branch.data(),
           .gate = of(gate),
           .scale = of(scale),
           .shift = of(shift),
           .r = to.r.data(),
           .y = to.y.data(),
           .mean = to.mean.data(),
           .rstd = to.rstd.data(),
           .epsilon = epsilon,
           .kind = kind,
           .form = form});
    } else {
      adaptiveload::host::layernorm_modulate_forward<double, double, double>(
          {.shape = sizes(),
           .x = x.data(),
           .scale = of(scale),
           .shift = of(shift),
           .y = to.y.data(),
           .mean = to.mean.data(),
           .rstd = to.rstd.data(),
           .epsilon = epsilon,
           .kind = kind,
           .form = form});
    }
    return to;
  }

  /// By the formula, an element at a time.
  result by_formula() const {
    result to{x, numbers(x.size()), numbers(size(rows())), numbers(size(rows()))};
    const auto features = size(shape.features);
    for (std::int64_t row = 0; row < rows(); ++row) {
      const auto [sample, group] = group_of(row);
      const auto modulation_at = [&, s = sample, g = group](chunk which, std::size_t i) {
        const auto m = of(which);
        return m.data[s * m.batch_stride + g * m.group_stride + static_cast<std::int64_t>(i)] +
               (m.table == nullptr ? 0. : m.table[i]);
      };
      double* const r = to.r.data() + size(row) * features;
      double mean = 0, square = 0;
      for (std::size_t i = 0; i < features; ++i) {
        if (gated) r[i] += modulation_at(gate, i) * branch[size(row) * features + i];
        if (kind == norm::layer) mean += r[i] / static_cast<double>(features);
      }
      for (std::size_t i = 0; i < features; ++i) square += std::pow(r[i] - mean, 2);
      const double rstd = 1 / std::sqrt(square / static_cast<double>(features) + epsilon);
      for (std::size_t i = 0; i < features; ++i) {
        const double factor = modulation_at(scale, i) + (form == modulate::one_plus_scale ? 1 : 0);
        to.y[size(row) * features + i] = (r[i] - mean) * rstd * factor + modulation_at(shift, i);
      }
      to.mean[size(row)] = mean;
      to.rstd[size(row)] = rstd;
    }
    return to;
  }

  /// What the gradients are of: the sum of dy * y and, if gated, of dr * r.
  double loss() const {
    const auto [r, y, mean, rstd] = forward();
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i] + (gated ? dr[i] * r[i] : 0);
    return sum;
  }

  struct gradients {
    numbers dx, dbranch;  ///< dx: of the residual, if gated
    numbers modulations;  ///< as the modulations lie; in chunks, if they are shared
    numbers totals;       ///< [6, features]
  };

  /// Bit 2 k of `wanted` is for the gradient of chunk k, bit 2 k + 1 for its total.
  static bool is_data_wanted(unsigned wanted, chunk which) {
    return (wanted >> 2 * which & 1) != 0;
  }
  static bool is_total_wanted(unsigned wanted, chunk which) {
    return (wanted >> (2 * which + 1) & 1) != 0;
  }

  gradients backward(unsigned wanted = 63) const {
    const result saved = forward();
    gradients to{numbers(x.size(), unwritten), numbers(x.size(), unwritten),
                 numbers(size(vectors() * shape.features), unwritten),
                 numbers(tables.size(), unwritten)};
    const double* mean = kind == norm::layer ? saved.mean.data() : nullptr;
    if (gated) {
      adaptiveload::host::gate_residual_layernorm_modulate_backward<double, double, double>(
          {.shape = sizes(),
           .r = saved.r.data(),
           .branch = branch.data(),
           .mean = mean,
           .rstd = saved.rstd.data(),
           .gate = of(gate),
           .scale = of(scale),
           .dy = dy.data(),
           .dr = dr.data(),
           .dresidual = to.dx.data(),
           .dbranch = to.dbranch.data(),
           .dgate = gradient_in(to, gate, wanted),
           .dscale = gradient_in(to, scale, wanted),
           .dshift = gradient_in(to, shift, wanted),
           .kind = kind,
           .form = form});
    } else {
      adaptiveload::host::layernorm_modulate_backward<double, double, double>(
          {.shape = sizes(),
           .x = x.data(),
           .mean = mean,
           .rstd = saved.rstd.data(),
           .scale = of(scale),
           .dy = dy.data(),
           .dx = to.dx.data(),
           .dscale = gradient_in(to, scale, wanted),
           .dshift = gradient_in(to, shift, wanted),
           .kind = kind,
           .form = form});
    }
    std::int64_t written = 0, written_totals = 0;
    for (const chunk which : {shift, scale, gate}) {
      if (which == gate && !gated) continue;
      written += is_data_wanted(wanted, which) ? vectors() / 6 * shape.features : 0;
      written_totals += is_total_wanted(wanted, which) ? shape.features : 0;
    }
    expect_written(to.modulations, written);
    expect_written(to.totals, written_totals);
    return to;
  }

  activation_shape sizes() const {
    activation_shape all = shape;
    if (!positions.empty()) all.cu_seqlens = positions.data();
    return all;
  }

  adaptiveload::modulation<double> of(chunk which) const {
    const auto [first, batch_stride, group_stride] = strides(which, place);
    return {modulations.data() + first, batch_stride, group_stride,
            tables.empty() ? nullptr : tables.data() + which * shape.features};
  }

  adaptiveload::modulation_gradient<double> gradient_in(gradients& g, chunk which,
                                                        unsigned wanted) const {
    const auto [first, batch_stride, group_stride] =
        strides(which, place == placement::shared ? placement::chunks : place);
    return {is_data_wanted(wanted, which) ? g.modulations.data() + first : nullptr, batch_stride,
            group_stride,
            is_total_wanted(wanted, which) ? g.totals.data() + which * shape.features : nullptr};
  }

  struct position {
    std::int64_t sample, group;
  };
  position group_of(std::int64_t row) const {
    if (positions.empty()) {
      const std::int64_t group_tokens = shape.tokens / shape.groups;
      return {row / shape.tokens, row % shape.tokens / group_tokens};
    }
    std::int64_t sample = 0;
    while (row >= positions[size(sample + 1)]) ++sample;
    return {sample, 0};
  }

 private:
  static constexpr double unwritten = 12345;

  /// Expects so many elements to be written, and gives the others a gradient of 0.
  static void expect_written(numbers& values, std::int64_t count) {
    const auto others = std::count(values.begin(), values.end(), unwritten);
    EXPECT_EQ(static_cast<std::int64_t>(values.size()) - others, count);
    std::replace(values.begin(), values.end(), unwritten, 0.);
  }

  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  struct vector_strides {
    std::int64_t first, batch, group;
  };
  vector_strides strides(chunk which, placement where) const {
    const std::int64_t features = shape.features, groups = shape.groups, batch = shape.batch;
    switch (where) {
      case placement::chunks:
        return {which * features, groups * 6 * features, 6 * features};
      case placement::transposed:
        return {which * features, 6 * features, batch * 6 * features};
      case placement::reversed:
        return {((which + 1) * batch * groups - 1) * features, -groups * features, -features};
      default:
        return {which * features, 0, 0};
    }
  }

  /// Multiples of 2^-8: a float holds them and what a difference of 2^-17 makes of them.
  std::vector<float> random_tables() const {
    std::vector<float> values;
    for (const double value : random_numbers(6 * shape.features, 6)) {
      values.push_back(static_cast<float>(std::round(value * 256) / 256));
    }
    return values;
  }
};
