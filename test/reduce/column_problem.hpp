#pragma once

#include <gtest/gtest.h>

#include <adaptiveload/column_reduce.cuh>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "../adaln/tensor.hpp"
#include "../random_values.hpp"

enum class numbers {
  integers,  ///< small ones: their sums are exact, whatever the order
  normal
};

struct column_options {
  bool sums = true, weighted_sums = true;
  std::int64_t between_rows = 0;  ///< elements that no row has
  /// From the sums of one group to those of the next, beyond the columns; `last_first`: backwards.
  std::int64_t between_groups = 0;
  bool last_first = false;
  std::string_view shifted = "";  ///< the argument that lies one element off alignment
  numbers of = numbers::integers;
};

/// A reduction of a random matrix.
template <class T>
class column_problem {
 public:
  explicit column_problem(const adaptiveload::column_reduce_shape& of,
                          const column_options& with = {})
      : shape(of),
        options(with),
        row_stride(of.columns + with.between_rows),
        group_stride((of.columns + with.between_groups) * (with.last_first ? -1 : 1)),
        matrix(of.rows == 0 ? 0 : (of.rows - 1) * row_stride + of.columns, shift("matrix")),
        weights(of.rows, shift("weights")),
        sums(outputs_size(), shift("sums")),
        weighted_sums(outputs_size(), shift("weighted_sums")) {
    for (std::size_t i = 0; i < matrix.host.size(); ++i) {
      const bool in_row = static_cast<std::int64_t>(i) % row_stride < shape.columns;
      matrix.host[i] =
          static_cast<T>(in_row ? random(0, i, 256) : std::numeric_limits<float>::quiet_NaN());
    }
    for (std::size_t i = 0; i < weights.host.size(); ++i) weights.host[i] = random(1, i, 16);
  }

  adaptiveload::column_reduce_args<T> arguments() {
    return {.shape = shape,
            .matrix = matrix.on_device(),
            .row_stride = options.between_rows == 0 ? 0 : row_stride,
            .weights = options.weighted_sums ? weights.on_device() : nullptr,
            .sums = first_group(sums, options.sums),
            .weighted_sums = first_group(weighted_sums, options.weighted_sums),
            .scratch = scratch.data(),
            .scratch_bytes = scratch.bytes()};
  }

  void prepare() {
    matrix.upload();
    weights.upload();
    sums.poison();
    weighted_sums.poison();
    scratch = device_buffer<std::byte>(adaptiveload::column_reduce_scratch_bytes(shape));
  }
  void finish() {
    EXPECT_EQ(sums.download(), 0) << "written beside sums";
    EXPECT_EQ(weighted_sums.download(), 0) << "written beside weighted_sums";
  }
  void run() {
    prepare();
    adaptiveload::column_reduce(arguments());
    finish();
  }

  float sum(std::int64_t group, std::int64_t column) const {
    return sums.host[place(group, column)];
  }
  float weighted_sum(std::int64_t group, std::int64_t column) const {
    return weighted_sums.host[place(group, column)];
  }
  T& element(std::int64_t row, std::int64_t column) {
    return matrix.host[static_cast<std::size_t>(row * row_stride + column)];
  }

  void expect_accurate() const {
    SCOPED_TRACE(testing::Message() << "[" << shape.rows << ", " << shape.columns << "] in "
                                    << shape.groups << " groups");
    const std::int64_t rows = shape.rows / shape.groups;
    std::int64_t wrong = 0;
    const auto check = [&](float got, const expected& e, const char* name, std::int64_t column) {
      if (std::abs(got - e.sum) <= (exact() ? 0 : 1e-6) * e.magnitude || ++wrong > 5) return;
      ADD_FAILURE() << name << " of column " << column << ": " << got << " instead of " << e.sum;
    };
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      SCOPED_TRACE(testing::Message() << "group " << group);
      std::vector<expected> plain(static_cast<std::size_t>(shape.columns)), weighted(plain);
      for (std::int64_t row = group * rows; row < (group + 1) * rows; ++row) {
        const double weight = weights.host[static_cast<std::size_t>(row)];
        const T* const of_row = matrix.host.data() + row * row_stride;
        for (std::size_t column = 0; column < plain.size(); ++column) {
          const double value = static_cast<float>(of_row[column]);
          plain[column].add(value);
          weighted[column].add(weight * value);
        }
      }
      for (std::int64_t column = 0; column < shape.columns; ++column) {
        const auto c = static_cast<std::size_t>(column);
        if (options.sums) check(sum(group, column), plain[c], "sum", column);
        if (options.weighted_sums) {
          check(weighted_sum(group, column), weighted[c], "weighted sum", column);
        }
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(written(sums), options.sums ? shape.groups * shape.columns : 0);
    EXPECT_EQ(written(weighted_sums), options.weighted_sums ? shape.groups * shape.columns : 0);
  }

  const adaptiveload::column_reduce_shape shape;
  const column_options options;
  const std::int64_t row_stride, group_stride;
  tensor<T> matrix;
  tensor<float> weights, sums, weighted_sums;
  device_buffer<std::byte> scratch{0};

 private:
  struct expected {
    double sum = 0, magnitude = 0;
    void add(double term) {
      sum += term;
      magnitude += std::abs(term);
    }
  };

  bool exact() const { return options.of == numbers::integers; }

  float random(std::uint64_t stream, std::size_t i, std::uint64_t count) const {
    if (!exact()) return random_normal(test_seed() + stream, i);
    const auto drawn = static_cast<int>(random_bits(test_seed() + stream, i) % count);
    return static_cast<float>(drawn - static_cast<int>(count) / 2);
  }
  std::int64_t shift(std::string_view argument) const { return options.shifted == argument; }
  std::int64_t outputs_size() const {
    return (shape.groups - 1) * std::abs(group_stride) + shape.columns;
  }
  std::int64_t first_place() const {
    return options.last_first ? (1 - shape.groups) * group_stride : 0;
  }
  std::size_t place(std::int64_t group, std::int64_t column) const {
    return static_cast<std::size_t>(first_place() + group * group_stride + column);
  }
  adaptiveload::column_sums first_group(tensor<float>& of, bool wanted) {
    return {wanted ? of.on_device() + first_place() : nullptr, group_stride};
  }
  static std::int64_t written(const tensor<float>& of) {
    return std::count_if(of.host.begin(), of.host.end(), tensor<float>::is_written);
  }
};
