#include <gtest/gtest.h>

#include <adaptiveload/reduce.cuh>
#include <adaptiveload/support/launch.cuh>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../device_buffer.hpp"
#include "../random_values.hpp"

namespace al = adaptiveload;

namespace {

/// Sums of each column's values and of their squares, over rows [first, last); `emitted` counts how
/// often a sum came out.
template <int Width, int Rows>
__global__ void column_sums(const float* matrix, int columns, std::int64_t first, std::int64_t last,
                            int lanes, float* sums, int* emitted) {
  const int tile = static_cast<int>(blockIdx.x) * lanes * Width;
  const int teams = static_cast<int>(blockDim.x) / lanes;
  al::column_tile_sum<Width, 2, Rows>(
      first, last, reinterpret_cast<float*>(al::device::shared_memory()),
      [&](float(&sum)[2][Width], int column, std::int64_t row) {
        for (int r = 0; r == 0 || (r < Rows && row < last); ++r, row += teams) {
          for (int k = 0; k < Width; ++k) {
            if (tile + column + k >= columns) break;
            const float value = matrix[row * columns + tile + column + k];
            sum[0][k] += value;
            sum[1][k] += value * value;
          }
        }
      },
      [&](int sum, int column, float value) {
        if (tile + column >= columns) return;
        sums[sum * columns + tile + column] = value;
        emitted[sum * columns + tile + column] += 1;
      },
      lanes);
}

struct tile {
  unsigned warps;
  int lanes;
};

/// Calls `f` with widths and rows at once, as constants, and a tile.
template <class F>
void for_each_tile(F f) {
  using std::integral_constant;
  for (const unsigned warps : {1u, 3u, 8u, 32u}) {
    f(integral_constant<int, 1>{}, integral_constant<int, 1>{}, tile{warps, 32});
    f(integral_constant<int, 2>{}, integral_constant<int, 1>{}, tile{warps, 32});
    f(integral_constant<int, 2>{}, integral_constant<int, 3>{}, tile{warps, 4});
    if (warps > 16) continue;  // shared memory
    f(integral_constant<int, 8>{}, integral_constant<int, 1>{}, tile{warps, 32});
    f(integral_constant<int, 8>{}, integral_constant<int, 4>{}, tile{warps, 16});
    f(integral_constant<int, 8>{}, integral_constant<int, 4>{}, tile{warps, 1});
  }
}

struct result {
  std::vector<float> sums;
  std::vector<int> emitted;
};

template <int Width, int Rows>
result sums_on_device(const std::vector<float>& matrix, int columns, std::int64_t first,
                      std::int64_t last, tile t) {
  const device_buffer<float> in(matrix);
  device_buffer<float> sums(2 * static_cast<std::size_t>(columns));
  device_buffer<int> emitted(std::vector<int>(sums.size(), 0));
  const int tile_columns = t.lanes * Width;
  al::device::launch("column_sums", column_sums<Width, Rows>,
                     (columns + tile_columns - 1) / tile_columns, dim3(32 * t.warps),
                     std::size_t{t.warps} * 2 * 32 * Width * sizeof(float), nullptr, in.data(),
                     columns, first, last, t.lanes, sums.data(), emitted.data());
  return {sums.download(), emitted.download()};
}

TEST(ColumnTile, SumsEachColumnOverTheRunOfRows) {
  constexpr int columns = 300;
  constexpr std::int64_t rows = 70;
  std::vector<float> matrix(static_cast<std::size_t>(rows) * columns);
  for (std::size_t i = 0; i < matrix.size(); ++i) {  // sums are exact
    matrix[i] = static_cast<float>(random_bits(test_seed(), i) % 400);
  }
  struct run {
    std::int64_t first, last;
  };
  for (const run r : {run{0, rows}, {3, 4}, {5, 38}, {69, 70}, {7, 7}, {9, 2}}) {
    std::vector<float> expected(2 * columns);
    for (std::int64_t row = r.first; row < r.last; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        const float value = matrix[static_cast<std::size_t>(row) * columns + column];
        expected[column] += value;
        expected[columns + column] += value * value;
      }
    }
    for_each_tile([&](auto width, auto at_once, tile t) {
      SCOPED_TRACE(testing::Message()
                   << "rows " << r.first << " to " << r.last << ", width " << width << ", "
                   << at_once << " at once, " << t.warps << " warps, teams of " << t.lanes);
      const result got = sums_on_device<width, at_once>(matrix, columns, r.first, r.last, t);
      EXPECT_EQ(got.sums, expected);
      EXPECT_EQ(got.emitted, std::vector<int>(2 * columns, 1));
    });
  }
}

TEST(ColumnTile, OfRandomNumbersIsCloseToDouble) {
  constexpr int columns = 64;
  constexpr std::int64_t rows = 1000;
  std::vector<float> matrix(static_cast<std::size_t>(rows) * columns);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = random_normal(test_seed(), i);

  for_each_tile([&](auto width, auto at_once, tile t) {
    const result got = sums_on_device<width, at_once>(matrix, columns, 0, rows, t);
    const double teams = 32. * t.warps / t.lanes;
    for (std::size_t column = 0; column < columns; ++column) {
      double sum = 0, magnitude = 0, squares = 0;
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
        const double value = matrix[row * columns + column];
        sum += value;
        magnitude += std::abs(value);
        squares += value * value;
      }
      // One rounding an addition: at most rows / teams in a row, then one a team.
      const double roundings = static_cast<double>(rows) / teams + teams + 1;
      EXPECT_NEAR(got.sums[column], sum, roundings * 0x1p-24 * magnitude);
      EXPECT_NEAR(got.sums[columns + column], squares, roundings * 0x1p-24 * squares);
    }
  });
}

}  // namespace
