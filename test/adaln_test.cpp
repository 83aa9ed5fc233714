#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "adaln/cases.hpp"

namespace al = adaptiveload;

namespace {

INSTANTIATE_TEST_SUITE_P(, AdaLn, testing::ValuesIn(operations()),
                         [](const auto& of) { return of.param.name; });

class AdaLnOfWidth : public testing::TestWithParam<std::tuple<operation, std::int64_t>> {};

std::string name_of(const testing::TestParamInfo<AdaLnOfWidth::ParamType>& of) {
  const auto& [op, features] = of.param;
  return op.name + "_" + std::to_string(features);
}

INSTANTIATE_TEST_SUITE_P(, AdaLnOfWidth,
                         testing::Combine(testing::ValuesIn(operations()),
                                          testing::Values(1, 7, 64, 100, 1152, 1536, 3072, 5120,
                                                          8192, 16384)),
                         name_of);

TEST_P(AdaLnOfWidth, IsAccurate) {
  const operation& op = std::get<0>(GetParam());
  const std::int64_t features = std::get<1>(GetParam());
  const auto expect_all_accurate = [&](std::initializer_list<al::activation_shape> shapes) {
    for (const al::activation_shape& shape : shapes) expect_accurate(op, shape);
  };
  expect_all_accurate({{1, 1, features},
                       {2, 1, features},
                       {1, features > 1536 ? 7 : 31, features},
                       {3, features > 1536 ? 2 : 5, features}});
  if (!large_cases) return;
  expect_all_accurate({{1, 4096, features}, {4, 1024, features}});
  if (features <= 1536 || op.name.ends_with("_bfloat16")) {  // others take minutes
    expect_accurate(op, {1, 70000, features});
  }
  if (features <= 1536) expect_all_accurate({{1000, 70, features}, {70000, 1, features}});
}

TEST_P(AdaLn, TakesAnyWidth) {
  for (const std::int64_t features :
       {2,   3,   8,   15,  16,   24,   56,   65,   72,   120,  136,   248,  256,
        257, 264, 480, 520, 1000, 1032, 1600, 2000, 2056, 4000, 20480, 32768}) {
    expect_accurate(GetParam(), {2, features > 4000 ? 1 : 3, features});
  }
}

TEST_P(AdaLn, TakesSamplesOfAnyLength) {
  for (const std::int64_t tokens : {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 255, 256, 257, 300}) {
    expect_accurate(GetParam(), {large_cases ? 300 : 2, tokens, 64});
  }
}

TEST_P(AdaLn, TakesManySamples) {
  for (const std::int64_t batch : {5, 64, 67, large_cases ? 70000 : 300}) {
    expect_accurate(GetParam(), {batch, 1, 64});
    expect_accurate(GetParam(), {batch, 3, 8});
  }
}

TEST_P(AdaLn, TakesAnyAlignment) {
  std::vector<std::string> arguments = GetParam().arguments;
  for (const std::string& modulation : GetParam().modulations) {
    arguments.insert(arguments.end(), {modulation, modulation + ".table", "d" + modulation,
                                       "d" + modulation + ".total"});
  }
  arguments.insert(arguments.end(), {"mean", "rstd", "all"});
  for (const std::string& argument : arguments) {
    problem_options options{.shifted = argument};
    if (argument.ends_with(".table")) options.table = "all";
    if (argument.ends_with(".total"))
      options.dgate = options.dscale = options.dshift = wanted::both;
    for (const std::int64_t features : {64, 1536}) {
      expect_accurate(GetParam(), {2, features == 64 ? 3 : 1, features}, options);
    }
  }
}

TEST_P(AdaLn, WorksInPlace) {
  for (const std::int64_t features : {7, 64, 72, 1536, 3072, 16384}) {
    expect_accurate(GetParam(), {2, 3, features}, {.in_place = true});
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
      expect_accurate(GetParam(), {2, large_cases ? 1000 : 3, features}, {.mean = mean});
    }
  }
}

TEST_P(AdaLn, TakesNoRows) {
  for (const al::activation_shape& shape :
       {al::activation_shape{0, 5, 64}, {5, 0, 64}, {0, 0, 7}, {3, 0, 7}, {3, 0, 64, 4}}) {
    expect_accurate(GetParam(), shape,
                    {.dgate = wanted::both, .dscale = wanted::both, .dshift = wanted::both});
  }
}

TEST_P(AdaLn, NormalizesByTheRootMeanSquare) {
  for (const float mean : {0.f, 100.f}) {
    for (const std::int64_t features : {1, 7, 64, 100, 1536, 5120, 16384}) {
      expect_accurate(GetParam(), {2, large_cases ? 1000 : 2, features},
                      {.kind = al::norm::root_mean_square, .mean = mean});
    }
  }
}

TEST_P(AdaLn, IsAnAffineNorm) {
  for (const al::norm kind : {al::norm::layer, al::norm::root_mean_square}) {
    for (const std::int64_t features : {1, 7, 64, 1536, 5120}) {
      problem_options options{.kind = kind,
                              .form = al::modulate::scale,
                              .scale = layout::shared_by_all,
                              .shift = layout::shared_by_all,
                              .dscale = wanted::total,
                              .dshift = wanted::total};
      expect_accurate(GetParam(), {2, large_cases ? 1000 : 2, features}, options);
      options.has_shift = false;
      options.dshift = wanted::nothing;
      expect_accurate(GetParam(), {2, large_cases ? 1000 : 2, features}, options);
    }
  }
}

TEST_P(AdaLn, DoesWithoutAShift) {
  for (const std::int64_t features : {1, 7, 64, 100, 1536, 16384}) {
    expect_accurate(GetParam(), {2, 3, features}, {.has_shift = false});
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
      expect_accurate(GetParam(), {3, features > 1000 ? 3 : 9, features});
    }
    expect_accurate(GetParam(), {2, 1, 16384});
    for (const std::int64_t features : {64, 1536}) {
      expect_accurate(GetParam(), {2, 4, features, 2});
      const problem_options packed{.lengths = {1, 0, 7, 3}};
      expect_accurate(GetParam(), packed_shape(packed, features), packed);
    }
  }
  /// Of a small device.
  void expect_accurate_of_many_rows() {
    device.multiprocessors = 1;
    for (const std::int64_t features : {8, 72, 128, 136, 264, 520, 1536, 2056, 3072, 5120}) {
      expect_accurate(GetParam(), {1, 19, features});
      expect_accurate(GetParam(), {2, 10, features, 5}, {.in_place = true});
      const problem_options packed{.lengths = {5, 0, 0, 3, 1, 9}};
      expect_accurate(GetParam(), packed_shape(packed, features), packed);
    }
    for (const al::activation_shape& shape : {al::activation_shape{1, 400, 64},
                                              {1, 250, 128},
                                              {1, 150, 256},
                                              {1, 90, 264},
                                              {1, 60, 768},
                                              {1, 9, 9216},
                                              {1, 9, 16384}}) {
      expect_accurate(GetParam(), shape);
    }
  }

 private:
  simt::device_settings before = device;
};

INSTANTIATE_TEST_SUITE_P(, AdaLnOnDevice, testing::ValuesIn(operations()),
                         [](const auto& of) { return of.param.name; });

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
  expect_accurate_of_many_rows();
}

TEST_P(AdaLnOnDevice, TakesManyRowsOfAnyWidth) {
  expect_accurate_of_many_rows();
}

TEST_P(AdaLnOnDevice, TakesAnyNumberOfMultiprocessors) {
  for (const int multiprocessors : {1, 3, 132}) {
    SCOPED_TRACE(multiprocessors);
    device.multiprocessors = multiprocessors;
    for (const al::activation_shape& shape : {al::activation_shape{3, 37, 64},
                                              {1, 20, 1536},
                                              {5, 1, 1536},
                                              {5, 3, 100},
                                              {2, 40, 64, 4}}) {
      expect_accurate(GetParam(), shape);
    }
    const problem_options packed{.lengths = {0, 60, 1, 2, 0, 0, 5, 20, 0}};
    expect_accurate(GetParam(), packed_shape(packed, 64), packed);
  }
}

#else

TEST_P(AdaLn, IndexesBeyond31Bits) {
  if (!large_cases || !GetParam().name.ends_with("_bfloat16")) GTEST_SKIP() << "a large case";
  std::size_t free = 0, total = 0;
  al::detail::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (free < std::size_t{48} << 30) GTEST_SKIP() << "needs 48 GiB of device memory";
  expect_accurate(GetParam(), {6, 75600, 5120});
}

TEST_P(AdaLn, GivesTheBitsOfPlainLaunchesInAGraph) {
  const auto p = GetParam().make({3, 700, 1536}, {});
  p->run();
  const auto launched = copy_of_outputs(*p);

  p->prepare();
  cudaStream_t stream{};
  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  al::detail::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  al::detail::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin");
  p->launch(stream);
  al::detail::check(cudaStreamEndCapture(stream, &graph), "end");
  al::detail::check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  for (int replay = 0; replay < 3; ++replay) {
    al::detail::check(cudaGraphLaunch(executable, stream), "launch");
    al::detail::check(cudaStreamSynchronize(stream), "synchronize");
    p->finish();
    EXPECT_TRUE(copy_of_outputs(*p) == launched);
  }
  al::detail::check(cudaGraphExecDestroy(executable), "destroy");
  al::detail::check(cudaGraphDestroy(graph), "destroy");
  al::detail::check(cudaStreamDestroy(stream), "destroy");
}

#endif

TEST_P(AdaLn, NeedsScratchOfAFewPercentOfX) {
  for (const std::int64_t features : {1536, 3072, 5120}) {
    for (const std::int64_t batch : {1, 16}) {
      for (const std::int64_t groups : {std::int64_t{1}, std::int64_t{16}, 65536 / batch}) {
        const al::activation_shape shape{batch, 65536 / batch, features, groups};
        EXPECT_LE(static_cast<double>(GetParam().scratch_bytes(shape)),
                  0.04 * 2 * 65536 * static_cast<double>(features))
            << text_of(shape);
      }
    }
  }
  EXPECT_THROW(GetParam().scratch_bytes({-1, 1, 1}), std::invalid_argument);
}

}  // namespace
