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

/// Where teams of whole warps are blocks.
template <int Team>
inline constexpr bool is_part_of_warp = Team != block_team&& Team < device::warp_size;

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

/// Sums each of the N (a power of two) values over the warp with N - 1 + log2(32 / N) shuffles
/// where one reduction after the other takes 5 N: each exchange halves the values that a lane
/// still carries. The result is value `lane / (32 / N)`.
template <int N>
__device__ float warp_sum_transposed(float (&values)[N]) {
  const auto exchange = [](float value, int distance) {
    return __uint_as_float(
        device::shuffle_xor(device::full_mask, __float_as_uint(value), distance));
  };
  const int lane = device::lane();
  int distance = device::warp_size / 2;
#pragma unroll
  for (int half = N / 2; half >= 1; half /= 2, distance /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float keep = upper ? values[i + half] : values[i];
      const float give = upper ? values[i] : values[i + half];
      values[i] = keep + exchange(give, distance);
    }
  }
  float result = values[0];
#pragma unroll
  for (; distance >= 1; distance /= 2) result += exchange(result, distance);
  return result;
}

/// Sums each of the N (a power of two) values over `warps` warps, of which the calling one is
/// number `warp`, and gives every thread all sums. `storage`: shared memory for N floats a warp,
/// which may be written again after the next barrier of these warps; `sync` is one. `Warps`: as
/// `warps`, or 0 where it isn't known at compile time.
template <int Warps, int N, class Sync>
__device__ void sum_over_warps(float (&values)[N], int warps, int warp, float* storage, Sync sync) {
  constexpr int lanes = device::warp_size / N;  // that hold a value
  const int lane = device::lane();
  float total = warp_sum_transposed(values);
  if (warps == 1) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = warp_broadcast(total, i * lanes);
    return;
  }
  if (lane % lanes == 0) storage[warp * N + lane / lanes] = total;
  sync();
  if constexpr (Warps > 0) {  // all read all: nobody waits for a shuffle
    constexpr int each = N < 4 ? N : 4;
#pragma unroll
    for (float& value : values) value = 0;
#pragma unroll
    for (int w = 0; w < Warps; ++w) {
#pragma unroll
      for (int i = 0; i < N; i += each) {
        const auto part = load_pack<each>(storage + w * N + i);
#pragma unroll
        for (int k = 0; k < each; ++k) values[i + k] += part[k];
      }
    }
    return;
  }
  total = 0;
  for (int i = lane; i < warps * N; i += device::warp_size) total += storage[i];
#pragma unroll
  for (int distance = N; distance < device::warp_size; distance *= 2) {
    total +=
        __uint_as_float(device::shuffle_xor(device::full_mask, __float_as_uint(total), distance));
  }
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = warp_broadcast(total, i);
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

}  // namespace adaptiveload::detail
