#pragma once

#include <adaptiveload/support/device.cuh>
#include <adaptiveload/support/pack.cuh>
#include <cstdint>

namespace adaptiveload {

/// Sums columns of a row-major matrix over a run of rows: the "D-tile" (Guo et al. 2026).
///
/// The block is one-dimensional, of T teams of `lanes` threads: by default its warps, or parts of
/// warps for a narrow matrix. Lane l of every team is fixed to the `Width` neighbouring columns
/// from `l * Width` of the tile's `lanes * Width`, and team t walks down rows `first + t`,
/// `first + t + T`, ... below `last`, so that a warp's reads are contiguous and its sums stay in
/// registers. `accumulate(sums, column, row)` adds what row `row` gives to the `Sums` sums of the
/// columns from `column` on (in the tile); with `Rows` above 1, what `Rows` rows give, `row`,
/// `row + T`, ..., of which those from `last` on don't count, so that it can have all their reads
/// under way. `emit(sum, column, value)` gets every finished sum once, from one thread of the
/// block. The teams' sums are added in the order of the teams: the same inputs give the same bits.
///
/// `storage` is shared memory for `blockDim.x * Sums * Width` floats, aligned to 16 bytes; one
/// barrier is passed, and `storage` may be written again only after another one.
///
///     column_tile_sum<4, 1>(0, rows, storage,
///         [&](float (&sums)[1][4], int column, std::int64_t row) {
///           for (int i = 0; i < 4; ++i) sums[0][i] += matrix[row * columns + column + i];
///         },
///         [&](int, int column, float value) { total[column] = value; });
template <int Width, int Sums, int Rows = 1, class Accumulate, class Emit>
__device__ void column_tile_sum(std::int64_t first, std::int64_t last, float* storage,
                                Accumulate accumulate, Emit emit, int lanes = device::warp_size) {
  const int rank = device::thread_rank();
  const int team = rank / lanes;
  const int teams = static_cast<int>(blockDim.x) / lanes;
  const int columns = lanes * Width;
  const int column = rank % lanes * Width;

  float sums[Sums][Width] = {};
  for (std::int64_t row = first + team; row < last; row += teams * Rows) {
    accumulate(sums, column, row);
  }

#pragma unroll
  for (int sum = 0; sum < Sums; ++sum) {
    detail::store_pack(storage + (team * Sums + sum) * columns + column, sums[sum]);
  }
  device::sync_block();
  for (int index = rank; index < Sums * columns; index += static_cast<int>(blockDim.x)) {
    float value = storage[index];
    for (int t = 1; t < teams; ++t) value += storage[t * Sums * columns + index];
    emit(index / columns, index % columns, value);
  }
}

}  // namespace adaptiveload
