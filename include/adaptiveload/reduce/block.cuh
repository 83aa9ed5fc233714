#pragma once

#include <adaptiveload/reduce/warp.cuh>

namespace adaptiveload {

/// Combines one value a warp over the block, in the order of the warps, and gives the result to
/// every thread. All lanes of a warp pass the same value.
///
/// The block is a whole number of warps, all of which call. `storage` is shared memory for one T a
/// warp; one barrier is passed, and `storage` may be written again only after another one.
template <class T, class Op>
__device__ T fold_warps(const T& value, Op op, T* storage) {
  const int rank = device::thread_rank();
  const int warps = static_cast<int>(blockDim.x * blockDim.y * blockDim.z) / device::warp_size;
  if (rank % device::warp_size == 0) storage[rank / device::warp_size] = value;
  device::sync_block();
  T result = storage[0];
  for (int warp = 1; warp < warps; ++warp) result = op(result, storage[warp]);
  return result;
}

/// Combines the values of a block's threads and gives every thread the result, the same bits in
/// each: `warp_reduce`, then `fold_warps`, whose conditions hold here.
///
///     __shared__ float storage[32];
///     float total = block_reduce(value, adaptiveload::plus{}, storage);
template <class T, class Op>
__device__ T block_reduce(const T& value, Op op, T* storage) {
  return fold_warps(warp_reduce(value, op), op, storage);
}

}  // namespace adaptiveload
