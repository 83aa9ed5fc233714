#pragma once

#include <adaptiveload/reduce/block.cuh>
#include <adaptiveload/support/pack.cuh>
#include <algorithm>
#include <cstddef>
#include <cstdint>

/// A row in the registers of a team of threads: an aligned part of a warp, a warp, or a block.
namespace adaptiveload::detail {

/// Stands for "the whole block" where a team's size is a template argument.
inline constexpr int block_team = 0;

/// Elements that one 16-byte access of the widest of the types moves.
template <class... T>
inline constexpr int vector_width = 16 / static_cast<int>(std::max({sizeof(T)...}));

/// Which of the block's teams the calling thread is in, and where in it.
template <int Team>
struct team_position {
  int team, thread, size, teams;

  __device__ team_position() {
    const int rank = static_cast<int>(threadIdx.x), block = static_cast<int>(blockDim.x);
    size = Team == block_team ? block : Team;
    team = Team == block_team ? 0 : rank / size;
    thread = Team == block_team ? rank : rank % size;
    teams = Team == block_team ? 1 : block / size;
  }
};

/// Sample and token of a row, kept while stepping down the rows: a division only where a sample
/// ends.
struct row_position {
  std::int64_t sample, token;

  __device__ row_position(std::int64_t row, std::int64_t tokens)
      : sample(row / tokens), token(row % tokens) {}

  __device__ void advance(std::int64_t rows, std::int64_t tokens) {
    token += rows;
    if (token >= tokens) {
      sample += token / tokens;
      token %= tokens;
    }
  }
};

/// Sums over a team, for every thread of it. `storage`, used by block teams alone, is shared
/// memory for one T a warp; it may be written again after the next barrier.
template <int Team, class T, class Op>
__device__ T team_reduce(const T& value, Op op, T* storage) {
  if constexpr (Team == block_team) {
    return block_reduce(value, op, storage);
  } else {
    return warp_reduce<Team>(value, op);
  }
}

template <int N>
struct sums {
  float value[N];

  __device__ friend sums operator+(const sums& a, const sums& b) {
    sums result;
#pragma unroll
    for (int i = 0; i < N; ++i) result.value[i] = a.value[i] + b.value[i];
    return result;
  }
};

/// Count, sum and sum of squares of numbers from which `pivot` was taken. With a pivot that is the
/// mean of k of the D numbers, the sum of squares exceeds that of deviations from the mean at most
/// D / k-fold (Cauchy-Schwarz), so nothing cancels; and a mean large against the deviation keeps
/// all its digits as pivot + sum / count, which the one float of a merged mean (Chan et al. 1983)
/// does not.
struct alignas(16) pivoted_sums {
  float pivot, count, sum, squares;
};

struct merge_pivoted_sums {
  __device__ pivoted_sums operator()(const pivoted_sums& a, const pivoted_sums& b) const {
    const float shift = b.pivot - a.pivot;
    return {a.pivot, a.count + b.count, a.sum + fmaf(b.count, shift, b.sum),
            a.squares + fmaf(shift, fmaf(b.count, shift, 2 * b.sum), b.squares)};
  }
};

}  // namespace adaptiveload::detail
