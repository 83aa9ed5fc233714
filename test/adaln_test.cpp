#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "adaln/modulate_problem.hpp"
#include "adaln/problem.hpp"
#include "case_size.hpp"

namespace al = adaptiveload;

namespace {

const bool large_cases = runs_large_cases();

template <class X, class M, class Y>
std::unique_ptr<problem> make_modulate(const al::activation_shape& shape,
                                       const problem_options& options) {
  return std::make_unique<modulate_problem<X, M, Y>>(shape, options);
}

}  // namespace

const std::vector<operation>& operations() {
  static const std::vector<std::string_view> of_modulate{"x",  "scale", "shift",  "y",
                                                         "dy", "dx",    "dscale", "dshift"};
  static const std::vector<operation> all{
      {"modulate_bfloat16", make_modulate<__nv_bfloat16, float, __nv_bfloat16>, of_modulate},
      {"modulate_float32", make_modulate<float, float, float>, of_modulate},
      {"modulate_float16", make_modulate<__half, __half, __half>, of_modulate},
      {"modulate_mixed", make_modulate<__nv_bfloat16, __nv_bfloat16, float>, of_modulate}};
  return all;
}

namespace {

std::string text_of(const al::activation_shape& shape) {
  std::ostringstream text;
  text << '[' << shape.batch << ", " << shape.tokens << ", " << shape.features << ']';
  return text.str();
}

void expect_accurate(const operation& op, const al::activation_shape& shape,
                     const problem_options& options = {}) {
  SCOPED_TRACE(text_of(shape));
  const auto p = op.make(shape, options);
  p->run();
  p->expect_accurate();
}

std::vector<std::vector<std::byte>> copy_of_outputs(const problem& p) {
  std::vector<std::vector<std::byte>> copies;
  for (const problem::output& output : p.outputs()) {
    copies.emplace_back(output.bytes.begin(), output.bytes.end());
  }
  return copies;
}

class AdaLn : public testing::TestWithParam<operation> {};

INSTANTIATE_TEST_SUITE_P(, AdaLn, testing::ValuesIn(operations()),
                         [](const auto& of) { return std::string(of.param.name); });

class AdaLnOfWidth : public testing::TestWithParam<std::tuple<operation, std::int64_t>> {};

std::string name_of(const testing::TestParamInfo<AdaLnOfWidth::ParamType>& of) {
  const auto& [op, features] = of.param;
  return std::string(op.name) + "_" + std::to_string(features);
}

INSTANTIATE_TEST_SUITE_P(, AdaLnOfWidth,
                         testing::Combine(testing::ValuesIn(operations()),
                                          testing::Values(1, 7, 64, 100, 1152, 1536, 3072, 5120,
                                                          8192, 16384)),
                         name_of);

TEST_P(AdaLnOfWidth, IsAccurate) {
  const auto& [op, features] = GetParam();
  std::vector<al::activation_shape> shapes{
      {1, 1, features}, {2, 1, features}, {1, 31, features}, {3, 5, features}};
  if (large_cases) {
    shapes.insert(shapes.end(), {{1, 4096, features}, {4, 1024, features}, {1, 70000, features}});
    if (features <= 1536) {
      shapes.insert(shapes.end(),
                    {{7, 10000, features}, {1000, 70, features}, {70000, 1, features}});
    }
  }
  for (const al::activation_shape& shape : shapes) expect_accurate(op, shape);
}

TEST_P(AdaLn, TakesAnyWidth) {
  for (const std::int64_t features :
       {2,   3,   8,   15,  16,   24,   56,   65,   72,   120,  136,   248,  256,
        257, 264, 480, 520, 1000, 1032, 1600, 2000, 2056, 4000, 20480, 32768}) {
    expect_accurate(GetParam(), {2, 3, features});
  }
}

TEST_P(AdaLn, TakesSamplesOfAnyLength) {
  for (const std::int64_t tokens : {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 255, 256, 257, 300}) {
    expect_accurate(GetParam(), {large_cases ? 300 : 3, tokens, 64});
  }
}

TEST_P(AdaLn, TakesManySamples) {
  for (const std::int64_t batch : {5, 64, 67, large_cases ? 70000 : 700}) {
    expect_accurate(GetParam(), {batch, 1, 64});
    expect_accurate(GetParam(), {batch, 3, 8});
  }
}

TEST_P(AdaLn, TakesModulationsWhereTheyLie) {
  for (const layout scale : layouts) {
    for (const layout shift : layouts) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(scale) << static_cast<int>(shift));
      for (const std::int64_t features : {7, 64, 1536}) {
        expect_accurate(GetParam(), {3, 2, features}, {.scale = scale, .shift = shift});
        if (scale == shift) {
          expect_accurate(GetParam(), {1, 5, features}, {.scale = scale, .shift = shift});
        }
      }
    }
  }
}

TEST_P(AdaLn, TakesAnyAlignment) {
  std::vector<std::string_view> arguments = GetParam().arguments;
  arguments.push_back("all");
  for (const std::string_view argument : arguments) {
    SCOPED_TRACE(argument);
    for (const std::int64_t features : {64, 1536}) {
      expect_accurate(GetParam(), {2, 3, features}, {.shifted = argument});
    }
  }
}

TEST_P(AdaLn, WorksInPlace) {
  for (const std::int64_t features : {7, 64, 1536, 3072, 16384}) {
    expect_accurate(GetParam(), {2, 7, features}, {.in_place = true});
  }
}

TEST_P(AdaLn, SavesStatisticsOnlyIfAsked) {
  for (const std::int64_t features : {7, 1536}) {
    expect_accurate(GetParam(), {2, 3, features}, {.save_statistics = false});
  }
}

TEST_P(AdaLn, KeepsItsAccuracyAtLargeMeans) {
  for (const float mean : {0.f, 1e3f, 1e4f}) {
    SCOPED_TRACE(mean);
    for (const std::int64_t features : {7, 64, 1536, 5120}) {
      expect_accurate(GetParam(), {2, large_cases ? 1000 : 7, features}, {.mean = mean});
    }
  }
}

TEST_P(AdaLn, TakesNoRows) {
  for (const al::activation_shape& shape :
       {al::activation_shape{0, 5, 64}, {5, 0, 64}, {0, 0, 7}, {3, 0, 7}}) {
    expect_accurate(GetParam(), shape);
  }
}

TEST_P(AdaLn, GivesTheSameBitsTwice) {
  std::vector<al::activation_shape> shapes{{3, 37, 64}, {2, 9, 1536}, {5, 3, 100}};
  if (large_cases) {
    shapes.insert(shapes.end(), {{1, 70000, 1536}, {16, 4096, 5120}, {70000, 1, 64}});
  }
  for (const al::activation_shape& shape : shapes) {
    SCOPED_TRACE(text_of(shape));
    const auto p = GetParam().make(shape, {});
    p->run();
    const auto first = copy_of_outputs(*p);
    p->run();
    EXPECT_TRUE(copy_of_outputs(*p) == first);
  }
}

TEST_P(AdaLn, GivesARowTheSameBitsInAnyBatch) {
  std::vector<al::activation_shape> shapes{{3, 37, 64}, {2, 9, 1536}, {5, 3, 100}, {2, 5, 8192}};
  if (large_cases) {
    shapes.insert(shapes.end(), {{3, 4096, 1536}, {2, 5000, 5120}, {3, 1000, 16384}});
  }
  for (const al::activation_shape& shape : shapes) {
    SCOPED_TRACE(text_of(shape));
    const auto whole = GetParam().make(shape, {});
    whole->run();
    const std::int64_t sample = shape.batch - 1, first = shape.tokens / 3;
    const std::int64_t tokens = std::min<std::int64_t>(2, shape.tokens - first);
    const auto part = whole->rows_alone(sample, first, tokens);
    part->run();
    const auto of_whole = whole->outputs(), of_part = part->outputs();
    for (std::size_t i = 0; i < of_whole.size(); ++i) {
      if (!of_whole[i].by_rows) continue;
      const std::span<const std::byte> got = of_part[i].bytes;
      const std::size_t row_bytes = got.size() / static_cast<std::size_t>(tokens);
      const auto begin = static_cast<std::size_t>(sample * shape.tokens + first) * row_bytes;
      EXPECT_TRUE(std::ranges::equal(of_whole[i].bytes.subspan(begin, got.size()), got))
          << of_whole[i].name;
    }
  }
}

#ifndef __CUDACC__

/// On devices that the executor stands in for.
class AdaLnOnDevice : public AdaLn {
 protected:
  ~AdaLnOnDevice() override { device = before; }
  simt::device_settings& device = simt::settings();

  void expect_accurate_in_every_kernel() {
    for (const std::int64_t features : {7, 64, 100, 1536, 3072}) {
      expect_accurate(GetParam(), {4, 9, features});
    }
    expect_accurate(GetParam(), {2, 3, 16384});
  }

 private:
  simt::device_settings before = device;
};

INSTANTIATE_TEST_SUITE_P(, AdaLnOnDevice, testing::ValuesIn(operations()),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_P(AdaLnOnDevice, TakesMoreRowsThanAGridHasBlocks) {
  for (const std::int64_t blocks : {1, 3}) {
    SCOPED_TRACE(blocks);
    device.max_blocks = blocks;
    expect_accurate_in_every_kernel();
    expect_accurate(GetParam(), {3, 300, 8});
  }
}

TEST_P(AdaLnOnDevice, DoesWithoutBulkCopies) {
  device.compute_capability = 80;
  expect_accurate_in_every_kernel();
}

TEST_P(AdaLnOnDevice, TakesAnyNumberOfMultiprocessors) {
  for (const int multiprocessors : {1, 3, 132}) {
    SCOPED_TRACE(multiprocessors);
    device.multiprocessors = multiprocessors;
    for (const al::activation_shape& shape :
         {al::activation_shape{3, 37, 64}, {1, 50, 1536}, {9, 1, 1536}, {5, 3, 100}}) {
      expect_accurate(GetParam(), shape);
    }
  }
}

#else

TEST(AdaLnIndices, GoBeyond31Bits) {
  if (!large_cases) GTEST_SKIP() << "a large case";
  std::size_t free = 0, total = 0;
  al::detail::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (free < std::size_t{24} << 30) GTEST_SKIP() << "needs 24 GiB of device memory";
  expect_accurate(operations().front(), {6, 75600, 5120});
}

TEST(AdaLnGraph, GivesTheBitsOfPlainLaunches) {
  modulate_problem<__nv_bfloat16, float, __nv_bfloat16> problem({3, 700, 1536}, {});
  problem.run();
  const auto launched = copy_of_outputs(problem);

  problem.prepare();
  cudaStream_t stream{};
  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  al::detail::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  al::detail::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin");
  problem.forward(problem.forward_arguments(), stream);
  problem.backward(problem.backward_arguments(), stream);
  al::detail::check(cudaStreamEndCapture(stream, &graph), "end");
  al::detail::check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  for (int replay = 0; replay < 3; ++replay) {
    al::detail::check(cudaGraphLaunch(executable, stream), "launch");
    al::detail::check(cudaStreamSynchronize(stream), "synchronize");
    problem.finish();
    EXPECT_TRUE(copy_of_outputs(problem) == launched);
  }
  al::detail::check(cudaGraphExecDestroy(executable), "destroy");
  al::detail::check(cudaGraphDestroy(graph), "destroy");
  al::detail::check(cudaStreamDestroy(stream), "destroy");
}

#endif

TEST(AdaLnScratch, IsAFewPercentOfX) {
  for (const std::int64_t features : {1536, 3072, 5120}) {
    for (const std::int64_t batch : {1, 16}) {
      const al::activation_shape shape{batch, 65536 / batch, features};
      EXPECT_LE(static_cast<double>(al::layernorm_modulate_backward_scratch_bytes(shape)),
                0.04 * 2 * 65536 * static_cast<double>(features))
          << text_of(shape);
    }
  }
  EXPECT_THROW(al::layernorm_modulate_backward_scratch_bytes({-1, 1, 1}), std::invalid_argument);
}

using float_problem = modulate_problem<float, float, float>;

/// Expects `call` to throw with a message that begins so.
template <class F>
void expect_invalid(F call, const std::string& message) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected: " << message;
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, message.size()), message);
  }
}

template <class T>
T* one_byte_on(T* pointer) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) + 1);
}

TEST(AdaLnArguments, OfTheForwardAreChecked) {
  float_problem problem({2, 3, 8}, {});
  problem.prepare();
  const auto good = problem.forward_arguments();
  const auto expect = [&](auto change, const std::string& message) {
    auto args = good;
    change(args);
    expect_invalid([&] { float_problem::forward(args); }, message);
  };
  expect([](auto& a) { a.shape.batch = -1; }, "shape.batch is -1; allowed: 0 or more");
  expect([](auto& a) { a.shape.tokens = -2; }, "shape.tokens is -2; allowed: 0 or more");
  expect([](auto& a) { a.shape.features = 0; }, "shape.features is 0; allowed: 1 or more");
  expect(
      [](auto& a) {
        a.shape = {std::int64_t{1} << 40, 1 << 10, 1 << 10};
      },
      "shape.batch is 1099511627776; allowed: batch * tokens * features below 2^59");
  expect(
      [](auto& a) {
        a.shape = {1, std::int64_t{1} << 40, std::int64_t{1} << 40};
      },
      "shape.batch is 1; allowed: batch * tokens * features below 2^59");
  expect([](auto& a) { a.epsilon = 0; }, "epsilon is 0; allowed: finite and above 0");
  expect([](auto& a) { a.epsilon = -1e-6; }, "epsilon is -");
  expect([](auto& a) { a.epsilon = std::numeric_limits<double>::infinity(); }, "epsilon is inf");
  expect([](auto& a) { a.epsilon = std::numeric_limits<double>::quiet_NaN(); }, "epsilon is nan");
  expect([](auto& a) { a.x = nullptr; }, "x is null; allowed: a pointer to data");
  expect([](auto& a) { a.scale.data = nullptr; }, "scale.data is null");
  expect([](auto& a) { a.shift.data = nullptr; }, "shift.data is null");
  expect([](auto& a) { a.y = nullptr; }, "y is null");
  expect([](auto& a) { a.x = one_byte_on(a.x); }, "x is address ");
  expect([](auto& a) { a.scale.data = one_byte_on(a.scale.data); }, "scale.data is address ");
  expect([](auto& a) { a.shift.data = one_byte_on(a.shift.data); }, "shift.data is address ");
  expect([](auto& a) { a.y = one_byte_on(a.y); }, "y is address ");
}

TEST(AdaLnArguments, OfTheBackwardAreChecked) {
  float_problem problem({2, 3, 8}, {});
  problem.prepare();
  const auto good = problem.backward_arguments();
  const auto expect = [&](auto change, const std::string& message) {
    auto args = good;
    change(args);
    expect_invalid([&] { float_problem::backward(args); }, message);
  };
  expect([](auto& a) { a.shape.batch = -1; }, "shape.batch is -1; allowed: 0 or more");
  expect([](auto& a) { a.shape.tokens = -2; }, "shape.tokens is -2; allowed: 0 or more");
  expect([](auto& a) { a.shape.features = 0; }, "shape.features is 0; allowed: 1 or more");
  expect([](auto& a) { a.x = nullptr; }, "x is null");
  expect([](auto& a) { a.mean = nullptr; }, "mean is null");
  expect([](auto& a) { a.rstd = nullptr; }, "rstd is null");
  expect([](auto& a) { a.scale.data = nullptr; }, "scale.data is null");
  expect([](auto& a) { a.dy = nullptr; }, "dy is null");
  expect([](auto& a) { a.dx = nullptr; }, "dx is null");
  expect([](auto& a) { a.dscale.data = nullptr; }, "dscale.data is null");
  expect([](auto& a) { a.dshift.data = nullptr; }, "dshift.data is null");
  expect([](auto& a) { a.dx = one_byte_on(a.dx); }, "dx is address ");
  expect([](auto& a) { a.dx = const_cast<float*>(a.x); }, "dx is x; allowed: memory of its own");
  expect([](auto& a) { a.dx = const_cast<float*>(a.dy); }, "dx is dy; allowed: memory of its own");
  expect([](auto& a) { a.dscale.data = one_byte_on(a.dscale.data); }, "dscale.data is address ");
  expect([](auto& a) { a.dscale.batch_stride = 7; },
         "dscale.batch_stride is 7; allowed: at least shape.features = 8 either way");
  expect([](auto& a) { a.dshift.batch_stride = -7; }, "dshift.batch_stride is -7");
  expect([](auto& a) { --a.scratch_bytes; }, "scratch_bytes is ");
  expect([](auto& a) { a.scratch = nullptr; },
         "scratch is null; allowed: a pointer to scratch_bytes bytes");
  expect([](auto& a) { a.scratch = static_cast<std::byte*>(a.scratch) + 8; }, "scratch is ");
}

TEST(AdaLnArguments, OfOneSampleMayHaveGradientsOfAnyStride) {
  float_problem problem({1, 3, 8}, {});
  problem.prepare();
  problem.forward(problem.forward_arguments());
  auto args = problem.backward_arguments();
  args.dscale.batch_stride = args.dshift.batch_stride = 0;
  problem.backward(args);
  problem.finish();
  problem.expect_accurate();
}

}  // namespace
