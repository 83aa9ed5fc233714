#pragma once

#include <adaptiveload/adaln/checks.hpp>
#include <adaptiveload/reduce/column_reduce_kernels.cuh>
#include <adaptiveload/support/error.hpp>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

/// Sums down the columns of a matrix on a GPU, such as the gradient of a bias.
namespace adaptiveload {

/// Sizes of a matrix whose rows are summed by groups: equally long runs of rows, one after the
/// other.
struct column_reduce_shape {
  std::int64_t rows = 0;     ///< of all groups, 0 or more
  std::int64_t columns = 0;  ///< 1 or more
  std::int64_t groups = 1;   ///< 1 or more; divides `rows`
};

/// Where the sums go: `columns` numbers a group, those of group g from `data + g * group_stride`.
struct column_sums {
  float* data = nullptr;          ///< null: not wanted
  std::int64_t group_stride = 0;  ///< in elements; must keep the groups apart
};

/// Arguments of `column_reduce`. T, the matrix's storage type, is float, __nv_bfloat16 or __half;
/// sums are made and stored in float.
template <class T>
struct column_reduce_args {
  column_reduce_shape shape;
  const T* matrix = nullptr;       ///< [rows, columns]
  std::int64_t row_stride = 0;     ///< in elements, `columns` or more; 0: `columns`
  const float* weights = nullptr;  ///< [rows], of `weighted_sums` alone
  column_sums sums = {};           ///< of group g's rows r: sum(matrix[r, c])
  column_sums weighted_sums = {};  ///< sum(weights[r] * matrix[r, c])
  void* scratch = nullptr;         ///< 16-byte aligned
  std::size_t scratch_bytes = 0;   ///< at least `column_reduce_scratch_bytes(shape)`
};

namespace detail {

inline void check_shape(const column_reduce_shape& shape) {
  require(shape.rows >= 0, "shape.rows", shape.rows, "0 or more");
  require(shape.columns >= 1, "shape.columns", shape.columns, "1 or more");
  require(shape.groups >= 1, "shape.groups", shape.groups, "1 or more");
  require(shape.rows % shape.groups == 0, "shape.groups", shape.groups,
          "a divisor of shape.rows = " + std::to_string(shape.rows));
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 16;  // 16 bytes each
  require(shape.columns <= limit / std::max(shape.rows, shape.groups), "shape.columns",
          shape.columns, "rows * columns and groups * columns below 2^59");
}

inline void check_sums(const column_sums& sums, const column_reduce_shape& shape,
                       const std::string& argument) {
  if (sums.data == nullptr) return;
  require_pointer(sums.data, argument + ".data");
  require(shape.groups == 1 || std::abs(sums.group_stride) >= shape.columns,
          argument + ".group_stride", sums.group_stride,
          "at least shape.columns = " + std::to_string(shape.columns) +
              " either way, so that no two groups write one place");
}

template <class T>
void check_arguments(const column_reduce_args<T>& args) {
  const column_reduce_shape& shape = args.shape;
  check_shape(shape);
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 16;
  require(
      args.row_stride == 0 || (args.row_stride >= shape.columns &&
                               args.row_stride <= limit / std::max<std::int64_t>(shape.rows, 1)),
      "row_stride", args.row_stride,
      "0, or shape.columns = " + std::to_string(shape.columns) +
          " or more with rows * row_stride below 2^59");
  if (args.sums.data == nullptr && args.weighted_sums.data == nullptr) {
    throw_invalid("sums.data", "null", "a pointer to data, as weighted_sums.data is null too");
  }
  check_sums(args.sums, shape, "sums");
  check_sums(args.weighted_sums, shape, "weighted_sums");
  if (shape.rows == 0) return;
  require_pointer(args.matrix, "matrix");
  if (args.weighted_sums.data != nullptr) require_pointer(args.weights, "weights");
}

template <int Width, column_pass Pass, class T>
void launch_column_tiles(const column_matrix<T>& matrix, const column_tiling& tiling,
                         const column_outputs& out, cudaStream_t stream, bool overlaps) {
  constexpr std::size_t sums = Pass == column_pass::weighted ? 2 : 1;
  device::launch_overlapping(
      overlaps, Pass == column_pass::fold ? "column_reduce: fold" : "column_reduce",
      column_tiles<T, Width, Pass>,
      std::min(matrix.groups * tiling.n_tiles * tiling.d_tiles, device::max_blocks),
      dim3(static_cast<unsigned>(tiling.threads)),
      static_cast<std::size_t>(tiling.threads) * sums * Width * sizeof(float), stream, matrix,
      tiling, out);
}

/// Adds the tiles' partial sums [sums, groups, n_tiles, columns].
template <int Width>
void fold_column_tiles(const column_matrix<float>& partial, const column_outputs& out,
                       cudaStream_t stream, const device::properties& on) {
  const column_tiling tiling(partial.groups, partial.rows, partial.columns, Width, sizeof(float),
                             column_rows_at_once<Width>, on.multiprocessors, true);
  launch_column_tiles<Width, column_pass::fold>(partial, tiling, out, stream,
                                                on.compute_capability >= 90);
}

template <int Width, column_pass Pass, class T>
void launch_column_reduce(const column_reduce_args<T>& args, cudaStream_t stream) {
  const auto [rows, columns, groups] = args.shape;
  const device::properties on = device::current_properties();
  const column_matrix<T> matrix{
      args.matrix, groups, rows / groups, columns, args.row_stride == 0 ? columns : args.row_stride,
      args.weights};
  const column_tiling tiling(groups, rows / groups, columns, Width, sizeof(T),
                             column_rows_at_once<Width>, on.multiprocessors, false);
  const column_outputs out{args.sums.data, args.weighted_sums.data, args.sums.group_stride,
                           args.weighted_sums.group_stride, groups};
  if (tiling.n_tiles == 1) {
    launch_column_tiles<Width, Pass>(matrix, tiling, out, stream, false);
    return;
  }
  constexpr int sums = Pass == column_pass::weighted ? 2 : 1;
  float* const partial = static_cast<float*>(args.scratch);
  const std::int64_t runs = groups * tiling.n_tiles;
  launch_column_tiles<Width, Pass>(matrix, tiling, {partial, nullptr, columns, 0, sums * runs},
                                   stream, false);
  const column_matrix<float> partials{partial, sums * groups, tiling.n_tiles,
                                      columns, columns,       nullptr};
  if (columns % 4 == 0) {
    fold_column_tiles<4>(partials, out, stream, on);
  } else {
    fold_column_tiles<1>(partials, out, stream, on);
  }
}

}  // namespace detail

/// Bytes of scratch that `column_reduce` needs for a shape on the current device: bounded by its
/// multiprocessors and `groups * columns`, whatever the rows.
inline std::size_t column_reduce_scratch_bytes(const column_reduce_shape& shape) {
  detail::check_shape(shape);
  // The widest packs make the fewest tiles of columns, and so the most of rows.
  const detail::column_tiling tiling(shape.groups, shape.rows / shape.groups, shape.columns, 8, 2,
                                     detail::column_rows_at_once<8>,
                                     device::current_properties().multiprocessors, false);
  if (tiling.n_tiles == 1) return 0;
  return 2 * sizeof(float) *
         static_cast<std::size_t>(shape.groups * tiling.n_tiles * shape.columns);
}

/// Sums, and weighted sums, of a matrix's columns over each group of its rows, in one pass over the
/// matrix; see `column_reduce_args`. No rows give sums of 0.
///
/// Asynchronous on the caller's stream; allocates nothing, can be captured into a CUDA graph, and
/// gives the same bits for the same inputs, equally aligned, on the same kind of device. Fast where
/// columns, strides and addresses allow accesses of 16 bytes, correct everywhere. Throws
/// `std::invalid_argument` on a bad argument, before anything is launched, and `cuda_error` if a
/// launch fails.
template <class T>
void column_reduce(const column_reduce_args<T>& args, cudaStream_t stream = nullptr) {
  detail::check_arguments(args);
  detail::check_scratch(args.scratch, args.scratch_bytes, column_reduce_scratch_bytes(args.shape));
  constexpr int width = 16 / static_cast<int>(sizeof(T));
  const bool vectors = reinterpret_cast<std::uintptr_t>(args.matrix) % 16 == 0 &&
                       args.shape.columns % width == 0 && args.row_stride % width == 0;
  const auto run = [&](auto chosen) {
    if (args.weighted_sums.data != nullptr) {
      detail::launch_column_reduce<chosen.value, detail::column_pass::weighted>(args, stream);
    } else {
      detail::launch_column_reduce<chosen.value, detail::column_pass::plain>(args, stream);
    }
  };
  if (vectors) {
    run(std::integral_constant<int, width>{});
  } else {
    run(std::integral_constant<int, 1>{});
  }
}

}  // namespace adaptiveload
