#pragma once

#include <adaptiveload/adaln.cuh>
#include <adaptiveload/adaln_host.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "modulated_problem.hpp"

/// `gate_residual_layernorm_modulate`.
template <class X, class M, class Y>
class gate_residual_problem : public modulated_problem<M, Y> {
  using base = modulated_problem<M, Y>;
  using typename base::part;

 public:
  gate_residual_problem(const adaptiveload::activation_shape& shape, const problem_options& options)
      : base(shape, options),
        residual_(this->elements(), this->offset("residual")),
        branch_(this->elements(), this->offset("branch")),
        dresidual_(this->elements(), this->offset("dresidual")),
        dbranch_(this->elements(), this->offset("dbranch")),
        r_(this->elements(), this->offset("r")),
        dr_(this->elements(), this->offset("dr")),
        gate_(this->modulation("gate", options.gate, 2)),
        dgate_(this->gradient("dgate", options.gate, options.dgate, 2)) {
    this->draw_rows(residual_.host);
    draw(branch_.host, 9);
    draw(dr_.host, 10);
    draw(gate_.each.all().host, 11);
    draw(gate_.table.host, 12, 0.5f);
  }

  void prepare() override {
    this->prepare_common(adaptiveload::gate_residual_layernorm_modulate_backward_scratch_bytes(
        this->shape_on_device()));
    residual_.upload();
    branch_.upload();
    dr_.upload();
    gate_.upload();
    r_.poison();
    dresidual_.poison();
    dbranch_.poison();
    dgate_.poison();
    if constexpr (std::is_same_v<X, Y>) {
      if (this->options_.in_place) {
        r_.upload(residual_.host);
        this->y_.upload(branch_.host);
      }
    }
  }

  using forward_args = adaptiveload::gate_residual_layernorm_modulate_args<X, M, Y>;
  forward_args forward_arguments() {
    auto args = this->template common_forward_arguments<forward_args>();
    args.residual = residual_.on_device();
    args.branch = branch_.on_device();
    args.gate = gate_.on_device();
    args.r = r_.on_device();
    if constexpr (std::is_same_v<X, Y>) {
      if (this->options_.in_place) {
        args.residual = args.r;
        args.branch = args.y;
      }
    }
    return args;
  }

  using backward_args = adaptiveload::gate_residual_layernorm_modulate_backward_args<X, M, Y>;
  backward_args backward_arguments() {
    auto args = this->template common_backward_arguments<backward_args>();
    args.r = r_.on_device();
    args.branch = branch_.on_device();
    args.gate = gate_.on_device();
    args.dr = dr_.on_device();
    args.dresidual = dresidual_.on_device();
    args.dbranch = dbranch_.on_device();
    args.dgate = dgate_.on_device();
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
    this->written_beside_ +=
        r_.download() + dresidual_.download() + dbranch_.download() + dgate_.download();
  }

  std::vector<problem::output> outputs() const override {
    std::vector<problem::output> all = this->common_outputs();
    all.push_back({"r", r_.bytes(), true});
    all.push_back({"dresidual", dresidual_.bytes(), true});
    all.push_back({"dbranch", dbranch_.bytes(), true});
    this->add_outputs(all, "dgate", dgate_);
    return all;
  }

  std::unique_ptr<problem> rows_alone(std::int64_t first, std::int64_t count) const override {
    const part group = this->group_of(first);
    auto alone = std::make_unique<gate_residual_problem>(this->shape_alone(group, count),
                                                         this->options_alone(count));
    this->copy_common(group, first, *alone);
    this->copy_rows(residual_, first, alone->residual_);
    this->copy_rows(branch_, first, alone->branch_);
    this->copy_rows(dr_, first, alone->dr_);
    this->copy_modulation(gate_, group, alone->shape_, alone->gate_);
    return alone;
  }

  void expect_accurate() const override {
    distances found;
    group_sums dgate = this->no_sums(), dscale = this->no_sums(), dshift = this->no_sums();
    this->for_each_part([&](const part& p) {
      const std::vector<double> branch = this->wide(branch_, p), gate = gate_of(p);
      const auto features = static_cast<std::size_t>(this->shape_.features);
      std::vector<double> exact_r = this->wide(residual_, p);
      for (std::size_t i = 0; i < exact_r.size(); ++i) {
        exact_r[i] += gate[i % features] * branch[i];
      }
      found.add("r", this->distance_of(r_, exact_r, p, [](std::size_t) { return 1; }));
      // What comes of r comes of r as it was rounded.
      const std::vector<double> r = this->wide(r_, p);
      const auto exact = this->forward_of(r, p);
      this->add_forward(found, exact, p);
      if (!this->options_.save_statistics) return;

      const std::vector<double> dy = this->wide(this->dy_, p), dr = this->wide(dr_, p);
      std::vector<double> dresidual(r.size()), dbranch(r.size());
      std::vector<double> of_gate(features), of_scale(features), of_shift(features);
      adaptiveload::host::gate_residual_layernorm_modulate_backward<double, M, double>(
          {.shape = {1, p.rows, this->shape_.features},
           .r = r.data(),
           .branch = branch.data(),
           .mean = exact.mean.data(),
           .rstd = exact.rstd.data(),
           .gate = gate_.on_host(p.group),
           .scale = this->scale_.on_host(p.group),
           .dy = dy.data(),
           .dr = dr.data(),
           .dresidual = dresidual.data(),
           .dbranch = dbranch.data(),
           .dgate = {of_gate.data()},
           .dscale = {of_scale.data()},
           .dshift = {of_shift.data()},
           .kind = this->options_.kind,
           .form = this->options_.form});
      double gate_size = 0, squares_of_d = 0;
      for (std::size_t i = 0; i < features; ++i)
        gate_size = std::fmax(gate_size, std::abs(gate[i]));
      const auto size_of_d = [&](std::size_t row) { return 1 + exact.rstd[row]; };
      for (std::size_t row = 0; row < exact.rstd.size(); ++row) {
        squares_of_d += size_of_d(row) * size_of_d(row);
      }
      found.add("dresidual", this->distance_of(dresidual_, dresidual, p, size_of_d));
      found.add("dbranch", this->distance_of(dbranch_, dbranch, p, [&](std::size_t row) {
        return gate_size * size_of_d(row);
      }));
      dgate.add(p.group, of_gate.data(), squares_of_d);
      dscale.add(p.group, of_scale.data(), static_cast<double>(p.rows));
      dshift.add(p.group, of_shift.data(), static_cast<double>(p.rows));
    });
    this->add_gradient(found, "dgate", dgate_, dgate);
    this->add_gradient(found, "dscale", this->dscale_, dscale);
    this->add_gradient(found, "dshift", this->dshift_, dshift);
    this->expect_near_common(found);
    found.expect_near("r", accuracy<Y>);
    if (!this->options_.save_statistics) return;
    found.expect_near("dresidual", accuracy<X>);
    found.expect_near("dbranch", accuracy<X>);
    found.expect_near("dgate", this->accuracy_of_sums());
    found.expect_near("dgate.total", this->accuracy_of_sums());
  }

 private:
  std::vector<double> gate_of(const part& p) const {
    const adaptiveload::modulation<M> gate = gate_.on_host(p.group);
    std::vector<double> values(static_cast<std::size_t>(this->shape_.features));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(static_cast<float>(gate.data[i])) +
                  (gate.table != nullptr ? static_cast<double>(gate.table[i]) : 0);
    }
    return values;
  }

  tensor<X> residual_, branch_, dresidual_, dbranch_;
  tensor<Y> r_, dr_;
  modulation_tensor<M> gate_;
  gradient_tensor dgate_;
};

template <class X, class M, class Y>
void gate_residual_problem<X, M, Y>::forward(const forward_args& args, cudaStream_t stream) {
  adaptiveload::gate_residual_layernorm_modulate_forward(args, stream);
}

template <class X, class M, class Y>
void gate_residual_problem<X, M, Y>::backward(const backward_args& args, cudaStream_t stream) {
  adaptiveload::gate_residual_layernorm_modulate_backward(args, stream);
}

template <class X, class M, class Y>
operation gate_residual(const char* name) {
  return {.name = name,
          .make = make<gate_residual_problem<X, M, Y>>,
          .modulations = {"gate", "scale", "shift"},
          .arguments = {"residual", "branch", "r", "y", "dy", "dr", "dresidual", "dbranch"},
          .scratch_bytes = adaptiveload::gate_residual_layernorm_modulate_backward_scratch_bytes};
}
