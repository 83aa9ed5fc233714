#pragma once

#include <adaptiveload/reduce/column_tile.cuh>
#include <adaptiveload/support/pack.cuh>
#include <algorithm>
#include <bit>
#include <cstdint>

/// Column sums by a grid of (d_tile, n_tile) tiles: some columns, and a run of rows of one group.
namespace adaptiveload::detail {

/// What `column_tiles` adds up.
enum class column_pass {
  plain,     ///< the rows
  weighted,  ///< the rows, and the rows times their weights
  fold       ///< the partial sums that the kernel before wrote
};

/// `groups` matrices [rows, columns], one after the other.
template <class T>
struct column_matrix {
  const T* data;
  std::int64_t groups, rows, columns, row_stride;
  const float* weights;  ///< [groups * rows], of `column_pass::weighted`
};

/// Where sums go: the first `count` vectors of columns to one array, all others to another one.
struct column_outputs {
  float* first;
  float* second;
  std::int64_t first_stride, second_stride, count;

  /// null: not wanted.
  __device__ float* vector(std::int64_t i) const {
    if (i < count) return first == nullptr ? nullptr : first + i * first_stride;
    return second == nullptr ? nullptr : second + (i - count) * second_stride;
  }
};

inline constexpr int column_tile_threads = 512;

/// Of a thread, to have enough bytes under way: 64 KiB a multiprocessor in accesses of 16 bytes.
template <int Width>
inline constexpr int column_rows_at_once = Width == 1 ? 8 : 4;

/// How a matrix is cut.
struct column_tiling {
  int lanes, threads;  ///< see `column_tile_sum`
  std::int64_t d_tiles, n_tiles, rows_per_tile;

  /// For packs of `width` elements of `element_bytes`. `one_tile`: a group, however long it is.
  ///
  /// Several tiles for every block that runs at a time, as multiprocessors are not equally fast;
  /// more would make more partial sums. But up to some rows a single kernel is faster: one tile a
  /// group, its columns so few that there are tiles for all multiprocessors.
  column_tiling(std::int64_t groups, std::int64_t rows, std::int64_t columns, int width,
                int element_bytes, int rows_at_once, int multiprocessors, bool one_tile) {
    constexpr std::int64_t tiles_per_multiprocessor = 8, rows_of_one_tile = 2048;
    constexpr std::int64_t rows_of_block = 64;  // at once, of 16 warps in accesses of 16 bytes
    constexpr int least_bytes = 64;             // of a row in a tile: two sectors of memory
    const auto ceil = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    const std::int64_t packs = ceil(columns, width);
    lanes = static_cast<int>(
        std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(packs, 32))));
    const bool alone = one_tile || rows <= rows_of_one_tile;
    while (alone && lanes * width * element_bytes > least_bytes &&
           groups * ceil(packs, lanes) < 2 * multiprocessors) {
      lanes /= 2;
    }
    d_tiles = ceil(packs, lanes);
    n_tiles = alone ? 1 : ceil(tiles_per_multiprocessor * multiprocessors, groups * d_tiles);
    rows_per_tile =
        ceil(ceil(std::max<std::int64_t>(rows, 1), n_tiles), rows_of_block) * rows_of_block;
    n_tiles = ceil(std::max<std::int64_t>(rows, 1), rows_per_tile);
    const std::int64_t working =
        lanes * ceil(std::clamp<std::int64_t>(rows, 1, rows_per_tile), rows_at_once);
    threads = static_cast<int>(std::min<std::int64_t>(ceil(working, 32) * 32, column_tile_threads));
  }
};

/// Adds `column_rows_at_once` rows that are `step` apart, as far as they are below `last`; `All`:
/// all are. Their reads have no branches between that would keep them from being under way
/// together: instead of a row that doesn't count, the first is read again.
template <column_pass Pass, bool All, class T, int Sums, int Width>
__device__ void add_rows(const column_matrix<T>& matrix, std::int64_t column, std::int64_t row,
                         std::int64_t last, int step, float (&sums)[Sums][Width]) {
  constexpr int rows = column_rows_at_once<Width>;
  const T* const data = matrix.data + row * matrix.row_stride + column;
  const auto counts = [&](int i) { return All || row + i * step < last; };
  pack<T, Width> packs[rows];
  float weights[rows];
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    const std::int64_t ahead = counts(i) ? i * step : 0;
    if constexpr (Pass == column_pass::fold) {
      packs[i] = load_pack<Width>(data + ahead * matrix.row_stride);
    } else {
      packs[i] = load_pack_streaming<Width>(data + ahead * matrix.row_stride);
    }
    if constexpr (Pass == column_pass::weighted)
      weights[i] = counts(i) ? matrix.weights[row + ahead] : 0;
  }
#pragma unroll
  for (int i = 0; i < rows; ++i) {
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      const float value = counts(i) ? packs[i][k] : 0;
      sums[0][k] += value;
      if constexpr (Pass == column_pass::weighted) {
        sums[1][k] = fmaf(weights[i], value, sums[1][k]);
      }
    }
  }
}

template <class T, int Width, column_pass Pass>
__global__ void __launch_bounds__(column_tile_threads, 2)
    column_tiles(column_matrix<T> matrix, column_tiling tiling, column_outputs out) {
  constexpr int sums = Pass == column_pass::weighted ? 2 : 1;
  constexpr int at_once = column_rows_at_once<Width>;
  if constexpr (Pass == column_pass::fold) {
    device::wait_for_previous_kernel();
  } else {
    device::let_next_kernel_start();
  }
  const int teams = static_cast<int>(blockDim.x) / tiling.lanes;
  const std::int64_t runs = matrix.groups * tiling.n_tiles;  // of rows

  for (std::int64_t tile = blockIdx.x; tile < runs * tiling.d_tiles; tile += gridDim.x) {
    const std::int64_t run = tile / tiling.d_tiles;
    const std::int64_t first_column = tile % tiling.d_tiles * (tiling.lanes * Width);
    const std::int64_t group = run / tiling.n_tiles;
    const std::int64_t end = (group + 1) * matrix.rows;
    const std::int64_t first = group * matrix.rows + run % tiling.n_tiles * tiling.rows_per_tile;
    const std::int64_t last =
        first + tiling.rows_per_tile < end ? first + tiling.rows_per_tile : end;

    column_tile_sum<Width, sums, at_once>(
        first, last, reinterpret_cast<float*>(device::shared_memory()),
        [&](float(&sum)[sums][Width], int column, std::int64_t row) {
          const std::int64_t unbounded = first_column + column, bound = matrix.columns - Width;
          // Lanes beyond the matrix read its last columns again.
          const std::int64_t place = unbounded < bound ? unbounded : bound;
          if (row + (at_once - 1) * teams < last) {
            add_rows<Pass, true>(matrix, place, row, last, teams, sum);
          } else {
            add_rows<Pass, false>(matrix, place, row, last, teams, sum);
          }
        },
        [&](int sum, int column, float value) {
          float* const to = out.vector(sum * runs + run);
          if (to == nullptr || first_column + column >= matrix.columns) return;
          to[first_column + column] = value;
        },
        tiling.lanes);
    device::sync_block();  // before the tile's shared memory is written again
  }
}

}  // namespace adaptiveload::detail
