#pragma once

#include <gtest/gtest.h>

#include <adaptiveload/adaln_host.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../random_values.hpp"
#include "accuracy.hpp"
#include "group_sums.hpp"
#include "problem.hpp"

/// `count` numbers drawn on all cores: number i is `of(random_normal(stream, i), i)`.
template <class T, class F>
void draw(std::vector<T>& values, std::uint64_t stream, F of) {
  constexpr std::size_t part = 1 << 16;
  parallel_for(static_cast<std::int64_t>((values.size() + part - 1) / part), [&](std::int64_t p) {
    const std::size_t begin = static_cast<std::size_t>(p) * part;
    for (std::size_t i = begin; i < std::min(begin + part, values.size()); ++i) {
      values[i] = static_cast<T>(of(random_normal(test_seed() + stream, i), i));
    }
  });
}

template <class T>
void draw(std::vector<T>& values, std::uint64_t stream, float deviation = 1) {
  draw(values, stream, [deviation](float normal, std::size_t) { return deviation * normal; });
}

/// What the operations have in common: groups of rows, and y with its statistics and modulations.
template <class M, class Y>
class modulated_problem : public problem {
 protected:
  /// Rows of one group, which is counted through all samples.
  struct part {
    std::int64_t group, first, rows;
  };

  modulated_problem(const adaptiveload::activation_shape& shape, const problem_options& options)
      : shape_(shape),
        options_(options),
        positions_(options.lengths.empty() ? 0 : shape.batch + 1, offset("cu_seqlens")),
        y_(elements(), offset("y")),
        dy_(elements(), offset("dy")),
        mean_(rows(), offset("mean")),
        rstd_(rows(), offset("rstd")),
        scale_(modulation("scale", options.scale, 1)),
        shift_(modulation("shift", options.shift, 0)),
        dscale_(gradient("dscale", options.scale, options.dscale, 1)),
        dshift_(gradient("dshift", options.shift, options.dshift, 0)) {
    for (std::size_t b = 0; b < options.lengths.size(); ++b) {
      positions_.host[b + 1] = positions_.host[b] + static_cast<std::int32_t>(options.lengths[b]);
    }
    draw(dy_.host, 4);
    draw(scale_.each.all().host, 5, 0.5f);
    draw(shift_.each.all().host, 6);
    draw(scale_.table.host, 7, 0.25f);
    draw(shift_.table.host, 8);
  }

  std::int64_t rows() const {
    return options_.lengths.empty() ? shape_.batch * shape_.tokens : shape_.tokens;
  }
  std::int64_t elements() const { return rows() * shape_.features; }
  std::int64_t offset(std::string_view argument) const {
    return options_.shifted == argument || options_.shifted == "all" ? 1 : 0;
  }

  modulation_tensor<M> modulation(const std::string& name, layout how, std::int64_t chunk) const {
    const bool table = options_.table == name || options_.table == "all";
    return {vectors<M>(shape_, how, chunk, offset(name)),
            tensor<float>(table ? shape_.features : 0, offset(name + ".table"))};
  }
  gradient_tensor gradient(const std::string& name, layout how, wanted what,
                           std::int64_t chunk) const {
    return {vectors<float>(shape_, layout_of_gradient(how), chunk, offset(name)),
            tensor<float>(what == wanted::each || what == wanted::nothing ? 0 : shape_.features,
                          offset(name + ".total")),
            what};
  }

  /// Numbers with means and deviations that differ from row to row.
  template <class T>
  void draw_rows(std::vector<T>& values) const {
    draw(values, 1, [&](float normal, std::size_t i) {
      const std::uint64_t row = i / static_cast<std::size_t>(shape_.features);
      const float deviation = 0.25f + 3.75f * random_uniform(test_seed() + 2, row);
      const float mean = options_.mean * (2 * random_uniform(test_seed() + 3, row) - 1);
      return deviation * (mean + normal);
    });
  }

  void prepare_common(std::size_t scratch_bytes) {
    positions_.upload();
    dy_.upload();
    scale_.upload();
    shift_.upload();
    y_.poison();
    mean_.poison();
    rstd_.poison();
    dscale_.poison();
    dshift_.poison();
    scratch_ = tensor<std::byte>(static_cast<std::int64_t>(scratch_bytes));
    scratch_.poison();
  }

  adaptiveload::activation_shape shape_on_device() {
    adaptiveload::activation_shape shape = shape_;
    if (!options_.lengths.empty()) shape.cu_seqlens = positions_.on_device();
    return shape;
  }

  template <class Args>
  Args common_forward_arguments() {
    Args args;
    args.shape = shape_on_device();
    args.scale = scale_.on_device();
    if (options_.has_shift) args.shift = shift_.on_device();
    args.y = y_.on_device();
    args.mean = options_.save_statistics ? mean_.on_device() : nullptr;
    args.rstd = options_.save_statistics ? rstd_.on_device() : nullptr;
    args.kind = options_.kind;
    args.form = options_.form;
    return args;
  }

  template <class Args>
  Args common_backward_arguments() {
    Args args;
    args.shape = shape_on_device();
    args.mean = options_.kind == adaptiveload::norm::layer ? mean_.on_device() : nullptr;
    args.rstd = rstd_.on_device();
    args.scale = scale_.on_device();
    args.dy = dy_.on_device();
    args.dscale = dscale_.on_device();
    args.dshift = dshift_.on_device();
    args.scratch = scratch_.on_device();
    args.scratch_bytes = scratch_.host.size();
    args.kind = options_.kind;
    args.form = options_.form;
    return args;
  }

  void finish_common() {
    written_beside_ = y_.download() + mean_.download() + rstd_.download() + dscale_.download() +
                      dshift_.download() + scratch_.download();
  }

  std::vector<output> common_outputs() const {
    std::vector<output> all{
        {"y", y_.bytes(), true}, {"mean", mean_.bytes(), true}, {"rstd", rstd_.bytes(), true}};
    add_outputs(all, "dscale", dscale_);
    add_outputs(all, "dshift", dshift_);
    return all;
  }
  static void add_outputs(std::vector<output>& all, const std::string& name,
                          const gradient_tensor& of) {
    all.push_back({name, of.each.all().bytes(), false});
    all.push_back({name + ".total", of.total.bytes(), false});
  }

  // Rows alone.

  std::vector<part> groups() const {
    std::vector<part> all;
    for (std::int64_t sample = 0; sample < shape_.batch; ++sample) {
      const auto b = static_cast<std::size_t>(sample);
      const bool packed = !options_.lengths.empty();
      const std::int64_t count = packed ? options_.lengths[b] : shape_.tokens / shape_.groups;
      for (std::int64_t group = 0; group < shape_.groups; ++group) {
        const std::int64_t number = sample * shape_.groups + group;
        all.push_back({number, packed ? positions_.host[b] : number * count, count});
      }
    }
    return all;
  }

  /// The group of a row; rows from it on may be those of several groups of its sample.
  part group_of(std::int64_t row) const {
    for (const part& group : groups()) {
      if (row < group.first + group.rows) return group;
    }
    return {};
  }
  adaptiveload::activation_shape shape_alone(const part& group, std::int64_t count) const {
    return {1, count, shape_.features, std::max<std::int64_t>(1, count / group.rows)};
  }
  problem_options options_alone(std::int64_t count) const {
    problem_options options = options_;
    if (!options_.lengths.empty()) options.lengths = {count};
    return options;
  }

  void copy_common(const part& group, std::int64_t first, modulated_problem& to) const {
    copy_rows(dy_, first, to.dy_);
    copy_modulation(scale_, group, to.shape_, to.scale_);
    copy_modulation(shift_, group, to.shape_, to.shift_);
  }
  template <class T>
  void copy_rows(const tensor<T>& from, std::int64_t first, tensor<T>& to) const {
    std::copy_n(from.host.begin() + first * shape_.features, to.host.size(), to.host.begin());
  }
  void copy_modulation(const modulation_tensor<M>& from, const part& group,
                       const adaptiveload::activation_shape& shape,
                       modulation_tensor<M>& to) const {
    for (std::int64_t g = 0; g < shape.groups; ++g) {
      std::copy_n(from.each.on_host(group.group + g), shape.features, to.each.on_host(g));
    }
    to.table.host = from.table.host;
  }

  // Accuracy.

  /// Calls `f(part)` on all cores: each is a few rows, and all rows are in one of them.
  template <class F>
  void for_each_part(F f) const {
    const std::int64_t most = std::max<std::int64_t>(16, rows() / 4096);
    std::vector<part> parts;
    for (const part& group : groups()) {
      for (std::int64_t first = 0; first < group.rows; first += most) {
        parts.push_back({group.group, group.first + first, std::min(most, group.rows - first)});
      }
    }
    parallel_for(static_cast<std::int64_t>(parts.size()),
                 [&](std::int64_t i) { f(parts[static_cast<std::size_t>(i)]); });
  }

  template <class T>
  std::vector<double> wide(const tensor<T>& of, const part& p) const {
    std::vector<double> values(static_cast<std::size_t>(p.rows * shape_.features));
    const T* const from = of.host.data() + p.first * shape_.features;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(static_cast<float>(from[i]));
    }
    return values;
  }

  /// The host's results in double for a part.
  struct exact_forward {
    std::vector<double> y, mean, rstd;
  };
  exact_forward forward_of(const std::vector<double>& x, const part& p) const {
    const auto count = static_cast<std::size_t>(p.rows);
    exact_forward exact{std::vector<double>(x.size()), std::vector<double>(count),
                        std::vector<double>(count)};
    adaptiveload::modulation<M> shift;
    if (options_.has_shift) shift = shift_.on_host(p.group);
    adaptiveload::host::layernorm_modulate_forward<double, M, double>(
        {.shape = {1, p.rows, shape_.features},
         .x = x.data(),
         .scale = scale_.on_host(p.group),
         .shift = shift,
         .y = exact.y.data(),
         .mean = exact.mean.data(),
         .rstd = exact.rstd.data(),
         .kind = options_.kind,
         .form = options_.form});
    return exact;
  }

  /// `least_size(row of the part)` is the size of what a row's numbers are made of; it counts where
  /// a row has so few features that all of them may happen to be what is left of larger terms.
  template <class T, class F>
  distance distance_of(const tensor<T>& got, const std::vector<double>& exact, const part& p,
                       F least_size) const {
    distance all;
    const std::int64_t width = static_cast<std::int64_t>(exact.size()) / p.rows;
    for (std::int64_t r = 0; r < p.rows; ++r) {
      all.add(got.host.data() + (p.first + r) * width, exact.data() + r * width, width,
              shape_.features < 8 ? least_size(static_cast<std::size_t>(r)) : 0);
    }
    return all;
  }

  void add_forward(distances& found, const exact_forward& exact, const part& p) const {
    found.add("y", distance_of(y_, exact.y, p, [](std::size_t) { return 1; }));
    distance mean, rstd;
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const auto k = static_cast<std::size_t>(r);
      mean.add(&mean_.host[static_cast<std::size_t>(p.first) + k], &exact.mean[k], 1,
               1 / exact.rstd[k]);
      rstd.add(&rstd_.host[static_cast<std::size_t>(p.first) + k], &exact.rstd[k], 1);
    }
    found.add("mean", mean);
    found.add("rstd", rstd);
  }

  group_sums no_sums() const { return {shape_.batch * shape_.groups, shape_.features}; }
  void add_gradient(distances& found, const std::string& name, const gradient_tensor& got,
                    const group_sums& exact) const {
    distance each, total;
    const auto least = [](const group_sums& of, std::int64_t group) {
      return of.features() < 8 ? of.size(group) : 0;
    };
    for (std::int64_t g = 0; got.has_each() && g < exact.groups(); ++g) {
      each.add(got.each.on_host(g), exact.of(g), shape_.features, least(exact, g));
    }
    if (got.has_total()) {
      group_sums all(1, shape_.features);
      for (std::int64_t g = 0; g < exact.groups(); ++g) {
        all.add(0, exact.of(g), exact.size(g) * exact.size(g));
      }
      total.add(got.total.host.data(), all.of(0), shape_.features, least(all, 0));
    }
    found.add(name, each);
    found.add(name + ".total", total);
  }

  void expect_near_common(const distances& found) const {
    EXPECT_EQ(written_beside_, 0) << "elements beside the outputs were written";
    found.expect_near("y", accuracy<Y>);
    if (!options_.save_statistics) return;
    for (const char* const name : {"mean", "rstd"}) found.expect_near(name, accuracy<float>);
    for (const char* const name : {"dscale", "dscale.total", "dshift", "dshift.total"}) {
      found.expect_near(name, accuracy_of_sums());
    }
  }
  /// Threads add up rows in float one after the other: the error grows as the root of their number.
  double accuracy_of_sums() const {
    return accuracy<float> * std::sqrt(std::max(1., static_cast<double>(rows()) / 70000));
  }

  adaptiveload::activation_shape shape_;
  problem_options options_;
  tensor<std::int32_t> positions_;
  tensor<Y> y_, dy_;
  tensor<float> mean_, rstd_;
  modulation_tensor<M> scale_, shift_;
  gradient_tensor dscale_, dshift_;
  tensor<std::byte> scratch_{0};
  std::int64_t written_beside_ = 0;
};
