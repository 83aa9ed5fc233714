#pragma once

#include <adaptiveload/support/device.cuh>
#include <cstdint>

namespace adaptiveload {

/// Sums columns of a row-major matrix over a run of rows: the "D-tile" (Guo et al. 2026).
///
/// The block is W whole warps, one-dimensional. Lane l of every warp is fixed to the `Width`
/// neighbouring columns from `l * Width` of the tile's `32 * Width`, and warp w walks down rows
/// `first + w`, `first + w + W`, ... below `last`, so that a warp's reads are contiguous and its
/// sums stay in registers. `accumulate(sums, column, row)` adds what row `row` gives to the `Sums`
/// sums of the columns from `column` on (in the tile); `emit(sum, column, value)` gets every
/// finished sum once, from one thread of the block. The warps' sums are added in the order of the
/// warps: the same inputs give the same bits.
///
/// `storage` is shared memory for `W * Sums * 32 * Width` floats; one barrier is passed, and
/// `storage` may be written again only after another one.
///
///     column_tile_sum<4, 1>(0, rows, storage,
///         [&](float (&sums)[1][4], int column, std::int64_t row) {
///           for (int i = 0; i < 4; ++i) sums[0][i] += matrix[row * columns + column + i];
///         },
///         [&](int, int column, float value) { total[column] = value; });
template <int Width, int Sums, class Accumulate, class Emit>
__device__ void column_tile_sum(std::int64_t first, std::int64_t last, float* storage,
                                Accumulate accumulate, Emit emit) {
  constexpr int columns = device::warp_size * Width;
  const int rank = device::thread_rank();
  const int warp = rank / device::warp_size;
  const int warps = static_cast<int>(blockDim.x) / device::warp_size;
  const int column = (rank % device::warp_size) * Width;

  float sums[Sums][Width] = {};
  for (std::int64_t row = first + warp; row < last; row += warps) accumulate(sums, column, row);

#pragma unroll
  for (int sum = 0; sum < Sums; ++sum) {
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      storage[(warp * Sums + sum) * columns + column + i] = sums[sum][i];
    }
  }
  device::sync_block();
  for (int index = rank; index < Sums * columns; index += static_cast<int>(blockDim.x)) {
    float value = storage[index];
    for (int w = 1; w < warps; ++w) value += storage[w * Sums * columns + index];
    emit(index / columns, index % columns, value);
  }
}

}  // namespace adaptiveload
