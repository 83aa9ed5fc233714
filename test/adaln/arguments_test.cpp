#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "../expect_invalid.hpp"
#include "gate_residual_problem.hpp"
#include "modulate_problem.hpp"

// Compiled in modulate_float32.cpp and gate_residual_float32.cpp: it takes long.
extern template class modulate_problem<float, float, float>;
extern template class gate_residual_problem<float, float, float>;

namespace {

template <class T>
T* one_byte_on(T* pointer) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) + 1);
}

using norm_problem = modulate_problem<float, float, float>;
using gated_problem = gate_residual_problem<float, float, float>;

/// A call with good arguments, but for one.
template <class Problem>
class bad_call {
 public:
  explicit bad_call(const adaptiveload::activation_shape& shape = {2, 3, 8}) : problem_(shape, {}) {
    problem_.prepare();
  }

  template <class F>
  void of_forward(F change, const std::string& message) {
    auto args = problem_.forward_arguments();
    change(args);
    expect_invalid([&] { Problem::forward(args); }, message);
  }
  template <class F>
  void of_backward(F change, const std::string& message) {
    auto args = problem_.backward_arguments();
    change(args);
    expect_invalid([&] { Problem::backward(args); }, message);
  }

 private:
  Problem problem_;
};

/// In what both directions of an operation have; `call(change, message)`.
template <class F>
void expect_common_checks(F call) {
  call([](auto& a) { a.shape.batch = -1; }, "shape.batch is -1; allowed: 0 or more");
  call([](auto& a) { a.shape.tokens = -2; }, "shape.tokens is -2; allowed: 0 or more");
  call([](auto& a) { a.shape.features = 0; }, "shape.features is 0; allowed: 1 or more");
  call([](auto& a) { a.shape.groups = 0; }, "shape.groups is 0; allowed: 1 or more");
  call([](auto& a) { a.shape.groups = 2; },
       "shape.groups is 2; allowed: a divisor of shape.tokens");
  call(
      [](auto& a) {
        a.shape = {std::int64_t{1} << 40, 1 << 10, 1 << 10};
      },
      "shape.batch is 1099511627776; allowed: batch * tokens * features below 2^59");
  call([](auto& a) { a.shape.cu_seqlens = reinterpret_cast<const std::int32_t*>(2); },
       "shape.cu_seqlens is address 2");
  call([](auto& a) { a.kind = static_cast<adaptiveload::norm>(7); }, "kind is 7");
  call([](auto& a) { a.form = static_cast<adaptiveload::modulate>(7); }, "form is 7");
  call([](auto& a) { a.scale.data = nullptr; }, "scale.data is null; allowed: a pointer to data");
  call([](auto& a) { a.scale.data = one_byte_on(a.scale.data); }, "scale.data is address ");
  call([](auto& a) { a.scale.table = one_byte_on(a.scale.data); }, "scale.table is address ");
}

template <class Problem>
void expect_common_forward_checks() {
  bad_call<Problem> call;
  const auto expect = [&](auto change, const std::string& message) {
    call.of_forward(change, message);
  };
  expect_common_checks(expect);
  expect([](auto& a) { a.epsilon = 0; }, "epsilon is 0; allowed: finite and above 0");
  expect([](auto& a) { a.epsilon = -1e-6; }, "epsilon is -");
  expect([](auto& a) { a.epsilon = std::numeric_limits<double>::infinity(); }, "epsilon is inf");
  expect([](auto& a) { a.epsilon = std::numeric_limits<double>::quiet_NaN(); }, "epsilon is nan");
  expect([](auto& a) { a.y = nullptr; }, "y is null");
  expect([](auto& a) { a.y = one_byte_on(a.y); }, "y is address ");
  expect([](auto& a) { a.shift.data = one_byte_on(a.shift.data); }, "shift.data is address ");
  const auto table_alone = [](auto& a) {  // `{.table = ...}` here loses its name in nvcc 13.0
    a.shift.table = a.shift.data;
    a.shift.data = nullptr;
  };
  expect(table_alone, "shift.table is given");
}

template <class Problem>
void expect_common_backward_checks() {
  bad_call<Problem> call;
  const auto expect = [&](auto change, const std::string& message) {
    call.of_backward(change, message);
  };
  expect_common_checks(expect);
  expect([](auto& a) { a.mean = nullptr; }, "mean is null");
  expect([](auto& a) { a.rstd = nullptr; }, "rstd is null");
  expect([](auto& a) { a.dy = nullptr; }, "dy is null");
  expect([](auto& a) { a.dscale.data = one_byte_on(a.dscale.data); }, "dscale.data is address ");
  expect([](auto& a) { a.dscale.total = one_byte_on(a.dscale.data); }, "dscale.total is address ");
  expect([](auto& a) { a.dscale.batch_stride = 7; },
         "dscale.batch_stride is 7; allowed: at least shape.features = 8 either way");
  expect([](auto& a) { a.dshift.batch_stride = -7; }, "dshift.batch_stride is -7");
  expect([](auto& a) { --a.scratch_bytes; }, "scratch_bytes is ");
  expect([](auto& a) { a.scratch = nullptr; },
         "scratch is null; allowed: a pointer to scratch_bytes bytes");
  expect([](auto& a) { a.scratch = static_cast<std::byte*>(a.scratch) + 8; }, "scratch is ");
}

TEST(AdaLnArguments, OfModulateAreChecked) {
  expect_common_forward_checks<norm_problem>();
  expect_common_backward_checks<norm_problem>();
  bad_call<norm_problem> call;
  call.of_forward([](auto& a) { a.x = nullptr; }, "x is null; allowed: a pointer to data");
  call.of_forward([](auto& a) { a.x = one_byte_on(a.x); }, "x is address ");
  call.of_backward([](auto& a) { a.x = nullptr; }, "x is null");
  call.of_backward([](auto& a) { a.dx = nullptr; }, "dx is null");
  call.of_backward([](auto& a) { a.dx = one_byte_on(a.dx); }, "dx is address ");
  call.of_backward([](auto& a) { a.dx = const_cast<float*>(a.x); },
                   "dx is x; allowed: memory of its own");
  call.of_backward([](auto& a) { a.dx = const_cast<float*>(a.dy); },
                   "dx is dy; allowed: memory of its own");
}

TEST(AdaLnArguments, OfGateResidualAreChecked) {
  expect_common_forward_checks<gated_problem>();
  expect_common_backward_checks<gated_problem>();
  bad_call<gated_problem> call;
  call.of_forward([](auto& a) { a.residual = nullptr; }, "residual is null");
  call.of_forward([](auto& a) { a.branch = one_byte_on(a.branch); }, "branch is address ");
  call.of_forward([](auto& a) { a.gate.data = nullptr; }, "gate.data is null");
  call.of_forward([](auto& a) { a.r = nullptr; }, "r is null");
  call.of_forward([](auto& a) { a.y = a.r; }, "y is r; allowed: memory of its own");
  call.of_backward([](auto& a) { a.r = nullptr; }, "r is null");
  call.of_backward([](auto& a) { a.branch = nullptr; }, "branch is null");
  call.of_backward([](auto& a) { a.dr = nullptr; }, "dr is null");
  call.of_backward([](auto& a) { a.gate.data = nullptr; }, "gate.data is null");
  call.of_backward([](auto& a) { a.dgate.batch_stride = 7; }, "dgate.batch_stride is 7");
  call.of_backward([](auto& a) { a.dresidual = nullptr; }, "dresidual is null");
  call.of_backward([](auto& a) { a.dbranch = one_byte_on(a.dbranch); }, "dbranch is address ");
  call.of_backward([](auto& a) { a.dbranch = a.dresidual; }, "dbranch is dresidual");
  call.of_backward([](auto& a) { a.dresidual = const_cast<float*>(a.dr); }, "dresidual is dr");
  call.of_backward([](auto& a) { a.dbranch = const_cast<float*>(a.branch); }, "dbranch is branch");
}

TEST(AdaLnArguments, OfOneSampleMayHaveGradientsOfAnyStride) {
  norm_problem problem({1, 3, 8}, {});
  problem.prepare();
  norm_problem::forward(problem.forward_arguments());
  auto args = problem.backward_arguments();
  args.dscale.batch_stride = args.dshift.batch_stride = 0;
  norm_problem::backward(args);
  problem.finish();
  problem.expect_accurate();
}

}  // namespace
