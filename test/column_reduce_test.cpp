#include <gtest/gtest.h>

#include <adaptiveload/column_reduce.cuh>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "case_size.hpp"
#include "device_buffer.hpp"
#include "reduce/column_problem.hpp"

namespace al = adaptiveload;

namespace {

const bool large_cases = runs_large_cases();

template <class T>
class ColumnReduce : public testing::Test {
 protected:
  void expect_accurate(const al::column_reduce_shape& shape, const column_options& options = {}) {
    column_problem<T> p(shape, options);
    p.run();
    p.expect_accurate();
  }
};

struct type_name {
  template <class T>
  static std::string GetName(int) {
    return std::is_same_v<T, float>    ? "float32"
           : std::is_same_v<T, __half> ? "float16"
                                       : "bfloat16";
  }
};
using types = testing::Types<__nv_bfloat16, __half, float>;
TYPED_TEST_SUITE(ColumnReduce, types, type_name);

/// So many rows of a group are cut into several runs.
constexpr std::int64_t many_rows = 2500;

TYPED_TEST(ColumnReduce, TakesAnyWidth) {
  for (const std::int64_t columns :
       {1, 2, 3, 4, 7, 8, 16, 24, 31, 33, 64, 100, 128, 256, 264, 520, 1000, 1536, 5120}) {
    for (const std::int64_t rows : {1, 5, 37}) this->expect_accurate({rows, columns});
    if (columns <= 264 || large_cases) this->expect_accurate({many_rows, columns});
  }
}

TYPED_TEST(ColumnReduce, TakesAnyNumberOfRows) {
  for (const std::int64_t columns : {1, 9, 72}) {
    for (const std::int64_t rows :
         {0, 2, 3, 4, 8, 15, 31, 32, 33, 127, 128, 129, 511, 2047, 2048, 2049, 4096, 4099}) {
      this->expect_accurate({rows, columns});
    }
    if (large_cases) {
      for (const std::int64_t rows : {65536, 100003, 1 << 20}) {
        this->expect_accurate({rows, columns});
      }
    }
  }
}

TYPED_TEST(ColumnReduce, SumsEachGroupAlone) {
  for (const std::int64_t groups : {2, 3, 7, 300}) {
    for (const std::int64_t rows : {0, 1, 2, 5, 33}) {
      for (const std::int64_t columns : {7, 64}) {
        this->expect_accurate({groups * rows, columns, groups});
      }
    }
  }
  for (const std::int64_t columns : {5, 16, 264}) {
    this->expect_accurate({3 * many_rows, columns, 3});
    if (large_cases) this->expect_accurate({16 * 4096, columns, 16});
  }
}

TYPED_TEST(ColumnReduce, MakesTheSumsThatAreWanted) {
  for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{12}, 2 * many_rows}) {
    for (const std::int64_t columns : {7, 16}) {
      this->expect_accurate({rows, columns, 2}, {.weighted_sums = false});
      this->expect_accurate({rows, columns, 2}, {.sums = false});
    }
  }
}

TYPED_TEST(ColumnReduce, TakesAnyAlignment) {
  for (const std::string_view argument : {"matrix", "weights", "sums", "weighted_sums"}) {
    SCOPED_TRACE(argument);
    for (const std::int64_t rows : {std::int64_t{12}, 2 * many_rows}) {
      this->expect_accurate({rows, 16, 2}, {.shifted = argument});
    }
  }
}

TYPED_TEST(ColumnReduce, TakesAnyStrides) {
  for (const std::int64_t between : {1, 2, 4, 8, 100}) {
    for (const std::int64_t rows : {std::int64_t{12}, 2 * many_rows}) {
      SCOPED_TRACE(between);
      this->expect_accurate({rows, 16, 2}, {.between_rows = between});
      this->expect_accurate({rows, 16, 2}, {.between_groups = between});
      this->expect_accurate({rows, 7, 2}, {.between_rows = between, .last_first = true});
    }
  }
}

TYPED_TEST(ColumnReduce, OfRandomNumbersIsCloseToDouble) {
  for (const std::int64_t columns : {9, 64}) {
    for (const std::int64_t rows : {std::int64_t{40}, std::int64_t{1000}, many_rows}) {
      this->expect_accurate({rows, columns}, {.of = numbers::normal});
    }
  }
  if (large_cases) this->expect_accurate({1 << 20, 128}, {.of = numbers::normal});
}

TYPED_TEST(ColumnReduce, GivesTheSameBitsTwice) {
  for (const std::int64_t rows : {std::int64_t{40}, 2 * many_rows, std::int64_t{65536}}) {
    if (rows > 2 * many_rows && !large_cases) continue;
    column_problem<TypeParam> p({rows, 72, 2}, {.of = numbers::normal});
    p.run();
    const auto sums = p.sums.host, weighted_sums = p.weighted_sums.host;
    p.run();
    EXPECT_EQ(p.sums.host, sums);
    EXPECT_EQ(p.weighted_sums.host, weighted_sums);
  }
}

TYPED_TEST(ColumnReduce, KeepsWhatIsNotFiniteInItsGroupAndColumn) {
  for (const std::int64_t rows : {std::int64_t{5}, many_rows}) {
    for (const std::int64_t columns : {9, 40}) {
      column_problem<TypeParam> p({3 * rows, columns, 3});
      p.element(rows, 0) = static_cast<TypeParam>(std::numeric_limits<float>::infinity());
      p.element(2 * rows - 1, columns - 1) =
          static_cast<TypeParam>(std::numeric_limits<float>::quiet_NaN());
      p.weights.host[static_cast<std::size_t>(rows)] = 2;
      p.weights.host.front() = std::numeric_limits<float>::infinity();
      for (std::int64_t c = 0; c < columns; ++c) p.element(0, c) = static_cast<TypeParam>(1.f);
      p.run();
      for (std::int64_t group = 0; group < 3; ++group) {
        for (std::int64_t c = 0; c < columns; ++c) {
          SCOPED_TRACE(testing::Message() << "group " << group << ", column " << c);
          const float sum = p.sum(group, c), weighted = p.weighted_sum(group, c);
          EXPECT_EQ(std::isinf(sum), group == 1 && c == 0);
          EXPECT_EQ(std::isnan(sum), group == 1 && c == columns - 1);
          EXPECT_EQ(std::isinf(weighted), group == 0 || (group == 1 && c == 0));
          EXPECT_EQ(std::isnan(weighted), group == 1 && c == columns - 1);
        }
      }
    }
  }
}

#ifndef __CUDACC__

/// On devices that the executor stands in for.
class ColumnReduceOnDevice : public ColumnReduce<__nv_bfloat16> {
 protected:
  ~ColumnReduceOnDevice() override { device = before; }
  simt::device_settings& device = simt::settings();

  void expect_accurate_everywhere() {
    for (const std::int64_t columns : {7, 16, 264}) {
      expect_accurate({30, columns, 2});
      expect_accurate({2 * many_rows, columns, 2});
    }
  }

 private:
  simt::device_settings before = device;
};

TEST_F(ColumnReduceOnDevice, TakesMoreTilesThanAGridHasBlocks) {
  for (const std::int64_t blocks : {1, 3}) {
    SCOPED_TRACE(blocks);
    device.max_blocks = blocks;
    expect_accurate_everywhere();
  }
}

TEST_F(ColumnReduceOnDevice, TakesAnyNumberOfMultiprocessors) {
  for (const int multiprocessors : {1, 3, 132}) {
    SCOPED_TRACE(multiprocessors);
    device.multiprocessors = multiprocessors;
    expect_accurate_everywhere();
  }
}

TEST_F(ColumnReduceOnDevice, DoesWithoutOverlappingLaunches) {
  device.compute_capability = 80;
  expect_accurate_everywhere();
}

#else

class ColumnReduceIndices : public testing::Test {
 protected:
  using element = __nv_bfloat16;
  static constexpr std::size_t size = (std::size_t{1} << 32) + 8;

  void SetUp() override {
    if (!large_cases) GTEST_SKIP() << "a large case";
    std::size_t free = 0, total = 0;
    al::detail::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (free < std::size_t{10} << 30) GTEST_SKIP() << "needs 10 GiB of device memory";
    matrix = device_buffer<element>(size);
  }

  void write(std::size_t first, const std::vector<float>& values) {
    const std::vector<element> converted(values.begin(), values.end());
    al::detail::check(cudaMemcpy(matrix.data() + first, converted.data(),
                                 converted.size() * sizeof(element), cudaMemcpyHostToDevice),
                      "cudaMemcpy");
  }

  device_buffer<element> matrix{0};
};

TEST_F(ColumnReduceIndices, OfElementsGoBeyond32Bits) {
  write(0, {1, 2, 3, 4, 5, 6, 7, 8});
  write(size - 8, {10, 20, 30, 40, 50, 60, 70, 80});
  device_buffer<float> sums(8);
  al::column_reduce<element>({.shape = {.rows = 2, .columns = 8},
                              .matrix = matrix.data(),
                              .row_stride = size - 8,
                              .sums = {sums.data()}});
  EXPECT_EQ(sums.download(), (std::vector<float>{11, 22, 33, 44, 55, 66, 77, 88}));
}

TEST_F(ColumnReduceIndices, OfRowsGoBeyond32Bits) {
  al::detail::check(cudaMemset(matrix.data(), 0, matrix.bytes()), "cudaMemset");
  write(0, {1});
  write(size / 2 - 1, {2, 3});
  write(size - 1, {4});
  for (const std::int64_t groups : {1, 2}) {
    const al::column_reduce_shape shape{
        .rows = static_cast<std::int64_t>(size), .columns = 1, .groups = groups};
    device_buffer<float> sums(static_cast<std::size_t>(groups));
    device_buffer<std::byte> scratch(al::column_reduce_scratch_bytes(shape));
    al::column_reduce<element>({.shape = shape,
                                .matrix = matrix.data(),
                                .sums = {sums.data(), 1},
                                .scratch = scratch.data(),
                                .scratch_bytes = scratch.bytes()});
    EXPECT_EQ(sums.download(), groups == 1 ? std::vector<float>{10} : (std::vector<float>{3, 7}));
  }
}

TEST(ColumnReduceGraph, GivesTheBitsOfPlainLaunches) {
  column_problem<__nv_bfloat16> p({20000, 264}, {.of = numbers::normal});
  p.run();
  const auto sums = p.sums.host, weighted_sums = p.weighted_sums.host;

  p.prepare();
  cudaStream_t stream{};
  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  al::detail::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  al::detail::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin");
  al::column_reduce(p.arguments(), stream);
  al::detail::check(cudaStreamEndCapture(stream, &graph), "end");
  al::detail::check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  for (int replay = 0; replay < 3; ++replay) {
    al::detail::check(cudaGraphLaunch(executable, stream), "launch");
    al::detail::check(cudaStreamSynchronize(stream), "synchronize");
    p.finish();
    EXPECT_EQ(p.sums.host, sums);
    EXPECT_EQ(p.weighted_sums.host, weighted_sums);
  }
  al::detail::check(cudaGraphExecDestroy(executable), "destroy");
  al::detail::check(cudaGraphDestroy(graph), "destroy");
  al::detail::check(cudaStreamDestroy(stream), "destroy");
}

#endif

TEST(ColumnReduceScratch, DoesNotGrowWithTheRows) {
  for (const std::int64_t columns : {1, 128, 1536, 65536}) {
    const std::size_t bytes = al::column_reduce_scratch_bytes({std::int64_t{1} << 22, columns});
    EXPECT_LE(al::column_reduce_scratch_bytes({std::int64_t{1} << 40, columns}), bytes + bytes / 8);
  }
  EXPECT_LE(al::column_reduce_scratch_bytes({65536, 1536}), 65536 * 1536 * 2 / 25);
  EXPECT_EQ(al::column_reduce_scratch_bytes({256, 1536}), 0);
  EXPECT_EQ(al::column_reduce_scratch_bytes({0, 1536, 16}), 0);
  EXPECT_THROW(al::column_reduce_scratch_bytes({-1, 1}), std::invalid_argument);
}

template <class T>
T* one_byte_on(T* pointer) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) + 1);
}

/// Expects that arguments, good but for `change`, are refused with a message that begins so.
template <class F>
void expect_refused(F change, const std::string& message) {
  column_problem<float> p({2 * many_rows, 8, 2});
  p.prepare();
  auto args = p.arguments();
  change(args);
  try {
    al::column_reduce(args);
    ADD_FAILURE() << "nothing thrown; expected: " << message;
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, message.size()), message);
  }
}

TEST(ColumnReduceArguments, AreChecked) {
  const auto expect = [](auto change, const std::string& message) {
    expect_refused(change, message);
  };
  expect([](auto& a) { a.shape.rows = -1; }, "shape.rows is -1; allowed: 0 or more");
  expect([](auto& a) { a.shape.columns = 0; }, "shape.columns is 0; allowed: 1 or more");
  expect([](auto& a) { a.shape.groups = 0; }, "shape.groups is 0; allowed: 1 or more");
  expect([](auto& a) { a.shape.groups = 3; },
         "shape.groups is 3; allowed: a divisor of shape.rows = 5000");
  expect(
      [](auto& a) {
        a.shape = {std::int64_t{1} << 40, 1 << 20, 1};
      },
      "shape.columns is 1048576; allowed: rows * columns and groups * columns below 2^59");
  expect(
      [](auto& a) {
        a.shape = {0, 1 << 20, std::int64_t{1} << 40};
      },
      "shape.columns is 1048576; allowed: rows * columns and groups * columns below 2^59");
  expect([](auto& a) { a.row_stride = 7; },
         "row_stride is 7; allowed: 0, or shape.columns = 8 or more");
  expect([](auto& a) { a.row_stride = -8; }, "row_stride is -8");
  expect([](auto& a) { a.row_stride = std::int64_t{1} << 50; }, "row_stride is 1125899906842624");
  expect([](auto& a) { a.matrix = nullptr; }, "matrix is null; allowed: a pointer to data");
  expect([](auto& a) { a.matrix = one_byte_on(a.matrix); }, "matrix is address ");
  expect([](auto& a) { a.weights = nullptr; }, "weights is null; allowed: a pointer to data");
  expect([](auto& a) { a.weights = one_byte_on(a.weights); }, "weights is address ");
  expect([](auto& a) { a.sums.data = a.weighted_sums.data = nullptr; },
         "sums.data is null; allowed: a pointer to data, as weighted_sums.data is null too");
  expect([](auto& a) { a.sums.data = one_byte_on(a.sums.data); }, "sums.data is address ");
  expect([](auto& a) { a.weighted_sums.data = one_byte_on(a.weighted_sums.data); },
         "weighted_sums.data is address ");
  expect([](auto& a) { a.sums.group_stride = 7; },
         "sums.group_stride is 7; allowed: at least shape.columns = 8 either way");
  expect([](auto& a) { a.weighted_sums.group_stride = -7; }, "weighted_sums.group_stride is -7");
  expect([](auto& a) { --a.scratch_bytes; }, "scratch_bytes is ");
  expect([](auto& a) { a.scratch = nullptr; },
         "scratch is null; allowed: a pointer to scratch_bytes bytes");
  expect([](auto& a) { a.scratch = static_cast<std::byte*>(a.scratch) + 8; }, "scratch is ");
}

TEST(ColumnReduceArguments, ThatNobodyReadsMayBeMissing) {
  column_problem<float> p({0, 8, 2});
  p.prepare();
  auto args = p.arguments();
  args.matrix = nullptr;
  args.weights = nullptr;
  al::column_reduce(args);
  p.finish();
  p.expect_accurate();

  column_problem<float> one_group({30, 8});
  one_group.prepare();
  args = one_group.arguments();
  args.sums.group_stride = 0;
  al::column_reduce(args);
  one_group.finish();
  one_group.expect_accurate();
}

}  // namespace
