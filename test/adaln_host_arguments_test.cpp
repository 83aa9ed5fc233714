#include <gtest/gtest.h>

#include <adaptiveload/adaln_host.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "expect_invalid.hpp"

namespace al = adaptiveload;

namespace {

using numbers = std::vector<double>;
using forward_args = al::layernorm_modulate_args<double, double>;
using backward_args = al::layernorm_modulate_backward_args<double, double>;
using gated_forward_args = al::gate_residual_layernorm_modulate_args<double, double>;
using gated_backward_args = al::gate_residual_layernorm_modulate_backward_args<double, double>;

constexpr std::int64_t many = std::int64_t{1} << 40;

void call(const forward_args& args) {
  al::host::layernorm_modulate_forward(args);
}
void call(const backward_args& args) {
  al::host::layernorm_modulate_backward(args);
}
void call(const gated_forward_args& args) {
  al::host::gate_residual_layernorm_modulate_forward(args);
}
void call(const gated_backward_args& args) {
  al::host::gate_residual_layernorm_modulate_backward(args);
}

/// Good arguments of each operation for [2, 4, 3] in two groups a sample, and the calls that a
/// change of them makes bad.
class AdaLnArgumentsOnHost : public testing::Test {
 protected:
  static numbers ones(std::size_t count) { return numbers(count, 1.); }

  std::array<numbers, 4> rows_in{ones(24), ones(24), ones(24), ones(24)};
  numbers vectors = ones(12), statistics = ones(8);
  std::vector<float> table = std::vector<float>(3);
  std::array<numbers, 2> rows_out{ones(24), ones(24)};
  std::array<numbers, 4> others_out{ones(12), ones(12), ones(12), ones(12)};
  std::vector<std::int32_t> positions{0, 1, 4};

  void TearDown() override {
    for (const numbers& out : rows_out) EXPECT_EQ(out, ones(out.size())) << "written";
    for (const numbers& out : others_out) EXPECT_EQ(out, ones(out.size())) << "written";
  }

  al::modulation<double> in() const { return {vectors.data(), 6, 3, table.data()}; }
  al::modulation_gradient<double> out(std::size_t i) {
    return {others_out[i].data(), 6, 3, others_out[3].data()};
  }

  const forward_args forward{.shape = {2, 4, 3, 2},
                             .x = rows_in[0].data(),
                             .scale = in(),
                             .shift = in(),
                             .y = rows_out[0].data(),
                             .mean = others_out[0].data(),
                             .rstd = others_out[1].data()};
  const backward_args backward{.shape = {2, 4, 3, 2},
                               .x = rows_in[0].data(),
                               .mean = statistics.data(),
                               .rstd = statistics.data(),
                               .scale = in(),
                               .dy = rows_in[1].data(),
                               .dx = rows_out[0].data(),
                               .dscale = out(0),
                               .dshift = out(1)};
  const gated_forward_args gated_forward{.shape = {2, 4, 3, 2},
                                         .residual = rows_in[0].data(),
                                         .branch = rows_in[1].data(),
                                         .gate = in(),
                                         .scale = in(),
                                         .shift = in(),
                                         .r = rows_out[0].data(),
                                         .y = rows_out[1].data(),
                                         .mean = others_out[0].data(),
                                         .rstd = others_out[1].data()};
  const gated_backward_args gated_backward{.shape = {2, 4, 3, 2},
                                           .r = rows_in[0].data(),
                                           .branch = rows_in[1].data(),
                                           .mean = statistics.data(),
                                           .rstd = statistics.data(),
                                           .gate = in(),
                                           .scale = in(),
                                           .dy = rows_in[2].data(),
                                           .dr = rows_in[3].data(),
                                           .dresidual = rows_out[0].data(),
                                           .dbranch = rows_out[1].data(),
                                           .dgate = out(0),
                                           .dscale = out(1),
                                           .dshift = out(2)};

  template <class Args, class Change>
  static void expect(Args args, Change change, const std::string& message) {
    change(args);
    expect_invalid([&] { call(args); }, message);
  }
  template <class Change>
  void expect_forward(Change change, const std::string& message) const {
    expect(forward, change, message);
    expect(gated_forward, change, message);
  }
  template <class Change>
  void expect_backward(Change change, const std::string& message) const {
    expect(backward, change, message);
    expect(gated_backward, change, message);
  }
  template <class Change>
  void expect_all(Change change, const std::string& message) const {
    expect_forward(change, message);
    expect_backward(change, message);
  }
};

template <class T>
T* one_byte_on(T* pointer) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) + 1);
}

constexpr const char* null = " is null; allowed: a pointer to data";
constexpr const char* shifted = " is address ";
constexpr const char* own_memory = "; allowed: memory of its own";

TEST_F(AdaLnArgumentsOnHost, NameAShapeThatIsNone) {
  expect_all([](auto& a) { a.shape.batch = -1; }, "shape.batch is -1; allowed: 0 or more");
  expect_all([](auto& a) { a.shape.tokens = -1; }, "shape.tokens is -1; allowed: 0 or more");
  expect_all([](auto& a) { a.shape.features = 0; }, "shape.features is 0; allowed: 1 or more");
  expect_all([](auto& a) { a.shape.groups = 0; }, "shape.groups is 0; allowed: 1 or more");
  expect_all([](auto& a) { a.shape.groups = 3; },
             "shape.groups is 3; allowed: a divisor of shape.tokens = 4");
  expect_all([](auto& a) { a.shape.groups = 8; },
             "shape.groups is 8; allowed: a divisor of shape.tokens = 4");
  expect_all(
      [](auto& a) {
        a.shape = {many, 1 << 10, 1 << 10};
      },
      "shape.batch is 1099511627776; allowed: batch * tokens * features below 2^59");
  expect_all(
      [](auto& a) {
        a.shape = {1, many, many};
      },
      "shape.batch is 1; allowed: batch * tokens * features below 2^59");
  expect_all(
      [](auto& a) {
        a.shape = {1 << 20, 0, 1 << 10, many};
      },
      "shape.batch is 1048576; allowed: batch * groups * features below 2^59");
}

TEST_F(AdaLnArgumentsOnHost, NamePackedSamplesThatAreNone) {
  const auto expect_packed = [&](al::activation_shape shape, const std::string& message) {
    if (shape.cu_seqlens == nullptr) shape.cu_seqlens = positions.data();
    expect_all([&](auto& a) { a.shape = shape; }, message);
  };
  expect_packed({2, 4, 3, 2}, "shape.groups is 2; allowed: 1, as shape.cu_seqlens is given");
  expect_packed({2, 4, 3, 1, one_byte_on(positions.data())}, "shape.cu_seqlens is address ");
  expect_packed({0, 4, 3},
                "shape.batch is 0; allowed: 1 or more, as shape.cu_seqlens is given and "
                "shape.tokens is not 0");
  expect_packed({1, std::int64_t{1} << 31, 3},
                "shape.tokens is 2147483648; allowed: below 2^31, as shape.cu_seqlens is given");
  expect_packed({1, 1 << 20, many},
                "shape.features is 1099511627776; allowed: tokens * features below 2^59");
  expect_packed({many, 1, 1 << 20},
                "shape.batch is 1099511627776; allowed: batch * features below 2^59");

  expect_packed({2, 5, 3}, "shape.cu_seqlens[2] is 4; allowed: shape.tokens = 5");
  positions = {1, 1, 4};
  expect_packed({2, 4, 3}, "shape.cu_seqlens[0] is 1; allowed: 0");
  positions = {0, -1, 4};
  expect_packed({2, 4, 3},
                "shape.cu_seqlens[1] is -1; allowed: at least the position before it, 0");
  positions = {0, 5, 4};
  expect_packed({2, 4, 3}, "shape.cu_seqlens[2] is 4; allowed: at least the position before it, 5");
  positions = {3};
  expect_packed({0, 0, 3}, "shape.cu_seqlens[0] is 3; allowed: 0");
}

TEST_F(AdaLnArgumentsOnHost, NameANormThatIsNone) {
  expect_all([](auto& a) { a.kind = static_cast<al::norm>(2); },
             "kind is 2; allowed: norm::layer or norm::root_mean_square");
  expect_all([](auto& a) { a.form = static_cast<al::modulate>(-1); },
             "form is -1; allowed: modulate::one_plus_scale or modulate::scale");
  using limits = std::numeric_limits<double>;
  expect_forward([](auto& a) { a.epsilon = 0; }, "epsilon is 0; allowed: finite and above 0");
  expect_forward([](auto& a) { a.epsilon = -1; }, "epsilon is -1; allowed: finite and above 0");
  expect_forward([](auto& a) { a.epsilon = limits::infinity(); }, "epsilon is inf; allowed: ");
  expect_forward([](auto& a) { a.epsilon = limits::quiet_NaN(); }, "epsilon is nan; allowed: ");
}

TEST_F(AdaLnArgumentsOnHost, NameAPointerThatIsNullOrMisaligned) {
  const auto expect_pointer = [](const auto& good, auto pointer, const std::string& name) {
    expect(
        good, [&](auto& a) { a.*pointer = nullptr; }, name + null);
    expect(
        good, [&](auto& a) { a.*pointer = one_byte_on(a.*pointer); }, name + shifted);
  };
  const auto expect_optional = [](const auto& good, auto pointer, const std::string& name) {
    expect(
        good, [&](auto& a) { a.*pointer = one_byte_on(a.*pointer); }, name + shifted);
  };
  const auto of_forward = [&]<class Args>(const Args& good) {
    expect_pointer(good, &Args::y, "y");
    expect_optional(good, &Args::mean, "mean");
    expect_optional(good, &Args::rstd, "rstd");
  };
  const auto of_backward = [&]<class Args>(const Args& good) {
    expect_pointer(good, &Args::mean, "mean");
    expect_pointer(good, &Args::rstd, "rstd");
    expect_pointer(good, &Args::dy, "dy");
  };
  of_forward(forward);
  expect_pointer(forward, &forward_args::x, "x");
  of_backward(backward);
  expect_pointer(backward, &backward_args::x, "x");
  expect_pointer(backward, &backward_args::dx, "dx");
  of_forward(gated_forward);
  expect_pointer(gated_forward, &gated_forward_args::residual, "residual");
  expect_pointer(gated_forward, &gated_forward_args::branch, "branch");
  expect_pointer(gated_forward, &gated_forward_args::r, "r");
  of_backward(gated_backward);
  expect_pointer(gated_backward, &gated_backward_args::r, "r");
  expect_pointer(gated_backward, &gated_backward_args::branch, "branch");
  expect_pointer(gated_backward, &gated_backward_args::dr, "dr");
  expect_pointer(gated_backward, &gated_backward_args::dresidual, "dresidual");
  expect_pointer(gated_backward, &gated_backward_args::dbranch, "dbranch");
}

TEST_F(AdaLnArgumentsOnHost, NameAModulationThatIsNullOrMisaligned) {
  const auto expect_modulation = [](const auto& good, auto of, const std::string& name) {
    expect(
        good, [&](auto& a) { (a.*of).data = one_byte_on((a.*of).data); }, name + ".data" + shifted);
    expect(
        good, [&](auto& a) { (a.*of).table = one_byte_on((a.*of).table); },
        name + ".table" + shifted);
    expect(
        good, [&](auto& a) { (a.*of).data = nullptr; },
        name == "shift" ? "shift.table is given; allowed: null, as shift.data is null"
                        : name + ".data" + null);
  };
  expect_modulation(forward, &forward_args::scale, "scale");
  expect_modulation(forward, &forward_args::shift, "shift");
  expect_modulation(backward, &backward_args::scale, "scale");
  expect_modulation(gated_forward, &gated_forward_args::gate, "gate");
  expect_modulation(gated_forward, &gated_forward_args::scale, "scale");
  expect_modulation(gated_forward, &gated_forward_args::shift, "shift");
  expect_modulation(gated_backward, &gated_backward_args::gate, "gate");
  expect_modulation(gated_backward, &gated_backward_args::scale, "scale");
}

TEST_F(AdaLnArgumentsOnHost, NameAGradientThatIsMisalignedOrLiesInAnothersPlace) {
  const auto expect_gradient = [](const auto& good, auto of, const std::string& name) {
    expect(
        good, [&](auto& a) { (a.*of).data = one_byte_on((a.*of).data); }, name + ".data" + shifted);
    expect(
        good, [&](auto& a) { (a.*of).total = one_byte_on((a.*of).total); },
        name + ".total" + shifted);
    const auto expect_strides = [&](std::int64_t batch, std::int64_t group,
                                    const std::string& text) {
      expect(
          good,
          [&](auto& a) {
            (a.*of).batch_stride = batch;
            (a.*of).group_stride = group;
          },
          name + text);
    };
    const std::string least = "; allowed: at least shape.features = 3 either way";
    expect_strides(2, 3, ".batch_stride is 2" + least);
    expect_strides(-2, 3, ".batch_stride is -2" + least);
    expect_strides(6, 0, ".group_stride is 0" + least);
    expect_strides(6, -2, ".group_stride is -2" + least);
    expect_strides(5, 3, ".batch_stride is 5; allowed: one that, with group_stride = 3, ");
    expect_strides(3, -3, ".batch_stride is 3; allowed: one that, with group_stride = -3, ");
  };
  expect_gradient(backward, &backward_args::dscale, "dscale");
  expect_gradient(backward, &backward_args::dshift, "dshift");
  expect_gradient(gated_backward, &gated_backward_args::dgate, "dgate");
  expect_gradient(gated_backward, &gated_backward_args::dscale, "dscale");
  expect_gradient(gated_backward, &gated_backward_args::dshift, "dshift");
}

TEST_F(AdaLnArgumentsOnHost, NameAnOutputInAPlaceThatIsStillRead) {
  const auto expect_apart = [](const auto& good, auto output, auto other,
                               const std::string& message) {
    expect(
        good, [&](auto& a) { a.*output = const_cast<double*>(a.*other); }, message + own_memory);
  };
  expect_apart(backward, &backward_args::dx, &backward_args::x, "dx is x");
  expect_apart(backward, &backward_args::dx, &backward_args::dy, "dx is dy");
  using gated = gated_forward_args;
  expect_apart(gated_forward, &gated::r, &gated::branch, "r is branch");
  expect_apart(gated_forward, &gated::y, &gated::residual, "y is residual");
  expect_apart(gated_forward, &gated::y, &gated::r, "y is r");
  const auto expect_output = [&](auto output, const std::string& name) {
    using args = gated_backward_args;
    expect_apart(gated_backward, output, &args::r, name + " is r");
    expect_apart(gated_backward, output, &args::branch, name + " is branch");
    expect_apart(gated_backward, output, &args::dy, name + " is dy");
    expect_apart(gated_backward, output, &args::dr, name + " is dr");
  };
  expect_output(&gated_backward_args::dresidual, "dresidual");
  expect_output(&gated_backward_args::dbranch, "dbranch");
  expect_apart(gated_backward, &gated_backward_args::dbranch, &gated_backward_args::dresidual,
               "dbranch is dresidual");
}

TEST_F(AdaLnArgumentsOnHost, NameAnOutputOfAnotherTypeInAnInputsPlace) {
  std::vector<float> wide(2 * 4 * 3, 1);
  void* const place = wide.data();
  al::layernorm_modulate_args<float, double, double> args{
      .shape = forward.shape, .x = wide.data(), .scale = in(), .shift = in(), .y = nullptr};
  args.y = static_cast<double*>(place);
  expect_invalid([&] { al::host::layernorm_modulate_forward(args); },
                 "y is x; allowed: memory of its own");

  al::gate_residual_layernorm_modulate_args<float, double, double> gated{
      .shape = forward.shape,
      .residual = wide.data(),
      .branch = wide.data() + 2,
      .gate = in(),
      .scale = in(),
      .shift = in(),
      .r = static_cast<double*>(place),
      .y = rows_out[1].data()};
  expect_invalid([&] { al::host::gate_residual_layernorm_modulate_forward(gated); },
                 "r is residual; allowed: memory of its own");
  gated.r = rows_out[0].data();
  gated.residual = wide.data() + 2;
  gated.branch = wide.data();
  gated.y = static_cast<double*>(place);
  expect_invalid([&] { al::host::gate_residual_layernorm_modulate_forward(gated); },
                 "y is branch; allowed: memory of its own");
  EXPECT_EQ(wide, std::vector<float>(wide.size(), 1));
}

}  // namespace
