#pragma once

#include <gtest/gtest.h>

#include <adaptiveload/adaln.cuh>
#include <adaptiveload/adaln_host.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../random_values.hpp"
#include "accuracy.hpp"
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

/// `layernorm_modulate`.
template <class X, class M, class Y>
class modulate_problem : public problem {
 public:
  modulate_problem(const adaptiveload::activation_shape& shape, const problem_options& options)
      : shape_(shape),
        options_(options),
        x_(elements(), offset("x")),
        dx_(elements(), offset("dx")),
        y_(elements(), offset("y")),
        dy_(elements(), offset("dy")),
        mean_(rows()),
        rstd_(rows()),
        scale_(shape.batch, shape.features, options.scale, 1, offset("scale")),
        shift_(shape.batch, shape.features, options.shift, 0, offset("shift")),
        dscale_(shape.batch, shape.features, of_gradient(options.scale), 1, offset("dscale")),
        dshift_(shape.batch, shape.features, of_gradient(options.shift), 0, offset("dshift")) {
    draw(x_.host, 1, [&](float normal, std::size_t i) {
      const std::uint64_t row = i / static_cast<std::size_t>(shape.features);
      const float deviation = 0.25f + 3.75f * random_uniform(test_seed() + 2, row);
      const float mean = options.mean * (2 * random_uniform(test_seed() + 3, row) - 1);
      return deviation * (mean + normal);
    });
    draw(dy_.host, 4, [](float normal, std::size_t) { return normal; });
    draw(scale_.all().host, 5, [](float normal, std::size_t) { return 0.5f * normal; });
    draw(shift_.all().host, 6, [](float normal, std::size_t) { return normal; });
  }

  void run() override {
    prepare();
    forward(forward_arguments());
    if (options_.save_statistics) backward(backward_arguments());
    finish();
  }

  /// Inputs on the device, outputs poisoned.
  void prepare() {
    x_.upload();
    dy_.upload();
    scale_.all().upload();
    shift_.all().upload();
    y_.poison();
    dx_.poison();
    if constexpr (std::is_same_v<X, Y>) {
      if (options_.in_place) {
        y_.host = x_.host;
        y_.upload();
      }
    }
    mean_.poison();
    rstd_.poison();
    dscale_.all().poison();
    dshift_.all().poison();
    scratch_ = tensor<std::byte>(
        static_cast<std::int64_t>(adaptiveload::layernorm_modulate_backward_scratch_bytes(shape_)));
    scratch_.poison();
  }

  adaptiveload::layernorm_modulate_args<X, M, Y> forward_arguments() {
    adaptiveload::layernorm_modulate_args<X, M, Y> args{
        .shape = shape_,
        .x = x_.on_device(),
        .scale = {scale_.on_device(), scale_.stride()},
        .shift = {shift_.on_device(), shift_.stride()},
        .y = y_.on_device(),
        .mean = options_.save_statistics ? mean_.on_device() : nullptr,
        .rstd = options_.save_statistics ? rstd_.on_device() : nullptr};
    if constexpr (std::is_same_v<X, Y>) {
      if (options_.in_place) args.x = args.y;
    }
    return args;
  }

  adaptiveload::layernorm_modulate_backward_args<X, M, Y> backward_arguments() {
    return {.shape = shape_,
            .x = x_.on_device(),
            .mean = mean_.on_device(),
            .rstd = rstd_.on_device(),
            .scale = {scale_.on_device(), scale_.stride()},
            .dy = dy_.on_device(),
            .dx = dx_.on_device(),
            .dscale = {dscale_.on_device(), dscale_.stride()},
            .dshift = {dshift_.on_device(), dshift_.stride()},
            .scratch = scratch_.on_device(),
            .scratch_bytes = scratch_.host.size()};
  }

  static void forward(const adaptiveload::layernorm_modulate_args<X, M, Y>& args,
                      cudaStream_t stream = nullptr) {
    adaptiveload::layernorm_modulate_forward(args, stream);
  }
  static void backward(const adaptiveload::layernorm_modulate_backward_args<X, M, Y>& args,
                       cudaStream_t stream = nullptr) {
    adaptiveload::layernorm_modulate_backward(args, stream);
  }

  /// Outputs on the host.
  void finish() {
    written_beside_ = y_.download() + dx_.download() + mean_.download() + rstd_.download() +
                      dscale_.all().download() + dshift_.all().download() + scratch_.download() +
                      dscale_.written_between() + dshift_.written_between();
  }

  std::vector<output> outputs() const override {
    return {{"y", y_.bytes(), true},
            {"mean", mean_.bytes(), true},
            {"rstd", rstd_.bytes(), true},
            {"dx", dx_.bytes(), true},
            {"dscale", dscale_.all().bytes(), false},
            {"dshift", dshift_.all().bytes(), false}};
  }

  std::unique_ptr<problem> rows_alone(std::int64_t sample, std::int64_t first_token,
                                      std::int64_t tokens) const override {
    auto part = std::make_unique<modulate_problem>(
        adaptiveload::activation_shape{1, tokens, shape_.features}, options_);
    const std::int64_t first = (sample * shape_.tokens + first_token) * shape_.features;
    std::copy_n(x_.host.begin() + first, part->elements(), part->x_.host.begin());
    std::copy_n(dy_.host.begin() + first, part->elements(), part->dy_.host.begin());
    std::copy_n(scale_.on_host(sample), shape_.features, part->scale_.on_host());
    std::copy_n(shift_.on_host(sample), shape_.features, part->shift_.on_host());
    return part;
  }

  void expect_accurate() const override {
    EXPECT_EQ(written_beside_, 0) << "elements beside the outputs were written";
    const std::int64_t features = shape_.features, tokens = shape_.tokens;
    const std::int64_t rows_at_once = std::max<std::int64_t>(16, tokens / 256);
    const std::int64_t parts = (tokens + rows_at_once - 1) / rows_at_once;
    distance y, mean, rstd, dx, dscale, dshift;
    std::vector<double> sums(static_cast<std::size_t>(2 * shape_.batch * features));
    std::array<std::mutex, 64> locks_of_sums;
    std::mutex lock;

    parallel_for(shape_.batch * parts, [&](std::int64_t i) {
      const std::int64_t sample = i / parts, first = i % parts * rows_at_once;
      const reference exact(*this, sample, first, std::min(rows_at_once, tokens - first));
      {
        const std::lock_guard guard(locks_of_sums[static_cast<std::size_t>(sample % 64)]);
        double* const of_sample = sums.data() + 2 * sample * features;
        for (std::int64_t k = 0; k < 2 * features; ++k) {
          of_sample[k] += exact.sums[static_cast<std::size_t>(k)];
        }
      }
      distance y_part, mean_part, rstd_part, dx_part;
      for (std::int64_t r = 0; r < exact.rows; ++r) {
        const std::int64_t row = sample * tokens + first + r, at = row * features;
        const auto k = static_cast<std::size_t>(r);
        y_part.add(y_.host.data() + at, exact.y.data() + r * features, features);
        mean_part.add(mean_.host.data() + row, &exact.mean[k], 1, 1 / exact.rstd[k]);
        rstd_part.add(rstd_.host.data() + row, &exact.rstd[k], 1);
        // dx is what is left of terms that cancel in two directions: 0 of one or two features, and
        // by chance little of a few.
        dx_part.add(dx_.host.data() + at, exact.dx.data() + r * features, features,
                    features < 8 ? exact.rstd[k] : 0);
      }
      const std::lock_guard guard(lock);
      y.add(y_part);
      mean.add(mean_part);
      rstd.add(rstd_part);
      dx.add(dx_part);
    });
    for (std::int64_t sample = 0; sample < shape_.batch; ++sample) {
      const double* const of_sample = sums.data() + 2 * sample * features;
      // Their terms are of size 1; where a few sums alone make the row, all may cancel.
      const double least_size = std::sqrt(static_cast<double>(tokens));
      dscale.add(dscale_.on_host(sample), of_sample, features, features < 8 ? least_size : 0);
      dshift.add(dshift_.on_host(sample), of_sample + features, features,
                 features < 8 ? least_size : 0);
    }

    expect_near("y", y, accuracy<Y>);
    if (!options_.save_statistics) return;
    expect_near("mean", mean, accuracy<float>);
    expect_near("rstd", rstd, accuracy<float>);
    expect_near("dx", dx, accuracy<X>);
    expect_near("dscale", dscale, accuracy<float>);
    expect_near("dshift", dshift, accuracy<float>);
  }

 private:
  /// The host's results in double for some rows of a sample.
  struct reference {
    std::int64_t rows;
    std::vector<double> y, mean, rstd, dx, sums;  ///< sums: of these rows, [dscale, dshift]

    reference(const modulate_problem& of, std::int64_t sample, std::int64_t first,
              std::int64_t tokens)
        : rows(tokens),
          y(size(tokens * of.shape_.features)),
          mean(size(tokens)),
          rstd(size(tokens)),
          dx(y.size()),
          sums(size(2 * of.shape_.features)) {
      const std::int64_t features = of.shape_.features;
      const std::int64_t at = (sample * of.shape_.tokens + first) * features;
      const auto widen = [&](const auto& values) {
        std::vector<double> wide(y.size());
        for (std::size_t i = 0; i < wide.size(); ++i) {
          wide[i] = static_cast<float>(values[static_cast<std::size_t>(at) + i]);
        }
        return wide;
      };
      const std::vector<double> x = widen(of.x_.host), dy = widen(of.dy_.host);
      const adaptiveload::activation_shape shape{1, tokens, features};
      adaptiveload::host::layernorm_modulate_forward<double, M, double>(
          {.shape = shape,
           .x = x.data(),
           .scale = {of.scale_.on_host(sample), 0},
           .shift = {of.shift_.on_host(sample), 0},
           .y = y.data(),
           .mean = mean.data(),
           .rstd = rstd.data()});
      adaptiveload::host::layernorm_modulate_backward<double, M, double>(
          {.shape = shape,
           .x = x.data(),
           .mean = mean.data(),
           .rstd = rstd.data(),
           .scale = {of.scale_.on_host(sample), 0},
           .dy = dy.data(),
           .dx = dx.data(),
           .dscale = {sums.data(), 0},
           .dshift = {sums.data() + features, 0}});
    }

    static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
  };

  static void expect_near(std::string_view name, const distance& d, double bound) {
    EXPECT_LE(d.in_norm(), bound) << name << ", relative in norm";
    EXPECT_LE(d.of_worst(), 8 * bound) << name << ", the worst element";
  }

  std::int64_t rows() const { return shape_.batch * shape_.tokens; }
  std::int64_t elements() const { return rows() * shape_.features; }
  std::int64_t offset(std::string_view argument) const {
    return options_.shifted == argument || options_.shifted == "all" ? 1 : 0;
  }
  static layout of_gradient(layout of) { return of == layout::shared_by_all ? layout::dense : of; }

  adaptiveload::activation_shape shape_;
  problem_options options_;
  tensor<X> x_, dx_;
  tensor<Y> y_, dy_;
  tensor<float> mean_, rstd_;
  vectors<M> scale_, shift_;
  vectors<float> dscale_, dshift_;
  tensor<std::byte> scratch_{0};
  std::int64_t written_beside_ = 0;
};

extern template class modulate_problem<float, float, float>;
extern template class modulate_problem<__nv_bfloat16, float, __nv_bfloat16>;
extern template class modulate_problem<__half, __half, __half>;
extern template class modulate_problem<__nv_bfloat16, __nv_bfloat16, float>;
