#pragma once

#include <adaptiveload/adaln.cuh>
#include <adaptiveload/adaln_host.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "modulated_problem.hpp"

/// `layernorm_modulate`.
template <class X, class M, class Y>
class modulate_problem : public modulated_problem<M, Y> {
  using base = modulated_problem<M, Y>;
  using typename base::part;

 public:
  modulate_problem(const adaptiveload::activation_shape& shape, const problem_options& options)
      : base(shape, options),
        x_(this->elements(), this->offset("x")),
        dx_(this->elements(), this->offset("dx")) {
    this->draw_rows(x_.host);
  }

  void prepare() override {
    this->prepare_common(
        adaptiveload::layernorm_modulate_backward_scratch_bytes(this->shape_on_device()));
    x_.upload();
    dx_.poison();
    if constexpr (std::is_same_v<X, Y>) {
      if (this->options_.in_place) this->y_.upload(x_.host);
    }
  }

  using forward_args = adaptiveload::layernorm_modulate_args<X, M, Y>;
  forward_args forward_arguments() {
    auto args = this->template common_forward_arguments<forward_args>();
    args.x = x_.on_device();
    if constexpr (std::is_same_v<X, Y>) {
      if (this->options_.in_place) args.x = args.y;
    }
    return args;
  }

  using backward_args = adaptiveload::layernorm_modulate_backward_args<X, M, Y>;
  backward_args backward_arguments() {
    auto args = this->template common_backward_arguments<backward_args>();
    args.x = x_.on_device();
    args.dx = dx_.on_device();
    return args;
  }

  // Not in the class, so that a file with `extern template` compiles no kernels.
  static void forward(const forward_args& args, cudaStream_t stream = nullptr);
  static void backward(const backward_args& args, cudaStream_t stream = nullptr);

  void launch(cudaStream_t stream = nullptr) override {
    forward(forward_arguments(), stream);
    if (this->options_.save_statistics) backward(backward_arguments(), stream);
  }

  void finish() override {
    this->finish_common();
    this->written_beside_ += dx_.download();
  }

  std::vector<problem::output> outputs() const override {
    std::vector<problem::output> all = this->common_outputs();
    all.push_back({"dx", dx_.bytes(), true});
    return all;
  }

  std::unique_ptr<problem> rows_alone(std::int64_t first, std::int64_t count) const override {
    const part group = this->group_of(first);
    auto alone = std::make_unique<modulate_problem>(this->shape_alone(group, count),
                                                    this->options_alone(count));
    this->copy_common(group, first, *alone);
    this->copy_rows(x_, first, alone->x_);
    return alone;
  }

  void expect_accurate() const override {
    distances found;
    group_sums dscale = this->no_sums(), dshift = this->no_sums();
    this->for_each_part([&](const part& p) {
      const std::vector<double> x = this->wide(x_, p);
      const auto exact = this->forward_of(x, p);
      this->add_forward(found, exact, p);
      if (!this->options_.save_statistics) return;

      const auto features = static_cast<std::size_t>(this->shape_.features);
      const std::vector<double> dy = this->wide(this->dy_, p);
      std::vector<double> dx(x.size()), of_scale(features), of_shift(features);
      adaptiveload::host::layernorm_modulate_backward<double, M, double>(
          {.shape = {1, p.rows, this->shape_.features},
           .x = x.data(),
           .mean = exact.mean.data(),
           .rstd = exact.rstd.data(),
           .scale = this->scale_.on_host(p.group),
           .dy = dy.data(),
           .dx = dx.data(),
           .dscale = {of_scale.data()},
           .dshift = {of_shift.data()},
           .kind = this->options_.kind,
           .form = this->options_.form});
      found.add("dx",
                this->distance_of(dx_, dx, p, [&](std::size_t row) { return exact.rstd[row]; }));
      dscale.add(p.group, of_scale.data(), static_cast<double>(p.rows));
      dshift.add(p.group, of_shift.data(), static_cast<double>(p.rows));
    });
    this->add_gradient(found, "dscale", this->dscale_, dscale);
    this->add_gradient(found, "dshift", this->dshift_, dshift);
    this->expect_near_common(found);
    if (this->options_.save_statistics) found.expect_near("dx", accuracy<X>);
  }

 private:
  tensor<X> x_, dx_;
};

template <class X, class M, class Y>
void modulate_problem<X, M, Y>::forward(const forward_args& args, cudaStream_t stream) {
  adaptiveload::layernorm_modulate_forward(args, stream);
}

template <class X, class M, class Y>
void modulate_problem<X, M, Y>::backward(const backward_args& args, cudaStream_t stream) {
  adaptiveload::layernorm_modulate_backward(args, stream);
}

template <class X, class M, class Y>
operation modulate(const char* name) {
  return {.name = name,
          .make = make<modulate_problem<X, M, Y>>,
          .modulations = {"scale", "shift"},
          .arguments = {"x", "y", "dy", "dx"},
          .scratch_bytes = adaptiveload::layernorm_modulate_backward_scratch_bytes};
}
